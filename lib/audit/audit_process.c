/*
 * audit_process.c - checks of processes: the active list against handle tables and the CID table.
 */
#include "audit.h"

#include <stdio.h>
#include <string.h>

enum kda_status kda_audit_process_unlinked(struct kda_audit *audit,
                                           const struct kda_process *process)
{
    bool found = false;
    uint64_t head = kda_symbol_va(audit->kernel, KDA_SYM_PsActiveProcessHead);
    uint64_t link = kda_audit_member(audit, process->va, KDA_F_EPROCESS_ActiveProcessLinks);
    if (head == 0 || link == 0)
        return KDA_NO_SYMBOL;
    enum kda_status status = kda_audit_on_list(audit, head, KDA_MAX_PROCESSES, link, &found);
    return status == KDA_OK && found ? KDA_ABSENT : status;
}

bool kda_audit_processes_whole(struct kda_audit *audit)
{
    static const char *const kinds[] = {"processes", "process",   "handle_tables", "handle_table",
                                        "cid_table", "cid_entry", "object"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kda_audit_has_gap(audit, kinds[i]))
            return false;
    return audit->processes_status == KDA_OK;
}

static bool no_processes(struct kda_audit *audit)
{
    static const char *const kinds[] = {"processes", "handle_tables", "handle_table",
                                        "cid_table", "cid_entry",     NULL};
    if (audit->processes_status == KDA_OK) {
        kda_audit_open_gaps(audit, "processes", kinds);
        return false;
    }
    kda_audit_open(audit, NULL, "the processes of the image cannot be read");
    return true;
}

static void witnesses(struct kda_audit *audit, const struct kda_process *process)
{
    static const char *const names[] = {"active list", "handle-table list", "CID table"};
    char text[64] = "";
    for (size_t i = 0, used = 0; i < 3; i++)
        if (process->found_by >> i & 1u)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "",
                                     names[i]);
    kda_audit_evidence(audit, "found by", process->va, text, "active list, CID table");
    if (process->cid_va)
        kda_audit_hex(audit, "CID entry", process->cid_va, process->va, NULL);
    if (process->handle_table)
        kda_audit_hex(audit, "ObjectTable",
                      kda_audit_member(audit, process->va, KDA_F_EPROCESS_ObjectTable),
                      process->handle_table, NULL);
}

static void check_unlinked(struct kda_audit *audit)
{
    if (no_processes(audit))
        return;
    for (size_t i = 0; i < audit->process_count; i++) {
        const struct kda_process *process = &audit->processes[i];
        struct kda_subject subject = kda_subject_process(process);
        kda_audit_examined(audit);
        if (process->found_by & KDA_FOUND_LIST || process->found_by == KDA_FOUND_POOL)
            continue; /* pool.process tells of the latter */
        if (!process->readable) {
            kda_audit_open(audit, &subject, "its memory is not in the image");
            continue;
        }
        if (process->exit_time_100ns)
            continue; /* off the list before its last handle is closed */
        enum kda_status status = kda_audit_process_unlinked(audit, process);
        if (status != KDA_OK) {
            kda_audit_open(audit, &subject, "the active process list cannot be read to its end");
            continue;
        }
        kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, &subject,
                          "a running process that is not on the active list");
        witnesses(audit, process);
    }
}

static bool cid_is_whole(struct kda_audit *audit, const struct kda_subject *subject)
{
    if (!kda_audit_has_gap(audit, "cid_table") && !kda_audit_has_gap(audit, "cid_entry") &&
        !kda_audit_has_gap(audit, "handle_table"))
        return true;
    kda_audit_open(audit, subject, "the CID table cannot be read to its end");
    return false;
}

static void check_no_cid(struct kda_audit *audit)
{
    bool any = false;
    if (no_processes(audit))
        return;
    for (size_t i = 0; i < audit->process_count; i++)
        any = any || (audit->processes[i].found_by & KDA_FOUND_CID);
    if (!any) {
        kda_audit_open(audit, NULL, "no process could be read from the CID table");
        return;
    }
    for (size_t i = 0; i < audit->process_count; i++) {
        const struct kda_process *process = &audit->processes[i];
        struct kda_subject subject = kda_subject_process(process);
        kda_audit_examined(audit);
        if (process->found_by & KDA_FOUND_CID || process->found_by == KDA_FOUND_POOL)
            continue;
        if (!process->readable) {
            kda_audit_open(audit, &subject, "its memory is not in the image");
            continue;
        }
        /* The idle process has none; an ended one gave its entry back. */
        if (process->exit_time_100ns || (process->has_pid && process->pid == 0) ||
            !cid_is_whole(audit, &subject))
            continue;
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, &subject,
                          "a running process without an entry in the CID table");
        witnesses(audit, process);
    }
}

/* clang-format off */
const struct kda_check kda_checks_process[] = {
    {"process.unlinked", KDA_SEVERITY_CRITICAL,
     "a running process is not on the active list",
     "Taking a process off PsActiveProcessHead hides it from every tool that lists processes.",
     "process lists, the CID table",
     "a process that was being created when the image was taken",
     "T1014", check_unlinked},
    {"process.no_cid", KDA_SEVERITY_HIGH,
     "a running process has no entry in the CID table",
     "Without the entry no program can open the process by its id.",
     "process lists, the CID table",
     "a process that was ending when the image was taken",
     "T1014", check_no_cid},
    {0},
};
/* clang-format on */
