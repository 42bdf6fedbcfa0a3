/* Silos, sessions and consumers of a tiny machine, by every witness and against every lie. */
#include "mini.h"

#include "kda/etw.h"

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

static size_t silos(const struct kda_etw *etw)
{
    size_t count;
    (void)kda_etw_silos(etw, &count);
    return count;
}

static size_t sessions(const struct kda_etw *etw)
{
    size_t count;
    (void)kda_etw_sessions(etw, &count);
    return count;
}

static const struct kda_etw_session *session(const struct kda_etw *etw, size_t i)
{
    size_t count;
    const struct kda_etw_session *const *all = kda_etw_sessions(etw, &count);
    assert_true(i < count);
    return all[i];
}

static const struct kda_etw_consumer *consumer(const struct kda_etw *etw, uint64_t va)
{
    size_t count;
    const struct kda_etw_consumer *const *all = kda_etw_consumers(etw, &count);
    for (size_t i = 0; i < count; i++)
        if (all[i]->va == va)
            return all[i];
    return NULL;
}

static void give_handle(struct mini *m, uint64_t process, unsigned index, uint64_t object)
{
    uint8_t bytes[8];
    mini_read(m, mini_at(m, process, KDA_F_EPROCESS_ObjectTable), bytes, 8);
    uint64_t table = kda_le64(bytes);
    if (table == 0) {
        table = mini_handle_table(m);
        mini_set(m, process, KDA_F_EPROCESS_ObjectTable, table);
    }
    mini_read(m, mini_at(m, table, KDA_F_HANDLE_TABLE_TableCode), bytes, 8);
    mini_handle(m, kda_le64(bytes), index, object - 0x30, 0);
}

/* ---- silos ---- */

static void test_host_by_either_global(void **state)
{
    static const enum kda_symbol_id globals[] = {KDA_SYM_PspHostSiloGlobals,
                                                 KDA_SYM_EtwpHostSiloState};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct mini *m = mini_create(NULL, false, 0);
        uint64_t host = mini_system(m, 8);
        (void)mini_session(m, 3, "Three");
        m->layout.rva[globals[i]] = KDA_NONE;
        struct kda_etw *etw = map(m);
        assert_int_equal(silos(etw), 1);
        assert_int_equal(sessions(etw), 1);
        size_t count;
        const struct kda_etw_silo *silo = kda_etw_silos(etw, &count);
        assert_true(silo->host && silo->state == host && silo->slots == 8);
        assert_string_equal(silo->label, "host");
        assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
        finish(m, etw);
    }
}

static void test_one_global_wild(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct mini *m = mini_create(NULL, false, 0);
        uint64_t host = mini_system(m, 8);
        mini_put64(m,
                   i ? mini_symbol(m, KDA_SYM_EtwpHostSiloState)
                     : mini_at(m, mini_symbol(m, KDA_SYM_PspHostSiloGlobals),
                               KDA_F_ESERVERSILO_GLOBALS_EtwSiloState),
                   0x41);
        struct kda_etw *etw = map(m);
        size_t count;
        assert_true(kda_etw_silos(etw, &count)->state == host);
        finish(m, etw);
    }
}

static void test_globals_disagree(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    uint64_t host = mini_system(m, 8);
    mini_put64(m, mini_symbol(m, KDA_SYM_EtwpHostSiloState), host + 0x1000);
    struct kda_etw *etw = map(m);
    assert_int_equal(mini_gaps(m, "silo", KDA_BAD_DATA), 1);
    finish(m, etw);
}

static void test_no_host(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    struct kda_etw *etw = (struct kda_etw *)m;
    struct kda_error err;
    (void)state;
    (void)mini_system(m, 8);
    mini_put64(m, mini_symbol(m, KDA_SYM_EtwpHostSiloState), 0);
    mini_put64(m,
               mini_at(m, mini_symbol(m, KDA_SYM_PspHostSiloGlobals),
                       KDA_F_ESERVERSILO_GLOBALS_EtwSiloState),
               0);
    mini_kernel(m);
    assert_int_equal(kda_etw_map(m->kernel, &etw, &err), KDA_BAD_DATA);
    assert_ptr_equal(etw, m); /* untouched */
    m->layout.rva[KDA_SYM_EtwpHostSiloState] = KDA_NONE;
    m->layout.rva[KDA_SYM_PspHostSiloGlobals] = KDA_NONE;
    m->layout.rva[KDA_SYM_WmipLoggerContext] = KDA_NONE;
    mini_kernel(m);
    assert_int_equal(kda_etw_map(m->kernel, &etw, &err), KDA_NO_SYMBOL);
    mini_free(m);
}

static void test_without_silos(void **state)
{
    static const char *const builds[] = {"6.1.7601.24540", "6.3.9600.19913"};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct mini *m = mini_create(builds[i], false, 0);
        assert_int_equal(mini_system(m, 64), 0);
        (void)mini_session(m, 63, "Last");
        struct kda_etw *etw = map(m);
        assert_int_equal(sessions(etw), 1);
        assert_int_equal(session(etw, 0)->id, 63);
        assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
        finish(m, etw);
    }
}

static void test_embedded_array(void **state)
{
    struct mini *m = mini_create("10.0.14393.4583", false, 0);
    (void)state;
    (void)mini_system(m, 64);
    (void)mini_session(m, 5, "Five");
    struct kda_etw *etw = map(m);
    assert_int_equal(sessions(etw), 1);
    assert_string_equal(session(etw, 0)->name, "Five");
    finish(m, etw);
}

static void test_lying_max_loggers(void **state)
{
    static const uint64_t lies[] = {0, 1025, UINT32_MAX};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct mini *m = mini_create(NULL, false, 0);
        uint64_t host = mini_system(m, 64);
        (void)mini_session(m, 63, "Last");
        mini_set(m, host, KDA_F_ETW_SILODRIVERSTATE_MaxLoggers, lies[i]);
        struct kda_etw *etw = map(m);
        assert_int_equal(sessions(etw), 1);
        assert_int_equal(mini_gaps(m, "silo", KDA_BAD_DATA), 1);
        finish(m, etw);
    }
}

static uint64_t job_of(struct mini *m, uint64_t globals, bool linked)
{
    uint64_t job = mini_alloc(m, m->layout.size[KDA_STRUCT_EJOB]);
    mini_set(m, job, KDA_F_EJOB_ServerSiloGlobals, globals);
    if (linked)
        mini_list_add(m, mini_symbol(m, KDA_SYM_PspJobList), mini_at(m, job, KDA_F_EJOB_JobLinks));
    return job;
}

static void test_silos_by_job_list_and_by_process(void **state)
{
    (void)state;
    for (unsigned by_process = 0; by_process < 2; by_process++) {
        struct mini *m = mini_create(NULL, false, 0);
        (void)mini_system(m, 8);
        uint64_t globals = 0, silo = mini_silo(m, 8, &globals);
        uint64_t job = job_of(m, globals, !by_process);
        (void)job_of(m, 0, true); /* a plain job */
        uint64_t inside = mini_process(m, 500, "in.exe"), outside = mini_process(m, 600, "out");
        mini_set(m, inside, KDA_F_EPROCESS_ServerSilo, job);
        struct kda_etw *etw = map(m);
        size_t count;
        const struct kda_etw_silo *all = kda_etw_silos(etw, &count);
        assert_int_equal(count, 2);
        assert_true(all[1].state == silo && !all[1].host && all[1].job == job);
        assert_ptr_equal(kda_etw_silo_of_process(etw, kda_process_at(m->kernel, inside)), &all[1]);
        assert_ptr_equal(kda_etw_silo_of_process(etw, kda_process_at(m->kernel, outside)), &all[0]);
        finish(m, etw);
    }
}

static void test_silo_known_only_by_an_object(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    (void)mini_system(m, 8);
    uint64_t globals = 0, silo = mini_silo(m, 8, &globals), process = mini_process(m, 8, "p");
    uint64_t logger = mini_session(m, 1, "Host"), reader = mini_consumer(m, 0, process, 1);
    uint64_t inner = mini_session(m, 2, "Moved");
    uint64_t hidden = mini_consumer(m, inner, process, 2);
    /* The second session belongs to the silo that no job names; only the consumer tells. */
    uint8_t bytes[8];
    mini_put64(m, mini_array(m) + 16, 1);
    mini_read(m, mini_at(m, silo, KDA_F_ETW_SILODRIVERSTATE_EtwpLoggerContext), bytes, 8);
    mini_put64(m, kda_le64(bytes) + 16, inner);
    mini_set(m, reader, KDA_F_ETW_REALTIME_CONSUMER_SiloState, silo);
    mini_list_add(m, mini_at(m, logger, KDA_F_WMI_LOGGER_CONTEXT_Consumers), reader);
    struct kda_etw *etw = map(m);
    assert_int_equal(silos(etw), 2);
    assert_int_equal(sessions(etw), 2);
    assert_true(consumer(etw, reader)->silo->state == silo);
    assert_non_null(consumer(etw, hidden)); /* found through the found silo */
    assert_true(consumer(etw, hidden)->session->silo->state == silo);
    finish(m, etw);
}

static void test_false_silo(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    (void)mini_system(m, 8);
    uint64_t process = mini_process(m, 8, "p"), logger = mini_session(m, 1, "Host");
    uint64_t reader = mini_consumer(m, logger, process, 1);
    uint64_t state_va = mini_alloc(m, 0x2000);
    mini_set(m, state_va, KDA_F_ETW_SILODRIVERSTATE_SiloGlobals,
             mini_symbol(m, KDA_SYM_PspHostSiloGlobals)); /* which names the host's state */
    mini_set(m, reader, KDA_F_ETW_REALTIME_CONSUMER_SiloState, state_va);
    struct kda_etw *etw = map(m);
    assert_int_equal(silos(etw), 1); /* its back pointer does not close the loop */
    assert_true(consumer(etw, reader)->silo->host);
    finish(m, etw);
}

/* A chain of silo states, each named only by an entry in the one before: no recursion, an end. */
static void test_chain_of_silos(void **state)
{
    struct mini *m = mini_create(NULL, false, 64u << 20);
    uint64_t table;
    (void)state;
    (void)mini_system(m, 1);
    table = mini_table(m);
    for (unsigned i = 0; i < KDA_ETW_MAX_SILOS + 50; i++) {
        uint64_t globals = 0, next = mini_silo(m, 1, &globals);
        uint64_t entry = mini_guid_entry(m, table, (uint8_t)i);
        mini_set(m, entry, KDA_F_ETW_GUID_ENTRY_SiloState, next);
        table = mini_at(m, next, KDA_F_ETW_SILODRIVERSTATE_EtwpGuidHashTable);
    }
    struct kda_etw *etw = map(m);
    assert_int_equal(silos(etw), KDA_ETW_MAX_SILOS);
    assert_int_equal(mini_gaps(m, "silos", KDA_LIMIT), 1);
    finish(m, etw);
}

/* ---- sessions ---- */

static void test_slots(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    (void)mini_system(m, 16);
    uint64_t closing = mini_session(m, 2, "Closing");
    mini_put64(m, mini_array(m) + 2 * 8, closing | 1);
    mini_put64(m, mini_array(m) + 3 * 8, 0);
    mini_put64(m, mini_array(m) + 4 * 8, 0x41414141);
    mini_put64(m, mini_array(m) + 5 * 8, closing + 4);
    struct kda_etw *etw = map(m);
    assert_int_equal(sessions(etw), 1);
    assert_true(session(etw, 0)->va == closing && session(etw, 0)->id == 2);
    assert_true(session(etw, 0)->slot_va == mini_array(m) + 16);
    assert_int_equal(mini_gaps(m, "session_slot", KDA_BAD_DATA), 2);
    finish(m, etw);
}

static void test_session_fields(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    (void)mini_system(m, 16);
    uint64_t va = mini_session(m, 2, "Name");
    mini_set(m, va, KDA_F_WMI_LOGGER_CONTEXT_AcceptNewEvents, 0xffffffff);
    mini_set(m, va, KDA_F_WMI_LOGGER_CONTEXT_BufferSize, 65536);
    mini_set(m, va, KDA_F_WMI_LOGGER_CONTEXT_ClockType, 2);
    mini_set(m, va, KDA_F_WMI_LOGGER_CONTEXT_StartTime, 133409662310000000);
    mini_set(m, va, KDA_F_WMI_LOGGER_CONTEXT_NumConsumers, 9);
    struct kda_etw *etw = map(m);
    const struct kda_etw_session *s = session(etw, 0);
    assert_string_equal(s->name, "Name");
    assert_int_equal(s->accept_new_events, -1);
    assert_int_equal(s->buffer_size, 65536);
    assert_int_equal(s->clock, 2);
    assert_true(s->start_time_100ns == 133409662310000000);
    assert_int_equal(s->num_consumers, 9); /* the kernel's count, also when it lies */
    assert_int_equal(s->consumer_count, 0);
    assert_int_equal(s->mode, 0x100);
    assert_true(KDA_ETW_HAS(s, S, MODE) && KDA_ETW_HAS(s, S, NAME) && KDA_ETW_HAS(s, S, LOG_FILE));
    assert_false(KDA_ETW_HAS(s, S, SECURITY));
    assert_string_equal(s->log_file, "");
    finish(m, etw);
}

static void test_session_without_memory(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    (void)mini_system(m, 16);
    (void)mini_alloc_page(m, 1);
    m->next_va = (m->next_va + KDA_PAGE_MASK) & ~(uint64_t)KDA_PAGE_MASK;
    uint64_t va = mini_session(m, 2, "Name");
    mini_absent(m, va);
    struct kda_etw *etw = map(m);
    const struct kda_etw_session *s = session(etw, 0);
    assert_true(s->va == va && s->id == 2); /* a row with what is known */
    assert_int_equal(s->have, 0);
    assert_true(mini_gaps(m, "session", KDA_ABSENT) == 1);
    finish(m, etw);
}

static void test_array_over_a_hole(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    uint64_t host = mini_system(m, 80);
    uint64_t page = mini_alloc_page(m, 2 * KDA_PAGE_SIZE), array = page + KDA_PAGE_SIZE - 20 * 8;
    for (unsigned i = 0; i < 80; i++)
        mini_put64(m, array + i * 8u, 1);
    mini_set(m, host, KDA_F_ETW_SILODRIVERSTATE_EtwpLoggerContext, array);
    (void)mini_session(m, 19, "Before");
    (void)mini_session(m, 20, "Behind");
    mini_paged(m, page + KDA_PAGE_SIZE);
    struct kda_etw *etw = map(m);
    assert_int_equal(sessions(etw), 1);
    assert_string_equal(session(etw, 0)->name, "Before");
    assert_int_equal(mini_gaps(m, "sessions", KDA_PAGED_OUT), 1); /* one for the page */
    finish(m, etw);
}

/* Every slot of every silo names one context whose consumer list is long. */
static void test_shared_context_ends(void **state)
{
    struct mini *m = mini_create(NULL, false, 32u << 20);
    (void)state;
    uint64_t host = mini_system(m, KDA_ETW_MAX_LOGGERS);
    (void)host;
    uint64_t process = mini_process(m, 4, "p"), va = mini_session(m, 0, "All");
    for (unsigned i = 0; i < 5000; i++)
        (void)mini_consumer(m, va, process, 0);
    for (unsigned i = 0; i < KDA_ETW_MAX_LOGGERS; i++)
        mini_put64(m, mini_array(m) + i * 8u, va);
    struct kda_etw *etw = map(m);
    /* It is the session of the slot that it names, and of no other. */
    assert_false(kda_kernel_exhausted(m->kernel));
    assert_int_equal(mini_gaps(m, "session_slot", KDA_BAD_DATA), KDA_ETW_MAX_LOGGERS - 1);
    assert_int_equal(sessions(etw), 1);
    finish(m, etw);
}

/* ---- consumers ---- */

static void test_consumer_witnesses(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    (void)mini_system(m, 16);
    uint64_t p = mini_process(m, 40, "reader.exe"), s = mini_session(m, 2, "S");
    uint64_t both = mini_consumer(m, s, p, 2), list = mini_consumer(m, s, p, 2);
    uint64_t handle = mini_consumer(m, 0, p, 2), stray = mini_consumer(m, 0, p, 9);
    mini_set(m, both, KDA_F_ETW_REALTIME_CONSUMER_BuffersLost, 3);
    give_handle(m, p, 5, both);
    give_handle(m, p, 6, handle);
    give_handle(m, p, 7, stray);
    struct kda_etw *etw = map(m);
    const struct kda_etw_consumer *c = consumer(etw, both);
    assert_int_equal(c->found_by, KDA_CONSUMER_LIST | KDA_CONSUMER_HANDLE);
    assert_true(c->has_handle && c->handle == 20 && c->handle_pid == 40);
    assert_true(c->has_pid && c->pid == 40 && c->buffers_lost == 3);
    assert_string_equal(c->process, "reader.exe");
    assert_int_equal(c->session->id, 2);
    c = consumer(etw, list);
    assert_int_equal(c->found_by, KDA_CONSUMER_LIST);
    assert_false(c->has_handle);
    c = consumer(etw, handle);
    assert_int_equal(c->found_by, KDA_CONSUMER_HANDLE);
    assert_int_equal(c->session->id, 2); /* by its LoggerId */
    c = consumer(etw, stray);
    assert_null(c->session); /* names no session that exists */
    assert_true(c->has_session_id && c->session_id == 9);
    assert_int_equal(session(etw, 0)->consumer_count, 3);
    assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
    finish(m, etw);
}

static void test_consumer_without_memory(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    (void)mini_system(m, 16);
    uint64_t p = mini_process(m, 40, "reader.exe"), s = mini_session(m, 2, "S");
    (void)mini_alloc_page(m, KDA_PAGE_SIZE - 0x30);
    uint64_t gone = mini_consumer(m, s, p, 2);
    assert_int_equal(gone & KDA_PAGE_MASK, 0);
    (void)mini_alloc_page(m, 1);
    uint64_t next = mini_consumer(m, s, p, 2);
    give_handle(m, p, 5, gone); /* its header stands in the page before */
    mini_absent(m, gone);
    struct kda_etw *etw = map(m);
    const struct kda_etw_consumer *c = consumer(etw, gone);
    assert_non_null(c);
    assert_int_equal(c->found_by, KDA_CONSUMER_LIST | KDA_CONSUMER_HANDLE);
    assert_false(c->readable || c->has_pid);
    assert_int_equal(c->session->id, 2);  /* its list tells */
    assert_non_null(consumer(etw, next)); /* from the other end */
    assert_int_equal(mini_gaps(m, "consumer", KDA_ABSENT), 1);
    finish(m, etw);
}

static void test_consumer_of_a_hidden_process(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    (void)mini_system(m, 16);
    uint64_t s = mini_session(m, 2, "S"), c = mini_consumer(m, s, mini_alloc(m, 64), 2);
    struct kda_etw *etw = map(m);
    assert_false(consumer(etw, c)->has_pid);
    assert_string_equal(consumer(etw, c)->process, "");
    assert_int_equal(mini_gaps(m, "consumer_process", KDA_BAD_DATA), 1);
    finish(m, etw);
}

static void test_flags_as_bytes(void **state)
{
    static const struct {
        enum kda_field_id field;
        unsigned bit; /* as in the later builds' flags */
    } fields[] = {{KDA_F_ETW_REALTIME_CONSUMER_ShutDownRequested, 0},
                  {KDA_F_ETW_REALTIME_CONSUMER_NewBuffersLost, 1},
                  {KDA_F_ETW_REALTIME_CONSUMER_Disconnected, 2},
                  {KDA_F_ETW_REALTIME_CONSUMER_Wow, 4}};
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct mini *m = mini_create("6.1.7601.24540", false, 0);
        (void)mini_system(m, 64);
        uint64_t p = mini_process(m, 40, "r"), s = mini_session(m, 2, "S");
        uint64_t c = mini_consumer(m, s, p, 0x10002); /* only the low half counts */
        mini_set(m, c, fields[i].field, 1);
        struct kda_etw *etw = map(m);
        assert_true(consumer(etw, c)->has_flags);
        assert_int_equal(consumer(etw, c)->flags, 1u << fields[i].bit);
        assert_int_equal(consumer(etw, c)->session_id, 2);
        finish(m, etw);
    }
}

static void test_duplicated_handle(void **state)
{
    static const uint64_t pids[] = {8, 60}; /* tables are walked in the order of pids */
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct mini *m = mini_create(NULL, false, 0);
        (void)mini_system(m, 16);
        uint64_t owner = mini_process(m, 40, "owner"), other = mini_process(m, pids[i], "other");
        uint64_t s = mini_session(m, 2, "S"), c = mini_consumer(m, s, owner, 2);
        give_handle(m, other, 9, c);
        give_handle(m, owner, 3, c);
        struct kda_etw *etw = map(m);
        assert_int_equal(consumer(etw, c)->handle_pid, 40); /* the owner's own wins */
        assert_int_equal(consumer(etw, c)->handle, 12);
        finish(m, etw);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_by_either_global),
        cmocka_unit_test(test_one_global_wild),
        cmocka_unit_test(test_globals_disagree),
        cmocka_unit_test(test_no_host),
        cmocka_unit_test(test_without_silos),
        cmocka_unit_test(test_embedded_array),
        cmocka_unit_test(test_lying_max_loggers),
        cmocka_unit_test(test_silos_by_job_list_and_by_process),
        cmocka_unit_test(test_silo_known_only_by_an_object),
        cmocka_unit_test(test_false_silo),
        cmocka_unit_test(test_chain_of_silos),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_session_fields),
        cmocka_unit_test(test_session_without_memory),
        cmocka_unit_test(test_array_over_a_hole),
        cmocka_unit_test(test_shared_context_ends),
        cmocka_unit_test(test_consumer_witnesses),
        cmocka_unit_test(test_consumer_without_memory),
        cmocka_unit_test(test_consumer_of_a_hidden_process),
        cmocka_unit_test(test_flags_as_bytes),
        cmocka_unit_test(test_duplicated_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
