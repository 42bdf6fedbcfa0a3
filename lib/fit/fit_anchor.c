/*
 * fit_anchor.c - the ways to the host's ETW state. Each gives candidates; a candidate counts only
 * once it passed kda_fit_check_state. docs/fit.md describes the anchors.
 */
#include <string.h>

#include "fit_int.h"

#define KDBG_ETW_DEBUGGER_DATA 0x330u
#define CODE_BYTES 64u
#define MAX_TARGETS 16u

struct candidates {
    struct kda_fit *fit;
    enum kda_fit_anchor anchor;
};

/* One candidate of an anchor; true once the anchor has found a state. */
static bool offer(struct candidates *c, uint64_t state)
{
    struct kda_fit *fit = c->fit;
    struct kda_fit_anchor_info *info = &fit->info.anchor[c->anchor];
    struct fit_form form;
    if (info->verdict == KDA_FIT_ACCEPTED)
        return true;
    if (state == 0)
        return false;
    /* Found by an earlier anchor: tested already. */
    if (state == fit->info.state) {
        info->verdict = KDA_FIT_ACCEPTED;
        info->state = state;
        return true;
    }
    if (!kda_fit_check_state(fit, state, &form)) {
        info->refused++;
        info->verdict = KDA_FIT_REJECTED;
        return false;
    }
    info->verdict = KDA_FIT_ACCEPTED;
    info->state = state;
    if (fit->info.state == 0) {
        fit->info.state = state;
        fit->form = form;
        return true;
    }
    fit->info.disagreement = true;
    kda_gaps_add(kda_kernel_gaps(fit->kernel), "etw_state", state, KDA_BAD_DATA,
                 "%s leads to the ETW state 0x%016llx, an earlier way to 0x%016llx",
                 kda_fit_anchor_name(c->anchor), (unsigned long long)state,
                 (unsigned long long)fit->info.state);
    return true;
}

static void try_debugger_data(struct candidates *c, uint64_t at)
{
    struct kda_fit *fit = c->fit;
    const struct fit_votes *array_at = &fit->votes[F(ETW_SILODRIVERSTATE, WmipLoggerContext)];
    uint64_t array, state;
    if (kda_fit_u64(fit, at + 0x10, &array) != FIT_YES || !kda_fit_is_pool(fit, array))
        return;
    fit->array_hint = array;
    bool found = kda_fit_u64(fit, at + 0x18, &state) == FIT_YES && kda_fit_is_pool(fit, state) &&
                 offer(c, state);
    found = found || offer(c, kda_fit_state_of_array(fit, array));
    /* 1607 and 1703: the array is a part of the state. */
    for (size_t i = 0; i < array_at->count && !found; i++)
        found = offer(c, array - array_at->place[i].offset);
    if (found && fit->debugger_data == 0)
        fit->debugger_data = at;
    if (!found)
        fit->array_hint = 0;
}

static void by_debugger_data(struct candidates *c)
{
    uint64_t hits[FIT_MAX_STATES], at;
    if (kda_kernel_kdbg_field(c->fit->kernel, KDBG_ETW_DEBUGGER_DATA, &at, NULL) == KDA_OK &&
        kda_fit_in_nt(c->fit, at))
        try_debugger_data(c, at);
    size_t count = kda_fit_find_pattern(c->fit, hits, FIT_MAX_STATES);
    for (size_t i = 0; i < count && c->fit->debugger_data == 0; i++)
        try_debugger_data(c, hits[i]);
}

static void by_self_naming(struct candidates *c)
{
    for (size_t i = 0; i < c->fit->self_named_count; i++)
        (void)offer(c, c->fit->self_named[i]);
}

static void by_code(struct candidates *c)
{
    struct kda_fit *fit = c->fit;
    const struct fit_votes *member = &fit->votes[F(ESERVERSILO_GLOBALS, EtwSiloState)];
    uint8_t code[CODE_BYTES];
    uint64_t at, targets[MAX_TARGETS], state;
    if (kda_kernel_export(fit->kernel, "PsGetServerSiloServiceSessionId", &at, NULL) != KDA_OK)
        return;
    size_t size = sizeof(code);
    while (size > 0 && kda_fit_read(fit, at, code, size) != FIT_YES)
        size /= 2; /* the function may end a page before a missing one */
    size_t count = kda_fit_code_targets(code, size, at, targets, MAX_TARGETS);
    for (size_t i = 0; i < count; i++) {
        for (size_t m = 0; m < member->count && kda_fit_in_nt(fit, targets[i]); m++) {
            /* Only what could be a pointer there counts as a candidate. */
            if (kda_fit_u64(fit, targets[i] + member->place[m].offset, &state) == FIT_YES &&
                kda_fit_is_pool(fit, state) && offer(c, state)) {
                if (fit->globals == 0 && state == fit->info.state)
                    fit->globals = targets[i];
                return;
            }
        }
    }
}

/* The state that an entry of a registration names. */
static void offer_entry(struct candidates *c, uint64_t entry)
{
    const struct fit_votes *member = &c->fit->votes[F(ETW_GUID_ENTRY, SiloState)];
    for (size_t i = 0; i < member->count; i++) {
        uint64_t state;
        if (kda_fit_u64(c->fit, entry + member->place[i].offset, &state) == FIT_YES &&
            kda_fit_is_pool(c->fit, state) && offer(c, state))
            return;
    }
}

static void by_threat_int(struct candidates *c)
{
    struct kda_fit *fit = c->fit;
    const struct fit_votes *entry_at = &fit->votes[F(ETW_REG_ENTRY, GuidEntry)];
    uint64_t global = fit->reg_handle[0], reg, entry;
    size_t row =
        fit->options.no_profile ? SIZE_MAX : kda_profile_match(&kda_kernel_info(fit->kernel)->id);
    if (row != SIZE_MAX) {
        struct kda_layout *layout = kda_calloc(1, sizeof(*layout));
        if (!layout) {
            fit->out_of_memory = true;
            return;
        }
        kda_profile_layout(row, layout);
        if (layout->rva[KDA_SYM_EtwThreatIntProvRegHandle] != KDA_NONE)
            global = fit->base + layout->rva[KDA_SYM_EtwThreatIntProvRegHandle];
        kda_free(layout);
    }
    if (global == 0 || kda_fit_u64(fit, global, &reg) != FIT_YES || !kda_fit_is_pool(fit, reg))
        return;
    for (size_t i = 0; i < entry_at->count; i++)
        if (kda_fit_u64(fit, reg + entry_at->place[i].offset, &entry) == FIT_YES &&
            kda_fit_is_pool(fit, entry))
            offer_entry(c, entry);
}

/* Consumers and registrations behind handles; the state that most of them name. */
static void by_handles(struct candidates *c)
{
    uint64_t states[FIT_MAX_STATES];
    size_t count = kda_fit_ranked(kda_fit_named_states(c->fit), states, FIT_MAX_STATES);
    for (size_t i = 0; i < count; i++)
        if (offer(c, states[i]))
            break;
}

static void by_pool_tags(struct candidates *c)
{
    uint64_t states[FIT_MAX_STATES];
    size_t count = kda_fit_pool_states(c->fit, states, FIT_MAX_STATES);
    for (size_t i = 0; i < count; i++)
        if (offer(c, states[i]))
            break;
}

bool kda_fit_find_state(struct kda_fit *fit)
{
    /* `always`: cheap enough to be a second opinion; the others run only while nothing is found. */
    static const struct {
        void (*run)(struct candidates *c);
        bool always;
    } anchors[KDA_ANCHOR_COUNT] = {
        [KDA_ANCHOR_DEBUGGER_DATA] = {by_debugger_data, true},
        [KDA_ANCHOR_SELF_NAMING] = {by_self_naming, true},
        [KDA_ANCHOR_EXPORTED_CODE] = {by_code, true},
        [KDA_ANCHOR_THREAT_INT] = {by_threat_int, true},
        [KDA_ANCHOR_HANDLES] = {by_handles, false},
        [KDA_ANCHOR_POOL_TAGS] = {by_pool_tags, false},
    };
    for (size_t i = 0; i < KDA_ANCHOR_COUNT && !fit->out_of_memory; i++) {
        struct candidates c = {fit, (enum kda_fit_anchor)i};
        if (fit->info.state != 0 && !anchors[i].always)
            continue;
        fit->info.anchor[i].verdict = KDA_FIT_NOT_FOUND;
        anchors[i].run(&c);
    }
    return fit->info.state != 0;
}
