/* Fitting a layout to machines that were made to mislead: never a wrong state, never a wrong place.
 */
#include "fit_machine.h"

#include "bytes.h"

#define SYM(m, id) (forge_truth((m)->forge)->base + forge_layout((m)->forge)->rva[KDA_SYM_##id])
#define FIELD(m, type, name) forge_layout((m)->forge)->field[KDA_F_##type##_##name].offset

static uint64_t peek(const struct machine *m, uint64_t va)
{
    return kda_le64(at_va(m, va));
}

static void poke(struct machine *m, uint64_t va, uint64_t value)
{
    kda_put_le64(at_va(m, va), value);
}

static void poke_pattern(struct machine *m, uint64_t va, uint64_t array, uint64_t state)
{
    static const uint8_t pattern[8] = {0, 0, 0x2c, 0x08, 0x04, 0x38, 0x0c, 0xe8};
    memcpy(at_va(m, va), pattern, sizeof(pattern));
    poke(m, va + 0x10, array);
    poke(m, va + 0x18, state);
}

/* An encoded debugger block is read without its keys: what must not help has to go. */
static void drop_block(struct machine *m)
{
    memset(at_va(m, SYM(m, KdDebuggerDataBlock)), 0, 0x340);
}

/* What the fit says about a machine whose host state is known. */
static void expect_host(struct machine *m, struct view *v)
{
    struct kda_error err = {0};
    if (look_without(v, m, &err) != KDA_OK)
        fail_msg("%s", err.text);
    assert_int_equal(kda_fit_info(v->fit)->state, forge_truth(m->forge)->silos[0].state);
    compare_layout(m, v->fit);
}

static void decoy_patterns(void **state)
{
    struct machine m = {0};
    struct view v;
    (void)state;
    make(&m, "win11", "10.0.26100.x", "rvas invented", FORGE_RAW);
    drop_block(&m);
    const struct forge_silo *container = &forge_truth(m.forge)->silos[1];
    uint64_t first = SYM(&m, PspHostSiloGlobals) + 0x800;
    /* Before the real one: nonsense, a container's state, the loggers of nobody. */
    poke_pattern(&m, first, 0xffff800000001000u, 0xffff800000002000u);
    poke_pattern(&m, first + 0x40, container->array, container->state);
    poke_pattern(&m, first + 0x80, forge_truth(m.forge)->processes[0].va,
                 forge_truth(m.forge)->processes[1].va);
    expect_host(&m, &v);
    const struct kda_fit_info *info = kda_fit_info(v.fit);
    assert_true(info->anchor[KDA_ANCHOR_DEBUGGER_DATA].refused > 0);
    assert_int_equal(info->anchor[KDA_ANCHOR_DEBUGGER_DATA].verdict, KDA_FIT_ACCEPTED);
    assert_false(info->disagreement);
    close_view(&v);
    /* And instead of the real one: the other anchors are left. */
    poke_pattern(&m, SYM(&m, EtwpDebuggerData), container->array, container->state);
    expect_host(&m, &v);
    info = kda_fit_info(v.fit);
    assert_int_equal(info->anchor[KDA_ANCHOR_DEBUGGER_DATA].verdict, KDA_FIT_REJECTED);
    assert_int_equal(info->anchor[KDA_ANCHOR_SELF_NAMING].verdict, KDA_FIT_ACCEPTED);
    assert_int_equal(kda_fit_layout(v.fit)->rva[KDA_SYM_EtwpDebuggerData], KDA_NONE);
    close_view(&v);
    unmake(&m);
}

/* Each anchor alone must find the state: the ones before it are taken away. */
static void every_anchor(void **state)
{
    struct machine m = {0};
    struct view v;
    (void)state;
    make(&m, "win11", "10.0.22631.2428", "rvas invented", FORGE_RAW);
    drop_block(&m);
    uint64_t globals = SYM(&m, PspHostSiloGlobals);
    uint64_t host = forge_truth(m.forge)->silos[0].state;
    poke(&m, SYM(&m, EtwpDebuggerData), 0);
    expect_host(&m, &v);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_DEBUGGER_DATA].verdict,
                     KDA_FIT_NOT_FOUND);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_SELF_NAMING].state, host);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_EXPORTED_CODE].state, host);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_THREAT_INT].state, host);
    close_view(&v);
    /* Code that no decoder understands, and no handle of the kernel's own. */
    poke(&m, SYM(&m, PsGetServerSiloServiceSessionId), 0x0606060606060606u);
    poke(&m, SYM(&m, EtwThreatIntProvRegHandle), 0);
    expect_host(&m, &v);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_EXPORTED_CODE].verdict,
                     KDA_FIT_NOT_FOUND);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_THREAT_INT].verdict, KDA_FIT_NOT_FOUND);
    assert_int_equal(kda_fit_layout(v.fit)->rva[KDA_SYM_EtwThreatIntProvRegHandle], KDA_NONE);
    close_view(&v);
    (void)globals;
    unmake(&m);
}

/* The page of the globals is missing as well: objects behind handles, then pool tags, still name
 * the state. */
static void last_anchors(void **state)
{
    struct machine m = {0};
    struct view v;
    char extra[160];
    (void)state;
    make(&m, "win11", "10.0.26100.x", "rvas invented\nkernel pages=4k", FORGE_RAW);
    (void)snprintf(extra, sizeof(extra),
                   "rvas invented\nkernel pages=4k\nhole va=0x%llx kind=paged",
                   (unsigned long long)SYM(&m, PspHostSiloGlobals));
    unmake(&m);
    make(&m, "win11", "10.0.26100.x", extra, FORGE_RAW);
    drop_block(&m);
    const struct forge_truth *t = forge_truth(m.forge);
    poke(&m, SYM(&m, EtwpDebuggerData), 0);
    poke(&m, SYM(&m, EtwThreatIntProvRegHandle), 0);
    expect_host(&m, &v);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_SELF_NAMING].verdict,
                     KDA_FIT_NOT_FOUND);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_HANDLES].verdict, KDA_FIT_ACCEPTED);
    close_view(&v);
    for (size_t i = 0; i < t->process_count; i++)
        if (t->processes[i].table_va)
            poke(&m, t->processes[i].table_va + FIELD(&m, HANDLE_TABLE, TableCode), 0);
    expect_host(&m, &v);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_HANDLES].verdict, KDA_FIT_NOT_FOUND);
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_POOL_TAGS].verdict, KDA_FIT_ACCEPTED);
    close_view(&v);
    unmake(&m);
}

/* The way back from the state must lead to the globals that name it. */
static void state_of_nobody(void **state)
{
    struct machine m = {0};
    struct view v;
    struct kda_error err = {0};
    (void)state;
    make(&m, "win11", "10.0.22631.2428", "rvas invented", FORGE_RAW);
    drop_block(&m);
    uint64_t member = SYM(&m, PspHostSiloGlobals) + FIELD(&m, ESERVERSILO_GLOBALS, EtwSiloState);
    uint64_t container = forge_truth(m.forge)->silos[1].state;
    poke(&m, member, container);
    poke(&m, SYM(&m, EtwpHostSiloState), container);
    /* Globals, direct pointer and debugger data disagree about whose state is the host's. */
    if (look_without(&v, &m, &err) == KDA_OK)
        fail_msg("0x%llx was accepted", (unsigned long long)kda_fit_info(v.fit)->state);
    assert_int_equal(err.status, KDA_NO_SYMBOL);
    assert_non_null(strstr(err.text, "rejected"));
    close_view(&v);
    unmake(&m);
}

/* A copy of the System process on a ring of its own, where the export says it is. */
static void false_system(void **state)
{
    struct machine m = {0};
    struct view v;
    struct kda_error err = {0};
    (void)state;
    make(&m, "win11", "10.0.22631.2428", "rvas invented", FORGE_RAW);
    drop_block(&m);
    const struct forge_truth *t = forge_truth(m.forge);
    uint64_t victim = 0, real = peek(&m, SYM(&m, PsInitialSystemProcess));
    uint32_t links = FIELD(&m, EPROCESS, ActiveProcessLinks);
    for (size_t i = 0; i < t->process_count; i++)
        if (t->processes[i].pid == 6240)
            victim = t->processes[i].va;
    assert_true(victim != 0 && real != 0);
    /* Off the list, then dressed up. */
    uint64_t next = peek(&m, victim + links), back = peek(&m, victim + links + 8);
    poke(&m, back, next);
    poke(&m, next + 8, back);
    poke(&m, victim + links, victim + links);
    poke(&m, victim + links + 8, victim + links);
    poke(&m, victim + FIELD(&m, EPROCESS, UniqueProcessId), 4);
    memcpy(at_va(&m, victim + FIELD(&m, EPROCESS, ImageFileName)), "System\0", 8);
    poke(&m, SYM(&m, PsInitialSystemProcess), victim);
    enum kda_status status = look_without(&v, &m, &err);
    if (status == KDA_OK) {
        const struct kda_process *processes;
        size_t count;
        assert_int_equal(kda_fit_info(v.fit)->state, t->silos[0].state);
        assert_int_equal(kda_processes(v.kernel, &processes, &count, NULL), KDA_OK);
        for (size_t i = 0; i < count; i++)
            assert_false(processes[i].va == victim && (processes[i].found_by & KDA_FOUND_LIST));
    } else {
        assert_int_equal(status, KDA_NO_SYMBOL);
    }
    close_view(&v);
    unmake(&m);
}

/* Pages overwritten with noise: a fit may fail, it never places a field wrongly. */
static void noise(void **state)
{
    struct machine m = {0};
    uint64_t x = 88172645463325252u;
    (void)state;
    current = "noise";
    make(&m, "fit", "10.0.22631.2428", "rvas invented", FORGE_RAW);
    uint8_t *copy = malloc(m.size);
    assert_non_null(copy);
    memcpy(copy, m.bytes, m.size);
    for (unsigned round = 0; round < 40; round++) {
        struct view v;
        struct kda_error err = {0};
        for (unsigned i = 0; i < 400; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            m.bytes[x % m.size] = (uint8_t)(x >> 40);
        }
        memset(&v, 0, sizeof(v));
        assert_int_equal(kda_image_open_memory(m.bytes, m.size, "noise", &v.image, &err), KDA_OK);
        struct kda_fit_options options = {.no_profile = true};
        if (kda_kernel_open(v.image, NULL, &v.kernel, &err) == KDA_OK &&
            kda_etw_fit(v.kernel, &options, &v.fit, &err) == KDA_OK)
            compare_layout(&m, v.fit);
        close_view(&v);
        if (round % 8 == 7)
            memcpy(m.bytes, copy, m.size);
    }
    free(copy);
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoy_patterns), cmocka_unit_test(every_anchor),
        cmocka_unit_test(last_anchors),   cmocka_unit_test(state_of_nobody),
        cmocka_unit_test(false_system),   cmocka_unit_test(noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
