/*
 * nt_ps.h - part of nt.h: processes, threads, images and their notifications.
 */
#ifndef KDA_NT_PS_H
#define KDA_NT_PS_H

#ifndef KDA_NT_H
#error "include nt.h"
#endif

/* --- processes and threads -------------------------------------------------------------------- */

typedef struct _EPROCESS *PEPROCESS;
typedef struct _ETHREAD *PETHREAD;
typedef struct _OBJECT_ATTRIBUTES OBJECT_ATTRIBUTES, *POBJECT_ATTRIBUTES;

typedef VOID (*PKSTART_ROUTINE)(PVOID context);
NTSTATUS PsCreateSystemThread(PHANDLE thread, ULONG access, POBJECT_ATTRIBUTES attributes,
                              HANDLE process, PCLIENT_ID clientId, PKSTART_ROUTINE routine,
                              PVOID context);
NTSTATUS PsTerminateSystemThread(NTSTATUS status);
HANDLE PsGetCurrentProcessId(VOID);
HANDLE PsGetCurrentThreadId(VOID);
HANDLE PsGetProcessId(PEPROCESS process);
NTSTATUS PsLookupProcessByProcessId(HANDLE processId, PEPROCESS *process);
NTSTATUS PsLookupThreadByThreadId(HANDLE threadId, PETHREAD *thread);
LONGLONG PsGetProcessCreateTimeQuadPart(PEPROCESS process);
NTSTATUS PsGetProcessExitStatus(PEPROCESS process);
/* Of the current process. */
LARGE_INTEGER PsGetProcessExitTime(VOID);
NTSTATUS PsGetThreadExitStatus(PETHREAD thread);
/* The string is the caller's, freed with ExFreePool. */
NTSTATUS SeLocateProcessImageName(PEPROCESS process, PUNICODE_STRING *name);

typedef struct _FILE_OBJECT FILE_OBJECT, *PFILE_OBJECT;

typedef struct _PS_CREATE_NOTIFY_INFO {
    SIZE_T Size;
    ULONG Flags;
    HANDLE ParentProcessId;
    CLIENT_ID CreatingThreadId;
    PFILE_OBJECT FileObject;
    PCUNICODE_STRING ImageFileName;
    PCUNICODE_STRING CommandLine;
    NTSTATUS CreationStatus;
} PS_CREATE_NOTIFY_INFO, *PPS_CREATE_NOTIFY_INFO;
C_ASSERT(sizeof(PS_CREATE_NOTIFY_INFO) == 72);
C_ASSERT(FIELD_OFFSET(PS_CREATE_NOTIFY_INFO, CommandLine) == 56);

typedef VOID (*PCREATE_PROCESS_NOTIFY_ROUTINE_EX)(PEPROCESS process, HANDLE processId,
                                                  PPS_CREATE_NOTIFY_INFO info);
NTSTATUS PsSetCreateProcessNotifyRoutineEx(PCREATE_PROCESS_NOTIFY_ROUTINE_EX routine,
                                           BOOLEAN remove);

typedef VOID (*PCREATE_THREAD_NOTIFY_ROUTINE)(HANDLE processId, HANDLE threadId, BOOLEAN create);
NTSTATUS PsSetCreateThreadNotifyRoutine(PCREATE_THREAD_NOTIFY_ROUTINE routine);
NTSTATUS PsRemoveCreateThreadNotifyRoutine(PCREATE_THREAD_NOTIFY_ROUTINE routine);

typedef struct _IMAGE_INFO {
    ULONG Properties;
    PVOID ImageBase;
    ULONG ImageSelector;
    SIZE_T ImageSize;
    ULONG ImageSectionNumber;
} IMAGE_INFO, *PIMAGE_INFO;
typedef struct _IMAGE_INFO_EX {
    SIZE_T Size;
    IMAGE_INFO ImageInfo;
    PFILE_OBJECT FileObject;
} IMAGE_INFO_EX, *PIMAGE_INFO_EX;
C_ASSERT(sizeof(IMAGE_INFO) == 40 && sizeof(IMAGE_INFO_EX) == 56);

typedef VOID (*PLOAD_IMAGE_NOTIFY_ROUTINE)(PUNICODE_STRING fullName, HANDLE processId,
                                           PIMAGE_INFO info);
NTSTATUS PsSetLoadImageNotifyRoutine(PLOAD_IMAGE_NOTIFY_ROUTINE routine);
NTSTATUS PsRemoveLoadImageNotifyRoutine(PLOAD_IMAGE_NOTIFY_ROUTINE routine);

#endif
