/*
 * fit_rows.c - the hypotheses: every distinct layout of the built-in table, without addresses.
 *
 * Rows from published headers know less than rows from symbols: no sizes, no bit positions, some
 * fields missing. What they lack is completed from the nearest row made from symbols whose
 * structure agrees with theirs in all that both know.
 */
#include <stdio.h>

#include "fit_int.h"

enum fit_group kda_fit_group(enum kda_field_id field)
{
    switch (field) {
    case F(WMI_LOGGER_CONTEXT, WinRtProviderBinaryList):
    case F(WMI_LOGGER_CONTEXT, BinaryTrackingList):
    case F(WMI_LOGGER_CONTEXT, Flags2):
    case F(WMI_LOGGER_CONTEXT, RequestFlag):
    case F(WMI_LOGGER_CONTEXT, HookIdMap):
    case F(WMI_LOGGER_CONTEXT, StackHookIdMap):
    case F(WMI_LOGGER_CONTEXT, DisallowedGuids):
    case F(WMI_LOGGER_CONTEXT, SiloState):
    case F(WMI_LOGGER_CONTEXT, CallbackContext):
    case F(WMI_LOGGER_CONTEXT, LastBufferSwitchTime):
        return FIT_LOGGER_TAIL;
    default:
        break;
    }
    switch (kda_field_struct(field)) {
    case KDA_STRUCT_ESERVERSILO_GLOBALS:
    case KDA_STRUCT_ETW_SILODRIVERSTATE:
    case KDA_STRUCT_ETW_HASH_BUCKET:
        return FIT_SILO;
    case KDA_STRUCT_WMI_LOGGER_CONTEXT:
        return FIT_LOGGER;
    case KDA_STRUCT_ETW_REALTIME_CONSUMER:
        return FIT_CONSUMER;
    case KDA_STRUCT_ETW_GUID_ENTRY:
    case KDA_STRUCT_TRACE_ENABLE_INFO:
        return FIT_GUID;
    case KDA_STRUCT_ETW_REG_ENTRY:
        return FIT_REG;
    case KDA_STRUCT_KPROCESS:
    case KDA_STRUCT_EPROCESS:
        return FIT_PROCESS;
    case KDA_STRUCT_EJOB:
        return FIT_JOB;
    case KDA_STRUCT_HANDLE_TABLE:
    case KDA_STRUCT_HANDLE_TABLE_ENTRY:
        return FIT_HANDLE;
    case KDA_STRUCT_OBJECT_HEADER:
    case KDA_STRUCT_OBJECT_TYPE:
        return FIT_OBJECT;
    case KDA_STRUCT_KLDR_DATA_TABLE_ENTRY:
        return FIT_MODULE;
    default:
        return FIT_OTHER;
    }
}

/* Fields whose check can only pass at the right place: it singles the place out by itself. */
bool kda_fit_specific(enum kda_field_id field)
{
    switch (field) {
    case F(ESERVERSILO_GLOBALS, EtwSiloState):
    case F(ETW_SILODRIVERSTATE, Silo):
    case F(ETW_SILODRIVERSTATE, SiloGlobals):
    case F(ETW_SILODRIVERSTATE, EtwpLoggerContext):
    case F(ETW_SILODRIVERSTATE, WmipLoggerContext):
    case F(ETW_SILODRIVERSTATE, EtwpGuidHashTable):
    case F(ETW_SILODRIVERSTATE, EtwpSecurityProviderGuidEntry):
    case F(WMI_LOGGER_CONTEXT, LoggerId):
    case F(WMI_LOGGER_CONTEXT, LoggerName):
    case F(WMI_LOGGER_CONTEXT, GlobalList):
    case F(WMI_LOGGER_CONTEXT, SiloState):
    case F(ETW_REALTIME_CONSUMER, Links):
    case F(ETW_REALTIME_CONSUMER, ProcessObject):
    case F(ETW_REALTIME_CONSUMER, LoggerId):
    case F(ETW_REALTIME_CONSUMER, SiloState):
    case F(ETW_GUID_ENTRY, Guid):
    case F(ETW_GUID_ENTRY, RegListHead):
    case F(ETW_GUID_ENTRY, SiloState):
    case F(ETW_REG_ENTRY, GuidEntry):
    case F(ETW_REG_ENTRY, Process):
    case F(EPROCESS, UniqueProcessId):
    case F(EPROCESS, ImageFileName):
    case F(EPROCESS, ObjectTable):
    case F(EPROCESS, Protection):
    case F(EJOB, ServerSiloGlobals):
    case F(HANDLE_TABLE, QuotaProcess):
    case F(HANDLE_TABLE, UniqueProcessId):
    case F(KLDR_DATA_TABLE_ENTRY, DllBase):
        return true;
    default:
        return false;
    }
}

/* Fields whose place is proven when the check passes where a row has them. Something of the same
 * kind may stand elsewhere in the object (another string, another list), so the check alone does
 * not tell the place. Fields in neither set (a small number, a flag) can only be contradicted. */
bool kda_fit_strong(enum kda_field_id field)
{
    switch (field) {
    case F(ETW_SILODRIVERSTATE, MaxLoggers):
    case F(WMI_LOGGER_CONTEXT, LogFileName):
    case F(WMI_LOGGER_CONTEXT, Consumers):
    case F(WMI_LOGGER_CONTEXT, NumConsumers):
    case F(WMI_LOGGER_CONTEXT, StartTime):
    case F(WMI_LOGGER_CONTEXT, SecurityDescriptor):
    case F(WMI_LOGGER_CONTEXT, BufferSize):
    case F(ETW_GUID_ENTRY, GuidList):
    case F(ETW_GUID_ENTRY, SecurityDescriptor):
    case F(ETW_GUID_ENTRY, EnableInfo):
    case F(ETW_REG_ENTRY, RegList):
    case F(ETW_REG_ENTRY, GroupEntry):
    case F(ETW_REG_ENTRY, Callback):
    case F(ETW_REG_ENTRY, EnableMask):
    case F(EPROCESS, ActiveProcessLinks):
    case F(EPROCESS, SeAuditProcessCreationInfo):
    case F(EPROCESS, InheritedFromUniqueProcessId):
    case F(EPROCESS, CreateTime):
    case F(EPROCESS, ServerSilo):
    case F(EPROCESS, Job):
    case F(KPROCESS, DirectoryTableBase):
    case F(EJOB, JobLinks):
    case F(HANDLE_TABLE, TableCode):
    case F(HANDLE_TABLE, HandleTableList):
    case F(HANDLE_TABLE_ENTRY, ObjectPointerBits):
    case F(OBJECT_HEADER, TypeIndex):
    case F(OBJECT_TYPE, Name):
    case F(OBJECT_TYPE, Index):
    case F(KLDR_DATA_TABLE_ENTRY, InLoadOrderLinks):
    case F(KLDR_DATA_TABLE_ENTRY, SizeOfImage):
    case F(KLDR_DATA_TABLE_ENTRY, BaseDllName):
    case F(KLDR_DATA_TABLE_ENTRY, FullDllName):
        return true;
    default:
        return kda_fit_specific(field);
    }
}

static bool same_layout(const struct kda_layout *a, const struct kda_layout *b)
{
    for (size_t i = 0; i < KDA_STRUCT_COUNT; i++)
        if (a->size[i] != b->size[i])
            return false;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (a->field[i].offset != b->field[i].offset || a->field[i].bit != b->field[i].bit ||
            a->field[i].bits != b->field[i].bits || a->field[i].size != b->field[i].size)
            return false;
    return true;
}

static void collect(struct fit_rows *rows, struct kda_layout *scratch)
{
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        kda_profile_layout(i, scratch);
        if (scratch->field[F(WMI_LOGGER_CONTEXT, LoggerName)].offset == KDA_NONE)
            continue; /* a row from a crash dump: addresses only */
        for (size_t k = 0; k < KDA_SYM_COUNT; k++)
            scratch->rva[k] = KDA_NONE;
        size_t row = 0;
        while (row < rows->count && !same_layout(&rows->items[row].layout, scratch))
            row++;
        if (row == FIT_MAX_ROWS)
            continue;
        if (row == rows->count) {
            rows->items[rows->count++].layout = *scratch;
            (void)snprintf(rows->items[row].version, sizeof(rows->items[row].version), "%s",
                           info.version);
        }
        rows->items[row].full = rows->items[row].full || info.has_rvas;
    }
}

static size_t distance(size_t a, size_t b)
{
    return a < b ? b - a : a - b;
}

/* Structures of which two rows know something in common and agree on all of it; one bit each. */
static uint64_t agreements(const struct kda_layout *a, const struct kda_layout *b)
{
    uint64_t common = 0, contrary = 0;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        if (a->field[i].offset == KDA_NONE || b->field[i].offset == KDA_NONE)
            continue;
        uint64_t bit = (uint64_t)1 << kda_field_struct((enum kda_field_id)i);
        common |= bit;
        if (a->field[i].offset != b->field[i].offset)
            contrary |= bit;
    }
    return common & ~contrary;
}
_Static_assert(KDA_STRUCT_COUNT <= 64, "a bit for each structure");

static bool apart(uint32_t a, uint32_t a_size, uint32_t b, uint32_t b_size)
{
    return a + a_size <= b || b + b_size <= a;
}

/* Would the row still make sense if it had `id` as *member says, which it knows from `lender`? What
 * shares bytes in the lender (unions, bits of one unit) stands in the same way to each other in the
 * row, everything else keeps its order and its room. */
static bool consistent(const struct kda_layout *row, const struct kda_layout *lender,
                       enum kda_field_id id, const struct kda_field *member)
{
    const struct kda_field *own = &lender->field[id];
    enum kda_struct_id type = kda_field_struct(id);
    uint32_t size = member->size;
    if (row->size[type] != KDA_NONE && member->offset + size > row->size[type])
        return false;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        const struct kda_field *is = &row->field[i], *was = &lender->field[i];
        if (i == (size_t)id || kda_field_struct((enum kda_field_id)i) != type ||
            is->offset == KDA_NONE)
            continue;
        uint32_t room = is->size ? is->size : was->size ? was->size : 1;
        if (was->offset == KDA_NONE || apart(own->offset, size, was->offset, room)) {
            if (!apart(member->offset, size, is->offset, room) ||
                (was->offset != KDA_NONE &&
                 (was->offset < own->offset) != (is->offset < member->offset)))
                return false;
        } else if (is->offset - member->offset != was->offset - own->offset) {
            return false;
        }
    }
    return true;
}

static bool same_field(const struct kda_field *a, const struct kda_field *b)
{
    return a->offset == b->offset && a->bit == b->bit && a->bits == b->bits;
}

/* Do all rows from symbols that have the field have it alike? */
static bool constant(const struct fit_rows *rows, enum kda_field_id id)
{
    const struct kda_field *first = NULL;
    for (size_t i = 0; i < rows->count; i++) {
        const struct kda_field *f = &rows->items[i].layout.field[id];
        if (!rows->items[i].full || f->offset == KDA_NONE)
            continue;
        if (first && !same_field(first, f))
            return false;
        first = f;
    }
    return first != NULL;
}

/* The row from symbols nearest to `row` whose structure fits; SIZE_MAX = none. */
static size_t nearest_fitting(const struct fit_rows *rows, size_t row, const uint64_t *fits,
                              enum kda_struct_id type)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < rows->count; i++)
        if (rows->items[i].full && (fits[i] >> type & 1) &&
            (best == SIZE_MAX || distance(i, row) < distance(best, row)))
            best = i;
    return best;
}

/* Where no structure fits, the nearest rows from symbols before and after may still agree on a
 * field; at the ends of the table all rows that have it must. */
static size_t between(const struct fit_rows *rows, size_t row, enum kda_field_id id)
{
    size_t before = row, after = row + 1;
    while (before > 0 && !rows->items[before - 1].full)
        before--;
    while (after < rows->count && !rows->items[after].full)
        after++;
    size_t one = before > 0 ? before - 1 : after;
    if (before > 0 && after < rows->count)
        return same_field(&rows->items[one].layout.field[id], &rows->items[after].layout.field[id])
                   ? one
                   : SIZE_MAX;
    return one < rows->count && constant(rows, id) ? one : SIZE_MAX;
}

/* A field that the row does not know. A lender that lacks it lacks it for a reason: then, and where
 * the row's own members contradict, it is left out. */
static void lend_place(struct fit_rows *rows, const uint64_t *fits, size_t row,
                       enum kda_field_id id)
{
    struct kda_layout *layout = &rows->items[row].layout;
    size_t from = nearest_fitting(rows, row, fits, kda_field_struct(id));
    if (from == SIZE_MAX)
        from = between(rows, row, id);
    if (from == SIZE_MAX)
        return;
    const struct kda_layout *lender = &rows->items[from].layout;
    if (lender->field[id].offset != KDA_NONE && consistent(layout, lender, id, &lender->field[id]))
        layout->field[id] = lender->field[id];
}

/* Size and bits of a field whose place is known: those of the nearest row that has them and whose
 * size leaves the row's other members their room. */
static void lend_size(struct fit_rows *rows, size_t row, enum kda_field_id id)
{
    struct kda_layout *layout = &rows->items[row].layout;
    struct kda_field best = layout->field[id];
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < rows->count; i++) {
        struct kda_field f = rows->items[i].layout.field[id];
        f.offset = layout->field[id].offset;
        if (!rows->items[i].full || f.size == 0 || distance(i, row) >= best_distance ||
            !consistent(layout, &rows->items[i].layout, id, &f))
            continue;
        best_distance = distance(i, row);
        best = f;
    }
    layout->field[id] = best;
}

void kda_fit_lend(struct fit_rows *rows, size_t row)
{
    struct kda_layout *layout = &rows->items[row].layout;
    uint64_t fits[FIT_MAX_ROWS];
    for (size_t i = 0; i < rows->count; i++)
        fits[i] = agreements(&rows->items[i].layout, layout);
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (layout->field[i].offset != KDA_NONE && layout->field[i].size == 0)
            lend_size(rows, row, (enum kda_field_id)i);
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (layout->field[i].offset == KDA_NONE)
            lend_place(rows, fits, row, (enum kda_field_id)i);
}

static void collect_places(struct kda_fit *fit)
{
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        struct fit_votes *votes = &fit->votes[i];
        for (size_t r = 0; r < fit->rows.count; r++) {
            uint32_t offset = fit->rows.items[r].layout.field[i].offset;
            size_t p = 0;
            while (p < votes->count && votes->place[p].offset != offset)
                p++;
            if (offset != KDA_NONE && p == votes->count && p < FIT_MAX_PLACES)
                votes->place[votes->count++].offset = offset;
        }
    }
}

static void drop_row(struct fit_rows *rows, size_t row)
{
    rows->count--;
    for (size_t i = row; i < rows->count; i++)
        rows->items[i] = rows->items[i + 1];
}

bool kda_fit_rows(struct kda_fit *fit)
{
    struct kda_layout *scratch = kda_calloc(1, sizeof(*scratch));
    fit->rows.items = kda_calloc(FIT_MAX_ROWS, sizeof(*fit->rows.items));
    if (!scratch || !fit->rows.items) {
        kda_free(scratch);
        return false;
    }
    collect(&fit->rows, scratch);
    kda_free(scratch);
    if (fit->options.without - 1u < fit->rows.count)
        drop_row(&fit->rows, fit->options.without - 1u);
    /* Only full rows give and full rows are not changed: what one row was given never becomes
     * evidence for the next. */
    for (size_t i = 0; i < fit->rows.count; i++)
        if (!fit->rows.items[i].full)
            kda_fit_lend(&fit->rows, i);
    if (fit->options.only - 1u < fit->rows.count) {
        fit->rows.items[0] = fit->rows.items[fit->options.only - 1u];
        fit->rows.count = 1;
    }
    collect_places(fit);
    return true;
}

uint32_t kda_fit_best(const struct kda_fit *fit, enum kda_field_id field)
{
    const struct fit_votes *votes = &fit->votes[field];
    const struct fit_place *best = NULL;
    for (size_t i = 0; i < votes->count; i++) {
        const struct fit_place *place = &votes->place[i];
        if (!kda_fit_holds(place))
            continue;
        if (best && best->yes * 2 > place->yes && place->yes * 2 > best->yes)
            return KDA_NONE; /* two places hold about as well */
        if (!best || place->yes > best->yes)
            best = place;
    }
    return best ? best->offset : KDA_NONE;
}

uint32_t kda_fit_beside(const struct kda_fit *fit, enum kda_field_id key, enum kda_field_id field)
{
    uint32_t key_at = kda_fit_best(fit, key), found = KDA_NONE;
    for (size_t r = 0; key_at != KDA_NONE && r < fit->rows.count; r++) {
        const struct kda_field *f = fit->rows.items[r].layout.field;
        uint32_t at = f[field].offset;
        if (f[key].offset != key_at || at == KDA_NONE)
            continue;
        for (size_t i = 0; i < fit->votes[field].count; i++)
            if (fit->votes[field].place[i].offset == at &&
                kda_fit_broken(&fit->votes[field].place[i]))
                at = KDA_NONE;
        if (at == KDA_NONE)
            continue;
        if (found != KDA_NONE && found != at)
            return KDA_NONE;
        found = at;
    }
    return found;
}
