/* Provider entries, registrations and traits of a tiny machine. */
#include "mini_etw.h"

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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
