/* The debugger data block: the encoding as pure bytes, and the block of the sample images. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc.h"
#include "bytes.h"
#include "forge.h"
#include "kda/kernel.h"
#include "kernel/kdbg.h"
#include "sample.h"

#define DUMPS KDA_SOURCE_DIR "/../shared/data/dumps/"
#define KEYS 10000u
#define WINDOWS 100000u
#define BLOCK_MAX 0x400u

static uint64_t state;

/* splitmix64: the same numbers on every machine. */
static uint64_t next_random(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t rotate_right(uint64_t x, unsigned by)
{
    return by ? x >> by | x << (64 - by) : x;
}

static uint64_t swap_bytes(uint64_t x)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < 8; i++)
        out |= (x >> (8 * i) & 0xff) << (56 - 8 * i);
    return out;
}

struct keys {
    uint64_t never, always, flag_va;
};

/* The inverse of what the kernel's decoder does, step by step. */
static void encode(const struct keys *k, const uint8_t *plain, size_t size, uint8_t *out)
{
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t x = kda_le64(plain + i) ^ k->always;
        x = swap_bytes(x) ^ k->flag_va;
        x = rotate_right(x, (unsigned)(k->never & 63)) ^ k->never;
        kda_put_le64(out + i, x);
    }
}

static struct keys random_keys(void)
{
    struct keys k = {next_random(), next_random(),
                     0xfffff80000000000u | (next_random() & 0x7fffffffffu)};
    return k;
}

struct block {
    uint8_t bytes[BLOCK_MAX];
    size_t size;
    uint64_t base, head;
};

/* As many shapes as a block can have: mostly pointers into the kernel, small numbers, zeros. */
static struct block generated_block(uint32_t size)
{
    struct block b = {.size = size};
    b.base = 0xfffff80000000000u | (next_random() & 0x7ffffff000u);
    b.head = b.base + (next_random() & 0xfffff8u);
    for (size_t i = 0; i < size; i += 8)
        kda_put_le64(b.bytes + i, next_random() % 3 ? b.base + (next_random() & 0xffffffu)
                                                    : next_random() & 0xffff);
    kda_put_le64(b.bytes, b.head);
    kda_put_le64(b.bytes + 8, b.head);
    kda_put_le64(b.bytes + 0x10, 0x4742444bu | (uint64_t)size << 32);
    kda_put_le64(b.bytes + 0x18, b.base);
    return b;
}

static void recovers_every_key(const struct block *b)
{
    state = 20241;
    for (unsigned i = 0; i < KEYS; i++) {
        uint8_t coded[BLOCK_MAX], out[BLOCK_MAX];
        uint32_t size = 0;
        struct keys k = random_keys();
        encode(&k, b->bytes, b->size, coded);
        memset(out, 0xaa, sizeof(out));
        assert_true(
            kda_kdbg_decode_keyless(coded, b->size, b->base, i % 2 ? b->head : 0, out, &size));
        assert_int_equal(size, b->size);
        assert_memory_equal(out, b->bytes, b->size);
        struct kda_kdbg_cipher cipher = kda_kdbg_cipher(k.never, k.always, k.flag_va);
        kda_kdbg_apply(&cipher, coded, b->size, out);
        assert_memory_equal(out, b->bytes, b->size);
    }
}

/* Reads the block copy and kernel base of a real triage dump. */
static bool real_block(const char *name, struct block *ret)
{
    char path[512];
    (void)snprintf(path, sizeof(path), DUMPS "%s", name);
    struct kda_image *image;
    if (kda_image_open(path, &image, NULL) != KDA_OK)
        return false;
    const struct kda_image_info *info = kda_image_info(image);
    bool ok = info->kdbg_size >= KDA_KDBG_MIN && info->kdbg_size <= BLOCK_MAX;
    FILE *file = ok ? fopen(path, "rb") : NULL;
    ok = file && fseek(file, (long)info->kdbg_off, SEEK_SET) == 0 &&
         fread(ret->bytes, 1, info->kdbg_size, file) == info->kdbg_size;
    if (file)
        (void)fclose(file);
    ret->size = info->kdbg_size;
    ret->base = info->kernel_base;
    ret->head = kda_le64(ret->bytes);
    kda_image_close(image);
    return ok;
}

static const char *const triage[] = {"1_IRQL_NOT_LESS_OR_EQUAL.dmp",
                                     "2_PAGE_FAULT_IN_NONPAGED_AREA.dmp",
                                     "3_SYSTEM_THREAD_EXCEPTION_NOT_HANDLED.dmp"};

static void real_blocks_under_ten_thousand_keys(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        struct block b = {.size = 0};
        if (!real_block(triage[i], &b))
            skip();
        assert_int_equal(kda_kdbg_size(b.bytes, b.base), b.size);
        recovers_every_key(&b);
    }
}

static void generated_blocks_under_ten_thousand_keys(void **unused)
{
    (void)unused;
    static const uint32_t sizes[] = {0x300, 0x340, 0x380, 0x3a0, 0x400};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        state = i;
        struct block b = generated_block(sizes[i]);
        recovers_every_key(&b);
    }
}

static void refuse(const uint8_t *window, uint64_t base, uint64_t head)
{
    uint8_t out[BLOCK_MAX];
    uint32_t size = 7;
    memset(out, 0xaa, sizeof(out));
    assert_false(kda_kdbg_decode_keyless(window, BLOCK_MAX, base, head, out, &size));
    assert_int_equal(size, 7);
    for (size_t i = 0; i < sizeof(out); i++)
        assert_int_equal(out[i], 0xaa);
}

/* Noise, runs of one byte, kernel pointers, and encoded blocks that are shifted, of another kernel
 * or on another list. */
static void windows_are_not_mistaken(void **unused)
{
    (void)unused;
    state = 7;
    struct block b = generated_block(0x380);
    for (unsigned i = 0; i < WINDOWS; i++) {
        uint8_t w[BLOCK_MAX];
        uint64_t base = b.base, head = 0;
        unsigned shape = i % 5;
        if (shape == 0)
            memset(w, (int)(next_random() & 0xff), sizeof(w));
        for (size_t off = 0; shape != 0 && off < sizeof(w); off += 8)
            kda_put_le64(w + off,
                         shape == 1 ? b.base + (next_random() & 0xffffffu) : next_random());
        struct keys k = random_keys();
        if (shape == 3) {
            size_t shift = 8 + next_random() % 40 * 8;
            encode(&k, b.bytes, b.size, w);
            memmove(w, w + shift, sizeof(w) - shift);
        }
        if (shape == 4) {
            encode(&k, b.bytes, b.size, w);
            if (next_random() % 2)
                base += 0x1000 * (1 + next_random() % 0xffff);
            else
                head = b.head + 8 * (1 + next_random() % 0xffff);
        }
        refuse(w, base, head);
    }
}

/* Nothing in a real dump but the block itself: every window of it, encoded or not. */
static void real_bytes_are_not_mistaken(void **unused)
{
    (void)unused;
    char path[512];
    struct block b = {.size = 0};
    if (!real_block(triage[0], &b))
        skip();
    (void)snprintf(path, sizeof(path), DUMPS "%s", triage[0]);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static uint8_t bytes[512 * 1024];
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    for (size_t off = 0; off + BLOCK_MAX <= size; off += 8)
        refuse(bytes + off, b.base, 0);
}

static void size_field_is_checked(void **unused)
{
    (void)unused;
    static const uint32_t bad[] = {0, 8, 0x2f8, 0x301, 0x384, 0x1008, 0x80000380u};
    state = 3;
    struct block b = generated_block(0x380);
    assert_int_equal(kda_kdbg_size(b.bytes, b.base), 0x380);
    assert_int_equal(kda_kdbg_size(b.bytes, b.base + 1), 0);
    struct keys k = random_keys();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint8_t w[BLOCK_MAX] = {0};
        kda_put_le32(b.bytes + 0x14, bad[i]);
        assert_int_equal(kda_kdbg_size(b.bytes, b.base), 0);
        encode(&k, b.bytes, b.size, w);
        refuse(w, b.base, 0);
    }
}

/* A block that is cut short is decoded as far as it goes, and nothing is written behind it. */
static void short_input(void **unused)
{
    (void)unused;
    state = 4;
    struct block b = generated_block(0x380);
    struct keys k = random_keys();
    uint8_t coded[BLOCK_MAX] = {0}, out[BLOCK_MAX];
    uint32_t size = 0;
    encode(&k, b.bytes, b.size, coded);
    for (size_t have = 0; have < KDA_KDBG_HEAD; have++)
        assert_false(kda_kdbg_decode_keyless(coded, have, b.base, 0, out, &size));
    memset(out, 0xaa, sizeof(out));
    assert_true(kda_kdbg_decode_keyless(coded, 0x25, b.base, b.head, out, &size));
    assert_int_equal(size, 0x380);
    assert_memory_equal(out, b.bytes, 0x20);
    for (size_t i = 0x20; i < sizeof(out); i++)
        assert_int_equal(out[i], 0xaa);
    /* Longer input than the block: what follows is not touched. */
    memset(out, 0xaa, sizeof(out));
    assert_true(kda_kdbg_decode_keyless(coded, sizeof(coded), b.base, 0, out, &size));
    assert_memory_equal(out, b.bytes, 0x380);
    assert_int_equal(out[0x380], 0xaa);
}

/* ---- the sample images ---- */

struct open_image {
    struct kda_image *image;
    struct kda_kernel *kernel;
};

static bool open_sample(const char *name, struct open_image *ret)
{
    char path[512];
    static const struct kda_kernel_options options = {.symbols = {.path = "profile"}};
    if (!sample_unpack(name, path, sizeof(path)))
        return false;
    assert_int_equal(kda_image_open(path, &ret->image, NULL), KDA_OK);
    assert_int_equal(kda_kernel_open(ret->image, &options, &ret->kernel, NULL), KDA_OK);
    return true;
}

static void close_sample(struct open_image *o)
{
    kda_kernel_close(o->kernel);
    kda_image_close(o->image);
}

static const struct {
    const char *name;
    bool encoded, header;
} samples[] = {
    {"server2016-14393.4583.raw", true, false},
    {"server2019-17763.379.dmp", false, true},
    {"server2022-20348.825.dmp", false, true},
    {"tampered-win10-18362.30.dmp", false, true},
    {"tampered-win11-22000.795.raw", true, false},
    {"win10-19041.1466-encoded-kdbg.raw", true, false},
    {"win11-22000.318-holes.dmp", false, true},
    {"win11-22000.795.raw", true, false},
    {"win7-7601.24540.dmp", false, true},
    {"win8.1-9600.19913.raw", false, false},
};

static void same_block(struct kda_kernel *a, struct kda_kernel *b)
{
    const struct kda_kernel_info *x = kda_kernel_info(a), *y = kda_kernel_info(b);
    assert_int_equal(x->kdbg_va, y->kdbg_va);
    assert_int_equal(x->kdbg_size, y->kdbg_size);
    for (uint32_t off = 0; off < x->kdbg_size; off += 8) {
        uint64_t p = 1, q = 2;
        assert_int_equal(kda_kernel_kdbg_field(a, off, &p, NULL), KDA_OK);
        assert_int_equal(kda_kernel_kdbg_field(b, off, &q, NULL), KDA_OK);
        assert_int_equal(p, q);
    }
}

/* Without symbols the same bytes come out as with the keys that symbols name. */
static void images_with_and_without_symbols(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct open_image bare, full;
        if (!open_sample(samples[i].name, &bare))
            skip();
        assert_true(open_sample(samples[i].name, &full));
        assert_int_equal(kda_kernel_load_symbols(full.kernel, NULL), KDA_OK);
        assert_int_equal(kda_kernel_find_kdbg(bare.kernel, NULL), KDA_OK);
        const struct kda_kernel_info *x = kda_kernel_info(bare.kernel);
        const struct kda_kernel_info *y = kda_kernel_info(full.kernel);
        assert_int_equal(x->kdbg_source, samples[i].header ? KDA_KDBG_HEADER : KDA_KDBG_CONTENT);
        assert_int_equal(y->kdbg_source, samples[i].header ? KDA_KDBG_HEADER : KDA_KDBG_SYMBOL);
        assert_int_equal(x->kdbg_form, samples[i].encoded ? KDA_KDBG_KEYLESS : KDA_KDBG_PLAIN);
        assert_int_equal(y->kdbg_form, samples[i].encoded ? KDA_KDBG_KEYS : KDA_KDBG_PLAIN);
        assert_int_equal(y->kdbg_va, kda_symbol_va(full.kernel, KDA_SYM_KdDebuggerDataBlock));
        same_block(bare.kernel, full.kernel);
        uint64_t value = 0;
        assert_int_equal(kda_kernel_kdbg_field(bare.kernel, 0x330, &value, NULL), KDA_OK);
        assert_int_equal(value, kda_symbol_va(full.kernel, KDA_SYM_EtwpDebuggerData));
        close_sample(&bare);
        close_sample(&full);
    }
}

static void fields_outside_the_block(void **unused)
{
    (void)unused;
    struct open_image o;
    struct kda_error err;
    if (!open_sample("win10-19041.1466-encoded-kdbg.raw", &o))
        skip();
    uint64_t value = 5;
    assert_int_equal(kda_kernel_kdbg_field(o.kernel, 4, &value, &err), KDA_USAGE);
    uint32_t size = 0x380;
    assert_int_equal(kda_kernel_kdbg_field(o.kernel, size - 8, &value, &err), KDA_OK);
    value = 5;
    assert_int_equal(kda_kernel_kdbg_field(o.kernel, size, &value, &err), KDA_NO_SYMBOL);
    assert_non_null(strstr(err.text, "0x380"));
    assert_int_equal(kda_kernel_kdbg_field(o.kernel, 0xfffffff8u, &value, &err), KDA_NO_SYMBOL);
    assert_int_equal(value, 5);
    close_sample(&o);
}

/* ---- generated machines ---- */

struct machine {
    uint8_t *bytes;
    size_t size;
    struct forge *forge;
    struct kda_image *image;
    struct kda_kernel *kernel;
};

static void boot(struct machine *m, const char *scenario)
{
    assert_int_equal(forge_build(scenario, &m->forge, NULL), KDA_OK);
    assert_int_equal(forge_write_memory(m->forge, FORGE_RAW, &m->bytes, &m->size, NULL), KDA_OK);
    assert_int_equal(kda_image_open_memory(m->bytes, m->size, "m", &m->image, NULL), KDA_OK);
    assert_int_equal(kda_kernel_open(m->image, NULL, &m->kernel, NULL), KDA_OK);
}

static void halt(struct machine *m)
{
    kda_kernel_close(m->kernel);
    kda_image_close(m->image);
    forge_free(m->forge);
    free(m->bytes);
}

/* Opens the kernel again, after its memory was changed. */
static void reboot(struct machine *m)
{
    kda_kernel_close(m->kernel);
    assert_int_equal(kda_kernel_open(m->image, NULL, &m->kernel, NULL), KDA_OK);
}

/* The byte of a raw image behind a virtual address. */
static uint8_t *byte_at(struct machine *m, uint64_t va)
{
    uint64_t pa;
    assert_int_equal(kda_translate(m->kernel, kda_kernel_info(m->kernel)->dtb, va, &pa, NULL),
                     KDA_OK);
    return m->bytes + pa;
}

static uint64_t global(const struct machine *m, enum kda_symbol_id id)
{
    return forge_truth(m->forge)->base + forge_layout(m->forge)->rva[id];
}

static void generated_machines(void **unused)
{
    (void)unused;
    static const char *const scenarios[] = {
        "build 10.0.22000.795\nkdbg encoded\n",
        "build 10.0.19041.1466\nseed 5\nkdbg encoded\n",
        "build 10.0.17763.379\nkdbg encoded\nla57 on\n",
        "build 10.0.14393.4583\nkdbg encoded\n",
        "build 6.3.9600.19913\nkdbg encoded\n",
        "build 6.1.7601.24540\nkdbg plain\n",
    };
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        struct machine m;
        boot(&m, scenarios[i]);
        const struct kda_kernel_info *info = kda_kernel_info(m.kernel);
        const struct forge_truth *truth = forge_truth(m.forge);
        uint64_t value = 0;
        assert_int_equal(info->kdbg_va, 0); /* searched only when it is asked for */
        assert_int_equal(kda_kernel_kdbg_field(m.kernel, 0x330, &value, NULL), KDA_OK);
        assert_int_equal(value, global(&m, KDA_SYM_EtwpDebuggerData));
        assert_int_equal(info->kdbg_va, truth->kdbg_va);
        assert_int_equal(info->kdbg_source, KDA_KDBG_LIST);
        assert_int_equal(info->kdbg_form, truth->kdbg_encoded ? KDA_KDBG_KEYLESS : KDA_KDBG_PLAIN);
        halt(&m);
    }
}

/* A lost list head leaves the content; a copy of the block makes that ambiguous; wrong keys beside
 * known symbols do not stop the decoding. */
static void damaged_machines(void **unused)
{
    (void)unused;
    struct machine m;
    struct kda_error err;
    boot(&m, "build 10.0.22000.795\nkdbg encoded\n");
    uint64_t block = global(&m, KDA_SYM_KdDebuggerDataBlock);
    memset(byte_at(&m, global(&m, KDA_SYM_KdpDebuggerDataListHead)), 0, 16);
    reboot(&m);
    assert_int_equal(kda_kernel_find_kdbg(m.kernel, NULL), KDA_OK);
    assert_int_equal(kda_kernel_info(m.kernel)->kdbg_source, KDA_KDBG_CONTENT);
    assert_int_equal(kda_kernel_info(m.kernel)->kdbg_va, block);

    memset(byte_at(&m, global(&m, KDA_SYM_KiWaitAlways)), 0x55, 8);
    reboot(&m);
    assert_int_equal(kda_kernel_load_symbols(m.kernel, NULL), KDA_OK);
    assert_int_equal(kda_kernel_info(m.kernel)->kdbg_source, KDA_KDBG_SYMBOL);
    assert_int_equal(kda_kernel_info(m.kernel)->kdbg_form, KDA_KDBG_KEYLESS);

    memcpy(byte_at(&m, block & ~(uint64_t)0xfff), byte_at(&m, block), 0x40);
    reboot(&m);
    assert_int_equal(kda_kernel_find_kdbg(m.kernel, &err), KDA_ABSENT);
    assert_int_equal(kda_kernel_info(m.kernel)->kdbg_va, 0);
    assert_non_null(strstr(err.text, "no debugger data block"));
    uint64_t value = 9;
    assert_int_equal(kda_kernel_kdbg_field(m.kernel, 0x330, &value, &err), KDA_ABSENT);
    assert_int_equal(value, 9);
    halt(&m);
}

/* Through the version block when nothing else leads to the block. */
static void version_block_leads_to_it(void **unused)
{
    (void)unused;
    struct machine m;
    boot(&m, "build 10.0.22000.795\nkdbg encoded\n");
    uint64_t head = global(&m, KDA_SYM_KdpDebuggerDataListHead);
    uint64_t block = global(&m, KDA_SYM_KdDebuggerDataBlock);
    uint64_t version = global(&m, KDA_SYM_KdVersionBlock);
    /* The block and its head move to where no symbol says; only the version block knows. */
    uint64_t moved = (block & ~(uint64_t)0xfff) + 0x800, other = head + 0x20;
    struct keys k = {kda_le64(byte_at(&m, global(&m, KDA_SYM_KiWaitNever))),
                     kda_le64(byte_at(&m, global(&m, KDA_SYM_KiWaitAlways))),
                     global(&m, KDA_SYM_KdpDataBlockEncoded)};
    uint8_t links[16];
    kda_put_le64(links, other);
    kda_put_le64(links + 8, other);
    memmove(byte_at(&m, moved), byte_at(&m, block), 0x380);
    encode(&k, links, 16, byte_at(&m, moved));
    memset(byte_at(&m, block), 0, 16);
    memset(byte_at(&m, head), 0, 16);
    memset(byte_at(&m, block + 0x18), 0, 8);
    kda_put_le64(byte_at(&m, other), moved);
    kda_put_le64(byte_at(&m, other + 8), moved);
    kda_put_le64(byte_at(&m, version + 0x20), other);
    reboot(&m);
    assert_int_equal(kda_kernel_load_symbols(m.kernel, NULL), KDA_OK);
    assert_int_equal(kda_kernel_info(m.kernel)->kdbg_source, KDA_KDBG_VERSION);
    assert_int_equal(kda_kernel_info(m.kernel)->kdbg_va, moved);
    assert_int_equal(kda_kernel_info(m.kernel)->kdbg_form, KDA_KDBG_KEYS);
    halt(&m);
}

#ifdef KDA_FAULT_INJECTION
/* Every failing call on the way leaves an honest answer: the block, lack of memory, or the read
 * that failed; never another block. */
static void failing_calls(void **unused)
{
    (void)unused;
    struct machine m;
    boot(&m, "build 10.0.19041.1466\nkdbg encoded\n");
    bool fired = true;
    uint64_t n = 0;
    while (fired) {
        struct kda_error err = {0};
        uint64_t value = 0;
        reboot(&m);
        kda_fault_arm(++n);
        enum kda_status status = kda_kernel_kdbg_field(m.kernel, 0x18, &value, &err);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        if (status == KDA_OK)
            assert_int_equal(value, forge_truth(m.forge)->base);
        else
            assert_true(fired && err.text[0] && value == 0);
    }
    assert_true(n > 5);
    halt(&m);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_blocks_under_ten_thousand_keys),
        cmocka_unit_test(generated_blocks_under_ten_thousand_keys),
        cmocka_unit_test(windows_are_not_mistaken),
        cmocka_unit_test(real_bytes_are_not_mistaken),
        cmocka_unit_test(size_field_is_checked),
        cmocka_unit_test(short_input),
        cmocka_unit_test(generated_machines),
        cmocka_unit_test(damaged_machines),
        cmocka_unit_test(version_block_leads_to_it),
        cmocka_unit_test(images_with_and_without_symbols),
        cmocka_unit_test(fields_outside_the_block),
#ifdef KDA_FAULT_INJECTION
        cmocka_unit_test(failing_calls),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
