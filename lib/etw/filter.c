/*
 * filter.c - what FilterData lets through: per enable slot one ETW_FILTER_HEADER.
 *
 * Source: docs/etw.md. From 8.1 on GUID_ENTRY.FilterData points at eight headers, one per enable
 * slot; 7601 has eight pointers to provider-side filter blocks instead. FilterFlags bits are the
 * EVENT_FILTER_TYPE_* values of evntprov.h without the top bit.
 */
#include <string.h>

#include "internal.h"

#include "base/text.h"

#define MAX_PIDS 8u       /* MAX_EVENT_FILTER_PID_COUNT, evntprov.h */
#define MAX_EVENT_IDS 64u /* MAX_EVENT_FILTER_EVENT_ID_COUNT */
#define MAX_EXECUTABLES 64u
#define KNOWN_FLAGS 0xffffu  /* EVENT_FILTER_TYPE_* up to CONTAINER, 0x8000; evntprov.h */
#define MAX_TEXT_BYTES 1024u /* MAX_EVENT_FILTER_DATA_SIZE */

/* Filters that are named, not decoded. */
static const struct {
    enum kda_field_id field;
    unsigned kind;
} other_filters[] = {
    {KDA_F_ETW_FILTER_HEADER_PkgIdFilter, KDA_FILTER_PACKAGE_ID},
    {KDA_F_ETW_FILTER_HEADER_PkgAppIdFilter, KDA_FILTER_PACKAGE_APP},
    {KDA_F_ETW_FILTER_HEADER_ContainerFilter, KDA_FILTER_CONTAINER},
    {KDA_F_ETW_FILTER_HEADER_PayloadFilter, KDA_FILTER_PAYLOAD},
    {KDA_F_ETW_FILTER_HEADER_ProviderSideFilter, KDA_FILTER_PROVIDER_SIDE},
    {KDA_F_ETW_FILTER_HEADER_EventNameFilter, KDA_FILTER_EVENT_NAME},
    {KDA_F_ETW_FILTER_HEADER_StackWalkFilter, KDA_FILTER_STACKWALK},
    {KDA_F_ETW_FILTER_HEADER_StackWalkIdFilter, KDA_FILTER_STACKWALK_ID},
    {KDA_F_ETW_FILTER_HEADER_StackWalkNameFilter, KDA_FILTER_STACKWALK_NAME},
    {KDA_F_ETW_FILTER_HEADER_StackWalkLevelKwFilter, KDA_FILTER_STACKWALK_LEVEL_KW},
};

/* A pointer field of the header that is set; 0 otherwise. */
static uint64_t pointer(struct kda_etw *etw, uint64_t header, enum kda_field_id field)
{
    uint64_t value;
    if (!kda_etw_field(etw, "filter", header, field, &value) || value == 0)
        return 0;
    if (kda_is_kernel_va(etw->kernel, value))
        return value;
    kda_etw_gap(etw, "filter", header, KDA_BAD_DATA, "%s is 0x%016llx, no kernel address",
                kda_field_name(field), (unsigned long long)value);
    return 0;
}

static void bad(struct kda_etw *etw, uint64_t va, enum kda_status status, const char *what,
                const char *text)
{
    kda_etw_gap(etw, "filter", va, status, "%s filter: %s", what, text);
}

/* ETW_FILTER_PID: u32 count, u32 pids[8]. */
static void read_pids(struct kda_etw *etw, uint64_t va, struct kda_etw_filter *filter)
{
    uint8_t bytes[4 + 4 * MAX_PIDS];
    struct kda_error why;
    enum kda_status status = kda_read(etw->kernel, va, bytes, sizeof(bytes), &why);
    uint32_t count = status == KDA_OK ? kda_le32(bytes) : 0;
    if (status != KDA_OK || count > MAX_PIDS) {
        bad(etw, va, status != KDA_OK ? status : KDA_BAD_DATA, "process id",
            status != KDA_OK ? why.text : "count over 8");
        return;
    }
    uint32_t *pids = kda_etw_alloc(etw, sizeof(bytes));
    if (!pids)
        return;
    for (uint32_t i = 0; i < count; i++)
        pids[i] = kda_le32(bytes + 4 + 4 * (size_t)i);
    filter->pids = pids;
    filter->pid_count = count;
    filter->has_pids = true;
}

/* The PDBs keep _ETW_PERFECT_HASH_FUNCTION opaque. The form seen in images: u32 count, u32 1, u64
 * 0, u16 ids[count]. Anything else is named as a filter and not decoded. */
static void read_event_ids(struct kda_etw *etw, uint64_t va, struct kda_etw_filter *filter)
{
    uint8_t bytes[16 + 2 * MAX_EVENT_IDS];
    struct kda_error why;
    enum kda_status status = kda_read(etw->kernel, va, bytes, 16, &why);
    uint32_t count = status == KDA_OK ? kda_le32(bytes) : 0;
    if (status == KDA_OK && (count == 0 || count > MAX_EVENT_IDS || kda_le32(bytes + 4) != 1 ||
                             kda_le64(bytes + 8) != 0)) {
        filter->others |= KDA_FILTER_EVENT_ID;
        return;
    }
    if (status == KDA_OK)
        status = kda_read(etw->kernel, va + 16, bytes + 16, 2 * (size_t)count, &why);
    if (status != KDA_OK) {
        bad(etw, va, status, "event id", why.text);
        return;
    }
    uint16_t *ids = kda_etw_alloc(etw, sizeof(bytes));
    if (!ids)
        return;
    for (uint32_t i = 0; i < count; i++)
        ids[i] = kda_le16(bytes + 16 + 2 * (size_t)i);
    filter->event_ids = ids;
    filter->event_id_count = count;
    filter->has_event_ids = true;
}

/* One element of an ETW_FILTER_STRING_TOKEN, {u16 length in bytes, at 8 pointer}, appended to
 * `text`; KDA_LIMIT when the rest of `text` is too small for it. */
static enum kda_status read_token(struct kda_etw *etw, uint64_t va, char *text, size_t cap,
                                  size_t *used, struct kda_error *err)
{
    uint8_t element[16], name[MAX_TEXT_BYTES];
    enum kda_status status = kda_read(etw->kernel, va, element, sizeof(element), err);
    if (status != KDA_OK)
        return status;
    uint16_t length = kda_le16(element);
    uint64_t at = kda_le64(element + 8);
    if (length > MAX_TEXT_BYTES || length % 2 != 0)
        return kda_fail_at(err, KDA_BAD_DATA, "etw", va, "a name has %u bytes", length);
    if (length == 0)
        return KDA_OK;
    if (!kda_is_kernel_va(etw->kernel, at))
        return kda_fail_at(err, KDA_BAD_DATA, "etw", va, "a name is at no kernel address");
    status = kda_read(etw->kernel, at, name, length, err);
    if (status != KDA_OK)
        return status;
    if (cap - *used < KDA_UTF8_MAX(length / 2u) + 2)
        return kda_fail_at(err, KDA_LIMIT, "etw", va, "the names are too long");
    if (*used)
        text[(*used)++] = ';';
    *used += kda_utf16_to_utf8(name, length / 2u, true, text + *used, cap - *used);
    return KDA_OK;
}

/* ETW_FILTER_STRING_TOKEN: u16 count, elements from 8 on. Names read before a bad one are kept. */
static void read_executables(struct kda_etw *etw, uint64_t va, struct kda_etw_filter *filter)
{
    uint8_t head[2];
    char text[MAX_TEXT_BYTES * 4];
    size_t used = 0;
    struct kda_error why;
    enum kda_status status = kda_read(etw->kernel, va, head, sizeof(head), &why);
    uint16_t count = status == KDA_OK ? kda_le16(head) : (uint16_t)0;
    for (uint16_t i = 0; status == KDA_OK && i < count; i++) {
        if (i >= MAX_EXECUTABLES)
            status = kda_fail_at(&why, KDA_LIMIT, "etw", va, "%u names", count);
        else
            status = read_token(etw, va + 8 + 16u * i, text, sizeof(text), &used, &why);
    }
    if (status != KDA_OK)
        bad(etw, va, status, "executable", why.text);
    if (status == KDA_OK || used > 0) {
        text[used] = '\0';
        filter->executables = kda_etw_keep(etw, text, used + 1);
    }
}

static void read_header(struct kda_etw *etw, uint64_t header, struct kda_etw_filter *filter)
{
    uint64_t at = pointer(etw, header, KDA_F_ETW_FILTER_HEADER_PidFilter);
    if (at)
        read_pids(etw, at, filter);
    at = pointer(etw, header, KDA_F_ETW_FILTER_HEADER_EventIdFilter);
    if (at)
        read_event_ids(etw, at, filter);
    at = pointer(etw, header, KDA_F_ETW_FILTER_HEADER_ExeFilter);
    if (at)
        read_executables(etw, at, filter);
    for (size_t i = 0; i < sizeof(other_filters) / sizeof(other_filters[0]); i++)
        if (kda_has_field(etw->kernel, other_filters[i].field) &&
            pointer(etw, header, other_filters[i].field))
            filter->others |= other_filters[i].kind;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* `refused` counts the headers that are something else. */
static bool header_in_use(struct kda_etw *etw, uint64_t header, uint32_t size,
                          struct kda_etw_filter *filter, unsigned *refused)
{
    uint8_t bytes[256];
    uint64_t value = 0;
    struct kda_error why;
    enum kda_status status =
        size > sizeof(bytes) ? KDA_OK : kda_read(etw->kernel, header, bytes, size, &why);
    if (status != KDA_OK) {
        kda_etw_gap(etw, "filter", header, status, "slot %u may have a filter: %s", filter->slot,
                    why.text);
        return false;
    }
    filter->has_flags =
        kda_etw_field(etw, "filter", header, KDA_F_ETW_FILTER_HEADER_FilterFlags, &value);
    filter->flags = (uint32_t)value;
    if (size > sizeof(bytes))
        return true;
    if (is_zero(bytes, size))
        return false;
    if (filter->has_flags && (filter->flags == 0 || (filter->flags & ~KNOWN_FLAGS) != 0)) {
        kda_etw_gap(etw, "filter", header, KDA_BAD_DATA,
                    "no filter of slot %u: it would be of the kinds 0x%x", filter->slot,
                    filter->flags);
        (*refused)++;
        return false;
    }
    if (filter->has_flags)
        memset(bytes + kda_field_offset(etw->kernel, KDA_F_ETW_FILTER_HEADER_FilterFlags), 0, 4);
    if (!filter->has_flags || !is_zero(bytes, size))
        return true;
    kda_etw_gap(etw, "filter", header, KDA_BAD_DATA,
                "no filter of slot %u: kinds 0x%x are named and none is there", filter->slot,
                filter->flags);
    return false;
}

/* A pointer to filters that leads nowhere: said, because without filters a provider looks wide
 * open. */
static bool headers_at(struct kda_etw *etw, uint64_t owner, uint64_t va)
{
    if (kda_is_kernel_va(etw->kernel, va) && (va & 7) == 0)
        return true;
    kda_etw_gap(etw, "filter", owner, KDA_BAD_DATA,
                "the filters are said to be at 0x%016llx, no address of theirs",
                (unsigned long long)va);
    return false;
}

/* On 7601 the pointer is all that is known of a filter: it must belong to an enable that is on. */
static bool slot_is_on(struct kda_etw *etw, const struct kda_etw_provider *provider, uint32_t slot,
                       uint64_t at)
{
    if (!provider->enables[slot].readable || provider->enables[slot].enabled)
        return true;
    kda_etw_gap(etw, "filter", at, KDA_BAD_DATA, "slot %u names a filter and is off", slot);
    return false;
}

void kda_etw_read_filters(struct kda_etw *etw, struct kda_etw_provider *provider)
{
    const struct kda_layout *layout = kda_kernel_layout(etw->kernel);
    const struct kda_field *field = &layout->field[KDA_F_ETW_GUID_ENTRY_FilterData];
    uint32_t size = layout->size[KDA_STRUCT_ETW_FILTER_HEADER];
    struct kda_etw_filter rows[KDA_ETW_ENABLE_SLOTS];
    size_t count = 0;
    unsigned refused = 0;
    uint64_t array = 0;
    memset(rows, 0, sizeof(rows));
    if (field->offset == KDA_NONE)
        return;
    bool pointers = field->size == 8 * KDA_ETW_ENABLE_SLOTS;
    if (!pointers &&
        (size == KDA_NONE ||
         !kda_etw_field(etw, "provider", provider->va, KDA_F_ETW_GUID_ENTRY_FilterData, &array) ||
         array == 0 || !headers_at(etw, provider->va, array)))
        return;
    for (uint32_t slot = 0; slot < KDA_ETW_ENABLE_SLOTS; slot++) {
        struct kda_etw_filter *filter = &rows[count];
        memset(filter, 0, sizeof(*filter));
        filter->slot = slot;
        if (pointers) {
            uint8_t bytes[8];
            uint64_t at = provider->va + field->offset + slot * 8u;
            if (kda_read(etw->kernel, at, bytes, 8, NULL) != KDA_OK || kda_le64(bytes) == 0 ||
                !headers_at(etw, at, kda_le64(bytes)) || !slot_is_on(etw, provider, slot, at))
                continue;
            filter->va = kda_le64(bytes);
            filter->others = KDA_FILTER_PROVIDER_SIDE;
            count++;
            continue;
        }
        filter->va = array + (uint64_t)slot * size;
        if (!header_in_use(etw, filter->va, size, filter, &refused))
            continue;
        read_header(etw, filter->va, filter);
        count++;
    }
    /* One header may be damaged; where most are none, the pointer led astray. */
    if (count == 0 || refused > count)
        return;
    provider->filters = kda_etw_keep(etw, rows, count * sizeof(*rows));
    if (!provider->filters)
        return;
    provider->filter_count = count;
}
