/*
 * plausible.c - is the thing behind a pointer what its place says? A pointer in a hostile or
 * damaged image may lead anywhere, and two words that name each other stand in many places. An
 * object is believed for what it alone can hold: links that its neighbours return, its slot, its
 * bucket, its process, its state. A wild pointer is a gap, never a row; memory that is missing
 * speaks for neither.
 */
#include <string.h>

#include "internal.h"

#define MAX_BUFFER_SIZE 0x1000000u /* ETW refuses buffers over 16 MiB; evntrace.h, BufferSize */
#define REG_KINDS 3u               /* DbgKernelRegistration and DbgUserRegistration, bits 0 and 1 */

#define MAX_DENYING 512u /* registrations; longer lists deny nothing */

struct evidence {
    unsigned good, bad;
};

static void weigh(struct evidence *evidence, bool good)
{
    evidence->good += good;
    evidence->bad += !good;
}

static bool get(struct kda_etw *etw, uint64_t va, enum kda_field_id field, uint64_t *ret)
{
    return kda_has_field(etw->kernel, field) &&
           kda_read_field(etw->kernel, va, field, ret, NULL) == KDA_OK;
}

/* A list entry that a neighbour names; one that was made to name itself was on a list. */
static void weigh_ring(struct kda_etw *etw, struct evidence *evidence, uint64_t at)
{
    uint8_t links[16], back[8];
    unsigned asked = 0, named = 0;
    if (at == 0 || kda_read(etw->kernel, at, links, sizeof(links), NULL) != KDA_OK)
        return;
    for (unsigned side = 0; side < 16; side += 8) {
        uint64_t next = kda_le64(links + side);
        enum kda_status status = kda_is_kernel_va(etw->kernel, next)
                                     ? kda_read(etw->kernel, next + (8 - side), back, 8, NULL)
                                     : KDA_UNMAPPED;
        if (status != KDA_OK && status != KDA_UNMAPPED)
            continue;
        asked++;
        named += status == KDA_OK && kda_le64(back) == at;
    }
    if (asked > 0)
        weigh(evidence, named > 0);
}

/* The state that an object names: one that is known, or one that its own globals name back. */
static void weigh_state(struct kda_etw *etw, struct evidence *evidence, uint64_t va,
                        enum kda_field_id field)
{
    uint64_t state;
    if (!get(etw, va, field, &state) || state == 0)
        return;
    if (kda_etw_known_state(etw, state))
        weigh(evidence, true);
    else if (kda_etw_check_state(etw, state) == KDA_BAD_DATA)
        weigh(evidence, false);
}

static bool weigh_process(struct kda_etw *etw, struct evidence *evidence, uint64_t process)
{
    enum kda_status status =
        kda_process_at(etw->kernel, process) ? KDA_OK : kda_process_check(etw->kernel, process);
    if (status == KDA_OK || status == KDA_BAD_DATA)
        weigh(evidence, status == KDA_OK);
    return status == KDA_OK;
}

static void weigh_name(struct kda_etw *etw, struct evidence *evidence, uint64_t string)
{
    uint8_t head[16];
    if (string == 0 || kda_read(etw->kernel, string, head, sizeof(head), NULL) != KDA_OK)
        return;
    uint16_t length = kda_le16(head);
    weigh(evidence, length != 0 && length % 2 == 0 && length <= kda_le16(head + 2) &&
                        kda_is_kernel_va(etw->kernel, kda_le64(head + 8)));
}

bool kda_etw_plausible_session(struct kda_etw *etw, uint64_t va, uint32_t slot)
{
    struct evidence own = {0, 0}, any = {0, 0};
    uint64_t id, size, pa;
    if (kda_translate(etw->kernel, kda_kernel_info(etw->kernel)->dtb, va, &pa, NULL) ==
        KDA_UNMAPPED)
        return false;
    if (get(etw, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerId, &id))
        weigh(&own, id == slot);
    weigh_ring(etw, &own, kda_etw_member(etw, va, KDA_F_WMI_LOGGER_CONTEXT_Consumers));
    weigh_ring(etw, &own, kda_etw_member(etw, va, KDA_F_WMI_LOGGER_CONTEXT_GlobalList));
    weigh_state(etw, &own, va, KDA_F_WMI_LOGGER_CONTEXT_SiloState);
    if (get(etw, va, KDA_F_WMI_LOGGER_CONTEXT_BufferSize, &size))
        weigh(&any, size != 0 && size % 0x400 == 0 && size <= MAX_BUFFER_SIZE);
    weigh_name(etw, &any, kda_etw_member(etw, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerName));
    /* A tampered session contradicts itself in one place or two. What other contexts have as well
     * does not prove this one. */
    if (own.good + own.bad == 0)
        return any.good >= any.bad;
    return own.good > 0 && own.good + any.good >= own.bad + any.bad;
}

bool kda_etw_plausible_consumer(struct kda_etw *etw, uint64_t va)
{
    struct evidence e = {0, 0};
    uint64_t value, state = 0;
    if (get(etw, va, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject, &value))
        (void)weigh_process(etw, &e, value);
    weigh_state(etw, &e, va, KDA_F_ETW_REALTIME_CONSUMER_SiloState);
    weigh_ring(etw, &e, kda_etw_member(etw, va, KDA_F_ETW_REALTIME_CONSUMER_Links));
    (void)get(etw, va, KDA_F_ETW_REALTIME_CONSUMER_SiloState, &state);
    if (get(etw, va, KDA_F_ETW_REALTIME_CONSUMER_LoggerId, &value) &&
        (state == 0 || kda_etw_known_state(etw, state)))
        weigh(&e,
              kda_etw_session_at(etw, kda_etw_known_state(etw, state), (uint16_t)value) != NULL);
    return e.good + e.bad == 0 || (e.good >= 2 && e.good > e.bad);
}

uint32_t kda_etw_bucket_of(const uint8_t *guid)
{
    uint32_t x = kda_le32(guid) ^ kda_le32(guid + 4) ^ kda_le32(guid + 8) ^ kda_le32(guid + 12);
    return x % KDA_ETW_BUCKETS;
}

static bool names_itself(struct kda_etw *etw, uint64_t at)
{
    uint8_t links[16];
    return at != 0 && kda_read(etw->kernel, at, links, sizeof(links), NULL) == KDA_OK &&
           kda_le64(links) == at && kda_le64(links + 8) == at;
}

enum kda_status kda_etw_check_entry(struct kda_etw *etw, uint64_t va, enum kda_entry_way how)
{
    static const uint8_t zero[16];
    struct evidence e = {0, 0};
    uint8_t guid[16];
    uint64_t guid_at = kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_Guid);
    if (!kda_is_kernel_va(etw->kernel, va) || !kda_etw_is_allocated(etw, va) || guid_at == 0 ||
        kda_etw_refused(etw, va))
        return KDA_BAD_DATA;
    enum kda_status status = kda_read(etw->kernel, guid_at, guid, sizeof(guid), NULL);
    if (status == KDA_UNMAPPED || (status == KDA_OK && memcmp(guid, zero, sizeof(guid)) == 0))
        return KDA_BAD_DATA;
    weigh_ring(etw, &e, kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_RegListHead));
    uint64_t list = kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_GuidList);
    if (how == KDA_ENTRY_NAMED || !names_itself(etw, list))
        weigh_ring(etw, &e, list);
    weigh_state(etw, &e, va, KDA_F_ETW_GUID_ENTRY_SiloState);
    if (e.good + e.bad == 0)
        return KDA_ABSENT;
    return e.good > e.bad && e.good >= (how == KDA_ENTRY_TORN ? 2u : 1u) ? KDA_OK : KDA_BAD_DATA;
}

bool kda_etw_list_denies(struct kda_etw *etw, uint64_t link, uint64_t head)
{
    uint8_t links[16];
    uint64_t last = link;
    if (kda_read(etw->kernel, link, links, sizeof(links), NULL) != KDA_OK)
        return false;
    for (unsigned i = 0; i < MAX_DENYING; i++) {
        uint64_t next = kda_le64(links);
        if (next == head || kda_read(etw->kernel, next, links, sizeof(links), NULL) != KDA_OK ||
            kda_le64(links + 8) != last)
            return false;
        if (next == link)
            return i > 0; /* one that was made to name itself was on a list */
        last = next;
    }
    return false;
}

bool kda_etw_named_twice(struct kda_etw *etw, uint64_t va)
{
    if (kda_map_get(&etw->named_once, va, NULL))
        return true;
    etw->out_of_memory |= !kda_map_put(&etw->named_once, va, 1);
    return false;
}

bool kda_etw_entry_is_named(struct kda_etw *etw, uint64_t va)
{
    static const struct {
        enum kda_field_id link, back;
    } ways[] = {{KDA_F_ETW_REG_ENTRY_RegList, KDA_F_ETW_REG_ENTRY_GuidEntry},
                {KDA_F_ETW_REG_ENTRY_GroupRegList, KDA_F_ETW_REG_ENTRY_GroupEntry}};
    uint64_t head = kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_RegListHead), entry;
    uint8_t first[8];
    if (head == 0 || kda_read(etw->kernel, head, first, sizeof(first), NULL) != KDA_OK)
        return false;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        uint32_t at = kda_field_offset(etw->kernel, ways[i].link);
        if (at != KDA_NONE && get(etw, kda_le64(first) - at, ways[i].back, &entry) && entry == va)
            return true;
    }
    return false;
}

static void weigh_kind(struct kda_etw *etw, struct evidence *evidence, uint64_t va)
{
    uint64_t user, kernel, process, callback;
    if (!get(etw, va, KDA_F_ETW_REG_ENTRY_DbgUserRegistration, &user) ||
        !get(etw, va, KDA_F_ETW_REG_ENTRY_DbgKernelRegistration, &kernel)) {
        /* 7601 names no such bits: one place holds either pointer. */
        if (get(etw, va, KDA_F_ETW_REG_ENTRY_Process, &process) &&
            (kda_process_at(etw->kernel, process) || kda_module_at(etw->kernel, process)))
            weigh(evidence, true);
        return;
    }
    if (user == kernel)
        weigh(evidence, false);
    else if (user && get(etw, va, KDA_F_ETW_REG_ENTRY_Process, &process))
        (void)weigh_process(etw, evidence, process);
    else if (kernel && get(etw, va, KDA_F_ETW_REG_ENTRY_Callback, &callback) && callback != 0)
        weigh(evidence, kda_is_kernel_va(etw->kernel, callback));
}

bool kda_etw_plausible_registration(struct kda_etw *etw, uint64_t va)
{
    struct evidence e = {0, 0};
    uint64_t entry;
    if (get(etw, va, KDA_F_ETW_REG_ENTRY_GuidEntry, &entry)) {
        enum kda_status status = kda_map_get(&etw->provider_by_va, entry, NULL)
                                     ? KDA_OK
                                     : kda_etw_check_entry(etw, entry, KDA_ENTRY_NAMED);
        if (status != KDA_ABSENT)
            weigh(&e, status == KDA_OK);
    }
    weigh_ring(etw, &e, kda_etw_member(etw, va, KDA_F_ETW_REG_ENTRY_RegList));
    weigh_kind(etw, &e, va);
    return e.good + e.bad == 0 || e.good > e.bad;
}
