/* Fitting a layout without symbols: what it finds must be what the true layout gives. */
#include "fit_machine.h"

#include "fit/fit_int.h"

/* ---- comparison: `a` is the truth, `b` may know less, never something else ---- */

#define SAME(what, x, y)                                                                           \
    do {                                                                                           \
        if ((uint64_t)(x) != (uint64_t)(y))                                                        \
            fail_msg("%s: %s is 0x%llx, not 0x%llx", current, what, (unsigned long long)(y),       \
                     (unsigned long long)(x));                                                     \
    } while (0)

static void same_text(const char *what, const char *x, const char *y)
{
    if (strcmp(x ? x : "", y ? y : "") != 0)
        fail_msg("%s: %s is \"%s\", not \"%s\"", current, what, y ? y : "", x ? x : "");
}

static void compare_sessions(const struct view *a, const struct view *b)
{
    size_t na, nb;
    const struct kda_etw_session *const *x = kda_etw_sessions(a->etw, &na);
    const struct kda_etw_session *const *y = kda_etw_sessions(b->etw, &nb);
    SAME("number of sessions", na, nb);
    for (size_t i = 0; i < na; i++) {
        SAME("session", x[i]->va, y[i]->va);
        SAME("session id", x[i]->id, y[i]->id);
        SAME("what is known of a session", x[i]->have, y[i]->have);
        same_text("session name", x[i]->name, y[i]->name);
        same_text("log file", x[i]->log_file, y[i]->log_file);
        same_text("security", x[i]->security, y[i]->security);
        SAME("mode", x[i]->mode, y[i]->mode);
        SAME("collecting", x[i]->collecting, y[i]->collecting);
        SAME("clock", x[i]->clock, y[i]->clock);
        SAME("get_cpu_clock", x[i]->get_cpu_clock, y[i]->get_cpu_clock);
        SAME("buffer size", x[i]->buffer_size, y[i]->buffer_size);
        SAME("buffers", x[i]->buffers, y[i]->buffers);
        SAME("max_buffers", x[i]->max_buffers, y[i]->max_buffers);
        SAME("events_lost", x[i]->events_lost, y[i]->events_lost);
        SAME("buffers_lost", x[i]->buffers_lost, y[i]->buffers_lost);
        SAME("realtime lost", x[i]->realtime_buffers_lost, y[i]->realtime_buffers_lost);
        SAME("written", x[i]->buffers_written, y[i]->buffers_written);
        SAME("start_time", x[i]->start_time_100ns, y[i]->start_time_100ns);
        SAME("num_consumers", x[i]->num_consumers, y[i]->num_consumers);
        SAME("consumers", x[i]->consumer_count, y[i]->consumer_count);
        assert_memory_equal(x[i]->instance_guid, y[i]->instance_guid, 16);
    }
}

static void compare_consumers(const struct view *a, const struct view *b)
{
    size_t na, nb;
    const struct kda_etw_consumer *const *x = kda_etw_consumers(a->etw, &na);
    const struct kda_etw_consumer *const *y = kda_etw_consumers(b->etw, &nb);
    SAME("number of consumers", na, nb);
    for (size_t i = 0; i < na; i++) {
        SAME("consumer", x[i]->va, y[i]->va);
        SAME("consumer's pid", x[i]->pid, y[i]->pid);
        SAME("consumer's session", x[i]->session_id, y[i]->session_id);
        SAME("consumer's witnesses", x[i]->found_by, y[i]->found_by);
        SAME("consumer's handle", x[i]->handle, y[i]->handle);
        SAME("consumer's flags", x[i]->flags, y[i]->flags);
        SAME("consumer's losses", x[i]->buffers_lost, y[i]->buffers_lost);
        same_text("consumer's process", x[i]->process, y[i]->process);
        same_text("consumer's image", x[i]->image, y[i]->image);
    }
}

static void compare_registrations(const struct kda_etw_provider *x,
                                  const struct kda_etw_provider *y)
{
    SAME("number of registrations", x->registration_count, y->registration_count);
    for (size_t i = 0; i < x->registration_count; i++) {
        const struct kda_etw_registration *r = x->registrations[i], *s = y->registrations[i];
        SAME("registration", r->va, s->va);
        SAME("kind", r->kernel, s->kernel);
        SAME("registration's pid", r->pid, s->pid);
        SAME("callback", r->callback, s->callback);
        SAME("enable mask", r->enable_mask, s->enable_mask);
        SAME("group mask", r->group_enable_mask, s->group_enable_mask);
        SAME("flags", r->flags, s->flags);
        SAME("registration's witnesses", r->found_by & ~(unsigned)KDA_REG_SYMBOL,
             s->found_by & ~(unsigned)KDA_REG_SYMBOL);
        same_text("module", r->module, s->module);
    }
}

static void compare_provider(const struct kda_etw_provider *x, const struct kda_etw_provider *y)
{
    assert_memory_equal(x->guid, y->guid, 16);
    same_text("provider's name", x->name, y->name);
    SAME("type", x->type, y->type);
    for (size_t k = 0; k < KDA_ETW_ENABLE_SLOTS; k++) {
        SAME("enabled", x->enables[k].enabled, y->enables[k].enabled);
        SAME("level", x->enables[k].level, y->enables[k].level);
        SAME("enabled for", x->enables[k].logger_id, y->enables[k].logger_id);
        SAME("match any", x->enables[k].match_any, y->enables[k].match_any);
        SAME("match all", x->enables[k].match_all, y->enables[k].match_all);
    }
    compare_registrations(x, y);
}

static void compare_providers(const struct view *a, const struct view *b)
{
    size_t na, nb;
    const struct kda_etw_provider *const *x = kda_etw_providers(a->etw, &na);
    const struct kda_etw_provider *const *y = kda_etw_providers(b->etw, &nb);
    for (size_t k = 0, i = 0; k < na; k++, i++) {
        /* The entry inside the state of a container whose state is missing: nothing says that it is
         * one, and nothing of it can be read. */
        if (!x[k]->readable && x[k]->found_by == KDA_PROVIDER_EMBEDDED && !x[k]->silo->host &&
            (i >= nb || y[i]->va != x[k]->va)) {
            i--;
            continue;
        }
        if (i >= nb || x[k]->va != y[i]->va)
            fail_msg("%s: provider 0x%llx, found by %u, is missing (%zu of %zu)", current,
                     (unsigned long long)x[k]->va, x[k]->found_by, nb, na);
        compare_provider(x[k], y[i]);
    }
}

static void compare_processes(const struct view *a, const struct view *b)
{
    const struct kda_process *x, *y;
    size_t na, nb;
    assert_int_equal(kda_processes(a->kernel, &x, &na, NULL), KDA_OK);
    assert_int_equal(kda_processes(b->kernel, &y, &nb, NULL), KDA_OK);
    SAME("number of processes", na, nb);
    for (size_t i = 0; i < na; i++) {
        SAME("process", x[i].va, y[i].va);
        SAME("pid", x[i].pid, y[i].pid);
        SAME("ppid", x[i].ppid, y[i].ppid);
        same_text("name", x[i].name, y[i].name);
        same_text("image", x[i].image, y[i].image);
        SAME("dtb", x[i].dtb, y[i].dtb);
        SAME("create time", x[i].create_time_100ns, y[i].create_time_100ns);
        if (y[i].has_protection)
            SAME("protection", x[i].protection, y[i].protection);
        SAME("process's witnesses", x[i].found_by, y[i].found_by);
    }
}

/* True when the fit succeeded and everything agrees; false when it said that it cannot. */
static bool agrees(const char *name, const char *build, const char *extra)
{
    struct machine m = {0};
    struct view a, b;
    struct kda_error err = {0};
    static char label[256];
    (void)snprintf(label, sizeof(label), "%s %s %s", name, build ? build : "", extra);
    for (char *c = label; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    current = label;
    make(&m, name, build, extra, strstr(extra, "kind=absent") ? FORGE_DMP_BITMAP : FORGE_RAW);
    look_with_symbols(&a, &m);
    enum kda_status status = look_without(&b, &m, &err);
    if (status == KDA_OK) {
        compare_layout(&m, b.fit);
        compare_processes(&a, &b);
        compare_sessions(&a, &b);
        compare_consumers(&a, &b);
        compare_providers(&a, &b);
    } else {
        print_message("%s: %s\n", label, err.text);
        assert_int_equal(status, KDA_NO_SYMBOL);
    }
    close_view(&a);
    close_view(&b);
    unmake(&m);
    return status == KDA_OK;
}

static const char *const builds[] = {
    "10.0.17763.379", "10.0.17763.2114", "10.0.17763.5933", "10.0.18362.30",  "10.0.18362.720",
    "10.0.19041.329", "10.0.19041.1466", "10.0.19041.3570", "10.0.20348.288", "10.0.20348.2529",
    "10.0.22000.318", "10.0.22000.795",  "10.0.22000.2538",
};
static const char *const new_builds[] = {"10.0.22621.382", "10.0.22631.2428", "10.0.26100.x"};

static void every_known_build(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++)
        assert_true(agrees("win11", builds[i], ""));
}

static void builds_without_addresses(void **state)
{
    static const char *const extras[] = {"rvas invented", "rvas invented\nkdbg plain",
                                         "rvas invented\npcid on", "rvas invented\nla57 on",
                                         "rvas invented\npcid on\nla57 on\nkdbg encoded"};
    (void)state;
    for (size_t i = 0; i < sizeof(new_builds) / sizeof(new_builds[0]); i++)
        for (size_t k = 0; k < sizeof(extras) / sizeof(extras[0]); k++)
            assert_true(agrees("win11", new_builds[i], extras[k]));
}

/* Where the state itself is missing, nothing can be found and that is what must be said. */
static void missing_pages(void **state)
{
    static const char *const kinds[] = {"absent", "paged", "transition"};
    unsigned found = 0, total = 0;
    (void)state;
    for (unsigned percent = 5; percent <= 20; percent *= 2)
        for (unsigned seed = 1; seed <= 4; seed++)
            for (size_t i = 0; i < sizeof(new_builds) / sizeof(new_builds[0]); i++) {
                char extra[160];
                (void)snprintf(extra, sizeof(extra),
                               "rvas invented\nseed %u\nhole percent=%u kind=%s", seed * 77,
                               percent, kinds[(seed + i) % 2]);
                found += agrees("win11", new_builds[i], extra);
                total++;
            }
    print_message("%u of %u images with missing pages were fitted\n", found, total);
    assert_int_equal(found, total);
}

/* Contexts whose session has ended: the slot is free, the memory still looks alive. */
static void freed_loggers(void **state)
{
    struct machine m = {0};
    struct view a, b;
    struct kda_error err = {0};
    (void)state;
    current = "freed loggers";
    make(&m, "win11", "10.0.26100.x", "rvas invented", FORGE_RAW);
    const struct forge_truth *t = forge_truth(m.forge);
    for (size_t i = 0; i < t->session_count; i += 2)
        kda_put_le64(at_va(&m, t->sessions[i].slot_va), 1);
    look_with_symbols(&a, &m);
    if (look_without(&b, &m, &err) != KDA_OK)
        fail_msg("%s", err.text);
    compare_layout(&m, b.fit);
    compare_sessions(&a, &b);
    compare_consumers(&a, &b);
    close_view(&a);
    close_view(&b);
    unmake(&m);
}

/* ---- the decoder ---- */

static void code_targets(void **state)
{
    static const uint8_t code[] = {
        0x48, 0x85, 0xc9,                         /* test rcx, rcx */
        0x74, 0x09,                               /* je */
        0x48, 0x8b, 0x81, 0xb8, 0x05, 0x00, 0x00, /* mov rax, [rcx + 0x5b8] */
        0xeb, 0x07,                               /* jmp */
        0x48, 0x8d, 0x05, 0x00, 0x10, 0x00, 0x00, /* lea rax, [rip + 0x1000] */
        0x66, 0x90,                               /* nop */
        0x8b, 0x0d, 0x00, 0x20, 0x00, 0x00,       /* mov ecx, [rip + 0x2000]: 32 bits */
        0x4c, 0x8b, 0x35, 0xf0, 0xff, 0xff, 0xff, /* mov r14, [rip - 0x10] */
        0xc3,
    };
    uint64_t targets[4];
    (void)state;
    assert_int_equal(kda_fit_code_targets(code, sizeof(code), 0x1000, targets, 4), 2);
    assert_int_equal(targets[0], 0x1000 + 21 + 0x1000);
    assert_int_equal(targets[1], 0x1000 + 36 - 0x10);
    assert_int_equal(kda_fit_code_targets(code, sizeof(code), 0x1000, targets, 1), 1);
    /* Cut anywhere, it reads nothing behind the end and finds no more than before. */
    for (size_t size = 0; size < sizeof(code); size++) {
        uint8_t *exact = malloc(size ? size : 1);
        assert_non_null(exact);
        memcpy(exact, code, size);
        assert_true(kda_fit_code_targets(exact, size, 0x1000, targets, 4) <= 2);
        free(exact);
    }
    /* An LEA inside an immediate is no instruction; an unknown opcode ends the walk. */
    static const uint8_t inside[] = {0x48, 0xb8, 0x48, 0x8d, 0x05, 1, 2, 3, 4, 5, 0xc3};
    static const uint8_t unknown[] = {0xc5, 0xf8, 0x77, 0x48, 0x8d, 0x05, 0, 1, 0, 0};
    assert_int_equal(kda_fit_code_targets(inside, sizeof(inside), 0, targets, 4), 0);
    assert_int_equal(kda_fit_code_targets(unknown, sizeof(unknown), 0, targets, 4), 0);
}

/* ---- memory that runs out ---- */

static void out_of_memory(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    struct machine m = {0};
    struct view v;
    struct kda_error err = {0};
    make(&m, "fit", "10.0.22631.2428", "rvas invented", FORGE_RAW);
    for (uint64_t nth = 1;; nth++) {
        struct kda_fit_options options = {.no_profile = true};
        look(&v, &m);
        kda_fault_arm(nth);
        enum kda_status status = kda_etw_fit(v.kernel, &options, &v.fit, &err);
        if (status == KDA_OK)
            status = kda_fit_install(v.fit, v.kernel, &err);
        bool fired = kda_fault_fired();
        kda_fault_arm(0);
        if (status == KDA_OK)
            compare_layout(&m, v.fit);
        close_view(&v);
        if (!fired) {
            assert_int_equal(status, KDA_OK);
            break;
        }
    }
    unmake(&m);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_targets),
        cmocka_unit_test(freed_loggers),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(every_known_build),
        cmocka_unit_test(builds_without_addresses),
        cmocka_unit_test(missing_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
