/* Fitting a layout without symbols: what it finds must be what the true layout gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kda/etw.h"
#include "kda/fit.h"

#include "etw/fit_int.h"
#include "forge.h"

#define SCENARIOS KDA_SOURCE_DIR "/tests/images/scenarios/"

struct machine {
    struct forge *forge;
    uint8_t *bytes;
    size_t size;
};

struct view {
    struct kda_image *image;
    struct kda_kernel *kernel;
    struct kda_fit *fit; /* NULL for the true layout */
    struct kda_etw *etw;
};

/* The scenario file with its build replaced and lines added. */
static char *scenario(const char *name, const char *build, const char *extra)
{
    char path[512];
    (void)snprintf(path, sizeof(path), SCENARIOS "%s.txt", name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    size_t cap = 1 << 20, used = 0;
    char *text = calloc(1, cap), line[4096];
    assert_non_null(text);
    while (fgets(line, sizeof(line), in)) {
        bool skip = build && (strncmp(line, "build ", 6) == 0 || strncmp(line, "rvas ", 5) == 0);
        if (strncmp(line, "kdbg ", 5) == 0 && strstr(extra, "kdbg "))
            skip = true;
        if (!skip)
            used += (size_t)snprintf(text + used, cap - used, "%s", line);
    }
    (void)fclose(in);
    if (build)
        used += (size_t)snprintf(text + used, cap - used, "\nbuild %s\n", build);
    (void)snprintf(text + used, cap - used, "\n%s\n", extra);
    return text;
}

static void make(struct machine *m, const char *name, const char *build, const char *extra,
                 enum forge_format format)
{
    struct kda_error err = {0};
    char *text = scenario(name, build, extra);
    enum kda_status status = forge_build(text, &m->forge, &err);
    if (status == KDA_OK)
        status = forge_write_memory(m->forge, format, &m->bytes, &m->size, &err);
    if (status != KDA_OK)
        fail_msg("%s %s: %s", name, build ? build : "", err.text);
    free(text);
}

static void unmake(struct machine *m)
{
    forge_free(m->forge);
    free(m->bytes);
}

static void look(struct view *v, const struct machine *m)
{
    struct kda_error err = {0};
    memset(v, 0, sizeof(*v));
    assert_int_equal(kda_image_open_memory(m->bytes, m->size, "forged", &v->image, &err), KDA_OK);
    if (kda_kernel_open(v->image, NULL, &v->kernel, &err) != KDA_OK)
        fail_msg("%s", err.text);
}

/* Rows of published headers lack sizes and bits; the generator writes those fields as the last
 * build with symbols has them. */
static struct kda_layout *true_layout(const struct machine *m)
{
    struct kda_layout *layout = calloc(2, sizeof(*layout));
    assert_non_null(layout);
    *layout = *forge_layout(m->forge);
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        if (strcmp(info.version, "10.0.22000.2538") == 0)
            kda_profile_layout(i, layout + 1);
    }
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        enum kda_struct_id type = kda_field_struct((enum kda_field_id)i);
        struct kda_field *to = &layout->field[i], *from = &layout[1].field[i];
        if (to->offset == KDA_NONE &&
            (type == KDA_STRUCT_ETW_REG_ENTRY || type == KDA_STRUCT_HANDLE_TABLE_ENTRY ||
             type == KDA_STRUCT_ETW_REALTIME_CONSUMER || type == KDA_STRUCT_ETW_FILTER_HEADER))
            *to = *from;
        if (to->size == 0)
            *to = (struct kda_field){to->offset, from->size, from->bit, from->bits};
    }
    return layout;
}

static void look_with_symbols(struct view *v, const struct machine *m)
{
    struct kda_error err = {0};
    struct kda_symbols *symbols;
    struct kda_layout *layout = true_layout(m);
    look(v, m);
    assert_int_equal(kda_symbols_create(layout, "forge", "forge", NULL, &symbols, &err), KDA_OK);
    free(layout);
    assert_int_equal(kda_kernel_use_layout(v->kernel, symbols, NULL, &err), KDA_OK);
    if (kda_etw_map(v->kernel, &v->etw, &err) != KDA_OK)
        fail_msg("true layout: %s", err.text);
}

static enum kda_status look_without(struct view *v, const struct machine *m, struct kda_error *err)
{
    struct kda_fit_options options = {.no_profile = true};
    look(v, m);
    enum kda_status status = kda_etw_fit(v->kernel, &options, &v->fit, err);
    if (status == KDA_OK)
        status = kda_fit_install(v->fit, v->kernel, err);
    if (status == KDA_OK)
        status = kda_etw_map(v->kernel, &v->etw, err);
    return status;
}

static void close_view(struct view *v)
{
    kda_etw_free(v->etw);
    kda_fit_free(v->fit);
    kda_kernel_close(v->kernel);
    kda_image_close(v->image);
}

/* ---- comparison: `a` is the truth, `b` may know less, never something else ---- */

static const char *current = "";

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

static void compare_layout(const struct machine *m, const struct kda_fit *fit)
{
    const struct kda_layout *truth = forge_layout(m->forge), *found = kda_fit_layout(fit);
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        uint32_t is = truth->field[i].offset, says = found->field[i].offset;
        if (says != KDA_NONE && is != KDA_NONE && is != says)
            fail_msg("%s: %s is at 0x%x, not 0x%x (%s)", current,
                     kda_field_name((enum kda_field_id)i), says, is,
                     kda_fit_state_name(kda_fit_field_state(fit, (enum kda_field_id)i)));
    }
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        if (found->rva[i] != KDA_NONE && truth->rva[i] != KDA_NONE &&
            found->rva[i] != truth->rva[i])
            fail_msg("%s: %s is at 0x%x, not 0x%x", current,
                     kda_symbol_name((enum kda_symbol_id)i), found->rva[i], truth->rva[i]);
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
    "10.0.17763.379",   "10.0.17763.2114", "10.0.17763.5933", "10.0.18362.30",
    "10.0.18362.720",   "10.0.19041.329",  "10.0.19041.1466", "10.0.19041.3570",
    "10.0.20348.288",   "10.0.20348.2529", "10.0.22000.318",  "10.0.22000.795",
    "10.0.22000.2538",
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
    static const char *const extras[] = {
        "rvas invented", "rvas invented\nkdbg plain", "rvas invented\npcid on",
        "rvas invented\nla57 on", "rvas invented\npcid on\nla57 on\nkdbg encoded"};
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

/* ---- machines that were made to mislead ---- */

#define SYM(m, id) (forge_truth((m)->forge)->base + forge_layout((m)->forge)->rva[KDA_SYM_##id])
#define FIELD(m, type, name) forge_layout((m)->forge)->field[KDA_F_##type##_##name].offset

static uint8_t *at_va(const struct machine *m, uint64_t va)
{
    struct view v;
    uint64_t pa = 0;
    look(&v, m);
    assert_int_equal(kda_translate(v.kernel, kda_kernel_info(v.kernel)->dtb, va, &pa, NULL),
                     KDA_OK);
    close_view(&v);
    assert_true(pa + 8 <= m->size);
    return m->bytes + pa;
}

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
    make(&m, "win11", "10.0.26100.x", "rvas invented\nkdbg encoded", FORGE_RAW);
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
    make(&m, "win11", "10.0.22631.2428", "rvas invented\nkdbg encoded", FORGE_RAW);
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
    assert_int_equal(kda_fit_info(v.fit)->anchor[KDA_ANCHOR_THREAT_INT].verdict,
                     KDA_FIT_NOT_FOUND);
    assert_int_equal(kda_fit_layout(v.fit)->rva[KDA_SYM_EtwThreatIntProvRegHandle], KDA_NONE);
    close_view(&v);
    (void)globals;
    unmake(&m);
}

/* The way back from the state must lead to the globals that name it. */
static void state_of_nobody(void **state)
{
    struct machine m = {0};
    struct view v;
    struct kda_error err = {0};
    (void)state;
    make(&m, "win11", "10.0.22631.2428", "rvas invented\nkdbg encoded", FORGE_RAW);
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
        poke(&m, t->sessions[i].slot_va, 1);
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

/* Pages overwritten with noise: a fit may fail, it never places a field wrongly. */
static void noise(void **state)
{
    struct machine m = {0};
    uint64_t x = 88172645463325252u;
    (void)state;
    current = "noise";
    make(&m, "tiny", "10.0.22631.2428", "rvas invented\nsize 8M", FORGE_RAW);
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
    make(&m, "tiny", "10.0.22631.2428", "rvas invented\nsize 8M", FORGE_RAW);
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
        cmocka_unit_test(decoy_patterns),
        cmocka_unit_test(every_anchor),
        cmocka_unit_test(state_of_nobody),
        cmocka_unit_test(false_system),
        cmocka_unit_test(freed_loggers),
        cmocka_unit_test(noise),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(every_known_build),
        cmocka_unit_test(builds_without_addresses),
        cmocka_unit_test(missing_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
