/*
 * driver.h - the driver's one private header: what its files share.
 *
 * One instance, KdaDriver, in non-paged pool; it is made first and freed last. Start and stop are
 * the table in driver.c. Each function states the highest IRQL at which it may be called.
 */
#ifndef KDA_DRIVER_H
#define KDA_DRIVER_H

#include "nt.h"
#include "event_queue.h"
#include "kda_event.h"
#include "kda_ioctl.h"
#include "kda_jsonl.h"
#include "kda_settings.h"

#define KDA_VERSION_MAJOR 0
#define KDA_VERSION_MINOR 1
#define KDA_VERSION_PATCH 0
#define KDA_VERSION_TEXT "0.1.0"

/* Pool tags, in memory order. */
#define KDA_TAG(a, b, c, d) ((ULONG)(a) | (ULONG)(b) << 8 | (ULONG)(c) << 16 | (ULONG)(d) << 24)
#define KDA_TAG_DRIVER KDA_TAG('K', 'd', 'a', 'D')
#define KDA_TAG_SETTINGS KDA_TAG('K', 'd', 'a', 'S')
#define KDA_TAG_FILTER KDA_TAG('K', 'd', 'a', 'F')
#define KDA_TAG_PROCESS KDA_TAG('K', 'd', 'a', 'P')
#define KDA_TAG_RECORD KDA_TAG('K', 'd', 'a', 'E')
#define KDA_TAG_REGISTRY KDA_TAG('K', 'd', 'a', 'R')
#define KDA_TAG_NETWORK KDA_TAG('K', 'd', 'a', 'N')
#define KDA_TAG_WRITER KDA_TAG('K', 'd', 'a', 'W')
#define KDA_TAG_READER KDA_TAG('K', 'd', 'a', 'L')
#define KDA_TAG_RUNDOWN KDA_TAG('K', 'd', 'a', 'C')
#define KDA_TAG_SCRATCH KDA_TAG('K', 'd', 'a', 'T')

/* What always holds, if the driver is right: checked in the simulator and in checked builds, absent
 * from the driver that ships. */
#ifdef KDA_SIM
#define KDA_ASSERT(expression)                                                                     \
    ((expression) ? (void)0 : SimAssertionFailed(#expression, __FILE__, __LINE__))
#elif defined(KDA_CHECKED)
#define KDA_ASSERT(expression) ((expression) ? (void)0 : __builtin_trap())
#else
#define KDA_ASSERT(expression) ((void)sizeof(!(expression)))
#endif

#define KDA_100NS_PER_MS 10000
#define KDA_100NS_PER_S 10000000

/* --- settings (settings.c) ---------------------------------------------------------------------
 */

#define KDA_MAX_RULES KDA_SETTINGS_MAX_RULES
#define KDA_MAX_RATES 16u
#define KDA_MAX_PREFIXES 32u
#define KDA_MAX_DIRECTORY 1024u /* characters */
#define KDA_MAX_REJECTED 24u    /* each setting once */
#define KDA_SETTING_NAME_MAX 48u

_Static_assert((int)KDA_KIND_COUNT <= 32, "kinds fit a 32-bit mask");

/* First rule that matches decides; an event that none matches is kept. Texts compare without case
 * for ASCII letters and exactly for all others, so that no table that could be paged out is
 * needed. */
typedef struct _KDA_RULE {
    ULONG Kinds; /* bit per kind */
    ULONG Pid;   /* KDA_NO_PID: any */
    BOOLEAN Include;
    UNICODE_STRING Image;  /* suffix of the actor's image; Length 0: any */
    UNICODE_STRING Key;    /* prefix of the key */
    UNICODE_STRING Module; /* suffix of the loaded image */
    UNICODE_STRING Text;   /* the rule as it was written, its name in sensor.filtered */
} KDA_RULE;

/* Per process and kind. */
typedef struct _KDA_RATE {
    ULONG Kinds;
    ULONG PerSecond;
    ULONG Burst;
    UNICODE_STRING Text;
} KDA_RATE;

typedef struct _KDA_REJECTED {
    CHAR Name[KDA_SETTING_NAME_MAX];
    ULONG Entry; /* of a list, from 1; 0: the value as a whole */
    const CHAR *Why;
} KDA_REJECTED;

typedef struct _KDA_SETTINGS {
    ULONG Kinds;
    ULONG RecordEverything; /* no rules, no rates, no repeat suppression, opened keys too */
    ULONG RingShards;
    ULONG RingShardBytes;
    ULONG FileMegabytes;
    ULONG FileCount;
    ULONG IdleMilliseconds;  /* oldest line that is not yet written */
    ULONG FlushMilliseconds; /* between flushes of the file; 0: only when it is closed */
    ULONG ProcessAtOnce;     /* process.* are written without delay */
    ULONG DataBytes;         /* registry data kept per event */
    ULONG KeyOpens;          /* key_create also where the key was there */
    ULONG StatusSeconds;
    ULONG RepeatMilliseconds;
    ULONG Readers;
    ULONG ReaderBytes;
    UNICODE_STRING Directory;
    ULONG RuleCount;
    ULONG RateCount;
    ULONG PrefixCount;
    ULONG RejectedCount;
    KDA_RULE *Rules;
    KDA_RATE Rates[KDA_MAX_RATES];
    UNICODE_STRING OldDataKeys[KDA_MAX_PREFIXES];
    KDA_REJECTED Rejected[KDA_MAX_REJECTED];
    PVOID Blocks; /* texts and rules, freed together */
} KDA_SETTINGS;

typedef struct _KDA_TEXT {
    PCWCH At;
    SIZE_T Count;
} KDA_TEXT;

/* Bit of each kind that the driver can record. */
extern const ULONG KdaDriverKinds;

struct _KDA_DRIVER;

/* Reads `Parameters` below the driver's key. Wrong values are rejected one by one; fails for lack
 * of memory only. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaSettingsStart(_Inout_ struct _KDA_DRIVER *driver);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaSettingsStop(_Inout_ struct _KDA_DRIVER *driver);
/* The parsers, for tests. `why` is set where FALSE is returned. */
BOOLEAN KdaParseKinds(_In_reads_(count) PCWCH text, _In_ SIZE_T count, _Out_ ULONG *kinds);
BOOLEAN KdaParseRule(_In_reads_(count) PCWCH text, _In_ SIZE_T count, _Out_ KDA_RULE *rule,
                     _Out_ const CHAR **why);
BOOLEAN KdaParseRate(_In_reads_(count) PCWCH text, _In_ SIZE_T count, _Out_ KDA_RATE *rate,
                     _Out_ const CHAR **why);
/* Opens `Parameters`; the caller closes it. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS
    KdaSettingsOpenKey(_In_ PUNICODE_STRING path, _In_ ACCESS_MASK access, _Out_ HANDLE *key);
/* Settings in force and rejected ones, as fields of a sensor.start record. */
VOID KdaSettingsDescribe(_In_ const KDA_SETTINGS *settings,
                         _Inout_ struct kda_event_builder *builder);

/* --- the driver ---------------------------------------------------------------------------------
 */

/* Newer than the oldest kernel that the driver loads on: NULL where they are missing. */
typedef struct _KDA_OPTIONAL {
    KDA_PS_GET_PROCESS_START_KEY GetProcessStartKey;
    KDA_PS_GET_PROCESS_SIGNATURE_LEVEL GetProcessSignatureLevel;
    KDA_PS_SET_CREATE_PROCESS_NOTIFY_ROUTINE_EX2 SetCreateProcessNotifyRoutineEx2;
    KDA_PS_SET_CREATE_THREAD_NOTIFY_ROUTINE_EX SetCreateThreadNotifyRoutineEx;
    KDA_IO_CREATE_DEVICE_SECURE CreateDeviceSecure;
} KDA_OPTIONAL;

#define KDA_HOST_UNITS 64u

typedef struct _KDA_DRIVER {
    PDRIVER_OBJECT DriverObject;
    PUNICODE_STRING RegistryPath; /* valid during DriverEntry */
    PDEVICE_OBJECT Device;
    KDA_OPTIONAL Optional;
    KDA_SETTINGS Settings;
    GUID LogId;
    GUID PreviousLog;
    BOOLEAN HasPreviousLog;
    UNICODE_STRING Host; /* Length 0: not known */
    WCHAR HostBuffer[KDA_HOST_UNITS];
    ULONGLONG Frequency;          /* of the performance counter */
    volatile LONG Kinds;          /* bit of each kind that is on */
    volatile LONG ThreadsWatched; /* first threads of new processes are seen */
} KDA_DRIVER;

extern KDA_DRIVER *KdaDriver;

static inline BOOLEAN KdaKindOn(_In_ ULONG kind)
{
    return (ULONG)ReadNoFence(&KdaDriver->Kinds) >> kind & 1u;
}

/* A sensor: a file and a row in driver.c. Start names the call that failed in `*call`. Stop returns
 * when none of its callbacks runs or will run. Tick comes about once a second from the writer, at
 * PASSIVE_LEVEL. */
typedef struct _KDA_SENSOR {
    ULONG Number; /* KDA_SENSOR_... */
    NTSTATUS (*Start)(KDA_DRIVER *driver, const CHAR **call);
    VOID (*Stop)(KDA_DRIVER *driver);
    VOID (*Tick)(VOID);
} KDA_SENSOR;

extern const KDA_SENSOR KdaProcessSensor;
extern const KDA_SENSOR KdaThreadSensor;
extern const KDA_SENSOR KdaImageSensor;
extern const KDA_SENSOR KdaRegistrySensor;
extern const KDA_SENSOR KdaNetworkSensor;
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaSensorsTick(VOID);

DRIVER_INITIALIZE DriverEntry;

/* --- what does not work (troubles.c) --------------------------------------------------------- */

/* Order of the table in driver.c. */
enum {
    KDA_SENSOR_PROCESS,
    KDA_SENSOR_THREAD,
    KDA_SENSOR_IMAGE,
    KDA_SENSOR_REGISTRY,
    KDA_SENSOR_NETWORK,
    KDA_SENSOR_COUNT
};

/* KDA_CALL(ZwClose, (handle)): makes the call; one that fails is remembered with the function it
 * was made in, and its status. For calls whose failure says something of the machine, not for an
 * answer that is a part of the question (a value that may not be there). */
#define KDA_CALL(function, arguments) KdaCalled(__func__, #function, function arguments)
/* For a call that answers with something else than a status, and for an answer that is looked at
 * first. Returns `status`. */
_IRQL_requires_max_(DISPATCH_LEVEL) NTSTATUS
    KdaCalled(_In_ const CHAR *place, _In_ const CHAR *call, _In_ NTSTATUS status);

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaTroublesStart(_Inout_ KDA_DRIVER *driver);
/* A sensor is in this state from now on; `call` and `status` say what led to it: NULL and
 * STATUS_SUCCESS where nothing failed. A state it is in already, for the same reason, keeps its
 * time. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID
    KdaSensorState(_In_ ULONG sensor, _In_ enum kda_sensor_state state, _In_ const CHAR *place,
                   _In_opt_ const CHAR *call, _In_ NTSTATUS status);
/* Raised by each change of a state that a failed call led to, or that ends one. */
_IRQL_requires_max_(DISPATCH_LEVEL) LONG KdaSensorChanges(VOID);
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaTroubles(_Out_ struct kda_control_troubles *troubles);
/* The states of the sensors as a field; the same in a sensor.status record, with the last few of
 * the failed calls. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID
    KdaSensorsDescribe(_Inout_ struct kda_event_builder *builder, _In_ enum kda_field field);
_IRQL_requires_max_(DISPATCH_LEVEL) VOID
    KdaTroublesDescribe(_Inout_ struct kda_event_builder *builder);

/* --- callbacks in flight (rundown.c) ---------------------------------------------------------- */

/* Cache-aware: a callback touches the counter of its own processor only. */
typedef struct _KDA_RUNDOWN {
    PEX_RUNDOWN_REF_CACHE_AWARE Reference;
} KDA_RUNDOWN;

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS
    KdaRundownStart(_Out_ KDA_RUNDOWN *rundown, _Out_ const CHAR **call);
/* For a sensor whose callback was never registered. */
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaRundownFree(_Inout_ KDA_RUNDOWN *rundown);
/* Waits for the callbacks in flight. `removed`: what the system said to the removal of the
 * callback. Anything but success means that it may still be called: then image and counter stay. */
_IRQL_requires_max_(PASSIVE_LEVEL) VOID
    KdaRundownStop(_In_ KDA_DRIVER *driver, _Inout_ KDA_RUNDOWN *rundown, _In_ NTSTATUS removed);
/* FALSE: the sensor is being stopped; no leave follows. The thread cannot be suspended in between:
 * the stop would wait for as long. */
_IRQL_requires_max_(DISPATCH_LEVEL) BOOLEAN KdaRundownEnter(_Inout_ KDA_RUNDOWN *rundown);
/* At the level of the enter. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaRundownLeave(_Inout_ KDA_RUNDOWN *rundown);

/* Keeps the image in memory after the unload: something of the driver that the system would not
 * give back may still be called. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaKeepImage(_In_ KDA_DRIVER *driver);
_IRQL_requires_max_(DISPATCH_LEVEL) BOOLEAN KdaImageIsKept(VOID);

/* --- time (clock.c) ------------------------------------------------------------------------------
 */

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaClockStart(_Inout_ KDA_DRIVER *driver);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaClockStop(_Inout_ KDA_DRIVER *driver);
/* The performance counter, kept from running backwards over sleep and hibernation. */
_IRQL_requires_max_(HIGH_LEVEL) ULONGLONG KdaClockCounter(VOID);
/* TRUE once after each resume: what counter and system time were then. */
_IRQL_requires_max_(DISPATCH_LEVEL) BOOLEAN
    KdaClockMoved(_Out_ ULONGLONG *counter, _Out_ ULONGLONG *utc);
/* A reading of counter and system time that belong together. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID
    KdaClockPair(_Out_ ULONGLONG *counter, _Out_ ULONGLONG *utc);
_IRQL_requires_max_(HIGH_LEVEL) ULONGLONG KdaMilliseconds(VOID);

/* --- guarded copies (guarded.c) --------------------------------------------------------------- */

/* FALSE if a byte could not be read. Memory above APC_LEVEL cannot be paged in: not there. */
_IRQL_requires_max_(APC_LEVEL) BOOLEAN
    KdaGuardedCopy(_Out_writes_bytes_(bytes) VOID *to, _In_ const VOID *from, _In_ SIZE_T bytes);

/* --- known processes (process_cache.c) -------------------------------------------------------- */

struct _KDA_RECORD;

typedef struct _KDA_PROCESS {
    struct _KDA_PROCESS *Next; /* in its bucket */
    volatile LONG References;
    ULONG Pid;
    ULONGLONG StartKey;    /* 0: not known */
    LONGLONG CreateTime;   /* 0: not known */
    ULONGLONG ExitedAt;    /* KdaMilliseconds; 0: alive */
    volatile LONG Threads; /* created since the process was told; -1: it was running already */
    UNICODE_STRING Image;  /* characters behind the structure */
    BOOLEAN Refused;       /* its creation was refused: it never ran, and its end is none */
    enum kda_omit_reason ImageReason; /* why `Image` is empty; NONE: the process has none */
    volatile LONG64 *Buckets;         /* one per kind with a rate limit, behind the characters */
} KDA_PROCESS;

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaProcessCacheStart(_Inout_ KDA_DRIVER *driver);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaProcessCacheStop(_Inout_ KDA_DRIVER *driver);
/* Referenced entry, or NULL. */
_IRQL_requires_max_(DISPATCH_LEVEL) KDA_PROCESS *KdaProcessFind(_In_ ULONG pid);
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaProcessRelease(_In_opt_ KDA_PROCESS *process);
/* The entry of this pid and creation time, as it is added; NULL: it is not known. */
_IRQL_requires_max_(DISPATCH_LEVEL) KDA_PROCESS *KdaProcessSame(_In_ ULONG pid,
                                                                _In_ LONGLONG createTime);
/* An entry that nobody else knows yet; NULL for lack of memory. */
_IRQL_requires_max_(DISPATCH_LEVEL) KDA_PROCESS *KdaProcessMake(_In_ ULONG pid,
                                                                _In_ ULONGLONG startKey,
                                                                _In_ LONGLONG createTime,
                                                                _In_opt_ PCUNICODE_STRING image);
/* Adds an entry from KdaProcessMake and pushes the record that tells of it, in one step: whoever
 * finds the entry comes behind that record. If the process is known meanwhile both are given back
 * and the entry that is there is returned. An older entry of the pid is replaced. Referenced. */
_IRQL_requires_max_(DISPATCH_LEVEL)
    KDA_PROCESS *KdaProcessAdd(_In_ KDA_PROCESS *fresh, _Inout_opt_ struct _KDA_RECORD *told);
/* The entry stays for a while, for what comes after the exit. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaProcessExited(_In_ KDA_PROCESS *process);
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaProcessSweep(VOID);
/* Finds; where the system may be asked (KdaMayAsk) an unknown process is looked up and told as
 * process.existing first. `*why`: the reason where it returns NULL. (sensor_process.c) */
_IRQL_requires_max_(DISPATCH_LEVEL) KDA_PROCESS *KdaProcessKnow(_In_ ULONG pid,
                                                                _Out_ enum kda_omit_reason *why);

static inline ULONG KdaPid(_In_ HANDLE id)
{
    return (ULONG)(ULONG_PTR)id;
}

/* --- rules, rates, repeats (filter.c) --------------------------------------------------------- */

typedef struct _KDA_FILTER_COUNTS {
    uint64_t Kinds[KDA_KIND_COUNT];
    uint64_t Rules[KDA_MAX_RULES + 2]; /* the rules, then rate limits, then repeats */
} KDA_FILTER_COUNTS;

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaFilterStart(_Inout_ KDA_DRIVER *driver);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaFilterStop(_Inout_ KDA_DRIVER *driver);
/* What a rule can look at. Strings may be NULL where the kind has none or it is not known; a rule
 * that asks for one of them then does not match. */
typedef struct _KDA_SUBJECT {
    ULONG Kind;
    ULONG Pid;
    KDA_PROCESS *Process;
    PCUNICODE_STRING Key;
    PCUNICODE_STRING Module;
} KDA_SUBJECT;
/* FALSE: taken, and counted. Asks rules first, then the rate limit. */
_IRQL_requires_max_(DISPATCH_LEVEL) BOOLEAN KdaFilterPass(_In_ const KDA_SUBJECT *subject);
/* FALSE: an identical event was passed within the window; counted. */
_IRQL_requires_max_(DISPATCH_LEVEL) BOOLEAN KdaFilterFirst(_In_ const struct kda_event *event);
/* Totals since the start: of kinds, KDA_KIND_COUNT of them; of kinds and rules. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID
    KdaFilterKinds(_Out_writes_(KDA_KIND_COUNT) uint64_t *kinds);
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaFilterTotals(_Out_ KDA_FILTER_COUNTS *counts);
/* Places in KDA_PROCESS.Buckets that a process needs. */
_IRQL_requires_max_(DISPATCH_LEVEL) ULONG KdaFilterBuckets(VOID);
/* Comparisons of the rules: suffix, prefix; ASCII letters without case. */
BOOLEAN KdaHasSuffix(_In_ PCUNICODE_STRING text, _In_ PCUNICODE_STRING suffix);
BOOLEAN KdaHasPrefix(_In_ PCUNICODE_STRING text, _In_ PCUNICODE_STRING prefix);

/* --- records (record.c) ----------------------------------------------------------------------- */

typedef struct _KDA_RECORD {
    struct kda_event_builder Builder;
    PVOID Buffer;
    ULONG Kind;
    BOOLEAN FromList;
} KDA_RECORD;

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaRecordStart(_Inout_ KDA_DRIVER *driver);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaRecordStop(_Inout_ KDA_DRIVER *driver);
/* `bytes`: of all strings and blobs to come. Where there is no memory for them a small record is
 * begun, which cuts and marks; where there is none at all the event is counted as lost and FALSE
 * is returned. */
_Must_inspect_result_ _IRQL_requires_max_(DISPATCH_LEVEL)
BOOLEAN
KdaRecordBegin(_Out_ KDA_RECORD *record, _In_ ULONG kind, _In_ SIZE_T bytes);
/* pid, tid, process_key, image. `process` may be NULL: `why` then says why it is not known. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID
    KdaRecordActor(_Inout_ KDA_RECORD *record, _In_ ULONG pid, _In_ ULONG tid,
                   _In_opt_ const KDA_PROCESS *process, _In_ enum kda_omit_reason why);
/* Bytes that the actor's image will take. */
static inline SIZE_T KdaActorBytes(_In_opt_ const KDA_PROCESS *process)
{
    return process ? process->Image.Length : 0u;
}
/* A string that may be NULL: then left out. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID
    KdaRecordString(_Inout_ KDA_RECORD *record, _In_ enum kda_field field,
                    _In_opt_ PCUNICODE_STRING string);
/* Completes the record, pushes it and gives the memory back. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaRecordPush(_Inout_ KDA_RECORD *record);
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaRecordDiscard(_Inout_ KDA_RECORD *record);

/* What a refused question says of the field that was asked for. */
_IRQL_requires_max_(HIGH_LEVEL) enum kda_omit_reason KdaOmitReason(_In_ NTSTATUS status);
/* Questions by handle, and names of files, need more than PASSIVE_LEVEL: they wait for special
 * kernel APCs, and for the file system, which may be waiting for this very thread (paging I/O has a
 * top-level request). FALSE: what is asked for is omitted as `irql`. */
static inline BOOLEAN KdaMayAsk(VOID)
{
    return KeGetCurrentIrql() == PASSIVE_LEVEL && !KeAreAllApcsDisabled() &&
           IoGetTopLevelIrp() == NULL;
}

/* --- fields of a process (process_fields.c) ---------------------------------------------------
 */

#define KDA_SID_MOST_BYTES 68u
/* Session, user, integrity, ...: each is set, or omitted with its reason. */
_IRQL_requires_max_(PASSIVE_LEVEL) VOID
    KdaProcessFields(_Inout_ KDA_RECORD *record, _In_ PEPROCESS process,
                     _In_ BOOLEAN subsystemKnown);

/* --- threads of other processes (sensor_thread.c) ---------------------------------------------
 */

/* The record of a thread made in another process, with the module it starts in; a copy in `buffer`,
 * or `event` itself where nothing is to be added. For the writer's thread. */
_IRQL_requires_max_(PASSIVE_LEVEL) const
    struct kda_event *KdaThreadComplete(_In_ const struct kda_event *event,
                                        _Out_writes_bytes_(bytes) PVOID buffer, _In_ SIZE_T bytes);

/* --- registry operations under way (registry_pending.c) ------------------------------------------
 */

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaPendingStart(VOID);
/* All records have been taken. */
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaPendingStop(VOID);
/* Keeps a record and its memory; the result is the context of the operation. NULL: no slot is free,
 * the record stays the caller's. */
_IRQL_requires_max_(DISPATCH_LEVEL) PVOID KdaPendingPark(_In_ const KDA_RECORD *record);
/* Gives the record back. FALSE: the context is not, or not any more, that of one. */
_IRQL_requires_max_(DISPATCH_LEVEL) BOOLEAN
    KdaPendingTake(_In_ PVOID context, _Out_ KDA_RECORD *record);
/* The next record that was parked so long ago; `*next` begins with 0. FALSE: no more. */
_IRQL_requires_max_(DISPATCH_LEVEL) BOOLEAN
    KdaPendingOverdue(_In_ ULONG milliseconds, _Inout_ ULONG *next, _Out_ KDA_RECORD *record);

/* --- data before a write (registry_old_data.c) -------------------------------------------------
 */

typedef struct _KDA_OLD_DATA {
    KEY_VALUE_PARTIAL_INFORMATION *Information; /* in pool; NULL: none */
    ULONG Kept;                                 /* bytes of its data that are there */
    enum kda_omit_reason Reason; /* why there is none; NONE: not asked, or no value */
} KDA_OLD_DATA;

/* `noKey`: why the subject's key has no name. */
_IRQL_requires_max_(APC_LEVEL) VOID
    KdaOldDataAsk(_In_ const KDA_SUBJECT *subject, _In_ enum kda_omit_reason noKey,
                  _In_ PVOID object, _In_ PUNICODE_STRING name, _Out_ KDA_OLD_DATA *old);
_IRQL_requires_max_(APC_LEVEL) VOID
    KdaOldDataPut(_Inout_ KDA_RECORD *record, _In_ const KDA_OLD_DATA *old);
_IRQL_requires_max_(APC_LEVEL) VOID KdaOldDataFree(_Inout_ KDA_OLD_DATA *old);

/* --- log (log_file.c, self.c, writer.c) ------------------------------------------------------- */

/* The files of one log. Used by the writer's thread alone. */
typedef struct _KDA_LOG_FILE {
    HANDLE Handle;
    ULONGLONG Offset;    /* bytes written and acknowledged */
    ULONG Number;        /* of the file, from 1; 0: none was opened yet */
    ULONG NameUnits;     /* of the part of the name that all files of this log have */
    UNICODE_STRING Name; /* room for directory, name, number */
} KDA_LOG_FILE;

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS
    KdaLogFileInit(_Out_ KDA_LOG_FILE *file, _In_ ULONGLONG utc);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaLogFileFree(_Inout_ KDA_LOG_FILE *file);
/* Opens the next file of the log; the current one, if any, is closed only when that worked. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaLogFileNext(_Inout_ KDA_LOG_FILE *file);
/* All or nothing: after a failure the same bytes may be offered again. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS
    KdaLogFileWrite(_Inout_ KDA_LOG_FILE *file, _In_reads_bytes_(bytes) PVOID data,
                    _In_ ULONG bytes);
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaLogFileFlush(_Inout_ KDA_LOG_FILE *file);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaLogFileClose(_Inout_ KDA_LOG_FILE *file);

/* Totals per kind. */
typedef struct _KDA_ACCOUNT {
    uint64_t Offered[KDA_KIND_COUNT];
    uint64_t Written[KDA_KIND_COUNT];
    uint64_t Lost[KDA_KIND_COUNT];
    KDA_FILTER_COUNTS Filtered;
} KDA_ACCOUNT;

/* The sensor.* records, built in the caller's buffer; their id and time are given by the caller.
 * They return NULL where there is nothing to say. */
struct kda_event *KdaSelfStart(_Out_writes_bytes_(bytes) PVOID buffer, _In_ SIZE_T bytes);
struct kda_event *KdaSelfFile(_Out_writes_bytes_(bytes) PVOID buffer, _In_ SIZE_T bytes,
                              _In_ ULONGLONG nextId);
struct kda_event *KdaSelfLoss(_Out_writes_bytes_(bytes) PVOID buffer, _In_ SIZE_T bytes,
                              _In_ const struct kda_ring_loss *loss,
                              _In_ enum kda_loss_reason reason, _In_ BOOLEAN reader);
/* status, shutdown, stop */
struct kda_event *KdaSelfStatus(_Out_writes_bytes_(bytes) PVOID buffer, _In_ SIZE_T bytes,
                                _In_ ULONG kind, _In_ const KDA_ACCOUNT *account);
/* What was filtered between two totals. */
struct kda_event *KdaSelfFiltered(_Out_writes_bytes_(bytes) PVOID buffer, _In_ SIZE_T bytes,
                                  _In_ const KDA_FILTER_COUNTS *now,
                                  _In_ const KDA_FILTER_COUNTS *before);
/* Sets LogId and Host; PreviousLog is what `Parameters` remembers, which then is our own id. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaSelfIdentify(_Inout_ KDA_DRIVER *driver);

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaWriterStart(_Inout_ KDA_DRIVER *driver);
/* The sensors have started, or not: sensor.start can be told. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaWriterBegin(_Inout_ KDA_DRIVER *driver);
/* Drains everything, writes sensor.stop. */
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaWriterStop(_Inout_ KDA_DRIVER *driver);
/* Wait until all that was pushed before is in the file and the file is flushed; for the second one
 * a sensor.shutdown line too. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaWriterFlush(VOID);
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaWriterShutdown(VOID);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaWriterStatus(_Out_ struct kda_control_status *status);

/* --- device and live readers (device.c, reader.c) --------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaDeviceStart(_Inout_ KDA_DRIVER *driver);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaDeviceStop(_Inout_ KDA_DRIVER *driver);
/* The end waits for the requests that are being served; later ones are told of it. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaDeviceServe(_Inout_ KDA_DRIVER *driver);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaDeviceEndServing(_Inout_ KDA_DRIVER *driver);
/* Opens are refused before; the link and the shutdown notification are there after it. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaDeviceOpenForUse(_Inout_ KDA_DRIVER *driver);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaDeviceCloseForUse(_Inout_ KDA_DRIVER *driver);
/* Self-relative descriptor: SYSTEM and Administrators, all access, inherited; protected. */
extern const UCHAR KdaSecurityDescriptor[];

_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaReadersStart(_Inout_ KDA_DRIVER *driver);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaReadersStop(_Inout_ KDA_DRIVER *driver);
/* Parks the read; the first of a handle makes it a reader. One of no bytes is completed at once. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaReaderRead(_Inout_ PIRP irp);
/* Ends the parked reads of a handle; then the reader itself. Both may come, in this order. */
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaReaderCleanup(_In_ PFILE_OBJECT file);
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaReaderClose(_In_ PFILE_OBJECT file);
_IRQL_requires_max_(PASSIVE_LEVEL) ULONG KdaReadersOpen(VOID);
/* One line to all readers, by the writer's thread; `event` is what the line says. */
_IRQL_requires_max_(PASSIVE_LEVEL) VOID
    KdaReadersLine(_In_ const struct kda_event *event, _In_reads_bytes_(bytes) const CHAR *line,
                   _In_ ULONG bytes, _In_ const struct kda_clock *clock);
/* Completes parked reads for which there is data now. With a clock (the writer) losses that nothing
 * followed are told too. */
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaReadersServe(_In_opt_ const struct kda_clock *clock);

#endif
