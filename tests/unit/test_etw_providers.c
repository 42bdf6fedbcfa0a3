/* Provider entries, registrations, filters and traits of a tiny machine. */
#include "mini.h"

#include "kda/etw.h"

#define BUCKET(i, list) (mini_table(m) + (i)*56u + (list)*16u)

static struct kda_etw *map(struct mini *m)
{
    struct kda_etw *etw = NULL;
    struct kda_error err;
    mini_kernel(m);
    if (kda_etw_map(m->kernel, &etw, &err) != KDA_OK)
        fail_msg("%s", err.text);
    return etw;
}

static void finish(struct mini *m, struct kda_etw *etw)
{
    kda_etw_free(etw);
    mini_free(m);
}

static const struct kda_etw_provider *provider(const struct kda_etw *etw, uint64_t va)
{
    size_t count;
    const struct kda_etw_provider *const *all = kda_etw_providers(etw, &count);
    for (size_t i = 0; i < count; i++)
        if (all[i]->va == va)
            return all[i];
    return NULL;
}

static size_t providers(const struct kda_etw *etw)
{
    size_t count;
    (void)kda_etw_providers(etw, &count);
    return count;
}

static struct mini *machine(const char *version)
{
    struct mini *m = mini_create(version, false, 0);
    (void)mini_system(m, 64);
    return m;
}

static void give_handle(struct mini *m, uint64_t process, unsigned index, uint64_t object)
{
    uint64_t table = mini_handle_table(m);
    uint8_t bytes[8];
    mini_set(m, process, KDA_F_EPROCESS_ObjectTable, table);
    mini_read(m, mini_at(m, table, KDA_F_HANDLE_TABLE_TableCode), bytes, 8);
    mini_handle(m, kda_le64(bytes), index, object - 0x30, 0);
}

static void test_three_lists(void **state)
{
    static const char *const builds[] = {NULL, "6.1.7601.24540", "10.0.14393.4583",
                                         "10.0.17763.379"};
    (void)state;
    for (unsigned b = 0; b < 4; b++) {
        struct mini *m = machine(builds[b]);
        uint64_t va[3];
        for (unsigned type = 0; type < 3; type++)
            va[type] = mini_guid_entry(m, BUCKET(63, type), (uint8_t)(type + 1));
        struct kda_etw *etw = map(m);
        assert_int_equal(providers(etw), 3);
        for (unsigned type = 0; type < 3; type++) {
            const struct kda_etw_provider *p = provider(etw, va[type]);
            assert_true(p->has_type && p->has_guid && p->readable);
            assert_int_equal(p->type, type);
            assert_int_equal(p->guid[15], type + 1);
            assert_int_equal(p->found_by, KDA_PROVIDER_TABLE);
        }
        assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
        finish(m, etw);
    }
}

static void test_embedded(void **state)
{
    /* Microsoft-Windows-Security-Auditing; something else in its place is a gap. */
    static const uint8_t guids[3][16] = {{0},
                                         {0x25, 0x96, 0x84, 0x54, 0x78, 0x54, 0x94, 0x49, 0xa5,
                                          0xba, 0x3e, 0x3b, 0x03, 0x28, 0xc3, 0x0d},
                                         {1, 2, 3}};
    (void)state;
    for (unsigned form = 0; form < 3; form++) {
        unsigned used = form == 1;
        struct mini *m = mini_create(NULL, false, 0);
        uint64_t host = mini_system(m, 8);
        uint64_t va = mini_at(m, host, KDA_F_ETW_SILODRIVERSTATE_EtwpSecurityProviderGuidEntry);
        mini_list(m, mini_at(m, va, KDA_F_ETW_GUID_ENTRY_RegListHead));
        mini_write(m, mini_at(m, va, KDA_F_ETW_GUID_ENTRY_Guid), guids[form], 16);
        struct kda_etw *etw = map(m);
        assert_int_equal(providers(etw), used);
        assert_int_equal(mini_gaps(m, "provider", KDA_BAD_DATA), form == 2);
        if (used)
            assert_int_equal(provider(etw, va)->found_by, KDA_PROVIDER_EMBEDDED);
        finish(m, etw);
    }
}

static void test_back_pointer_only(void **state)
{
    struct mini *m = machine(NULL);
    (void)state;
    uint64_t process = mini_process(m, 40, "speaker.exe");
    uint64_t entry = mini_guid_entry(m, 0, 9);
    uint64_t reg = mini_registration(m, entry, process, true);
    give_handle(m, process, 4, reg);
    struct kda_etw *etw = map(m);
    const struct kda_etw_provider *p = provider(etw, entry);
    assert_non_null(p);
    assert_int_equal(p->found_by, KDA_PROVIDER_REGISTRATION);
    assert_int_equal(p->registration_count, 1);
    assert_int_equal(p->registrations[0]->found_by, KDA_REG_HANDLE | KDA_REG_LIST);
    assert_true(p->registrations[0]->has_handle && p->registrations[0]->handle == 16);
    assert_string_equal(p->registrations[0]->process, "speaker.exe");
    finish(m, etw);
}

/* An unlinked entry still names a neighbour or the head of its list. */
static void test_type_of_unlinked_entries(void **state)
{
    (void)state;
    for (unsigned form = 0; form < 3; form++) {
        struct mini *m = machine(NULL);
        uint64_t process = mini_process(m, 40, "p");
        /* Bucket 0 is that of both GUIDs. */
        uint64_t neighbour = mini_guid_entry(m, BUCKET(0, 1), 1), entry = mini_guid_entry(m, 0, 9);
        uint64_t link = mini_at(m, entry, KDA_F_ETW_GUID_ENTRY_GuidList);
        give_handle(m, process, 4, mini_registration(m, entry, process, true));
        if (form == 0)
            mini_put64(m, link, mini_at(m, neighbour, KDA_F_ETW_GUID_ENTRY_GuidList));
        else if (form == 1)
            mini_put64(m, link + 8, BUCKET(0, 1));
        else
            mini_put64(m, link, BUCKET(0, 2) + 16); /* the lock: no list */
        struct kda_etw *etw = map(m);
        assert_int_equal(provider(etw, entry)->has_type, form < 2);
        if (form < 2)
            assert_int_equal(provider(etw, entry)->type, KDA_ETW_NOTIFICATION);
        assert_int_equal(providers(etw), 2); /* the head is no entry */
        finish(m, etw);
    }
}

/* The head of a list that was led into another list gives its entries neither type nor silo. */
static void test_led_into_another_list(void **state)
{
    (void)state;
    for (unsigned led = 0; led < 3; led += 2) {
        struct mini *m = machine(NULL);
        uint64_t entry[3], at;
        for (unsigned i = 0; i < 3; i++)
            entry[i] = mini_guid_entry(m, BUCKET(7, 1), (uint8_t)(i + 1));
        at = mini_at(m, entry[0], KDA_F_ETW_GUID_ENTRY_GuidList);
        mini_put64(m, BUCKET(7, led), at);
        struct kda_etw *etw = map(m);
        assert_int_equal(providers(etw), 3);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(provider(etw, entry[i])->type, KDA_ETW_NOTIFICATION);
        assert_int_equal(mini_gaps(m, "providers", KDA_BAD_DATA), 1);
        finish(m, etw);
    }
}

/* Rings stand everywhere: an entry that a changed pointer names has to have the registration on its
 * list, and a silo. */
static void test_entry_on_false_ground(void **state)
{
    (void)state;
    for (unsigned form = 0; form < 3; form++) {
        struct mini *m = machine(NULL);
        uint64_t process = mini_process(m, 40, "p");
        uint64_t entry = mini_guid_entry(m, BUCKET(5, 0), 1), false_one = mini_guid_entry(m, 0, 9);
        uint64_t reg = mini_registration(m, entry, process, true);
        if (form != 1)
            (void)mini_registration(m, entry, process, true);
        mini_set(m, reg, KDA_F_ETW_REG_ENTRY_GuidEntry, false_one);
        if (form == 1) { /* alone on its list, which was cut: nothing but the silo contradicts */
            mini_list(m, mini_at(m, reg, KDA_F_ETW_REG_ENTRY_RegList));
            mini_set(m, false_one, KDA_F_ETW_GUID_ENTRY_SiloState, reg);
        }
        if (form == 2)
            mini_set(m, false_one, KDA_F_ETW_GUID_ENTRY_SiloState, 0);
        give_handle(m, process, 4, reg);
        struct kda_etw *etw = map(m);
        assert_null(provider(etw, false_one));
        assert_true(mini_gaps(m, "registration", KDA_BAD_DATA) >= 1);
        finish(m, etw);
    }
}

/* A group entry that only a registration names: its list runs through GroupRegList. Walking RegList
 * would make registrations out of the middle of others. */
static void test_unlinked_group(void **state)
{
    struct mini *m = machine(NULL);
    (void)state;
    uint64_t process = mini_process(m, 40, "p");
    uint64_t entry = mini_guid_entry(m, BUCKET(1, 0), 1), group = mini_guid_entry(m, 0, 9);
    uint64_t reg[2];
    for (unsigned i = 0; i < 2; i++) {
        reg[i] = mini_registration(m, entry, process, true);
        mini_set(m, reg[i], KDA_F_ETW_REG_ENTRY_GroupEntry, group);
        mini_list_add(m, mini_at(m, group, KDA_F_ETW_GUID_ENTRY_RegListHead),
                      mini_at(m, reg[i], KDA_F_ETW_REG_ENTRY_GroupRegList));
    }
    struct kda_etw *etw = map(m);
    const struct kda_etw_provider *g = provider(etw, group);
    assert_true(g && g->has_type && g->type == KDA_ETW_GROUP);
    assert_int_equal(g->registration_count, 2);
    assert_int_equal(provider(etw, entry)->registration_count, 2);
    assert_int_equal(providers(etw), 2);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(g->registrations[i]->found_by, KDA_REG_LIST | KDA_REG_GROUP_LIST);
    assert_true(provider(etw, entry)->has_group);
    assert_int_equal(provider(etw, entry)->group[0], 9);
    assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
    finish(m, etw);
}

static void test_wild_back_pointers(void **state)
{
    static const uint64_t wild[] = {0, 0x41414141, 0xffffb00000000003u, 0x8000000000000000u};
    (void)state;
    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        struct mini *m = machine(NULL);
        uint64_t process = mini_process(m, 40, "p");
        uint64_t reg = mini_registration(m, mini_guid_entry(m, 0, 9), process, false);
        mini_set(m, reg, KDA_F_ETW_REG_ENTRY_GuidEntry, wild[i]);
        mini_set(m, reg, KDA_F_ETW_REG_ENTRY_GroupEntry, wild[i]);
        give_handle(m, process, 4, reg);
        struct kda_etw *etw = map(m);
        assert_int_equal(providers(etw), 0);
        finish(m, etw);
    }
}

static void test_symbol_handle(void **state)
{
    static const uint8_t threat[16] = {0x7c, 0x89, 0xe1, 0xf4, 0x5d, 0xbb, 0x68, 0x56,
                                       0xf1, 0xd8, 0x04, 0x0f, 0x4d, 0x8d, 0xd3, 0x44};
    (void)state;
    for (unsigned good = 0; good < 2; good++) {
        struct mini *m = machine(NULL);
        uint64_t entry = mini_guid_entry(m, 0, 9);
        uint64_t reg = mini_registration(m, entry, 0, true);
        if (good)
            mini_write(m, mini_at(m, entry, KDA_F_ETW_GUID_ENTRY_Guid), threat, 16);
        mini_put64(m, mini_symbol(m, KDA_SYM_EtwThreatIntProvRegHandle), reg);
        struct kda_etw *etw = map(m);
        assert_int_equal(providers(etw), good);
        if (good) {
            const struct kda_etw_provider *p = provider(etw, entry);
            assert_int_equal(p->found_by, KDA_PROVIDER_SYMBOL | KDA_PROVIDER_REGISTRATION);
            assert_string_equal(p->name, "Microsoft-Windows-Threat-Intelligence");
            assert_true(p->registrations[0]->found_by & KDA_REG_SYMBOL);
        } else {
            assert_int_equal(mini_gaps(m, "registration", KDA_BAD_DATA), 1);
        }
        finish(m, etw);
    }
}

static void test_enable_slots(void **state)
{
    struct mini *m = machine(NULL);
    (void)state;
    uint64_t s = mini_session(m, 3, "S"), entry = mini_guid_entry(m, BUCKET(1, 0), 1);
    uint64_t slots = mini_at(m, entry, KDA_F_ETW_GUID_ENTRY_EnableInfo);
    uint32_t size = m->layout.size[KDA_STRUCT_TRACE_ENABLE_INFO];
    (void)s;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t at = slots + (uint64_t)(7 * i) * size;
        mini_set(m, at, KDA_F_TRACE_ENABLE_INFO_IsEnabled, i == 0);
        mini_set(m, at, KDA_F_TRACE_ENABLE_INFO_LoggerId, i ? 9 : 3);
        mini_set(m, at, KDA_F_TRACE_ENABLE_INFO_Level, 5);
        mini_set(m, at, KDA_F_TRACE_ENABLE_INFO_MatchAnyKeyword, 0x8000000000000001u);
    }
    struct kda_etw *etw = map(m);
    const struct kda_etw_provider *p = provider(etw, entry);
    assert_true(p->enables[0].readable && p->enables[0].enabled == 1);
    assert_int_equal(p->enables[0].session->id, 3);
    assert_true(p->enables[0].match_any == 0x8000000000000001u && p->enables[0].level == 5);
    assert_int_equal(p->enables[7].enabled, 0);
    assert_int_equal(p->enables[7].logger_id, 9);
    assert_null(p->enables[7].session);
    assert_null(p->enables[1].session); /* unused: 0 is no session */
    finish(m, etw);
}

/* ---- registrations ---- */

static void test_kinds(void **state)
{
    struct mini *m = machine(NULL);
    (void)state;
    uint64_t driver = mini_alloc(m, 0x120), process = mini_process(m, 40, "p");
    mini_set(m, driver, KDA_F_KLDR_DATA_TABLE_ENTRY_DllBase, 0xfffff80030000000u);
    mini_set(m, driver, KDA_F_KLDR_DATA_TABLE_ENTRY_SizeOfImage, 0x1000);
    mini_string(m, mini_at(m, driver, KDA_F_KLDR_DATA_TABLE_ENTRY_BaseDllName), "d.sys");
    mini_list_add(m, mini_symbol(m, KDA_SYM_PsLoadedModuleList), driver);
    uint64_t entry = mini_guid_entry(m, BUCKET(1, 0), 1);
    uint64_t user = mini_registration(m, entry, process, true);
    uint64_t kernel = mini_registration(m, entry, 0x4142, true);
    mini_set(m, kernel, KDA_F_ETW_REG_ENTRY_DbgUserRegistration, 0);
    mini_set(m, kernel, KDA_F_ETW_REG_ENTRY_DbgKernelRegistration, 1);
    mini_set(m, kernel, KDA_F_ETW_REG_ENTRY_Callback, 0xfffff80030000123u);
    struct kda_etw *etw = map(m);
    const struct kda_etw_provider *p = provider(etw, entry);
    assert_int_equal(p->registration_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct kda_etw_registration *r = p->registrations[i];
        assert_true(r->has_kind && r->kernel == (r->va == kernel));
        if (r->va == user) {
            assert_true(r->has_pid && r->pid == 40 && r->callback == 0 && !r->module);
        } else {
            assert_true(!r->has_pid && r->process_va == 0); /* CallbackContext is no process */
            assert_string_equal(r->module, "d.sys");
        }
    }
    finish(m, etw);
}

/* Both bits, or none: the flags say nothing, so what stands in the shared place decides. */
static void test_kind_with_useless_flags(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 2; bits++) {
        struct mini *m = machine(NULL);
        uint64_t entry = mini_guid_entry(m, BUCKET(1, 0), 1);
        uint64_t reg = mini_registration(m, entry, 0xfffff80099990000u, true);
        mini_set(m, reg, KDA_F_ETW_REG_ENTRY_DbgUserRegistration, bits);
        mini_set(m, reg, KDA_F_ETW_REG_ENTRY_DbgKernelRegistration, bits);
        struct kda_etw *etw = map(m);
        assert_false(provider(etw, entry)->registrations[0]->has_kind);
        finish(m, etw);
    }
}

static void test_kind_without_flags(void **state)
{
    struct mini *m = machine("6.1.7601.24540");
    (void)state;
    uint64_t process = mini_process(m, 40, "p"), entry = mini_guid_entry(m, BUCKET(1, 0), 1);
    (void)mini_registration(m, entry, process, true);
    (void)mini_registration(m, entry, 0xfffff80099990000u, true);
    struct kda_etw *etw = map(m);
    const struct kda_etw_provider *p = provider(etw, entry);
    unsigned known = 0;
    for (unsigned i = 0; i < 2; i++)
        if (p->registrations[i]->has_kind) {
            assert_true(!p->registrations[i]->kernel && p->registrations[i]->pid == 40);
            known++;
        }
    assert_int_equal(known, 1); /* the other leads nowhere known: not guessed */
    finish(m, etw);
}

static void test_traits(void **state)
{
    static const struct {
        uint8_t bytes[40];
        const char *name;
        bool group, gap;
    } cases[] = {
        {{5, 0, 'A', 'b', 0}, "Ab", false, false},
        {{3, 0, 0}, NULL, false, false},            /* no name */
        {{4, 0, 'A', 'b', 'c'}, NULL, false, true}, /* no NUL inside */
        {{2, 0, 'A', 0}, NULL, false, true},        /* smaller than its own header */
        {{0xff, 0xff, 'A', 0}, NULL, false, true},
        {{5, 0, 'A', 0xff, 0}, NULL, false, true}, /* no UTF-8 */
        {{24, 0, 'A', 0, 0, 19, 0, 1}, "A", false, false},
        {{23, 0, 'A', 0, 19, 0, 1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7},
         "A",
         true,
         false},
        {{23, 0, 'A', 0, 19, 0, 2, 7, 7, 7}, "A", false, false}, /* another type */
        {{23, 0, 'A', 0, 18, 0, 1, 7, 7, 7}, "A", false, false}, /* no GUID's size */
        {{23, 0, 'A', 0, 0, 0, 1, 7, 7, 7}, "A", false, false},  /* chunk of no size */
        {{23, 0, 'A', 0, 99, 0, 1, 7, 7, 7}, "A", false, false}, /* over the end */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mini *m = machine(NULL);
        uint64_t process = mini_process(m, 40, "p"), entry = mini_guid_entry(m, BUCKET(1, 0), 1);
        uint64_t reg = mini_registration(m, entry, process, true), traits = mini_alloc(m, 128);
        mini_set(m, reg, KDA_F_ETW_REG_ENTRY_Traits, traits);
        mini_write(m, mini_at(m, traits, KDA_F_ETW_PROVIDER_TRAITS_Traits), cases[i].bytes,
                   sizeof(cases[i].bytes));
        /* Only what the size covers is mapped for the largest one. */
        struct kda_etw *etw = map(m);
        const struct kda_etw_registration *r = provider(etw, entry)->registrations[0];
        if (cases[i].name)
            assert_string_equal(r->traits_name, cases[i].name);
        else
            assert_null(r->traits_name);
        assert_int_equal(r->traits_group != NULL, cases[i].group);
        assert_int_equal(mini_gaps(m, "traits", KDA_OK), cases[i].gap);
        if (cases[i].group)
            assert_int_equal(provider(etw, entry)->group[3], 7);
        finish(m, etw);
    }
}

static void test_registration_without_memory(void **state)
{
    struct mini *m = machine(NULL);
    (void)state;
    uint64_t process = mini_process(m, 40, "p"), entry = mini_guid_entry(m, BUCKET(1, 0), 1);
    (void)mini_alloc_page(m, KDA_PAGE_SIZE - 0x30);
    uint64_t gone = mini_registration(m, entry, process, true);
    (void)mini_alloc_page(m, 1);
    uint64_t next = mini_registration(m, entry, process, true);
    mini_absent(m, gone);
    struct kda_etw *etw = map(m);
    const struct kda_etw_provider *p = provider(etw, entry);
    assert_int_equal(p->registration_count, 2); /* it is known to hang on this entry */
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(p->registrations[i]->readable, p->registrations[i]->va == next);
    assert_int_equal(mini_gaps(m, "registration", KDA_ABSENT), 1);
    finish(m, etw);
}

/* ---- filters ---- */

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
        cmocka_unit_test(test_three_lists),
        cmocka_unit_test(test_embedded),
        cmocka_unit_test(test_back_pointer_only),
        cmocka_unit_test(test_type_of_unlinked_entries),
        cmocka_unit_test(test_led_into_another_list),
        cmocka_unit_test(test_entry_on_false_ground),
        cmocka_unit_test(test_unlinked_group),
        cmocka_unit_test(test_wild_back_pointers),
        cmocka_unit_test(test_symbol_handle),
        cmocka_unit_test(test_enable_slots),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_kind_with_useless_flags),
        cmocka_unit_test(test_kind_without_flags),
        cmocka_unit_test(test_traits),
        cmocka_unit_test(test_registration_without_memory),
        cmocka_unit_test(test_no_filter_in_use),
        cmocka_unit_test(test_filters_that_are_none),
        cmocka_unit_test(test_pid_filter),
        cmocka_unit_test(test_event_filter),
        cmocka_unit_test(test_executable_filter),
        cmocka_unit_test(test_executables_too_long),
        cmocka_unit_test(test_filter_pointers),
        cmocka_unit_test(test_many_descriptors),
        cmocka_unit_test(test_entry_that_is_its_own_group),
        cmocka_unit_test(test_other_filters_and_wild_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
