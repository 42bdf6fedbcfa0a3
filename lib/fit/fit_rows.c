/*
 * fit_rows.c - the hypotheses: every distinct layout of the built-in table, without addresses.
 *
 * Rows from published headers know less than rows from symbols: no sizes, no bit positions, some
 * fields missing. What they lack is completed from the nearest row made from symbols whose
 * structure agrees with theirs in all that both know.
 */
#include <stdio.h>
#include <string.h>

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
    case F(OBJECT_TYPE, CallbackList): /* dozens of types have a ring there */
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

/* Structures of which two rows know something in common and agree on all of it, the size included;
 * one bit each. */
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
    for (size_t i = 0; i < KDA_STRUCT_COUNT; i++)
        if (a->size[i] != b->size[i] && a->size[i] != KDA_NONE && b->size[i] != KDA_NONE)
            contrary |= (uint64_t)1 << i;
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

/* "10.0.19041" is the family of "10.0.19041.264". Servicing moves members inside one. */
bool kda_fit_same_family(const struct fit_row *a, const struct fit_row *b)
{
    size_t length = 0;
    for (unsigned dots = 0; a->version[length] && dots < 3; length++)
        dots += a->version[length] == '.';
    return strncmp(a->version, b->version, length) == 0;
}

struct lending {
    const struct fit_rows *rows;
    const uint64_t *fits;         /* structures that fit the row, for each lender */
    const struct kda_field *knew; /* by the row before anything was lent */
    size_t row;
    enum kda_field_id id;
    bool place;   /* else only size and bits are asked for */
    size_t found; /* a lender; SIZE_MAX = none yet */
    bool differ;
};

static bool same_field(const struct lending *l, size_t one, size_t other)
{
    const struct kda_field *a = &l->rows->items[one].layout.field[l->id];
    const struct kda_field *b = &l->rows->items[other].layout.field[l->id];
    return a->size == b->size && a->bit == b->bit && a->bits == b->bits &&
           (!l->place || a->offset == b->offset);
}

/* The field as row `from` would lend it. */
static struct kda_field lent(const struct lending *l, size_t from)
{
    struct kda_field f = l->rows->items[from].layout.field[l->id];
    if (!l->place)
        f.offset = l->rows->items[l->row].layout.field[l->id].offset;
    return f;
}

static bool consistent_from(const struct lending *l, size_t from)
{
    struct kda_field member = lent(l, from);
    return consistent(&l->rows->items[l->row].layout, &l->rows->items[from].layout, l->id, &member);
}

/* Does the row know nothing of the structure, and do all rows from symbols that have the field have
 * it alike? */
static bool constant(const struct lending *l)
{
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (kda_field_struct((enum kda_field_id)i) == kda_field_struct(l->id) &&
            l->knew[i].offset != KDA_NONE)
            return false;
    for (size_t i = 0; i < l->rows->count; i++) {
        if (!l->rows->items[i].full || l->rows->items[i].layout.field[l->id].offset == KDA_NONE)
            continue;
        if (first != SIZE_MAX && !same_field(l, first, i))
            return false;
        first = i;
    }
    return first != SIZE_MAX;
}

/* Asks all rows from symbols of the family of `member`; where only fitting ones count, those. A
 * size for which the row has no room is no answer. */
static bool ask_family(struct lending *l, size_t member, bool fitting)
{
    enum kda_struct_id type = kda_field_struct(l->id);
    bool asked = false;
    for (size_t i = 0; i < l->rows->count; i++) {
        if (!l->rows->items[i].full || (fitting && !(l->fits[i] >> type & 1)) ||
            !kda_fit_same_family(&l->rows->items[i], &l->rows->items[member]) ||
            (!l->place && lent(l, i).size != 0 && !consistent_from(l, i)))
            continue;
        l->differ = l->differ || (l->found != SIZE_MAX && !same_field(l, i, l->found));
        l->found = i;
        asked = true;
    }
    return asked;
}

/* A lender that has the field as the row must have it: its own family tells it, else the families
 * before and after, if they agree. At the ends of the table a structure that fits
 * goes on, and what never moved. SIZE_MAX = nobody can tell. */
static size_t lender_of(struct lending *l)
{
    size_t before = l->row, after = l->row + 1;
    if (ask_family(l, l->row, l->place))
        return l->differ ? SIZE_MAX : l->found;
    while (before > 0 && !l->rows->items[before - 1].full)
        before--;
    while (after < l->rows->count && !l->rows->items[after].full)
        after++;
    bool fitting = l->place && (before == 0 || after == l->rows->count) && !constant(l);
    if (before > 0)
        (void)ask_family(l, before - 1, fitting);
    if (after < l->rows->count)
        (void)ask_family(l, after, fitting);
    return l->differ ? SIZE_MAX : l->found;
}

/* Lends what the row does not know of a field: its place, or only its size and bits. */
static void lend(struct fit_rows *rows, struct lending *l, enum kda_field_id id)
{
    l->id = id;
    l->found = SIZE_MAX;
    l->differ = false;
    size_t from = lender_of(l);
    if (from != SIZE_MAX && rows->items[from].layout.field[id].offset != KDA_NONE &&
        consistent_from(l, from)) {
        rows->items[l->row].layout.field[id] = lent(l, from);
        rows->items[l->row].lent[id] = l->place;
    }
}

void kda_fit_lend(struct fit_rows *rows, size_t row)
{
    struct kda_field knew[KDA_FIELD_COUNT];
    uint64_t fits[FIT_MAX_ROWS];
    struct lending l = {.rows = rows, .fits = fits, .knew = knew, .row = row};
    memcpy(knew, rows->items[row].layout.field, sizeof(knew));
    for (size_t i = 0; i < rows->count; i++)
        fits[i] = agreements(&rows->items[i].layout, &rows->items[row].layout);
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (knew[i].offset != KDA_NONE && knew[i].size == 0)
            lend(rows, &l, (enum kda_field_id)i);
    l.place = true;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (knew[i].offset == KDA_NONE)
            lend(rows, &l, (enum kda_field_id)i);
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
