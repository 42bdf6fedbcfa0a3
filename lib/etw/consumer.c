/*
 * consumer.c - real-time consumers, from the sessions' lists and from EtwConsumer handles.
 */
#include <string.h>

#include "internal.h"

/* 7601 keeps the flags as separate bytes; this order is the bit order of the later builds. */
static const enum kda_field_id flag_fields[] = {
    KDA_F_ETW_REALTIME_CONSUMER_ShutDownRequested, KDA_F_ETW_REALTIME_CONSUMER_NewBuffersLost,
    KDA_F_ETW_REALTIME_CONSUMER_Disconnected, KDA_F_ETW_REALTIME_CONSUMER_Notified,
    KDA_F_ETW_REALTIME_CONSUMER_Wow};

static void read_flags(struct kda_etw *etw, struct kda_etw_consumer *consumer)
{
    uint64_t value;
    if (kda_has_field(etw->kernel, KDA_F_ETW_REALTIME_CONSUMER_Flags)) {
        consumer->has_flags =
            kda_etw_field(etw, "consumer", consumer->va, KDA_F_ETW_REALTIME_CONSUMER_Flags, &value);
        if (consumer->has_flags)
            consumer->flags = (uint32_t)value;
        return;
    }
    for (size_t i = 0; i < sizeof(flag_fields) / sizeof(flag_fields[0]); i++) {
        if (!kda_etw_field(etw, "consumer", consumer->va, flag_fields[i], &value))
            continue;
        consumer->has_flags = true;
        if (value)
            consumer->flags |= 1u << i;
    }
}

static void read_consumer(struct kda_etw *etw, struct kda_etw_consumer *consumer)
{
    uint64_t va = consumer->va, value;
    struct kda_error why;
    enum kda_status status = kda_read_field(
        etw->kernel, va, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject, &consumer->process_va, &why);
    if (status != KDA_OK) {
        kda_etw_gap(etw, "consumer", va, status, "%s", why.text);
        return;
    }
    consumer->readable = true;
    if (kda_etw_field(etw, "consumer", va, KDA_F_ETW_REALTIME_CONSUMER_LoggerId, &value)) {
        consumer->session_id = (uint16_t)value; /* u32 on 7601, only the low half counts */
        consumer->has_session_id = true;
    }
    consumer->has_buffers_lost = kda_etw_field(
        etw, "consumer", va, KDA_F_ETW_REALTIME_CONSUMER_BuffersLost, &consumer->buffers_lost);
    read_flags(etw, consumer);
    if (kda_etw_field(etw, "consumer", va, KDA_F_ETW_REALTIME_CONSUMER_SiloState, &value))
        consumer->silo = kda_etw_silo_of(etw, value);
}

struct kda_etw_consumer *kda_etw_consumer(struct kda_etw *etw, uint64_t va, unsigned found_by,
                                          struct kda_etw_session *session)
{
    struct kda_etw_consumer *consumer = kda_etw_lookup(&etw->consumers, &etw->consumer_by_va, va);
    if (!consumer) {
        if (kda_etw_refused(etw, va))
            return NULL;
        if (!kda_etw_plausible_consumer(etw, va)) {
            kda_etw_gap(etw, "consumer", va, KDA_BAD_DATA,
                        "a %s leads here, where no consumer is (or its page was overwritten)",
                        found_by == KDA_CONSUMER_LIST ? "session's list" : "handle");
            return NULL;
        }
        consumer = kda_etw_add(etw, &etw->consumers, &etw->consumer_by_va, va, sizeof(*consumer),
                               KDA_ETW_MAX_CONSUMERS, "consumers");
        if (!consumer)
            return NULL;
        consumer->va = va;
        consumer->process = "";
        read_consumer(etw, consumer);
    }
    consumer->found_by |= found_by;
    if (session && !consumer->session)
        consumer->session = session;
    return consumer;
}

struct list_walk {
    struct kda_etw *etw;
    struct kda_etw_session *session;
};

/* A known address with missing memory is a row all the same. */
static enum kda_step on_consumer(void *context, uint64_t link_va, enum kda_link how)
{
    struct list_walk *walk = context;
    uint32_t at = kda_field_offset(walk->etw->kernel, KDA_F_ETW_REALTIME_CONSUMER_Links);
    (void)how; /* the object itself is looked at whatever its link says */
    bool taken = kda_etw_consumer(walk->etw, link_va - at, KDA_CONSUMER_LIST, walk->session);
    if (kda_etw_stop(walk->etw))
        return KDA_STEP_STOP;
    return taken ? KDA_STEP_TAKE : KDA_STEP_REFUSE;
}

void kda_etw_read_consumer_list(struct kda_etw *etw, struct kda_etw_session *session)
{
    uint64_t head = kda_etw_member(etw, session->va, KDA_F_WMI_LOGGER_CONTEXT_Consumers);
    if (head == 0 || !kda_has_field(etw->kernel, KDA_F_ETW_REALTIME_CONSUMER_Links))
        return;
    struct list_walk walk = {etw, session};
    kda_etw_walk(etw, head, KDA_ETW_MAX_CONSUMERS, "consumers", on_consumer, &walk);
}

static void name_owner(struct kda_etw *etw, struct kda_etw_consumer *consumer)
{
    consumer->has_pid = kda_etw_process(etw, consumer->process_va, &consumer->pid,
                                        &consumer->process, &consumer->image);
    if (consumer->has_pid && consumer->has_handle &&
        !kda_etw_handle_agrees(etw, "consumer_process", consumer->va, consumer->pid,
                               consumer->handle_pid)) {
        consumer->has_pid = false;
        consumer->process = consumer->image = NULL;
    } else if (!consumer->has_pid && consumer->readable)
        kda_gaps_add(kda_etw_gaps(etw), "consumer_process", consumer->process_va, KDA_BAD_DATA,
                     "consumer 0x%016llx belongs to a process that no process list names",
                     (unsigned long long)consumer->va);
}

void kda_etw_join_consumers(struct kda_etw *etw)
{
    for (size_t i = 0; i < etw->consumers.count; i++) {
        struct kda_etw_consumer *consumer = etw->consumers.items[i];
        name_owner(etw, consumer);
        if (!consumer->silo)
            consumer->silo = consumer->session
                                 ? consumer->session->silo
                                 : kda_etw_default_silo(etw, consumer->readable,
                                                        KDA_F_ETW_REALTIME_CONSUMER_SiloState);
        if (!consumer->session && consumer->has_session_id)
            consumer->session = kda_etw_session_at(etw, consumer->silo, consumer->session_id);
        if (!consumer->has_session_id && consumer->session) {
            consumer->session_id = (uint16_t)consumer->session->id;
            consumer->has_session_id = true;
        }
        consumer->unnamed = consumer->session && !kda_etw_repeat(etw, consumer->session->name);
        if (!kda_etw_repeat(etw, consumer->image))
            consumer->image = NULL;
        if (consumer->session)
            ((struct kda_etw_session *)consumer->session)->consumer_count++;
    }
    for (size_t i = 0; i < etw->sessions.count; i++) {
        struct kda_etw_session *session = etw->sessions.items[i];
        session->consumers =
            kda_arena_alloc(&etw->arena, session->consumer_count * sizeof(*session->consumers));
        if (!session->consumers)
            etw->out_of_memory = true;
        session->consumer_count = 0;
    }
    for (size_t i = 0; i < etw->consumers.count && !etw->out_of_memory; i++) {
        const struct kda_etw_consumer *consumer = etw->consumers.items[i];
        if (!consumer->session)
            continue;
        struct kda_etw_session *session = (struct kda_etw_session *)consumer->session;
        session->consumers[session->consumer_count++] = consumer;
    }
}
