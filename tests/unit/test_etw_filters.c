/* What the filters of a provider let through, in the forms of every build, and what is none. */
#include "mini_etw.h"

struct filtered {
    struct mini *m;
    uint64_t entry, headers;
};

static struct filtered with_filters(void)
{
    struct filtered f;
    f.m = machine(NULL);
    struct mini *m = f.m;
    f.entry = mini_guid_entry(m, BUCKET(1, 0), 1);
    f.headers = mini_alloc(m, 8u * m->layout.size[KDA_STRUCT_ETW_FILTER_HEADER]);
    mini_set(m, f.entry, KDA_F_ETW_GUID_ENTRY_FilterData, f.headers);
    return f;
}

/* A filter says of which kinds it is; which bit stands for which does not matter here. */
static void filter_set(struct mini *m, uint64_t header, enum kda_field_id field, uint64_t value)
{
    mini_set(m, header, field, value);
    mini_set(m, header, KDA_F_ETW_FILTER_HEADER_FilterFlags, 0x204);
}

static void test_no_filter_in_use(void **state)
{
    struct filtered f = with_filters();
    (void)state;
    struct kda_etw *etw = map(f.m);
    assert_int_equal(provider(etw, f.entry)->filter_count, 0);
    finish(f.m, etw);
}

/* A header that names kinds and holds none of them; an array most of whose headers are none. */
static void test_filters_that_are_none(void **state)
{
    (void)state;
    for (unsigned junk = 0; junk < 4; junk++) {
        struct filtered f = with_filters();
        struct mini *m = f.m;
        uint32_t size = m->layout.size[KDA_STRUCT_ETW_FILTER_HEADER];
        uint64_t pids = mini_alloc(m, 64);
        mini_set(m, f.headers, KDA_F_ETW_FILTER_HEADER_FilterFlags, 8);
        filter_set(m, f.headers + size, KDA_F_ETW_FILTER_HEADER_PidFilter, pids);
        for (unsigned i = 0; i < junk; i++)
            mini_set(m, f.headers + (uint64_t)(4 + i) * size, KDA_F_ETW_FILTER_HEADER_FilterFlags,
                     0x80692a68u);
        struct kda_etw *etw = map(m);
        const struct kda_etw_provider *p = provider(etw, f.entry);
        assert_int_equal(p->filter_count, junk < 2);
        if (p->filter_count)
            assert_int_equal(p->filters[0].slot, 1);
        assert_int_equal(mini_gaps(m, "filter", KDA_BAD_DATA), 1 + junk);
        finish(m, etw);
    }
}

static void test_pid_filter(void **state)
{
    (void)state;
    for (uint32_t count = 0; count <= 9; count++) {
        struct filtered f = with_filters();
        struct mini *m = f.m;
        uint64_t header = f.headers + 3u * m->layout.size[KDA_STRUCT_ETW_FILTER_HEADER];
        uint64_t pids = mini_alloc(m, 64);
        filter_set(m, header, KDA_F_ETW_FILTER_HEADER_PidFilter, pids);
        mini_put(m, pids, count, 4);
        for (unsigned i = 0; i < 9; i++)
            mini_put(m, pids + 4 + 4 * i, 100 + i, 4);
        struct kda_etw *etw = map(m);
        const struct kda_etw_provider *p = provider(etw, f.entry);
        assert_int_equal(p->filter_count, 1);
        assert_int_equal(p->filters[0].slot, 3);
        assert_int_equal(p->filters[0].has_pids, count <= 8);
        assert_int_equal(p->filters[0].pid_count, count <= 8 ? count : 0);
        if (count >= 1 && count <= 8)
            assert_int_equal(p->filters[0].pids[count - 1], 99 + count);
        assert_int_equal(mini_gaps(m, "filter", KDA_BAD_DATA), count > 8);
        finish(m, etw);
    }
}

static void test_event_filter(void **state)
{
    static const struct {
        uint32_t count, form;
        uint64_t zero;
        bool decoded;
    } cases[] = {{2, 1, 0, true},  {64, 1, 0, true}, {65, 1, 0, false},
                 {0, 1, 0, false}, {2, 2, 0, false}, {2, 1, 9, false}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct filtered f = with_filters();
        struct mini *m = f.m;
        uint64_t ids = mini_alloc(m, 256);
        filter_set(m, f.headers, KDA_F_ETW_FILTER_HEADER_EventIdFilter, ids);
        mini_put(m, ids, cases[i].count, 4);
        mini_put(m, ids + 4, cases[i].form, 4);
        mini_put64(m, ids + 8, cases[i].zero);
        mini_put(m, ids + 16, 4688, 2);
        struct kda_etw *etw = map(m);
        const struct kda_etw_filter *filter = &provider(etw, f.entry)->filters[0];
        assert_int_equal(filter->has_event_ids, cases[i].decoded);
        assert_int_equal(filter->others, cases[i].decoded ? 0 : KDA_FILTER_EVENT_ID);
        if (cases[i].decoded)
            assert_int_equal(filter->event_ids[0], 4688);
        finish(m, etw);
    }
}

static void put_token(struct mini *m, uint64_t at, const char *name)
{
    uint64_t string = mini_alloc(m, 16);
    uint8_t bytes[16];
    mini_string(m, string, name);
    mini_read(m, string, bytes, 16);
    mini_put(m, at, kda_le16(bytes), 2);
    mini_put64(m, at + 8, kda_le64(bytes + 8));
}

static void test_executable_filter(void **state)
{
    struct filtered f = with_filters();
    struct mini *m = f.m;
    (void)state;
    uint64_t tokens = mini_alloc(m, 8 + 16 * 65);
    filter_set(m, f.headers, KDA_F_ETW_FILTER_HEADER_ExeFilter, tokens);
    mini_put(m, tokens, 2, 2);
    put_token(m, tokens + 8, "a.exe");
    put_token(m, tokens + 24, "b.exe");
    struct kda_etw *etw = map(m);
    assert_string_equal(provider(etw, f.entry)->filters[0].executables, "a.exe;b.exe");
    kda_etw_free(etw);
    mini_put(m, tokens + 24, 7, 2); /* an odd length */
    etw = map(m);
    assert_string_equal(provider(etw, f.entry)->filters[0].executables, "a.exe");
    assert_int_equal(mini_gaps(m, "filter", KDA_BAD_DATA), 1);
    kda_etw_free(etw);
    mini_put(m, tokens, 0xffff, 2);
    put_token(m, tokens + 24, "b.exe");
    etw = map(m); /* zeros follow: empty names, then the limit */
    assert_string_equal(provider(etw, f.entry)->filters[0].executables, "a.exe;b.exe");
    assert_int_equal(mini_gaps(m, "filter", KDA_LIMIT), 1);
    kda_etw_free(etw);
    mini_put64(m, tokens + 16, 0x41414141); /* text at no kernel address */
    etw = map(m);
    assert_null(provider(etw, f.entry)->filters[0].executables);
    finish(m, etw);
}

static void test_executables_too_long(void **state)
{
    struct filtered f = with_filters();
    struct mini *m = f.m;
    char name[513];
    (void)state;
    memset(name, 'x', 512);
    name[512] = '\0';
    uint64_t tokens = mini_alloc(m, 256);
    filter_set(m, f.headers, KDA_F_ETW_FILTER_HEADER_ExeFilter, tokens);
    mini_put(m, tokens, 12, 2);
    for (unsigned i = 0; i < 12; i++)
        put_token(m, tokens + 8 + 16 * i, name);
    struct kda_etw *etw = map(m);
    assert_int_equal(mini_gaps(m, "filter", KDA_LIMIT), 1); /* never cut in silence */
    assert_true(strlen(provider(etw, f.entry)->filters[0].executables) >= 512);
    finish(m, etw);
}

static void test_filter_pointers(void **state) /* the form of Windows 7 */
{
    struct mini *m = machine("6.1.7601.24540");
    (void)state;
    uint64_t entry = mini_guid_entry(m, BUCKET(1, 0), 1), block = mini_alloc(m, 64);
    uint64_t at = mini_at(m, entry, KDA_F_ETW_GUID_ENTRY_FilterData);
    uint64_t slots = mini_at(m, entry, KDA_F_ETW_GUID_ENTRY_EnableInfo);
    mini_put(m, slots + 6 * m->layout.size[KDA_STRUCT_TRACE_ENABLE_INFO], 1, 4);
    mini_put64(m, at + 8 * 5, block); /* of a slot that is off */
    mini_put64(m, at + 8 * 6, block);
    mini_put64(m, at + 8 * 7, 0x1234);
    struct kda_etw *etw = map(m);
    assert_int_equal(mini_gaps(m, "filter", KDA_BAD_DATA), 2);
    const struct kda_etw_provider *p = provider(etw, entry);
    assert_int_equal(p->filter_count, 1);
    assert_int_equal(p->filters[0].slot, 6);
    assert_int_equal(p->filters[0].others, KDA_FILTER_PROVIDER_SIDE);
    finish(m, etw);
}

static void test_other_filters_and_wild_ones(void **state)
{
    struct filtered f = with_filters();
    struct mini *m = f.m;
    (void)state;
    filter_set(m, f.headers, KDA_F_ETW_FILTER_HEADER_PayloadFilter, mini_alloc(m, 16));
    filter_set(m, f.headers, KDA_F_ETW_FILTER_HEADER_ContainerFilter, mini_alloc(m, 16));
    filter_set(m, f.headers, KDA_F_ETW_FILTER_HEADER_PidFilter, 0x4141);
    filter_set(m, f.headers, KDA_F_ETW_FILTER_HEADER_ExeFilter, 0xffffa00000000000u);
    struct kda_etw *etw = map(m);
    const struct kda_etw_filter *filter = &provider(etw, f.entry)->filters[0];
    assert_int_equal(filter->others, KDA_FILTER_PAYLOAD | KDA_FILTER_CONTAINER);
    assert_false(filter->has_pids);
    assert_null(filter->executables);
    assert_int_equal(mini_gaps(m, "filter", KDA_BAD_DATA), 1); /* set, and leads nowhere */
    assert_int_equal(mini_gaps(m, "filter", KDA_UNMAPPED), 1);
    finish(m, etw);
}

/* Large descriptors: one that many entries share is read once; many that share one list of ACEs
 * meet the limit on text, and the rows stay. */
static void many_descriptors(bool shared)
{
    struct mini *m = mini_create(NULL, false, 32u << 20);
    (void)mini_system(m, 8);
    uint64_t base = mini_alloc_page(m, 48000), acl = base + 32768;
    size_t count, with = 0;
    mini_put(m, acl + 2, 11988, 2);
    mini_put(m, acl + 4, 599, 2);
    for (unsigned i = 0; i < 599; i++) {
        uint64_t ace = acl + 8 + 20 * i;
        mini_put(m, ace + 2, 20, 2);
        mini_put(m, ace + 8, 0x0101, 2);
        mini_put(m, ace + 15, 5, 1);
        mini_put(m, ace + 16, 18, 4);
    }
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t entry = mini_guid_entry(m, BUCKET(i % 64, 0), (uint8_t)i), sd = base + 32u * i;
        mini_put(m, sd, 0x80040001u, 4);
        mini_put(m, sd + 16, acl - sd, 4);
        mini_set(m, entry, KDA_F_ETW_GUID_ENTRY_SecurityDescriptor, shared ? base : sd);
    }
    struct kda_etw *etw = map(m);
    const struct kda_etw_provider *const *all = kda_etw_providers(etw, &count);
    for (size_t i = 0; i < count; i++)
        with += all[i]->security != NULL;
    assert_int_equal(count, 1000);
    assert_int_equal(mini_gaps(m, "provider_security", KDA_OK), 1000 - with);
    assert_in_range(with, shared ? 1000 : 300, shared ? 1000 : 700);
    finish(m, etw);
}

static void test_many_descriptors(void **state)
{
    (void)state;
    many_descriptors(true);
    many_descriptors(false);
}

static void test_entry_that_is_its_own_group(void **state)
{
    struct mini *m = machine(NULL);
    (void)state;
    uint64_t process = mini_process(m, 40, "p"), entry = mini_guid_entry(m, BUCKET(1, 0), 1);
    uint64_t reg = mini_registration(m, entry, process, true);
    mini_set(m, reg, KDA_F_ETW_REG_ENTRY_GroupEntry, entry);
    struct kda_etw *etw = map(m);
    assert_int_equal(provider(etw, entry)->registration_count, 1);
    assert_int_equal(provider(etw, entry)->type, KDA_ETW_TRACE); /* the table's word counts */
    finish(m, etw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_filter_in_use),
        cmocka_unit_test(test_filters_that_are_none),
        cmocka_unit_test(test_pid_filter),
        cmocka_unit_test(test_event_filter),
        cmocka_unit_test(test_executable_filter),
        cmocka_unit_test(test_executables_too_long),
        cmocka_unit_test(test_filter_pointers),
        cmocka_unit_test(test_other_filters_and_wild_ones),
        cmocka_unit_test(test_many_descriptors),
        cmocka_unit_test(test_entry_that_is_its_own_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
