/*
 * fit_state.c - is this the host's ETW state? The structural test that every anchor must pass.
 *
 * A state is accepted when its hash table is 64 x 3 closed list heads, its logger array holds
 * contexts that know their own slot, and it belongs to the host: named by the kernel's globals.
 */
#include <string.h>

#include "fit_int.h"

#define BUCKET_SIZE 56u
#define LISTS 3u
#define FIXED_SLOTS 64u
#define MIN_HEADS 16u
#define MIN_WITNESSES 8u
#define MAX_WILD_SLOTS 4u
#define NEAR 0x1000u

size_t kda_fit_forms(const struct kda_fit *fit, struct fit_form *ret, size_t max)
{
    size_t count = 0;
    for (size_t r = 0; r < fit->rows.count; r++) {
        const struct kda_field *f = fit->rows.items[r].layout.field;
        struct fit_form form = {
            .silo = f[F(ETW_SILODRIVERSTATE, Silo)].offset,
            .globals = f[F(ETW_SILODRIVERSTATE, SiloGlobals)].offset,
            .max_loggers = f[F(ETW_SILODRIVERSTATE, MaxLoggers)].offset,
            .array = f[F(ETW_SILODRIVERSTATE, EtwpLoggerContext)].offset,
            .inline_array = f[F(ETW_SILODRIVERSTATE, WmipLoggerContext)].offset,
            .table = f[F(ETW_SILODRIVERSTATE, EtwpGuidHashTable)].offset,
            .security = f[F(ETW_SILODRIVERSTATE, EtwpSecurityProviderGuidEntry)].offset,
            .silo_member = f[F(ESERVERSILO_GLOBALS, EtwSiloState)].offset,
        };
        size_t i = 0;
        while (i < count && memcmp(&ret[i], &form, sizeof(form)) != 0)
            i++;
        /* 1511 has no globals that hold the state; there a global must name it. */
        bool held = form.silo_member != KDA_NONE || form.globals == KDA_NONE;
        if (i == count && count < max && form.table != KDA_NONE && held &&
            (form.array != KDA_NONE || form.inline_array != KDA_NONE))
            ret[count++] = form;
    }
    return count;
}

struct tally {
    unsigned yes, no;
};

static void count_answer(struct tally *tally, enum fit_answer answer)
{
    tally->yes += answer == FIT_YES;
    tally->no += answer == FIT_NO;
}

static struct tally check_heads(const struct kda_fit *fit, uint64_t table)
{
    struct tally tally = {0, 0};
    for (unsigned b = 0; b < KDA_ETW_BUCKETS; b++) {
        for (unsigned l = 0; l < LISTS; l++)
            count_answer(&tally, kda_fit_ring(fit, table + b * BUCKET_SIZE + l * 16u));
        if (tally.no > 64 && tally.no > tally.yes)
            break; /* not a table: do not read the rest of whatever this is */
    }
    return tally;
}

/* Unused slots hold 1 (0 before Windows 10); a used one points at a context whose first field is
 * the slot's number. Bit 0 of a used slot is set while the logger closes. */
static struct tally check_slots(const struct kda_fit *fit, uint64_t array, uint32_t slots)
{
    struct tally tally = {0, 0};
    for (uint32_t i = 0; i < slots; i++) {
        uint64_t value;
        uint32_t id;
        enum fit_answer answer = kda_fit_u64(fit, array + i * 8u, &value);
        if (answer == FIT_YES && value > 1) {
            value &= ~(uint64_t)1;
            answer = kda_fit_is_pool(fit, value) ? kda_fit_u32(fit, value, &id) : FIT_NO;
            if (answer == FIT_YES)
                answer = id == i ? FIT_YES : FIT_NO;
            count_answer(&tally, answer);
        } else if (answer == FIT_NO) {
            tally.no++;
        }
        if (tally.no > 32 && tally.no > tally.yes)
            break;
    }
    return tally;
}

/* A pointer to the state in the kernel's data, next to no EtwpDebuggerData. Only the host's state
 * is held there: a container's hangs on its job. */
static bool named_by_global(const struct kda_fit *fit, uint64_t state)
{
    uint64_t hits[FIT_MAX_STATES];
    size_t count = kda_fit_find_pattern(fit, hits, FIT_MAX_STATES);
    for (uint64_t at = kda_fit_find_qword(fit, state, 0); at != 0;
         at = kda_fit_find_qword(fit, state, at)) {
        bool own = true;
        for (size_t i = 0; i < count; i++)
            own = own && at - hits[i] >= 32;
        if (own)
            return true;
    }
    return false;
}

/* Is what these globals hold a state of theirs? If not, they were overwritten. */
static bool hold_state(const struct kda_fit *fit, uint64_t globals, uint64_t held,
                       const struct fit_form *form)
{
    uint64_t back;
    if (!kda_fit_is_pool(fit, held))
        return false;
    enum fit_answer answer = kda_fit_u64(fit, held + form->globals, &back);
    return answer == FIT_UNKNOWN || (answer == FIT_YES && back == globals);
}

/* The globals of the host are in the kernel image and hold the state; a container's are not. */
static enum fit_answer check_owner(const struct kda_fit *fit, uint64_t state,
                                   const struct fit_form *form)
{
    uint64_t value, back;
    if (form->silo != KDA_NONE && kda_fit_u64(fit, state + form->silo, &value) == FIT_YES &&
        value != 0)
        return FIT_NO;
    if (form->globals == KDA_NONE) /* 1607: nothing points back; a global must name the state */
        return named_by_global(fit, state) ? FIT_YES : FIT_NO;
    enum fit_answer answer = kda_fit_u64(fit, state + form->globals, &value);
    if (answer == FIT_UNKNOWN) /* the head of the state is missing */
        return named_by_global(fit, state) ? FIT_UNKNOWN : FIT_NO;
    if (answer != FIT_YES)
        return answer;
    if (!kda_fit_in_nt(fit, value))
        return FIT_NO;
    answer = kda_fit_u64(fit, value + form->silo_member, &back);
    if (answer == FIT_YES && back != state && !hold_state(fit, value, back, form))
        return named_by_global(fit, state) ? FIT_UNKNOWN : FIT_NO;
    return answer != FIT_YES ? answer : back == state ? FIT_YES : FIT_NO;
}

/* Loggers of an array that name the state, at the place where most do. With the objects behind
 * handles they are the last witnesses when every page of the state is missing: its address is known
 * and what hangs on it can still be read. */
static unsigned loggers_name(const struct kda_fit *fit, uint64_t array, uint64_t state)
{
    const struct fit_votes *member = &fit->votes[F(WMI_LOGGER_CONTEXT, SiloState)];
    unsigned best = 0;
    for (size_t m = 0; m < member->count; m++) {
        unsigned same = 0;
        for (uint32_t i = 0; i < FIXED_SLOTS; i++) {
            uint64_t context, value;
            same += kda_fit_u64(fit, array + i * 8u, &context) == FIT_YES && context > 1 &&
                    kda_fit_u64(fit, (context & ~(uint64_t)1) + member->place[m].offset, &value) ==
                        FIT_YES &&
                    value == state;
        }
        best = same > best ? same : best;
    }
    return best;
}

uint64_t kda_fit_state_of_array(const struct kda_fit *fit, uint64_t array)
{
    const struct fit_votes *member = &fit->votes[F(WMI_LOGGER_CONTEXT, SiloState)];
    uint64_t best = 0;
    unsigned best_count = 0;
    for (size_t m = 0; m < member->count; m++) {
        uint64_t first = 0;
        unsigned same = 0;
        for (uint32_t i = 0; i < 64; i++) {
            uint64_t context, state;
            uint32_t id;
            if (kda_fit_u64(fit, array + i * 8u, &context) != FIT_YES ||
                !kda_fit_is_pool(fit, context & ~(uint64_t)1) ||
                kda_fit_u32(fit, context & ~(uint64_t)1, &id) != FIT_YES || id != i ||
                kda_fit_u64(fit, (context & ~(uint64_t)1) + member->place[m].offset, &state) !=
                    FIT_YES ||
                !kda_fit_is_pool(fit, state))
                continue;
            first = first == 0 ? state : first;
            same += state == first;
        }
        if (same > best_count) {
            best_count = same;
            best = first;
        }
    }
    return best;
}

/* Do enough objects name the state that its own memory is not needed? A global of the kernel holds
 * its address as well (check_owner). */
static bool many_name(struct kda_fit *fit, uint64_t array, uint64_t state)
{
    unsigned loggers = array != 0 ? loggers_name(fit, array, state) : 0;
    return loggers >= MIN_WITNESSES || loggers + kda_fit_namers(fit, state) >= MIN_WITNESSES;
}

/* Loggers that name a state a few bytes away: `state` would pass under a row whose members all
 * stand that much apart. */
static bool misplaced(const struct kda_fit *fit, uint64_t array, uint64_t state)
{
    uint64_t named = kda_fit_state_of_array(fit, array);
    return named != 0 && named != state && named + NEAR >= state && named <= state + NEAR;
}

static bool plausible(uint32_t slots)
{
    return slots >= 32 && slots <= FIT_MAX_LOGGERS;
}

static bool check_form(struct kda_fit *fit, uint64_t state, const struct fit_form *form,
                       unsigned *score)
{
    uint64_t array = form->inline_array == KDA_NONE ? 0 : state + form->inline_array;
    uint32_t slots = FIXED_SLOTS;
    if (form->max_loggers != KDA_NONE &&
        (kda_fit_u32(fit, state + form->max_loggers, &slots) != FIT_YES || !plausible(slots)))
        slots = FIXED_SLOTS; /* missing or lying: the slots speak for themselves */
    if (array == 0) {
        enum fit_answer answer = kda_fit_u64(fit, state + form->array, &array);
        if (answer == FIT_NO)
            return false;
        if (answer == FIT_UNKNOWN)
            array = fit->array_hint;
    }
    if (array != 0 && !kda_fit_is_pool(fit, array))
        return false;
    enum fit_answer owner = check_owner(fit, state, form);
    if (owner == FIT_NO)
        return false;
    struct tally slot = {0, 0};
    if (array != 0 && misplaced(fit, array, state))
        return false;
    if (array != 0)
        slot = check_slots(fit, array, slots);
    /* A state that its globals name may have a few slots that lead nowhere (tampering, smear). */
    if (owner == FIT_YES ? slot.no > slot.yes + MAX_WILD_SLOTS : slot.no * 4 > slot.yes)
        return false;
    struct tally heads = check_heads(fit, state + form->table);
    if (heads.yes + heads.no == 0 && slot.no == 0 && many_name(fit, array, state)) {
        *score = 1;
        return true;
    }
    if (heads.yes < MIN_HEADS || heads.no * 8 > heads.yes)
        return false;
    /* Without one readable logger the owner or other objects must speak for the state. */
    if (slot.yes == 0 && owner != FIT_YES && !many_name(fit, 0, state))
        return false;
    *score = heads.yes * 4 + slot.yes * 4 + (owner == FIT_YES ? 64u : 0u);
    return true;
}

bool kda_fit_check_state(struct kda_fit *fit, uint64_t state, struct fit_form *form)
{
    struct fit_form forms[FIT_MAX_ROWS];
    size_t count = kda_fit_forms(fit, forms, FIT_MAX_ROWS);
    unsigned best = 0;
    if (!kda_fit_is_pool(fit, state))
        return false;
    for (size_t i = 0; i < count; i++) {
        unsigned score = 0;
        if (!check_form(fit, state, &forms[i], &score) || score <= best)
            continue;
        forms[i].ambiguous = score == 1;
        best = score;
        *form = forms[i];
    }
    return best > 0;
}

static void vote_all(struct kda_fit *fit, enum kda_field_id field, uint32_t right, uint32_t weight)
{
    struct fit_votes *votes = &fit->votes[field];
    for (size_t i = 0; i < votes->count; i++) {
        votes->place[i].yes += votes->place[i].offset == right ? weight : 0;
        votes->place[i].no += votes->place[i].offset == right ? 0 : weight;
    }
}

/* The member of the host's globals that holds the state. Where none does, the globals are damaged:
 * that says nothing about the place. */
static void vote_member(struct kda_fit *fit)
{
    struct fit_votes *member = &fit->votes[F(ESERVERSILO_GLOBALS, EtwSiloState)];
    for (size_t i = 0; fit->globals != 0 && i < member->count; i++) {
        uint64_t value;
        if (kda_fit_u64(fit, fit->globals + member->place[i].offset, &value) != FIT_YES ||
            value != fit->info.state)
            continue;
        vote_all(fit, F(ESERVERSILO_GLOBALS, EtwSiloState), member->place[i].offset, 4);
        return;
    }
}

/* Which forms does the accepted state contradict? Each place is judged by the test that depends on
 * it, so that a field whose place several forms share is proven once. */
void kda_fit_vote_state(struct kda_fit *fit)
{
    const struct fit_form *form = &fit->form;
    uint64_t value, state = fit->info.state;
    if (form->ambiguous) {
        /* Nothing of the state can be read. Its globals still tell their own form. */
        vote_member(fit);
        return;
    }
    struct fit_votes *table = &fit->votes[F(ETW_SILODRIVERSTATE, EtwpGuidHashTable)];
    for (size_t i = 0; i < table->count; i++) {
        struct tally heads = check_heads(fit, state + table->place[i].offset);
        table->place[i].yes += heads.yes;
        table->place[i].no += heads.no;
    }
    vote_all(fit, F(ETW_SILODRIVERSTATE, EtwpGuidHashTable), form->table, 8);
    vote_all(fit, F(ETW_SILODRIVERSTATE, EtwpLoggerContext), form->array,
             form->array == KDA_NONE ? 0 : 4);
    vote_all(fit, F(ETW_SILODRIVERSTATE, WmipLoggerContext), form->inline_array,
             form->inline_array == KDA_NONE ? 0 : 4);
    uint32_t slots;
    if (form->max_loggers != KDA_NONE &&
        kda_fit_u32(fit, state + form->max_loggers, &slots) == FIT_YES && plausible(slots))
        vote_all(fit, F(ETW_SILODRIVERSTATE, MaxLoggers), form->max_loggers, 1);
    if (form->globals != KDA_NONE && kda_fit_u64(fit, state + form->globals, &value) == FIT_YES &&
        kda_fit_in_nt(fit, value)) {
        vote_all(fit, F(ETW_SILODRIVERSTATE, SiloGlobals), form->globals, 4);
        fit->globals = value;
    }
    vote_member(fit);
    if (form->silo != KDA_NONE && kda_fit_u64(fit, state + form->silo, &value) == FIT_YES)
        vote_all(fit, F(ETW_SILODRIVERSTATE, Silo), form->silo, 1);
}
