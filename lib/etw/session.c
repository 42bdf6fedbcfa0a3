/*
 * session.c - the logger array and the logger contexts.
 */
#include <string.h>

#include "internal.h"

#define MAX_NAME_BYTES 4096u

/* Integer fields of a session row. A build that lacks the field leaves the bit off. */
static const struct session_field {
    unsigned bit;
    enum kda_field_id field;
    size_t at; /* offset in struct kda_etw_session */
    bool wide; /* uint64_t, else uint32_t */
} session_fields[] = {
#define NARROW(id, name, member)                                                                   \
    {                                                                                              \
        KDA_ETW_S_##id##_BIT, KDA_F_WMI_LOGGER_CONTEXT_##name,                                     \
            offsetof(struct kda_etw_session, member), false                                        \
    }
#define WIDE(id, name, member)                                                                     \
    {                                                                                              \
        KDA_ETW_S_##id##_BIT, KDA_F_WMI_LOGGER_CONTEXT_##name,                                     \
            offsetof(struct kda_etw_session, member), true                                         \
    }
    NARROW(LOGGER_ID, LoggerId, logger_id),
    NARROW(MODE, LoggerMode, mode),
    NARROW(COLLECTING, CollectionOn, collecting),
    NARROW(ACCEPT, AcceptNewEvents, accept_new_events),
    NARROW(CLOCK, ClockType, clock),
    WIDE(GET_CPU_CLOCK, GetCpuClock, get_cpu_clock),
    NARROW(BUFFER_SIZE, BufferSize, buffer_size),
    NARROW(BUFFERS, NumberOfBuffers, buffers),
    NARROW(MAX_BUFFERS, MaximumBuffers, max_buffers),
    NARROW(EVENTS_LOST, EventsLost, events_lost),
    NARROW(BUFFERS_LOST, LogBuffersLost, buffers_lost),
    NARROW(RT_BUFFERS_LOST, RealTimeBuffersLost, realtime_buffers_lost),
    NARROW(BUFFERS_WRITTEN, BuffersWritten, buffers_written),
    WIDE(START_TIME, StartTime, start_time_100ns),
    NARROW(NUM_CONSUMERS, NumConsumers, num_consumers),
#undef NARROW
#undef WIDE
};

static void read_integers(struct kda_etw *etw, struct kda_etw_session *session)
{
    for (size_t i = 0; i < sizeof(session_fields) / sizeof(session_fields[0]); i++) {
        const struct session_field *f = &session_fields[i];
        uint64_t value;
        if (!kda_etw_field(etw, "session", session->va, f->field, &value))
            continue;
        char *at = (char *)session + f->at;
        uint32_t narrow = (uint32_t)value;
        if (f->wide)
            memcpy(at, &value, sizeof(value));
        else
            memcpy(at, &narrow, sizeof(narrow));
        session->have |= 1u << f->bit;
    }
}

static void read_name(struct kda_etw *etw, struct kda_etw_session *session, enum kda_field_id field,
                      unsigned bit, const char **ret)
{
    struct kda_error why;
    uint64_t at = kda_etw_member(etw, session->va, field);
    if (at == 0)
        return;
    enum kda_status status = kda_read_string(etw->kernel, at, MAX_NAME_BYTES, ret, &why);
    if (status == KDA_OK)
        session->have |= 1u << bit;
    else
        kda_etw_gap(etw, "session_text", at, status, "session %u: %s", session->id, why.text);
}

static void read_session(struct kda_etw *etw, struct kda_etw_session *session)
{
    read_integers(etw, session);
    read_name(etw, session, KDA_F_WMI_LOGGER_CONTEXT_LoggerName, KDA_ETW_S_NAME_BIT,
              &session->name);
    read_name(etw, session, KDA_F_WMI_LOGGER_CONTEXT_LogFileName, KDA_ETW_S_LOG_FILE_BIT,
              &session->log_file);
    uint64_t guid_at = kda_etw_member(etw, session->va, KDA_F_WMI_LOGGER_CONTEXT_InstanceGuid);
    struct kda_error why;
    enum kda_status status =
        guid_at ? kda_read(etw->kernel, guid_at, session->instance_guid, 16, &why) : KDA_NO_SYMBOL;
    if (status == KDA_OK)
        session->have |= 1u << KDA_ETW_S_INSTANCE_GUID_BIT;
    else if (guid_at)
        kda_etw_gap(etw, "session", session->va, status, "%s", why.text);
    uint64_t fast_ref;
    if (kda_etw_field(etw, "session", session->va, KDA_F_WMI_LOGGER_CONTEXT_SecurityDescriptor,
                      &fast_ref)) {
        session->security =
            kda_etw_security(etw, fast_ref, "session_security", &session->security_va);
        if (session->security)
            session->have |= 1u << KDA_ETW_S_SECURITY_BIT;
    }
}

static uint64_t slot_key(const struct kda_etw *etw, const struct kda_etw_silo *silo, uint32_t slot)
{
    return ((uint64_t)(silo - etw->silos) << 16 | slot) + 1;
}

struct kda_etw_session *kda_etw_session_at(const struct kda_etw *etw,
                                           const struct kda_etw_silo *silo, uint32_t slot)
{
    if (!silo || slot >= KDA_ETW_MAX_LOGGERS)
        return NULL;
    return kda_etw_lookup(&etw->sessions, &etw->session_by_slot, slot_key(etw, silo, slot));
}

/* A context whose own slot holds it is not a second session in another one. */
static bool stands_elsewhere(struct kda_etw *etw, const struct kda_etw_silo *silo, uint32_t slot,
                             uint64_t va)
{
    uint64_t id;
    uint8_t bytes[8];
    return kda_has_field(etw->kernel, KDA_F_WMI_LOGGER_CONTEXT_LoggerId) &&
           kda_read_field(etw->kernel, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerId, &id, NULL) ==
               KDA_OK &&
           id != slot && id < silo->slots &&
           kda_read(etw->kernel, silo->array + id * 8u, bytes, sizeof(bytes), NULL) == KDA_OK &&
           (kda_le64(bytes) & ~(uint64_t)1) == va;
}

static void add_session(struct kda_etw *etw, struct kda_etw_silo *silo, uint32_t slot,
                        uint64_t slot_va, uint64_t value)
{
    /* 1 marks a free slot; bit 0 of a used one is set while the logger closes. */
    uint64_t va = value & ~(uint64_t)1;
    if (va == 0)
        return;
    if (!kda_is_kernel_va(etw->kernel, va) || (va & 7) != 0) {
        kda_gaps_add(kda_etw_gaps(etw), "session_slot", slot_va, KDA_BAD_DATA,
                     "slot %u holds 0x%016llx, no kernel address", slot, (unsigned long long)value);
        return;
    }
    if (stands_elsewhere(etw, silo, slot, va)) {
        kda_gaps_add(kda_etw_gaps(etw), "session_slot", slot_va, KDA_BAD_DATA,
                     "slot %u points at 0x%016llx, the session of another slot", slot,
                     (unsigned long long)va);
        return;
    }
    if (!kda_etw_plausible_session(etw, va, slot)) {
        kda_gaps_add(kda_etw_gaps(etw), "session_slot", slot_va, KDA_BAD_DATA,
                     "slot %u points at 0x%016llx, where no logger context is", slot,
                     (unsigned long long)va);
        return;
    }
    struct kda_etw_session *session =
        kda_etw_add(etw, &etw->sessions, &etw->session_by_slot, slot_key(etw, silo, slot),
                    sizeof(*session), (size_t)KDA_ETW_MAX_SILOS * KDA_ETW_MAX_LOGGERS, "sessions");
    if (!session)
        return;
    session->silo = silo;
    session->id = slot;
    session->va = va;
    session->slot_va = slot_va;
    session->found_by = KDA_SESSION_SLOT;
    read_session(etw, session);
}

void kda_etw_pool_session(struct kda_etw *etw, struct kda_etw_silo *silo, uint32_t slot,
                          uint64_t va)
{
    /* Where its slot has another context by now, that one is what the number means. */
    struct kda_map *map = kda_etw_session_at(etw, silo, slot) ? NULL : &etw->session_by_slot;
    struct kda_etw_session *session =
        kda_etw_add(etw, &etw->sessions, map, slot_key(etw, silo, slot), sizeof(*session),
                    (size_t)KDA_ETW_MAX_SILOS * KDA_ETW_MAX_LOGGERS, "sessions");
    if (!session)
        return;
    session->silo = silo;
    session->id = slot;
    session->va = va;
    session->found_by = KDA_SESSION_POOL;
    read_session(etw, session);
}

void kda_etw_read_sessions(struct kda_etw *etw, struct kda_etw_silo *silo)
{
    if (!kda_is_kernel_va(etw->kernel, silo->array)) {
        if (silo->array != 0)
            kda_gaps_add(kda_etw_gaps(etw), "sessions", silo->state, KDA_BAD_DATA,
                         "the logger array at 0x%016llx is at no kernel address",
                         (unsigned long long)silo->array);
        return;
    }
    for (uint32_t slot = 0; slot < silo->slots && !kda_etw_stop(etw); slot++) {
        uint64_t at = silo->array + slot * 8u;
        uint8_t bytes[8];
        struct kda_error why;
        enum kda_status status = kda_read(etw->kernel, at, bytes, sizeof(bytes), &why);
        if (status == KDA_OK) {
            add_session(etw, silo, slot, at, kda_le64(bytes));
            continue;
        }
        /* One gap for the rest of the page. */
        kda_etw_gap(etw, "sessions", at, status, "logger array of silo %s from slot %u: %s",
                    silo->label, slot, why.text);
        while (slot + 1 < silo->slots && ((at + 8) & KDA_PAGE_MASK) != 0) {
            slot++;
            at += 8;
        }
    }
}
