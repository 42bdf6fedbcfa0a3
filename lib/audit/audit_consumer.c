/*
 * audit_consumer.c - checks of real-time consumers: two witnesses must agree, and somebody must be
 * there to listen.
 */
#include "audit.h"

/* Bit of ETW_REALTIME_CONSUMER.Flags. Source: bit names of the PDBs from 9600 on. */
#define FLAG_DISCONNECTED 4u

typedef void (*consumer_fn)(struct kda_audit *audit, const struct kda_etw_consumer *consumer,
                            const struct kda_subject *subject);

static void each_consumer(struct kda_audit *audit, consumer_fn fn)
{
    size_t count;
    if (kda_audit_no_model(audit))
        return;
    static const char *const kinds[] = {"consumers", "sessions",  "session_slot",  "handle_table",
                                        "object",    "processes", "handle_tables", NULL};
    kda_audit_open_gaps(audit, "consumers", kinds);
    const struct kda_etw_consumer *const *consumers = kda_etw_consumers(audit->etw, &count);
    for (size_t i = 0; i < count; i++) {
        struct kda_subject subject = kda_subject_consumer(consumers[i]);
        kda_audit_examined(audit);
        if (!consumers[i]->readable)
            kda_audit_open(audit, &subject, "the consumer's memory is not in the image");
        else
            fn(audit, consumers[i], &subject);
    }
}

static void evidence(struct kda_audit *audit, const struct kda_etw_consumer *consumer)
{
    if (consumer->has_handle)
        kda_audit_hex(audit, "handle", consumer->handle_va, consumer->handle, NULL);
    if (consumer->has_session_id)
        kda_audit_number(
            audit, "LoggerId",
            kda_audit_member(audit, consumer->va, KDA_F_ETW_REALTIME_CONSUMER_LoggerId),
            consumer->session_id, NULL);
    kda_audit_hex(audit, "ProcessObject",
                  kda_audit_member(audit, consumer->va, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject),
                  consumer->process_va, NULL);
}

static void unlinked(struct kda_audit *audit, const struct kda_etw_consumer *consumer,
                     const struct kda_subject *subject)
{
    bool found = false;
    if ((consumer->found_by & KDA_CONSUMER_LIST) || consumer->found_by == KDA_CONSUMER_POOL ||
        consumer->flags & FLAG_DISCONNECTED)
        return;
    if (!consumer->session &&
        (kda_audit_has_gap(audit, "sessions") || kda_audit_has_gap(audit, "session_slot"))) {
        kda_audit_open(audit, subject, "the logger array is not whole");
        return;
    }
    if (!consumer->session) {
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                          "a handle to a consumer of session %u, which does not exist",
                          consumer->session_id);
        evidence(audit, consumer);
        kda_audit_about_slot(audit, consumer->silo, consumer->session_id);
        return;
    }
    uint64_t head =
        kda_audit_member(audit, consumer->session->va, KDA_F_WMI_LOGGER_CONTEXT_Consumers);
    enum kda_status status =
        head ? kda_audit_on_list(audit, head, KDA_ETW_MAX_CONSUMERS, 0, &found) : KDA_NO_SYMBOL;
    if (status != KDA_OK) {
        kda_audit_open(audit, subject, "the session's list of consumers cannot be read to its end");
        return;
    }
    kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, subject,
                      "the process holds the consumer, and it is not on the list of its session");
    evidence(audit, consumer);
    kda_audit_evidence(audit, "Consumers", head, "a list without it", "a list that holds it");
    kda_audit_about(audit, consumer->session->va);
}

static void check_unlinked(struct kda_audit *audit)
{
    each_consumer(audit, unlinked);
}

/* The handle is what keeps a consumer alive: one on a list without it is being torn down, or its
 * handle was hidden. */
static void no_handle(struct kda_audit *audit, const struct kda_etw_consumer *consumer,
                      const struct kda_subject *subject)
{
    if (consumer->found_by & KDA_CONSUMER_HANDLE || consumer->found_by == KDA_CONSUMER_POOL)
        return;
    const struct kda_process *process = kda_process_at(audit->kernel, consumer->process_va);
    if (!process || !process->readable || process->exit_time_100ns)
        return; /* consumer.no_process tells */
    static const char *const kinds[] = {"handle_table", "handle_tables", "object", "processes",
                                        "process"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kda_audit_has_gap(audit, kinds[i])) {
            kda_audit_open(audit, subject, "not every handle of the image can be read");
            return;
        }
    kda_audit_finding(audit, KDA_SEVERITY_MEDIUM, subject,
                      "the consumer is on its session's list, and no process has a handle to it");
    evidence(audit, consumer);
    kda_audit_about(audit, consumer->process_va);
}

static void check_no_handle(struct kda_audit *audit)
{
    each_consumer(audit, no_handle);
}

static void no_process(struct kda_audit *audit, const struct kda_etw_consumer *consumer,
                       const struct kda_subject *subject)
{
    const struct kda_process *process = kda_process_at(audit->kernel, consumer->process_va);
    if (!process) {
        if (!kda_audit_processes_whole(audit)) {
            kda_audit_open(audit, subject, "not every process of the image can be read");
            return;
        }
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                          "the consumer belongs to a process that no process list names");
        evidence(audit, consumer);
        return;
    }
    if (!process->readable) {
        kda_audit_open(audit, subject, "the memory of its process is not in the image");
        return;
    }
    if (process->exit_time_100ns) {
        kda_audit_finding(audit, KDA_SEVERITY_MEDIUM, subject,
                          "the consumer belongs to a process that has ended");
        evidence(audit, consumer);
    } else if (!(process->found_by & KDA_FOUND_LIST)) {
        enum kda_status status = kda_audit_process_unlinked(audit, process);
        if (status == KDA_OK) {
            kda_audit_finding(
                audit, KDA_SEVERITY_CRITICAL, subject,
                "the consumer belongs to a process that was taken off the active list");
            evidence(audit, consumer);
            kda_audit_about(audit, process->va);
        } else {
            kda_audit_open(audit, subject, "the active process list cannot be read to its end");
        }
    }
}

static void check_no_process(struct kda_audit *audit)
{
    each_consumer(audit, no_process);
}

static void other_silo(struct kda_audit *audit, const struct kda_etw_consumer *consumer,
                       const struct kda_subject *subject)
{
    if (!consumer->session || !consumer->silo || consumer->session->silo == consumer->silo)
        return;
    kda_audit_finding(audit, KDA_SEVERITY_MEDIUM, subject,
                      "the consumer is of silo %s and listens to a session of silo %s",
                      consumer->silo->label, consumer->session->silo->label);
    kda_audit_hex(audit, "SiloState",
                  kda_audit_member(audit, consumer->va, KDA_F_ETW_REALTIME_CONSUMER_SiloState),
                  consumer->silo->state, NULL);
    evidence(audit, consumer);
}

static void check_other_silo(struct kda_audit *audit)
{
    each_consumer(audit, other_silo);
}

static void disconnected(struct kda_audit *audit, const struct kda_etw_consumer *consumer,
                         const struct kda_subject *subject)
{
    if (!consumer->has_flags) {
        kda_audit_open(audit, subject, "its flags cannot be read");
        return;
    }
    if (!(consumer->flags & FLAG_DISCONNECTED))
        return;
    kda_audit_finding(audit, KDA_SEVERITY_MEDIUM, subject,
                      "the kernel has disconnected the consumer: it receives nothing");
    kda_audit_hex(audit, "Flags",
                  kda_audit_member(audit, consumer->va, KDA_F_ETW_REALTIME_CONSUMER_Flags),
                  consumer->flags, "bit 2 clear");
    evidence(audit, consumer);
    if (consumer->session)
        kda_audit_about(audit, consumer->session->va);
}

static void check_disconnected(struct kda_audit *audit)
{
    each_consumer(audit, disconnected);
}

/* clang-format off */
const struct kda_check kda_checks_consumer[] = {
    {"consumer.unlinked", KDA_SEVERITY_CRITICAL,
     "a consumer was taken off its session's list",
     "The kernel delivers buffers to the consumers on the list; one that only a handle names "
     "receives nothing and does not notice.",
     "consumers, handle tables, the session's list",
     "a consumer that was disconnecting when the image was taken",
     "T1562.006", check_unlinked},
    {"consumer.no_handle", KDA_SEVERITY_MEDIUM,
     "a consumer that no process has a handle to",
     "The process behind a session is hidden, or its handle table was changed.",
     "consumers, every handle table",
     "a consumer that was closing when the image was taken",
     "T1014", check_no_handle},
    {"consumer.no_process", KDA_SEVERITY_CRITICAL,
     "a consumer whose process is gone or hidden",
     "A hidden process listens, or the process that listened was ended.",
     "consumers, process lists",
     "a process that was ending when the image was taken",
     "T1564", check_no_process},
    {"consumer.other_silo", KDA_SEVERITY_MEDIUM,
     "a consumer listens to a session of another silo",
     "Containers must not see each other's events, nor the host theirs by accident.",
     "consumers, silo states", "none known",
     "T1611", check_other_silo},
    {"consumer.disconnected", KDA_SEVERITY_MEDIUM,
     "a consumer that the kernel has disconnected",
     "The program runs, its handle is open, and nothing arrives.",
     "consumers", "a program that is closing its trace",
     "T1562.006", check_disconnected},
    {0},
};
/* clang-format on */
