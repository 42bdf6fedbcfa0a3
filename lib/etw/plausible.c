/*
 * plausible.c - is the thing behind a pointer what its place says? A pointer in a hostile image may
 * lead anywhere; rows are made of objects that look like themselves, and of addresses whose memory
 * is missing. A wild pointer is a gap, never a row.
 */
#include <string.h>

#include "internal.h"

#define MAX_BUFFER_SIZE 0x1000000u /* ETW refuses buffers over 16 MiB; evntrace.h, BufferSize */

struct evidence {
    unsigned good, bad, missing;
};

static void weigh(struct evidence *evidence, enum kda_status status, bool good)
{
    if (status != KDA_OK)
        evidence->missing++;
    else if (good)
        evidence->good++;
    else
        evidence->bad++;
}

/* A list head whose neighbours name it. */
static void weigh_ring(struct kda_etw *etw, struct evidence *evidence, uint64_t head)
{
    uint8_t links[16], back[8];
    if (head == 0)
        return;
    enum kda_status status = kda_read(etw->kernel, head, links, sizeof(links), NULL);
    uint64_t next = status == KDA_OK ? kda_le64(links) : 0;
    if (status == KDA_OK && !kda_is_kernel_va(etw->kernel, next)) {
        evidence->bad++;
        return;
    }
    if (status == KDA_OK)
        status = kda_read(etw->kernel, next + 8, back, sizeof(back), NULL);
    if (status == KDA_UNMAPPED)
        evidence->bad++;
    else
        weigh(evidence, status, status == KDA_OK && kda_le64(back) == head);
}

static void weigh_name(struct kda_etw *etw, struct evidence *evidence, uint64_t string)
{
    uint8_t head[16];
    if (string == 0)
        return;
    enum kda_status status = kda_read(etw->kernel, string, head, sizeof(head), NULL);
    bool good = false;
    if (status == KDA_OK) {
        uint16_t length = kda_le16(head);
        good = length != 0 && length % 2 == 0 && length <= kda_le16(head + 2) &&
               kda_is_kernel_va(etw->kernel, kda_le64(head + 8));
    }
    weigh(evidence, status, good);
}

bool kda_etw_plausible_session(struct kda_etw *etw, uint64_t va, uint32_t slot)
{
    struct evidence e = {0, 0, 0};
    uint64_t id = 0, size = 0;
    enum kda_status status =
        kda_read_field(etw->kernel, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerId, &id, NULL);
    if (status == KDA_UNMAPPED)
        return false;
    weigh(&e, status, id == slot);
    status = kda_read_field(etw->kernel, va, KDA_F_WMI_LOGGER_CONTEXT_BufferSize, &size, NULL);
    weigh(&e, status, size != 0 && size % 0x400 == 0 && size <= MAX_BUFFER_SIZE);
    weigh_name(etw, &e, kda_etw_member(etw, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerName));
    weigh_ring(etw, &e, kda_etw_member(etw, va, KDA_F_WMI_LOGGER_CONTEXT_Consumers));
    weigh_ring(etw, &e, kda_etw_member(etw, va, KDA_F_WMI_LOGGER_CONTEXT_GlobalList));
    /* A tampered session contradicts itself in one place or two; random memory agrees in one at
     * most. */
    return e.good >= 2 || e.good >= e.bad;
}

bool kda_etw_plausible_entry(struct kda_etw *etw, uint64_t va)
{
    static const uint8_t zero[16];
    struct evidence e = {0, 0, 0};
    uint8_t guid[16];
    uint64_t guid_at = kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_Guid);
    if (!kda_is_kernel_va(etw->kernel, va) || (va & 7) != 0 || guid_at == 0)
        return false;
    enum kda_status status = kda_read(etw->kernel, guid_at, guid, sizeof(guid), NULL);
    if (status == KDA_UNMAPPED || (status == KDA_OK && memcmp(guid, zero, sizeof(guid)) == 0))
        return false;
    weigh_ring(etw, &e, kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_RegListHead));
    return e.bad == 0;
}
