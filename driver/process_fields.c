/*
 * process_fields.c - what the system is asked of a process by handle or pointer: one table.
 *
 * Each row is one field: whom to ask, for what class, how the answer becomes a value. A field whose
 * question could not be put, or was refused, is omitted with the reason that the refusal gives. All
 * of it runs at PASSIVE_LEVEL.
 */
#include "driver.h"

typedef enum _KDA_ASKED { KDA_ASK_OBJECT, KDA_ASK_PROCESS, KDA_ASK_TOKEN } KDA_ASKED;
#define KDA_ASKED_COUNT 3u

typedef struct _KDA_ANSWER {
    SID_AND_ATTRIBUTES Head; /* a number stands in its first bytes */
    UCHAR Sid[KDA_SID_MOST_BYTES];
} KDA_ANSWER;

typedef struct _KDA_PROCESS_FIELD {
    enum kda_field Field;
    KDA_ASKED Asked;
    ULONG Class;
    ULONG Least; /* bytes of an answer */
    ULONG Most;
    USHORT Since; /* Windows version that has the class; 0: all that the driver loads on */
    /* FALSE: the answer makes no sense. */
    BOOLEAN(*Put)
    (struct kda_event_builder *builder, enum kda_field field, const KDA_ANSWER *answer,
     ULONG bytes);
} KDA_PROCESS_FIELD;

/* --- answers to values ----------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapPutByte(struct kda_event_builder *builder, enum kda_field field, const KDA_ANSWER *answer,
                ULONG bytes)
{
    UNREFERENCED_PARAMETER(bytes);
    kda_event_set(builder, field, *(const UCHAR *)(const VOID *)answer);
    return TRUE;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static ULONG KdapNumberOf(const KDA_ANSWER *answer)
{
    return *(const ULONG *)(const VOID *)answer;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapPutNumber(struct kda_event_builder *builder, enum kda_field field, const KDA_ANSWER *answer,
                  ULONG bytes)
{
    UNREFERENCED_PARAMETER(bytes);
    kda_event_set(builder, field, KdapNumberOf(answer));
    return TRUE;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapPutBool(struct kda_event_builder *builder, enum kda_field field, const KDA_ANSWER *answer,
                ULONG bytes)
{
    UNREFERENCED_PARAMETER(bytes);
    kda_event_set(builder, field, KdapNumberOf(answer) != 0);
    return TRUE;
}

/* Bytes of the SID that the answer points to; 0: it is not inside the answer. */
_IRQL_requires_max_(PASSIVE_LEVEL) static ULONG KdapSidBytes(const KDA_ANSWER *answer, ULONG bytes)
{
    const UCHAR *sid = answer->Head.Sid;
    const UCHAR *end = (const UCHAR *)answer + bytes;

    if (sid < (const UCHAR *)answer || sid + 8 > end || sid + 8 + 4u * sid[1] > end)
        return 0;
    return 8u + 4u * sid[1];
}

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapPutSid(struct kda_event_builder *builder, enum kda_field field, const KDA_ANSWER *answer,
               ULONG bytes)
{
    ULONG size = KdapSidBytes(answer, bytes);

    if (size != 0)
        kda_event_bytes(builder, field, answer->Head.Sid, size, 0);
    return size != 0;
}

/* The last part of the SID of the label. */
_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapPutIntegrity(struct kda_event_builder *builder, enum kda_field field,
                     const KDA_ANSWER *answer, ULONG bytes)
{
    const UCHAR *sid = answer->Head.Sid;
    ULONG size = KdapSidBytes(answer, bytes), level;

    if (size < 12)
        return FALSE;
    RtlCopyMemory(&level, sid + size - sizeof level, sizeof level);
    kda_event_set(builder, field, level);
    return TRUE;
}

static const KDA_PROCESS_FIELD KdapFields[] = {
    {KDA_FIELD_PROCESS_SIGNATURE_LEVEL, KDA_ASK_OBJECT, 0, 1, 1, 0x0603, KdapPutByte},
    {KDA_FIELD_PROCESS_SESSION, KDA_ASK_TOKEN, TokenSessionId, 4, 4, 0, KdapPutNumber},
    {KDA_FIELD_PROCESS_USER_SID, KDA_ASK_TOKEN, TokenUser, sizeof(SID_AND_ATTRIBUTES),
     sizeof(KDA_ANSWER), 0, KdapPutSid},
    {KDA_FIELD_PROCESS_INTEGRITY, KDA_ASK_TOKEN, TokenIntegrityLevel, sizeof(SID_AND_ATTRIBUTES),
     sizeof(KDA_ANSWER), 0, KdapPutIntegrity},
    {KDA_FIELD_PROCESS_ELEVATED, KDA_ASK_TOKEN, TokenElevation, 4, 4, 0, KdapPutBool},
    {KDA_FIELD_PROCESS_PROTECTION, KDA_ASK_PROCESS, ProcessProtectionInformation, 1, 1, 0x0603,
     KdapPutByte},
    {KDA_FIELD_PROCESS_SUBSYSTEM, KDA_ASK_PROCESS, ProcessSubsystemInformation, 4, 4, 0x0A00,
     KdapPutNumber},
};

/* --- asking ---------------------------------------------------------------------------------- */

/* What the questions of one process are put to, and why some cannot be put. */
typedef struct _KDA_QUESTIONED {
    PEPROCESS Process;
    HANDLE Handles[KDA_ASKED_COUNT]; /* that of KDA_ASK_OBJECT is not used */
    enum kda_omit_reason Reasons[KDA_ASKED_COUNT];
} KDA_QUESTIONED;

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapOpen(KDA_QUESTIONED *of, PEPROCESS process)
{
    NTSTATUS status;

    RtlZeroMemory(of, sizeof *of);
    of->Process = process;
    if (!KdaMayAsk()) {
        of->Reasons[KDA_ASK_PROCESS] = of->Reasons[KDA_ASK_TOKEN] = KDA_OMIT_IRQL;
        return;
    }
    status = KDA_CALL(ObOpenObjectByPointer,
                      (process, OBJ_KERNEL_HANDLE, NULL, PROCESS_QUERY_INFORMATION, NULL,
                       KernelMode, &of->Handles[KDA_ASK_PROCESS]));
    if (!NT_SUCCESS(status)) {
        of->Handles[KDA_ASK_PROCESS] = NULL;
        of->Reasons[KDA_ASK_PROCESS] = of->Reasons[KDA_ASK_TOKEN] = KdaOmitReason(status);
        return;
    }
    status = KDA_CALL(ZwOpenProcessTokenEx, (of->Handles[KDA_ASK_PROCESS], TOKEN_QUERY,
                                             OBJ_KERNEL_HANDLE, &of->Handles[KDA_ASK_TOKEN]));
    if (!NT_SUCCESS(status)) {
        of->Handles[KDA_ASK_TOKEN] = NULL;
        of->Reasons[KDA_ASK_TOKEN] = KdaOmitReason(status);
    }
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapClose(KDA_QUESTIONED *of)
{
    for (ULONG i = 0; i < KDA_ASKED_COUNT; i++) {
        if (of->Handles[i] != NULL)
            ZwClose(of->Handles[i]);
    }
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapAskOne(const KDA_QUESTIONED *of, const KDA_PROCESS_FIELD *row, KDA_ANSWER *answer,
               ULONG *bytes)
{
    HANDLE handle = of->Handles[row->Asked];
    UCHAR section = 0;

    *bytes = 0;
    switch (row->Asked) {
    case KDA_ASK_PROCESS:
        return KDA_CALL(ZwQueryInformationProcess, (handle, row->Class, answer, row->Most, bytes));
    case KDA_ASK_TOKEN:
        return KDA_CALL(ZwQueryInformationToken, (handle, row->Class, answer, row->Most, bytes));
    default:
        if (KdaDriver->Optional.GetProcessSignatureLevel == NULL)
            return STATUS_NOT_SUPPORTED;
        *(UCHAR *)(VOID *)answer =
            KdaDriver->Optional.GetProcessSignatureLevel(of->Process, &section) & 0xFu;
        *bytes = 1;
        return STATUS_SUCCESS;
    }
}

/* A class that all systems have and that is refused as unknown is a failure like any other. */
_IRQL_requires_max_(PASSIVE_LEVEL) static enum kda_omit_reason
    KdapReason(const KDA_PROCESS_FIELD *row, NTSTATUS status)
{
    enum kda_omit_reason reason = KdaOmitReason(status);

    return reason == KDA_OMIT_UNSUPPORTED && row->Since == 0 ? KDA_OMIT_FAILED : reason;
}

_Use_decl_annotations_ VOID KdaProcessFields(KDA_RECORD *record, PEPROCESS process,
                                             BOOLEAN subsystemKnown)
{
    struct kda_event_builder *builder = &record->Builder;
    KDA_QUESTIONED of;
    KDA_ANSWER answer;
    ULONG bytes;

    KdapOpen(&of, process);
    for (ULONG i = 0; i < ARRAYSIZE(KdapFields); i++) {
        const KDA_PROCESS_FIELD *row = &KdapFields[i];
        enum kda_omit_reason reason = of.Reasons[row->Asked];
        NTSTATUS status;
        if (subsystemKnown && row->Field == KDA_FIELD_PROCESS_SUBSYSTEM)
            continue;
        if (reason == KDA_OMIT_NONE) {
            RtlZeroMemory(&answer, sizeof answer);
            status = KdapAskOne(&of, row, &answer, &bytes);
            if (!NT_SUCCESS(status))
                reason = KdapReason(row, status);
            else if (bytes < row->Least || bytes > row->Most ||
                     !row->Put(builder, row->Field, &answer, bytes))
                reason = KDA_OMIT_FAILED;
        }
        if (reason != KDA_OMIT_NONE)
            kda_event_omit(builder, row->Field, reason);
    }
    KdapClose(&of);
}
