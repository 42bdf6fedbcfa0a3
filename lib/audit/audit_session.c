/*
 * audit_session.c - checks of sessions.
 */
#include "audit.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define HAS(s, id) KDA_ETW_HAS(s, S, id)

/* GetCpuClock as an index into the kernel's table of clocks. Source: 0, 1 and 3 seen, 2 said to
 * exist (docs/etw.md). */
#define CLOCK_INDEX_MAX 3u
#define CLOCK_INDEX_LIMIT 0x10000u /* below: a number, not an address */

#define MODE_REAL_TIME 0x100u

typedef void (*session_fn)(struct kda_audit *audit, const struct kda_etw_session *session,
                           const struct kda_subject *subject);

/* Runs `fn` for each session; one whose `needs` could not be read is left open. */
static void each_session(struct kda_audit *audit, uint32_t needs, session_fn fn)
{
    size_t count;
    if (kda_audit_no_model(audit))
        return;
    static const char *const kinds[] = {"sessions", "session_slot", "silo", "silos", NULL};
    kda_audit_open_gaps(audit, "sessions", kinds);
    const struct kda_etw_session *const *sessions = kda_etw_sessions(audit->etw, &count);
    for (size_t i = 0; i < count; i++) {
        struct kda_subject subject = kda_subject_session(sessions[i]);
        kda_audit_examined(audit);
        if ((sessions[i]->have & needs) != needs)
            kda_audit_open(audit, &subject,
                           "slot %u: the session's memory is not in the image, or "
                           "this build lacks the field",
                           sessions[i]->id);
        else
            fn(audit, sessions[i], &subject);
    }
}
#define NEED(id) (1u << KDA_ETW_S_##id##_BIT)

static uint64_t member(struct kda_audit *audit, const struct kda_etw_session *session,
                       enum kda_field_id field)
{
    return kda_audit_member(audit, session->va, field);
}

/* ---- stopped, rejecting ---- */

static void stopped(struct kda_audit *audit, const struct kda_etw_session *session,
                    const struct kda_subject *subject)
{
    if (session->collecting != 0)
        return;
    kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                      "the session stands in slot %u and does not collect", session->id);
    kda_audit_number(audit, "CollectionOn",
                     member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_CollectionOn),
                     session->collecting, "not 0");
}

static void check_stopped(struct kda_audit *audit)
{
    each_session(audit, NEED(COLLECTING), stopped);
}

static void rejecting(struct kda_audit *audit, const struct kda_etw_session *session,
                      const struct kda_subject *subject)
{
    char found[16];
    if (session->accept_new_events >= 0)
        return;
    (void)snprintf(found, sizeof(found), "%d", session->accept_new_events);
    kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, subject,
                      "the kernel drops every event written to this session");
    kda_audit_evidence(audit, "AcceptNewEvents",
                       member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_AcceptNewEvents), found,
                       "0 or above");
}

static void check_rejecting(struct kda_audit *audit)
{
    each_session(audit, NEED(ACCEPT), rejecting);
}

/* ---- identity ---- */

static void logger_id(struct kda_audit *audit, const struct kda_etw_session *session,
                      const struct kda_subject *subject)
{
    char expected[16];
    if (session->logger_id == session->id)
        return;
    (void)snprintf(expected, sizeof(expected), "%u", session->id);
    kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                      "the session stands in slot %u and says that it is session %u", session->id,
                      session->logger_id);
    kda_audit_number(audit, "LoggerId", member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_LoggerId),
                     session->logger_id, expected);
    kda_audit_hex(audit, "slot", session->slot_va, session->va, NULL);
}

static void check_logger_id(struct kda_audit *audit)
{
    each_session(audit, NEED(LOGGER_ID), logger_id);
}

/* ---- clock ---- */

/* The form of GetCpuClock changed between 18362 and 19041; what most sessions hold tells which one
 * this kernel has. */
static void decide_clocks(struct kda_audit *audit)
{
    size_t count, pointers = 0, numbers = 0;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(audit->etw, &count);
    for (size_t i = 0; i < count; i++) {
        if (!HAS(sessions[i], GET_CPU_CLOCK))
            continue;
        if (sessions[i]->get_cpu_clock < CLOCK_INDEX_LIMIT)
            numbers++;
        else
            pointers++;
    }
    audit->pointer_clocks = pointers > numbers;
}

static void clock_source(struct kda_audit *audit, const struct kda_etw_session *session,
                         const struct kda_subject *subject)
{
    uint64_t value = session->get_cpu_clock;
    uint64_t va = member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_GetCpuClock);
    if (!audit->pointer_clocks) {
        if (value <= CLOCK_INDEX_MAX)
            return;
        kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, subject,
                          "the clock of the session is none that this kernel has");
        kda_audit_hex(audit, "GetCpuClock", va, value, "0 to 3");
        return;
    }
    const struct kda_kernel_info *info = kda_kernel_info(audit->kernel);
    const struct kda_module *module = kda_module_at(audit->kernel, value);
    if (module && module->base == info->base)
        return;
    if (!module && info->id.pe_size == 0) {
        kda_audit_open(audit, subject,
                       "the driver list cannot be read: whose code the clock is, "
                       "is not known");
        return;
    }
    if (!module && value - info->base < info->id.pe_size)
        return;
    kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, subject,
                      "the clock that the kernel calls for each event is code %s",
                      kda_audit_place(audit, value));
    kda_audit_hex(audit, "GetCpuClock", va, value, "an address in the kernel");
}

static void check_clock(struct kda_audit *audit)
{
    if (audit->etw)
        decide_clocks(audit);
    each_session(audit, NEED(GET_CPU_CLOCK), clock_source);
}

/* ---- losses ---- */

static void lost(struct kda_audit *audit, const struct kda_etw_session *session,
                 const struct kda_subject *subject)
{
    uint64_t sum =
        (uint64_t)session->events_lost + session->buffers_lost + session->realtime_buffers_lost;
    char expected[32];
    if (sum == 0)
        return;
    /* Healthy sessions lose more than the default, so that alone raises no alarm; who sets a
     * threshold says what is too much. */
    uint32_t limit =
        audit->options.lost_threshold ? audit->options.lost_threshold : KDA_AUDIT_LOST_DEFAULT;
    bool many = session->events_lost >= limit || session->buffers_lost >= limit ||
                session->realtime_buffers_lost >= limit;
    (void)snprintf(expected, sizeof(expected), "below %u", limit);
    kda_audit_finding(audit,
                      many && audit->options.lost_threshold ? KDA_SEVERITY_LOW : KDA_SEVERITY_INFO,
                      subject, many ? "the session lost many events" : "the session lost events");
    kda_audit_number(audit, "EventsLost",
                     member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_EventsLost),
                     session->events_lost, expected);
    kda_audit_number(audit, "LogBuffersLost",
                     member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_LogBuffersLost),
                     session->buffers_lost, expected);
    kda_audit_number(audit, "RealTimeBuffersLost",
                     member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_RealTimeBuffersLost),
                     session->realtime_buffers_lost, expected);
}

static void check_lost(struct kda_audit *audit)
{
    each_session(audit, NEED(EVENTS_LOST) | NEED(BUFFERS_LOST) | NEED(RT_BUFFERS_LOST), lost);
}

/* ---- consumers as the session counts them ---- */

static size_t listed_consumers(const struct kda_etw_session *session)
{
    size_t listed = 0;
    for (size_t i = 0; i < session->consumer_count; i++)
        listed += (session->consumers[i]->found_by & KDA_CONSUMER_LIST) != 0;
    return listed;
}

static void consumer_count(struct kda_audit *audit, const struct kda_etw_session *session,
                           const struct kda_subject *subject)
{
    size_t listed = listed_consumers(session);
    char expected[32];
    bool found;
    if (session->num_consumers == listed)
        return;
    uint64_t head = member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_Consumers);
    enum kda_status status =
        head ? kda_audit_on_list(audit, head, KDA_ETW_MAX_CONSUMERS, 0, &found) : KDA_NO_SYMBOL;
    if (status != KDA_OK && status != KDA_BAD_DATA) {
        kda_audit_open(audit, subject, "the list of consumers cannot be read to its end");
        return;
    }
    (void)snprintf(expected, sizeof(expected), "%zu, the length of the list", listed);
    kda_audit_finding(audit, listed == 0 ? KDA_SEVERITY_HIGH : KDA_SEVERITY_MEDIUM, subject,
                      "the session counts %u consumers and its list holds %zu",
                      session->num_consumers, listed);
    kda_audit_number(audit, "NumConsumers",
                     member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_NumConsumers),
                     session->num_consumers, expected);
}

static void check_consumer_count(struct kda_audit *audit)
{
    each_session(audit, NEED(NUM_CONSUMERS), consumer_count);
}

static void no_consumer(struct kda_audit *audit, const struct kda_etw_session *session,
                        const struct kda_subject *subject)
{
    if (!(session->mode & MODE_REAL_TIME) || session->num_consumers || session->consumer_count)
        return;
    kda_audit_finding(audit, KDA_SEVERITY_LOW, subject,
                      "a real-time session that nobody listens to");
    kda_audit_hex(audit, "LoggerMode", member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_LoggerMode),
                  session->mode, NULL);
    kda_audit_number(audit, "NumConsumers",
                     member(audit, session, KDA_F_WMI_LOGGER_CONTEXT_NumConsumers),
                     session->num_consumers, "1 or more");
}

static void check_no_consumer(struct kda_audit *audit)
{
    each_session(audit, NEED(MODE) | NEED(NUM_CONSUMERS), no_consumer);
}

/* ---- expected sessions ---- */

/* Names as Windows gives them. Source: docs/etw.md; Defender's and the diagnostics listener's from
 * Windows 10 on. Defender is switched off where another product takes its place. */
static const struct kda_expectation built_in[] = {
    {"EventLog-Security", KDA_SEVERITY_HIGH, 0, 0, "feeds the Security log"},
    {"EventLog-System", KDA_SEVERITY_HIGH, 0, 0, "feeds the System log"},
    {"EventLog-Application", KDA_SEVERITY_HIGH, 0, 0, "feeds the Application log"},
    {"DefenderApiLogger", KDA_SEVERITY_MEDIUM, 10240, 0, "feeds Microsoft Defender"},
    {"DefenderAuditLogger", KDA_SEVERITY_MEDIUM, 10240, 0, "feeds Microsoft Defender"},
    {"Diagtrack-Listener", KDA_SEVERITY_LOW, 10240, 0, "feeds the diagnostics service"},
};

const struct kda_expectation *kda_expectation_at(size_t index)
{
    return index < sizeof(built_in) / sizeof(built_in[0]) ? &built_in[index] : NULL;
}

/* Is every session of the host known by name? Writes down why not. */
static bool host_is_whole(struct kda_audit *audit)
{
    size_t count;
    const struct kda_gaps *gaps = kda_kernel_gaps(audit->kernel);
    const struct kda_etw_session *const *sessions = kda_etw_sessions(audit->etw, &count);
    for (size_t i = 0; i < gaps->count; i++)
        if (strcmp(gaps->items[i].what, "sessions") == 0 ||
            strcmp(gaps->items[i].what, "session_slot") == 0) {
            kda_audit_open(audit, NULL, "the logger array is not whole: %s", gaps->items[i].text);
            return false;
        }
    for (size_t i = 0; i < count; i++)
        if (sessions[i]->silo && sessions[i]->silo->host && !HAS(sessions[i], NAME)) {
            struct kda_subject subject = kda_subject_session(sessions[i]);
            kda_audit_open(audit, &subject, "slot %u: a session whose name cannot be read",
                           sessions[i]->id);
            return false;
        }
    return true;
}

/* What there is instead of the session that should be there. */
static void list_evidence(struct kda_audit *audit, const char *name)
{
    size_t count, silos, named = 0;
    const struct kda_etw_silo *silo = kda_etw_silos(audit->etw, &silos);
    const struct kda_etw_session *const *sessions = kda_etw_sessions(audit->etw, &count);
    for (size_t i = 0; i < count; i++)
        named += sessions[i]->silo && sessions[i]->silo->host;
    for (size_t i = 0; i < silos; i++)
        if (silo[i].host)
            kda_audit_evidence(
                audit, "logger array", silo[i].array,
                kda_audit_text(audit, "%zu sessions in %u slots", named, silo[i].slots),
                kda_audit_text(audit, "one named %s", name));
}

static const struct kda_etw_session *host_session(const struct kda_audit *audit, const char *name)
{
    size_t count;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(audit->etw, &count);
    for (size_t i = 0; i < count; i++)
        if (sessions[i]->silo && sessions[i]->silo->host && HAS(sessions[i], NAME) &&
            kda_same_nocase(sessions[i]->name, name))
            return sessions[i];
    return NULL;
}

static void check_expected(struct kda_audit *audit)
{
    const struct kda_expectation *list =
        audit->options.expected ? audit->options.expected : built_in;
    size_t count = audit->options.expected ? audit->options.expected_count
                                           : sizeof(built_in) / sizeof(built_in[0]);
    uint32_t build = kda_kernel_info(audit->kernel)->build;
    bool asked = false, whole = false;
    if (kda_audit_no_model(audit))
        return;
    for (size_t i = 0; i < count; i++) {
        struct kda_subject subject = kda_subject_of("session", list[i].session, 0, "host");
        kda_audit_examined(audit);
        if (build == 0 && (list[i].first_build || list[i].last_build)) {
            kda_audit_open(audit, &subject, "the build of this Windows is not known");
            continue;
        }
        if ((list[i].first_build && build < list[i].first_build) ||
            (list[i].last_build && build > list[i].last_build) ||
            host_session(audit, list[i].session))
            continue;
        if (!asked)
            whole = host_is_whole(audit);
        asked = true;
        if (!whole)
            continue;
        kda_audit_finding(audit, list[i].severity, &subject, "no session '%s' on the host; it %s",
                          list[i].session, list[i].why);
        list_evidence(audit, list[i].session);
    }
}

/* ---- security descriptors ---- */

static void security(struct kda_audit *audit, const struct kda_etw_session *session,
                     const struct kda_subject *subject)
{
    char who[64];
    if (!session->security)
        return;
    if (strstr(session->security, "D:NO_ACCESS_CONTROL"))
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                          "the session has no access list: everybody may stop it");
    else if (kda_audit_sddl_grants(session->security, KDA_CONTROL_RIGHTS, who, sizeof(who)))
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject, "%s may control the session", who);
    else
        return;
    kda_audit_evidence(audit, "SecurityDescriptor", session->security_va, session->security,
                       "control for SYSTEM, administrators and services only");
}

/* Without a descriptor of its own a session is guarded by a default that is not in the context. */
static void any_security(struct kda_audit *audit, const struct kda_etw_session *session,
                         const struct kda_subject *subject)
{
    uint64_t reference;
    if (HAS(session, SECURITY))
        security(audit, session, subject);
    else if (kda_read_field(audit->kernel, session->va, KDA_F_WMI_LOGGER_CONTEXT_SecurityDescriptor,
                            &reference, NULL) == KDA_OK &&
             reference == 0)
        kda_audit_open(audit, subject, "its descriptor is null in the image");
    else
        kda_audit_open(audit, subject, "its descriptor cannot be read");
}

static void check_security(struct kda_audit *audit)
{
    if (!kda_has_field(audit->kernel, KDA_F_WMI_LOGGER_CONTEXT_SecurityDescriptor)) {
        kda_audit_open(audit, NULL, "this build's layout lacks SecurityDescriptor");
        return;
    }
    each_session(audit, 0, any_security);
}

/* clang-format off */
const struct kda_check kda_checks_session[] = {
    {"session.stopped", KDA_SEVERITY_HIGH,
     "a session stands in the array and does not collect",
     "Clearing CollectionOn silences a session while every list still shows it.",
     "logger contexts",
     "a session that was being started or stopped when the image was taken",
     "T1562.006", check_stopped},
    {"session.rejecting", KDA_SEVERITY_CRITICAL,
     "a session refuses all events",
     "The event writer drops events of a session whose AcceptNewEvents is negative; 0 is healthy.",
     "logger contexts",
     "a session that was being stopped when the image was taken",
     "T1562.006", check_rejecting},
    {"session.logger_id", KDA_SEVERITY_HIGH,
     "a session's LoggerId differs from its slot",
     "Providers write to the slot; control requests go by the id. Where they differ, somebody "
     "wrote into the context or exchanged pointers in the array.",
     "logger contexts", "none known",
     "T1562.006", check_logger_id},
    {"session.clock", KDA_SEVERITY_CRITICAL,
     "a session's clock is not the kernel's",
     "Up to Windows 10 1909 the kernel calls GetCpuClock for each event, system calls included: "
     "rootkits put their own function there. Later builds hold a small number.",
     "logger contexts, driver list", "none known",
     "T1014", check_clock},
    {"session.lost", KDA_SEVERITY_LOW,
     "a session lost events",
     "Losses hide what happened; flooding a session is a way to cause them.",
     "logger contexts", "busy machines; sessions with small buffers",
     "T1562.006", check_lost},
    {"session.consumer_count", KDA_SEVERITY_HIGH,
     "a session's count of consumers differs from its list",
     "A consumer taken off the list receives nothing, while the count remains.",
     "logger contexts, consumer lists",
     "a consumer that was connecting when the image was taken",
     "T1562.006", check_consumer_count},
    {"session.no_consumer", KDA_SEVERITY_LOW,
     "a real-time session without any consumer",
     "Its events reach nobody: the process that listened is gone.",
     "logger contexts, consumer lists",
     "sessions left behind by a program that crashed; consumers that connect on demand",
     "T1562.001", check_no_consumer},
    {"session.expected", KDA_SEVERITY_HIGH,
     "a security session that should exist does not",
     "Stopping the event log's or Defender's sessions blinds what they feed.",
     "logger array, names of all sessions of the host",
     "machines on which Defender or diagnostics are switched off or replaced",
     "T1562.002", check_expected},
    {"session.security", KDA_SEVERITY_HIGH,
     "a session that everybody may control",
     "With a null access list, or control rights for everybody, any program can stop the session.",
     "logger contexts, security descriptors",
     "test sessions with a descriptor of their own",
     "T1562.006", check_security},
    {0},
};
/* clang-format on */
