/* Security descriptors as SDDL, true ones and hostile ones. */
#include <stdio.h>

#include "mini.h"

#include "etw/internal.h"

#define AT 0xffff900000001000u

static struct kda_etw etw;

static const char *show(struct mini *m, const uint8_t *sd, size_t size)
{
    uint64_t va = 0;
    mini_write(m, AT, sd, size);
    memset(&etw, 0, sizeof(etw));
    etw.kernel = mini_kernel(m);
    kda_arena_init(&etw.arena, 0);
    return kda_etw_security(&etw, AT | 7, "security", &va);
}

static void drop(void)
{
    kda_arena_deinit(&etw.arena);
    kda_map_deinit(&etw.sddl_by_va);
}

static void done(struct mini *m)
{
    drop();
    mini_free(m);
}

struct builder {
    uint8_t bytes[2048];
    size_t size;
};

static void start(struct builder *b, uint16_t control)
{
    memset(b, 0, sizeof(*b));
    b->bytes[0] = 1;
    kda_put_le16(b->bytes + 2, (uint16_t)(control | 0x8000));
    b->size = 20;
}

static void sid(struct builder *b, uint8_t authority, size_t count, const uint32_t *subs)
{
    uint8_t *p = b->bytes + b->size;
    p[0] = 1;
    p[1] = (uint8_t)count;
    p[7] = authority;
    for (size_t i = 0; i < count; i++)
        kda_put_le32(p + 8 + 4 * i, subs[i]);
    b->size += 8 + 4 * count;
}

static void acl(struct builder *b, unsigned field)
{
    kda_put_le32(b->bytes + field, (uint32_t)b->size);
    b->bytes[b->size] = 2;
    kda_put_le16(b->bytes + b->size + 2, 8);
    b->size += 8;
}

static uint8_t *acl_of(struct builder *b, unsigned field)
{
    return b->bytes + kda_le32(b->bytes + field);
}

/* One ACE for SY at the end of the list at `field`; `extra` bytes stand before its SID. */
static void ace(struct builder *b, unsigned field, uint8_t type, uint8_t flags, uint32_t mask,
                const uint8_t *extra, size_t extra_size)
{
    static const uint32_t system[] = {18};
    uint8_t *p = b->bytes + b->size, *list = acl_of(b, field);
    size_t first = b->size;
    p[0] = type;
    p[1] = flags;
    kda_put_le32(p + 4, mask);
    b->size += 8;
    if (extra_size)
        memcpy(b->bytes + b->size, extra, extra_size);
    b->size += extra_size;
    sid(b, 5, 1, system);
    kda_put_le16(p + 2, (uint16_t)(b->size - first));
    kda_put_le16(list + 2, (uint16_t)(kda_le16(list + 2) + (b->size - first)));
    kda_put_le16(list + 4, (uint16_t)(kda_le16(list + 4) + 1));
}

#define DACL 16u
#define SACL 12u

static void full(struct builder *b)
{
    static const uint32_t admins[] = {32, 544}, service[] = {80, 1, 2, 3, 4, 5};
    start(b, 0x0004 | 0x0010 | 0x1000);
    kda_put_le32(b->bytes + 4, (uint32_t)b->size);
    sid(b, 5, 2, admins);
    kda_put_le32(b->bytes + 8, (uint32_t)b->size);
    sid(b, 5, 6, service);
    acl(b, DACL);
    ace(b, DACL, 0, 0, 0x120fff, NULL, 0);
    ace(b, DACL, 1, 3, 0x1, NULL, 0);
    acl(b, SACL);
    ace(b, SACL, 0x11, 0, 1, NULL, 0);
}

static void test_whole(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    struct builder b;
    (void)state;
    full(&b);
    assert_string_equal(show(m, b.bytes, b.size), "O:BAG:S-1-5-80-1-2-3-4-5D:P(A;;0x120fff;;;SY)"
                                                  "(D;OICI;0x1;;;SY)S:(ML;;0x1;;;SY)");
    assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
    done(m);
}

static void test_dacl_forms(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    struct builder b;
    (void)state;
    start(&b, 0); /* no DACL at all */
    assert_string_equal(show(m, b.bytes, b.size), "");
    drop();
    start(&b, 4); /* null DACL: everyone may do everything */
    assert_string_equal(show(m, b.bytes, b.size), "D:NO_ACCESS_CONTROL");
    drop();
    start(&b, 4); /* empty DACL: nobody may do anything */
    acl(&b, DACL);
    assert_string_equal(show(m, b.bytes, b.size), "D:");
    drop();
    start(&b, 0x4 | 0x100 | 0x400);
    acl(&b, DACL);
    assert_string_equal(show(m, b.bytes, b.size), "D:ARAI");
    done(m);
}

static void test_object_aces(void **state)
{
    uint8_t extra[36] = {0};
    struct builder b;
    (void)state;
    for (unsigned flags = 0; flags < 4; flags++) {
        struct mini *m = mini_create(NULL, false, 0);
        char want[160];
        static const char *const guids[] = {"", "01010101-0101-0101-0101-010101010101"};
        size_t size = 4 + 16 * (size_t)((flags & 1) + (flags >> 1));
        memset(extra, 1, sizeof(extra));
        kda_put_le32(extra, flags);
        start(&b, 4);
        acl(&b, DACL);
        ace(&b, DACL, 5, 0, 0x10, extra, size);
        (void)snprintf(want, sizeof(want), "D:(OA;;0x10;%s;%s;SY)", guids[flags & 1],
                       guids[flags >> 1]);
        assert_string_equal(show(m, b.bytes, b.size), want);
        done(m);
    }
}

static void test_unknown_ace_and_flags(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    struct builder b;
    (void)state;
    start(&b, 4);
    acl(&b, DACL);
    ace(&b, DACL, 0x63, 0x1f | 0xc0, 0x80000000u, NULL, 0);
    assert_string_equal(show(m, b.bytes, b.size), "D:(0x63;OICINPIOIDSAFA;0x80000000;;;SY)");
    done(m);
}

static void test_large_authority(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    struct builder b;
    (void)state;
    start(&b, 0);
    kda_put_le32(b.bytes + 4, 20);
    sid(&b, 5, 0, NULL);
    b.bytes[20 + 2] = 0x12;
    assert_string_equal(show(m, b.bytes, b.size), "O:S-1-0x120000000005");
    done(m);
}

/* Every cut: a gap and no text, or (bytes behind the end happen to be zero) still a valid one. */
static void test_truncated_everywhere(void **state)
{
    struct builder b;
    (void)state;
    full(&b);
    for (size_t cut = 0; cut < b.size; cut++) {
        struct mini *m = mini_create(NULL, false, 0);
        uint64_t va = 0;
        uint64_t at = AT + KDA_PAGE_SIZE - ((cut + 15) & ~(size_t)15);
        mini_write(m, at, b.bytes, cut);
        mini_put(m, AT + KDA_PAGE_SIZE, 0, 1);
        mini_absent(m, AT + KDA_PAGE_SIZE);
        memset(&etw, 0, sizeof(etw));
        etw.kernel = mini_kernel(m);
        kda_arena_init(&etw.arena, 0);
        const char *text = kda_etw_security(&etw, at, "security", &va);
        assert_true(text != NULL || mini_gaps(m, "security", KDA_OK) == 1);
        if (cut + 15 < b.size)
            assert_null(text);
        done(m);
    }
}

static void test_hostile_bytes(void **state)
{
    struct builder b;
    (void)state;
    full(&b);
    for (size_t i = 0; i < b.size; i++)
        for (unsigned k = 0; k < 4; k++) {
            static const uint8_t values[] = {0, 0xff, 0x7f, 0x80};
            struct mini *m = mini_create(NULL, false, 1 << 20);
            struct builder bad = b;
            bad.bytes[i] = values[k];
            (void)show(m, bad.bytes, bad.size);
            assert_false(etw.out_of_memory);
            done(m);
        }
}

static void check_bad(size_t at, size_t size, uint32_t value)
{
    struct mini *m = mini_create(NULL, false, 0);
    struct builder b;
    full(&b);
    if (size == 2)
        kda_put_le16(b.bytes + at, (uint16_t)value);
    else
        kda_put_le32(b.bytes + at, value);
    assert_null(show(m, b.bytes, b.size));
    assert_int_equal(mini_gaps(m, "security", KDA_BAD_DATA) + mini_gaps(m, "security", KDA_LIMIT) +
                         mini_gaps(m, "security", KDA_UNMAPPED),
                     1);
    done(m);
}

static void test_hostile_fields(void **state)
{
    struct builder b;
    (void)state;
    full(&b);
    size_t dacl = kda_le32(b.bytes + DACL);
    static const uint32_t offsets[] = {1, 19, 0x10000, 0x10001, 0x7fffffff, UINT32_MAX};
    for (unsigned field = 4; field <= 16; field += 4)
        for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
            check_bad(field, 4, offsets[i]);
    check_bad(0, 2, 2);             /* revision */
    check_bad(2, 2, 0x0004);        /* not self-relative */
    check_bad(dacl + 2, 2, 7);      /* smaller than its header */
    check_bad(dacl + 2, 2, 0xffff); /* larger than what is mapped */
    check_bad(dacl + 4, 2, 0xffff); /* more ACEs than fit */
    check_bad(dacl + 8 + 2, 2, 0);  /* ACE of no size */
    check_bad(dacl + 8 + 2, 2, 0xfff8);
    check_bad(dacl + 8 + 9, 2, 0x0010); /* 16 sub-authorities */
}

/* 64 KiB of the smallest ACEs: refused as too long, quickly. */
static void test_huge(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    static uint8_t sd[20 + 65528];
    uint64_t va = 0;
    (void)state;
    memset(sd, 0, sizeof(sd));
    sd[0] = 1;
    kda_put_le16(sd + 2, 0x8004);
    kda_put_le32(sd + DACL, 20);
    kda_put_le16(sd + 22, 65496);
    kda_put_le16(sd + 24, 4093);
    for (size_t at = 28; at + 16 <= 20 + 65496; at += 16) {
        kda_put_le16(sd + at + 2, 16);
        sd[at + 8] = 1;
    }
    mini_write(m, AT, sd, sizeof(sd));
    memset(&etw, 0, sizeof(etw));
    etw.kernel = mini_kernel(m);
    kda_arena_init(&etw.arena, 0);
    assert_null(kda_etw_security(&etw, AT, "security", &va));
    assert_int_equal(mini_gaps(m, "security", KDA_LIMIT), 1);
    done(m);
}

static void test_references(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t va = 5;
    (void)state;
    memset(&etw, 0, sizeof(etw));
    etw.kernel = mini_kernel(m);
    kda_arena_init(&etw.arena, 0);
    assert_null(kda_etw_security(&etw, 0, "security", &va));
    assert_null(kda_etw_security(&etw, 7, "security", &va)); /* a count and no address */
    assert_int_equal(va, 5);
    assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
    assert_null(kda_etw_security(&etw, 0x1234567, "security", &va));
    assert_int_equal(mini_gaps(m, "security", KDA_BAD_DATA), 1);
    assert_null(kda_etw_security(&etw, 0xffffa00000000000u, "security", &va));
    assert_int_equal(mini_gaps(m, "security", KDA_UNMAPPED), 1);
    done(m);
}

/* An image that fills the model is shown as far as it went: the joins keep room for themselves. */
static void test_a_full_model_is_no_failure(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    memset(&etw, 0, sizeof(etw));
    etw.kernel = mini_kernel(m);
    kda_arena_init(&etw.arena, ((size_t)16 << 20) + 4096);
    assert_non_null(kda_etw_alloc(&etw, 4000));
    assert_null(kda_etw_alloc(&etw, 4000));
    assert_false(etw.out_of_memory);
    assert_int_equal(mini_gaps(m, "etw", KDA_LIMIT), 1);
    assert_non_null(kda_arena_alloc(&etw.arena, 4000));
    done(m);
}

/* Many objects may share one long descriptor or name: there is an end to showing it again. */
static void test_what_is_shared_is_not_shown_for_ever(void **state)
{
    static char name[65536];
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t va;
    unsigned shown = 0;
    struct builder b;
    (void)state;
    start(&b, 4);
    acl(&b, 16);
    assert_non_null(show(m, b.bytes, b.size));
    assert_non_null(kda_etw_security(&etw, AT, "security", &va));
    memset(name, 'n', sizeof(name) - 1);
    while (shown < 1000 && kda_etw_repeat(&etw, name))
        shown++;
    assert_in_range(shown, 511, 513);
    assert_false(kda_etw_repeat(&etw, name));
    assert_true(kda_etw_repeat(&etw, NULL));
    etw.repeated_bytes = (uint64_t)32 << 20;
    assert_null(kda_etw_security(&etw, AT, "security", &va));
    assert_int_equal(va, AT);
    assert_int_equal(mini_gaps(m, "names", KDA_LIMIT), 1);
    done(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_dacl_forms),
        cmocka_unit_test(test_object_aces),
        cmocka_unit_test(test_unknown_ace_and_flags),
        cmocka_unit_test(test_large_authority),
        cmocka_unit_test(test_truncated_everywhere),
        cmocka_unit_test(test_hostile_bytes),
        cmocka_unit_test(test_hostile_fields),
        cmocka_unit_test(test_huge),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_a_full_model_is_no_failure),
        cmocka_unit_test(test_what_is_shared_is_not_shown_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
