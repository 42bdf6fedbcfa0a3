/* inject.h - kdainject.sys: orders (inject.c) and what they fire (fire.c). */
#ifndef KDA_INJECT_H
#define KDA_INJECT_H

#include "shim.h"
#include "filter.h"

#define INJECT_THREADS 16u
#define INJECT_REPLY_BYTES 512u

typedef struct _INJECT_REPLY {
    ULONG Bytes;
    CHAR Text[INJECT_REPLY_BYTES];
} INJECT_REPLY;

/* One thread's part of a storm. */
typedef struct _INJECT_WORK {
    ULONG First;
    ULONG Rounds; /* 0: until it is told to stop */
    PVOID Thread;
    LONG Fired;   /* callbacks that somebody was registered for */
    LONG Refused; /* and those that nobody was */
    LONG Kept;    /* references that the driver took and did not give back */
} INJECT_WORK;

NTSTATUS LdrGetDllHandle(PCWSTR path, PULONG characteristics, PUNICODE_STRING name, PVOID *base);
NTSTATUS LdrAddRefDll(ULONG flags, PVOID base);

/* Everything that number `n` means: a process with a thread and an image, a key with a value, a
 * connection, and their ends. */
VOID InjectRound(INJECT_WORK *work, ULONG n);
/* TRUE where it was classified. */
BOOLEAN InjectFlow(ULONG n, BOOLEAN anyway);
/* A value whose data cannot be read. */
BOOLEAN InjectBadData(VOID);
/* An operation that is announced and never reported. */
BOOLEAN InjectPreOnly(ULONG n);

#endif
