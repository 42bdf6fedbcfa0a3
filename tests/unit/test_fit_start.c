/* Fitting a layout when what the fit starts from is lost or leads elsewhere: an object's address is
 * right or left out. */
#include "fit_machine.h"

#include "bytes.h"
#include "fit/fit_int.h"

#define FIELD(m, type, name) forge_layout((m)->forge)->field[KDA_F_##type##_##name].offset

static const char *const builds[] = {
    "10.0.17763.379", "10.0.18362.30",   "10.0.19041.1466", "10.0.20348.825",
    "10.0.22000.795", "10.0.22631.2428", "10.0.26100.x",
};

static uint64_t global(const struct machine *m, enum kda_symbol_id id)
{
    return forge_truth(m->forge)->base + forge_layout(m->forge)->rva[id];
}

/* Every process that is told is one, with its own id; how many there are. */
static size_t true_processes(const struct view *v, const struct machine *m)
{
    const struct forge_truth *t = forge_truth(m->forge);
    const struct kda_process *processes;
    size_t count;
    assert_int_equal(kda_processes(v->kernel, &processes, &count, NULL), KDA_OK);
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < t->process_count && t->processes[k].va != processes[i].va)
            k++;
        if (k == t->process_count)
            fail_msg("%s: process %llu at 0x%llx is none", current,
                     (unsigned long long)processes[i].pid, (unsigned long long)processes[i].va);
        assert_int_equal(processes[i].pid, t->processes[k].pid);
    }
    return count;
}

/* Every consumer has its owner. */
static void true_consumers(const struct view *v, const struct machine *m)
{
    const struct forge_truth *t = forge_truth(m->forge);
    size_t count;
    const struct kda_etw_consumer *const *consumers = kda_etw_consumers(v->etw, &count);
    assert_int_equal(count, t->consumer_count);
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < count && t->consumers[k].va != consumers[i]->va)
            k++;
        if (k == count || consumers[i]->pid != t->consumers[k].pid)
            fail_msg("%s: consumer 0x%llx of process %llu is none", current,
                     (unsigned long long)consumers[i]->va, (unsigned long long)consumers[i]->pid);
    }
}

/* The machine with one global changed; everything is found by another way. */
static void with_global(struct machine *m, enum kda_symbol_id id, uint64_t value)
{
    struct view v;
    struct kda_error err = {0};
    static char label[128];
    uint8_t *at = at_va(m, global(m, id));
    uint64_t old = kda_le64(at);
    (void)snprintf(label, sizeof(label), "%s, %s is 0x%llx", forge_truth(m->forge)->version,
                   kda_symbol_name(id), (unsigned long long)value);
    current = label;
    kda_put_le64(at, value);
    if (look_without(&v, m, &err) != KDA_OK)
        fail_msg("%s: %s", current, err.text);
    compare_layout(m, v.fit);
    (void)true_processes(&v, m);
    true_consumers(&v, m);
    close_view(&v);
    kda_put_le64(at, old);
}

/* Under another row, System begins at another place and looks the same there. */
static void first_process_elsewhere(void **state)
{
    static const uint64_t shifts[] = {0x158, 8, 0x118, 0x270, (uint64_t)-0x158, (uint64_t)-0x270};
    const size_t tried = getenv("KDA_TEST_WHOLE") ? sizeof(shifts) / sizeof(shifts[0]) : 1;
    (void)state;
    for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
        struct machine m = {0};
        make(&m, "win11", builds[i], "rvas invented\nkdbg plain", FORGE_RAW);
        uint64_t system = forge_truth(m.forge)->processes[0].va;
        uint64_t other = forge_truth(m.forge)->processes[1].va;
        with_global(&m, KDA_SYM_PsInitialSystemProcess, 0);
        with_global(&m, KDA_SYM_PsInitialSystemProcess, other);
        for (size_t k = 0; k < tried; k++)
            with_global(&m, KDA_SYM_PsInitialSystemProcess, system + shifts[k]);
        unmake(&m);
    }
}

/* Neither the export nor the debugger block: the list's head in the kernel's data is left. */
static void head_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
        struct machine m = {0};
        make(&m, "win11", builds[i], "rvas invented\nkdbg encoded", FORGE_RAW);
        with_global(&m, KDA_SYM_PsInitialSystemProcess, 0);
        unmake(&m);
    }
}

/* No witness of where the processes begin: no address is told. */
static void no_witness(void **state)
{
    struct machine m = {0};
    struct view v;
    struct kda_error err = {0};
    (void)state;
    current = "no witness";
    make(&m, "win11", "10.0.22631.2428", "rvas invented\nkdbg plain", FORGE_RAW);
    const struct forge_truth *t = forge_truth(m.forge);
    for (size_t i = 0; i < t->process_count; i++) {
        kda_put_le64(at_va(&m, t->processes[i].va + FIELD(&m, KPROCESS, DirectoryTableBase)), 0);
        kda_put_le64(at_va(&m, t->processes[i].va + FIELD(&m, EPROCESS, ObjectTable)), 0);
    }
    kda_put_le64(at_va(&m, global(&m, KDA_SYM_PsInitialSystemProcess)), 0);
    if (look_without(&v, &m, &err) == KDA_OK)
        assert_int_equal(true_processes(&v, &m), 0);
    else
        assert_int_equal(err.status, KDA_NO_SYMBOL);
    close_view(&v);
    unmake(&m);
}

static uint64_t peek(const struct machine *m, uint64_t va)
{
    return kda_le64(at_va(m, va));
}

static void poke(const struct machine *m, uint64_t va, uint64_t value)
{
    kda_put_le64(at_va(m, va), value);
}

/* An export that leads to another type would give a cookie under which every header has a type, and
 * none its own. */
static void types_elsewhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
        struct machine m = {0};
        struct view v;
        struct kda_error err = {0};
        make(&m, "win11", builds[i], "rvas invented", FORGE_RAW);
        current = builds[i];
        if (look_without(&v, &m, &err) != KDA_OK)
            fail_msg("%s", err.text);
        assert_true(v.fit->types_known && v.fit->has_cookie);
        uint8_t cookie = v.fit->cookie;
        close_view(&v);
        uint64_t table = global(&m, KDA_SYM_ObTypeIndexTable);
        for (unsigned k = 3; k < 9; k++) {
            poke(&m, global(&m, KDA_SYM_PsProcessType), peek(&m, table + k * 8u));
            if (look_without(&v, &m, &err) != KDA_OK)
                fail_msg("%s", err.text);
            assert_true(v.fit->types_known);
            assert_int_equal(v.fit->cookie, cookie);
            true_consumers(&v, &m);
            bool right = peek(&m, table + k * 8u) == peek(&m, table + 7u * 8u);
            assert_int_equal(kda_fit_layout(v.fit)->rva[KDA_SYM_PsProcessType] != KDA_NONE, right);
            close_view(&v);
        }
        unmake(&m);
    }
}

/* The head of the list of drivers leads to another list, or nowhere: that is said. */
static void drivers_elsewhere(void **state)
{
    struct machine m = {0};
    struct view v;
    struct kda_error err = {0};
    (void)state;
    current = "drivers";
    make(&m, "win11", "10.0.22631.2428", "rvas invented\nkdbg plain", FORGE_RAW);
    uint64_t head = global(&m, KDA_SYM_PsLoadedModuleList);
    uint64_t other = global(&m, KDA_SYM_PsActiveProcessHead);
    for (unsigned k = 0; k < 2; k++) {
        poke(&m, head, k ? peek(&m, other) : 0);
        poke(&m, head + 8, k ? peek(&m, other + 8) : 0);
        if (look_without(&v, &m, &err) != KDA_OK)
            fail_msg("%s", err.text);
        compare_layout(&m, v.fit);
        assert_int_equal(kda_fit_layout(v.fit)->rva[KDA_SYM_PsLoadedModuleList], KDA_NONE);
        assert_true(kda_gaps_any(kda_kernel_gaps(v.kernel)));
        (void)true_processes(&v, &m);
        close_view(&v);
    }
    unmake(&m);
}

/* Moves the link of every entry of the GUID table 16 bytes into it, as a new build might. */
static void move_links(const struct machine *m)
{
    const struct forge_truth *t = forge_truth(m->forge);
    for (size_t s = 0; s < t->silo_count; s++)
        for (unsigned b = 0; b < 64u * 3u; b++) {
            uint64_t head = t->silos[s].table + b / 3u * 56u + b % 3u * 16u;
            uint64_t at = peek(m, head), previous = head;
            while (at != head && b % 3u != FORGE_GROUP) {
                uint64_t next = peek(m, at);
                poke(m, at + 16, next == head ? head : next + 16);
                poke(m, at + 24, previous);
                poke(m, previous, at + 16);
                previous = at + 16;
                poke(m, at, 0);
                poke(m, at + 8, 0);
                at = next;
            }
            if (b % 3u != FORGE_GROUP)
                poke(m, head + 8, previous);
        }
}

/* Entries with the link moved look like entries of an older build, 16 bytes on. */
static void entries_elsewhere(void **state)
{
    struct machine m = {0};
    struct view v;
    struct kda_error err = {0};
    (void)state;
    current = "entries";
    make(&m, "win11", "10.0.22631.2428", "rvas invented", FORGE_RAW);
    move_links(&m);
    if (look_without(&v, &m, &err) == KDA_OK) {
        const struct forge_truth *t = forge_truth(m.forge);
        size_t count;
        const struct kda_etw_provider *const *found = kda_etw_providers(v.etw, &count);
        for (size_t i = 0; i < count; i++) {
            size_t k = 0;
            while (k < t->provider_count && t->providers[k].va != found[i]->va)
                k++;
            if (k == t->provider_count)
                fail_msg("provider 0x%llx is none", (unsigned long long)found[i]->va);
        }
    } else {
        assert_int_equal(err.status, KDA_NO_SYMBOL);
    }
    close_view(&v);
    unmake(&m);
}

/* The host's globals are zeros: a container's still show where globals keep their state. */
static void globals_overwritten(void **state)
{
    struct machine m = {0};
    struct view a, b;
    struct kda_error err = {0};
    size_t want, have;
    (void)state;
    for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
        current = builds[i];
        make(&m, "win11", builds[i], "rvas invented", FORGE_RAW);
        if (look_without(&a, &m, &err) != KDA_OK)
            fail_msg("%s", err.text);
        for (unsigned at = 0; at < 0x400; at += 8)
            poke(&m, global(&m, KDA_SYM_PspHostSiloGlobals) + at, 0);
        if (look_without(&b, &m, &err) != KDA_OK)
            fail_msg("%s: %s", current, err.text);
        compare_layout(&m, b.fit);
        (void)kda_etw_sessions(a.etw, &want);
        (void)kda_etw_sessions(b.etw, &have);
        assert_int_equal(have, want);
        true_consumers(&b, &m);
        close_view(&a);
        close_view(&b);
        unmake(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_process_elsewhere),
        cmocka_unit_test(head_alone),
        cmocka_unit_test(no_witness),
        cmocka_unit_test(types_elsewhere),
        cmocka_unit_test(drivers_elsewhere),
        cmocka_unit_test(entries_elsewhere),
        cmocka_unit_test(globals_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
