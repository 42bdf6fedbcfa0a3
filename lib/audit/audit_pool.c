/*
 * audit_pool.c - checks of what only pool memory shows: objects that live and that nothing names.
 */
#include "audit.h"

#include "base/bytes.h"

#define BUCKET_SIZE 56u
#define LIST_ENTRY_SIZE 16u

/* Says what was not judged: a kind as a whole, and blocks whose address is not known. */
static bool not_judged(struct kda_audit *audit, enum kda_pool_kind kind, const char *objects)
{
    static const char *const kinds[] = {"pool", NULL};
    const char *lacks = kda_pool_lacks(audit->kernel, kind);
    if (lacks) {
        kda_audit_open(audit, NULL,
                       "%s is not known of this image: %s in pool memory were not judged", lacks,
                       objects);
        return true;
    }
    kda_audit_open_gaps(audit, objects, kinds);
    return false;
}

static void where(struct kda_audit *audit, const char *name, uint64_t head, const char *list)
{
    kda_audit_evidence(audit, name, head, "a list without it", list);
}

/* ---- sessions ---- */

static void session(struct kda_audit *audit, const struct kda_etw_session *row)
{
    struct kda_subject subject = kda_subject_session(row);
    uint64_t at = row->silo->array + row->id * 8u;
    uint8_t bytes[8];
    kda_audit_examined(audit);
    if (row->found_by != KDA_SESSION_POOL)
        return;
    if (kda_read(audit->kernel, at, bytes, sizeof(bytes), NULL) != KDA_OK) {
        kda_audit_open(audit, &subject, "its slot of the logger array cannot be read");
        return;
    }
    kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, &subject,
                      "the session collects events, and no slot of the logger array names it");
    kda_audit_hex(audit, "slot", at, kda_le64(bytes), "the address of the context");
    kda_audit_number(audit, "LoggerId",
                     kda_audit_member(audit, row->va, KDA_F_WMI_LOGGER_CONTEXT_LoggerId),
                     row->logger_id, NULL);
    kda_audit_number(audit, "CollectionOn",
                     kda_audit_member(audit, row->va, KDA_F_WMI_LOGGER_CONTEXT_CollectionOn),
                     row->collecting, "0 of a session that ended");
}

static void check_session(struct kda_audit *audit)
{
    size_t count;
    if (kda_audit_no_model(audit) || not_judged(audit, KDA_POOL_LOGGER, "sessions"))
        return;
    const struct kda_etw_session *const *rows = kda_etw_sessions(audit->etw, &count);
    for (size_t i = 0; i < count; i++)
        session(audit, rows[i]);
}

/* ---- consumers ---- */

static void consumer(struct kda_audit *audit, const struct kda_etw_consumer *row)
{
    struct kda_subject subject = kda_subject_consumer(row);
    bool found = false;
    kda_audit_examined(audit);
    if (row->found_by != KDA_CONSUMER_POOL)
        return;
    uint64_t head =
        row->session ? kda_audit_member(audit, row->session->va, KDA_F_WMI_LOGGER_CONTEXT_Consumers)
                     : 0;
    if (head == 0 || kda_audit_on_list(audit, head, KDA_ETW_MAX_CONSUMERS, 0, &found) != KDA_OK) {
        kda_audit_open(audit, &subject,
                       "the session's list of consumers cannot be read to its end");
        return;
    }
    kda_audit_finding(
        audit, KDA_SEVERITY_CRITICAL, &subject,
        "a consumer that is connected, and neither its session nor a handle names it");
    where(audit, "Consumers", head, "a list that holds it");
    kda_audit_hex(audit, "ProcessObject",
                  kda_audit_member(audit, row->va, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject),
                  row->process_va, NULL);
}

static void check_consumer(struct kda_audit *audit)
{
    size_t count;
    if (kda_audit_no_model(audit) || not_judged(audit, KDA_POOL_CONSUMER, "consumers"))
        return;
    const struct kda_etw_consumer *const *rows = kda_etw_consumers(audit->etw, &count);
    for (size_t i = 0; i < count; i++)
        consumer(audit, rows[i]);
}

/* ---- providers ---- */

static uint64_t bucket_of(const struct kda_etw_provider *row)
{
    return row->silo->table + (uint64_t)kda_etw_bucket_of(row->guid) * BUCKET_SIZE;
}

static void provider(struct kda_audit *audit, const struct kda_etw_provider *row)
{
    struct kda_subject subject = kda_subject_provider(row);
    bool found = false;
    kda_audit_examined(audit);
    if (!(row->found_by & KDA_PROVIDER_POOL))
        return;
    for (uint64_t type = 0; type < KDA_ETW_GUID_TYPES; type++)
        if (!row->silo || row->silo->table == 0 ||
            kda_audit_on_list(audit, bucket_of(row) + type * LIST_ENTRY_SIZE, KDA_ETW_MAX_GUIDS, 0,
                              &found) != KDA_OK) {
            kda_audit_open(audit, &subject, "its hash bucket cannot be read to its end");
            return;
        }
    kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, &subject,
                      "an entry in use that neither its hash bucket nor a registration names");
    where(audit, "bucket", bucket_of(row), "a list that holds the entry");
}

static void check_provider(struct kda_audit *audit)
{
    size_t count;
    if (kda_audit_no_model(audit) || not_judged(audit, KDA_POOL_GUID_ENTRY, "providers"))
        return;
    const struct kda_etw_provider *const *rows = kda_etw_providers(audit->etw, &count);
    for (size_t i = 0; i < count; i++)
        provider(audit, rows[i]);
}

/* ---- registrations ---- */

static void registration(struct kda_audit *audit, const struct kda_etw_provider *of,
                         const struct kda_etw_registration *row)
{
    struct kda_subject subject = kda_subject_registration(of, row);
    uint64_t head = kda_audit_member(audit, of->va, KDA_F_ETW_GUID_ENTRY_RegListHead);
    bool found = false;
    kda_audit_examined(audit);
    if (row->found_by != KDA_REG_POOL || row->guid_entry != of->va)
        return;
    if (head == 0 || kda_audit_on_list(audit, head, KDA_ETW_MAX_REGS, 0, &found) != KDA_OK) {
        kda_audit_open(audit, &subject,
                       "the provider's list of registrations cannot be read to its end");
        return;
    }
    kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, &subject,
                      "a registration in use that neither its provider nor a handle names");
    where(audit, "RegListHead", head, "a list that holds it");
    kda_audit_hex(audit, "GuidEntry",
                  kda_audit_member(audit, row->va, KDA_F_ETW_REG_ENTRY_GuidEntry), of->va, NULL);
}

static void check_registration(struct kda_audit *audit)
{
    size_t count;
    if (kda_audit_no_model(audit) || not_judged(audit, KDA_POOL_REGISTRATION, "registrations"))
        return;
    const struct kda_etw_provider *const *rows = kda_etw_providers(audit->etw, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < rows[i]->registration_count; k++)
            registration(audit, rows[i], rows[i]->registrations[k]);
}

/* ---- processes ---- */

static void check_process(struct kda_audit *audit)
{
    if (audit->processes_status != KDA_OK) {
        kda_audit_open(audit, NULL, "the processes of the image cannot be read");
        return;
    }
    if (not_judged(audit, KDA_POOL_PROCESS, "processes"))
        return;
    for (size_t i = 0; i < audit->process_count; i++) {
        const struct kda_process *row = &audit->processes[i];
        struct kda_subject subject = kda_subject_process(row);
        kda_audit_examined(audit);
        if (row->found_by != KDA_FOUND_POOL)
            continue;
        if (kda_audit_process_unlinked(audit, row) != KDA_OK) {
            kda_audit_open(audit, &subject, "the active process list cannot be read to its end");
            continue;
        }
        kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, &subject,
                          "a running process that no list and no table of the kernel names");
        where(audit, "PsActiveProcessHead",
              kda_symbol_va(audit->kernel, KDA_SYM_PsActiveProcessHead), "a list that holds it");
        kda_audit_hex(audit, "DirectoryTableBase",
                      kda_audit_member(audit, row->va, KDA_F_KPROCESS_DirectoryTableBase), row->dtb,
                      NULL);
    }
}

#define MOMENT "an object that was made or given back while the image was taken"

/* clang-format off */
const struct kda_check kda_checks_pool[] = {
    {"pool.session", KDA_SEVERITY_CRITICAL,
     "a session that collects is in no slot",
     "A session whose slot was emptied goes on writing its buffers, and no tool lists or stops it.",
     "pool memory (`--carve`), the logger array",
     MOMENT, "T1564", check_session},
    {"pool.consumer", KDA_SEVERITY_CRITICAL,
     "a consumer that is connected is on no list and behind no handle",
     "Off the session's list and out of the handle table, who listens is hidden from every list.",
     "pool memory (`--carve`), the session's list of consumers",
     MOMENT, "T1564", check_consumer},
    {"pool.provider", KDA_SEVERITY_CRITICAL,
     "a provider entry in use is named by nothing",
     "Sessions cannot find the entry any more, and what it holds of them is hidden.",
     "pool memory (`--carve`), the entry's hash bucket",
     MOMENT, "T1562.006", check_provider},
    {"pool.registration", KDA_SEVERITY_CRITICAL,
     "a registration in use is on no list and behind no handle",
     "The provider is not told when a session enables it, and nothing shows that it registered.",
     "pool memory (`--carve`), the provider's list of registrations",
     MOMENT, "T1562.006", check_registration},
    {"pool.process", KDA_SEVERITY_CRITICAL,
     "a running process is named by no list and no table",
     "Off the active list, the list of handle tables and the CID table, a process is hidden from "
     "every tool that asks the kernel.",
     "pool memory (`--carve`), the active process list",
     MOMENT, "T1014", check_process},
    {0},
};
/* clang-format on */
