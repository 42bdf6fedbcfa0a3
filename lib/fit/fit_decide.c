/*
 * fit_decide.c - from votes to a layout.
 *
 * 1. A field whose check singles out one place eliminates the rows that have it elsewhere, and a
 *    place that the data contradict eliminates the rows that use it. Each group of fields is
 *    decided on its own.
 * 2. Rows that no group eliminated are known layouts that fit as a whole. If there is none, the
 *    build is a new mixture and every group is left with its own rows.
 * 3. A field is placed where all rows that are left have it. Where no row of the group is left,
 * only a place that its own check singled out is used.
 */
#include <stdio.h>
#include <string.h>

#include "fit_int.h"

static const struct fit_place *place_of(const struct kda_fit *fit, enum kda_field_id field,
                                        uint32_t offset)
{
    for (size_t i = 0; i < fit->votes[field].count; i++)
        if (fit->votes[field].place[i].offset == offset)
            return &fit->votes[field].place[i];
    return NULL;
}

/* Rows of builds with a silo state: only with one found does anything get here. */
static uint64_t with_silos(const struct kda_fit *fit)
{
    uint64_t mask = 0;
    for (size_t r = 0; r < fit->rows.count; r++)
        if (fit->rows.items[r].layout.field[F(ETW_SILODRIVERSTATE, EtwpGuidHashTable)].offset !=
            KDA_NONE)
            mask |= (uint64_t)1 << r;
    return mask;
}

/* Rows of a group that nothing contradicts. *tested: was there any evidence at all? */
static uint64_t survivors(const struct kda_fit *fit, enum fit_group group, bool *tested)
{
    uint64_t mask = with_silos(fit);
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        enum kda_field_id field = (enum kda_field_id)i;
        if (kda_fit_group(field) != group)
            continue;
        uint32_t best = kda_fit_specific(field) ? kda_fit_best(fit, field) : KDA_NONE;
        *tested = *tested || best != KDA_NONE;
        for (size_t r = 0; r < fit->rows.count; r++) {
            uint32_t offset = fit->rows.items[r].layout.field[i].offset;
            const struct fit_place *place = place_of(fit, field, offset);
            if (fit->rows.items[r].lent[i])
                continue;
            bool out = place && kda_fit_broken(place);
            /* Proven elsewhere; a row of a published header may just not know the field. */
            if (best != KDA_NONE && offset != best)
                out = out || offset != KDA_NONE || fit->rows.items[r].full;
            if (out)
                mask &= ~((uint64_t)1 << r);
        }
    }
    return mask;
}

static bool has_bits(const struct kda_fit *fit, enum kda_field_id field)
{
    for (size_t r = 0; r < fit->rows.count; r++)
        if (fit->rows.items[r].layout.field[field].bits != 0)
            return true;
    return false;
}

/* The field where all rows of `mask` have it; false if they differ or one lacks it: what a row of a
 * published header was not lent may not be there in its build. Where they differ in size, or one
 * does not know it, only the place is known: enough for a structure, not for bits. */
static bool unanimous(const struct kda_fit *fit, uint64_t mask, enum kda_field_id field,
                      struct kda_field *ret)
{
    bool found = false;
    for (size_t r = 0; r < fit->rows.count; r++) {
        const struct kda_field *f = &fit->rows.items[r].layout.field[field];
        if (!(mask >> r & 1))
            continue;
        if (f->offset == KDA_NONE || (found && f->offset != ret->offset))
            return false;
        if (!found)
            *ret = *f;
        else if (f->size != ret->size || f->bit != ret->bit || f->bits != ret->bits)
            *ret = (struct kda_field){.offset = f->offset};
        found = true;
    }
    return found && (ret->size != 0 || !has_bits(fit, field));
}

/* Size and bits of a field at a place that no row left has: those of any row, if all agree. */
static bool shape_of(const struct kda_fit *fit, enum kda_field_id field, uint32_t offset,
                     struct kda_field *ret)
{
    const struct kda_field *found = NULL;
    for (size_t r = 0; r < fit->rows.count; r++) {
        const struct kda_field *f = &fit->rows.items[r].layout.field[field];
        if (f->offset == KDA_NONE || f->size == 0)
            continue;
        if (found && (f->size != found->size || f->bit != found->bit || f->bits != found->bits))
            return false;
        found = f;
    }
    if (!found)
        return false;
    *ret = *found;
    ret->offset = offset;
    return true;
}

static void leave_out(struct kda_fit *fit, enum kda_field_id field)
{
    fit->layout.field[field].offset = KDA_NONE;
    fit->state[field] = KDA_FIT_ABSENT;
}

/* Nobody says yes, somebody says no. One object contradicts no layout, but it is no support either.
 */
static bool refuted(const struct kda_fit *fit, enum kda_field_id field)
{
    const struct fit_place *place = place_of(fit, field, fit->layout.field[field].offset);
    return kda_fit_strong(field) && place && place->yes == 0 && place->no > 0;
}

/* Has the row every member of the structure where the data prove it to be, and is there any? Of a
 * build that no layout fits as a whole nothing proven is nothing to go by, for any row. */
static bool structure_holds(const struct kda_fit *fit, size_t row, enum kda_struct_id type)
{
    bool any = !fit->info.whole;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        uint32_t offset = fit->rows.items[row].layout.field[i].offset;
        if (kda_field_struct((enum kda_field_id)i) != type || fit->state[i] != KDA_FIT_PROVEN ||
            offset == KDA_NONE)
            continue;
        if (offset != fit->layout.field[i].offset)
            return false;
        any = true;
    }
    return any;
}

/* No check touches the field, and another layout, of the same family or next to it, differs in
 * nothing but it: that one was dropped for what stands in other structures, which servicing moves
 * at other times. */
static bool guessed(const struct kda_fit *fit, uint64_t left, enum kda_field_id field)
{
    const struct fit_row *rows = fit->rows.items;
    for (size_t r = 0; r < fit->rows.count; r++) {
        uint32_t offset = rows[r].layout.field[field].offset;
        bool related = false;
        for (size_t i = 0; i < fit->rows.count; i++)
            related = related || ((left >> i & 1) && (r + 1 == i || i + 1 == r ||
                                                      kda_fit_same_family(&rows[i], &rows[r])));
        if (related && offset != KDA_NONE && offset != fit->layout.field[field].offset &&
            structure_holds(fit, r, kda_field_struct(field)))
            return true;
    }
    return false;
}

/* A member that no object has where the layout has it: something moved between the last member
 * before it that is proven and the next one behind it. */
static bool moved(const struct kda_fit *fit, enum kda_field_id field)
{
    uint32_t at = fit->layout.field[field].offset;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        enum kda_field_id other = (enum kda_field_id)i;
        if (kda_field_struct(other) != kda_field_struct(field) || !refuted(fit, other))
            continue;
        uint32_t from = fit->layout.field[i].offset;
        bool between = true;
        for (size_t k = 0; between && k < KDA_FIELD_COUNT; k++) {
            uint32_t proven = fit->layout.field[k].offset;
            if (kda_field_struct((enum kda_field_id)k) == kda_field_struct(field) &&
                fit->state[k] == KDA_FIT_PROVEN)
                between = (proven < at) == (proven < from);
        }
        if (between)
            return true;
    }
    return false;
}

static void place_field(struct kda_fit *fit, enum kda_field_id field, uint64_t mask)
{
    struct kda_field *out = &fit->layout.field[field];
    uint32_t best = kda_fit_specific(field) ? kda_fit_best(fit, field) : KDA_NONE;
    struct kda_field found;
    bool known = unanimous(fit, mask, field, &found);
    if (best != KDA_NONE && (!known || found.offset != best))
        known = shape_of(fit, field, best, &found);
    const struct fit_place *place = known ? place_of(fit, field, found.offset) : NULL;
    if (!known || (place && kda_fit_broken(place)) || fit->left_out[kda_fit_group(field)])
        return;
    *out = found;
    bool proven = place && kda_fit_strong(field) && kda_fit_holds(place);
    fit->state[field] = proven ? KDA_FIT_PROVEN : KDA_FIT_FITTED;
    if (place) {
        fit->info.passed += place->yes;
        fit->info.failed += place->no;
    }
}

/* Among the fields that no check supports, those that something speaks against. All are looked at
 * before one is left out. */
static void leave_out_unsupported(struct kda_fit *fit, const uint64_t left[FIT_GROUPS],
                                  bool identified_row)
{
    bool out[KDA_FIELD_COUNT];
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        enum kda_field_id field = (enum kda_field_id)i;
        out[i] = fit->state[i] == KDA_FIT_FITTED && !identified_row &&
                 (refuted(fit, field) || moved(fit, field) ||
                  guessed(fit, left[kda_fit_group(field)], field));
    }
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (out[i])
            leave_out(fit, (enum kda_field_id)i);
}

static void place_sizes(struct kda_fit *fit, uint64_t mask)
{
    for (size_t i = 0; i < KDA_STRUCT_COUNT; i++) {
        uint32_t size = KDA_NONE;
        bool same = true;
        for (size_t r = 0; r < fit->rows.count; r++) {
            uint32_t known = fit->rows.items[r].layout.size[i];
            if (!(mask >> r & 1) || known == KDA_NONE)
                continue;
            same = same && (size == KDA_NONE || size == known);
            size = known;
        }
        fit->layout.size[i] = same ? size : KDA_NONE;
    }
}

/* Row whose places the votes confirm most often: a name for people, not a decision. */
static size_t nearest(const struct kda_fit *fit, uint64_t whole)
{
    size_t best = 0;
    uint64_t best_score = 0;
    for (size_t r = 0; r < fit->rows.count; r++) {
        uint64_t score = 1 + (whole >> r & 1) * UINT32_MAX;
        for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
            const struct fit_place *place =
                place_of(fit, (enum kda_field_id)i, fit->rows.items[r].layout.field[i].offset);
            score += place && kda_fit_holds(place) ? 16u : 0u;
        }
        if (score > best_score) {
            best_score = score;
            best = r;
        }
    }
    return best;
}

/* The row that the table names for this kernel, as a bit; 0 = none. */
static uint64_t identified(struct kda_fit *fit)
{
    const struct kda_kernel_id *id = &kda_kernel_info(fit->kernel)->id;
    size_t index = fit->options.no_profile ? SIZE_MAX : kda_profile_match(id);
    struct kda_layout *layout = index == SIZE_MAX ? NULL : kda_calloc(1, sizeof(*layout));
    uint64_t bit = 0;
    if (!layout)
        return 0;
    kda_profile_layout(index, layout);
    for (size_t r = 0; r < fit->rows.count && bit == 0; r++) {
        bool same = layout->field[F(WMI_LOGGER_CONTEXT, LoggerName)].offset != KDA_NONE;
        for (size_t i = 0; same && i < KDA_FIELD_COUNT; i++)
            same = layout->field[i].offset == KDA_NONE ||
                   layout->field[i].offset == fit->rows.items[r].layout.field[i].offset;
        if (same)
            bit = (uint64_t)1 << r;
    }
    kda_free(layout);
    return bit;
}

static unsigned count_bits(uint64_t mask)
{
    unsigned count = 0;
    for (; mask; mask &= mask - 1)
        count++;
    return count;
}

void kda_fit_decide(struct kda_fit *fit)
{
    uint64_t masks[FIT_GROUPS], whole = UINT64_MAX;
    for (int g = 0; g < FIT_GROUPS; g++) {
        bool tested = false;
        masks[g] = survivors(fit, (enum fit_group)g, &tested);
        if (tested || masks[g] != 0)
            whole &= masks[g];
    }
    uint64_t known = identified(fit) & whole;
    if (known)
        whole = known;
    fit->info.whole = whole != 0;
    fit->info.layouts = (unsigned)fit->rows.count;
    fit->info.left = count_bits(whole);
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        enum kda_field_id field = (enum kda_field_id)i;
        fit->layout.field[i].offset = KDA_NONE;
        place_field(fit, field, whole ? whole : masks[kda_fit_group(field)]);
    }
    for (int g = 0; g < FIT_GROUPS; g++)
        masks[g] = whole ? whole : masks[g];
    leave_out_unsupported(fit, masks, known != 0);
    /* Where a header keeps its type is known, how it is mixed is not: unusable. */
    if (!fit->types_known)
        leave_out(fit, F(OBJECT_HEADER, TypeIndex));
    place_sizes(fit, whole ? whole : UINT64_MAX);
    fit->info.nearest = fit->rows.items[nearest(fit, whole)].version;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        fit->info.proven += fit->state[i] == KDA_FIT_PROVEN;
        fit->info.fitted += fit->state[i] == KDA_FIT_FITTED;
        fit->info.absent += fit->state[i] == KDA_FIT_ABSENT;
    }
}
