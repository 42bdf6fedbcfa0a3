/*
 * troubles.c - what does not work: the calls of the system that failed, and the state of each
 * sensor.
 *
 * A call that fails is remembered with the function that made it; the same failure again only
 * counts. Nothing is looked up or formatted here: the writer, and whoever asks by control request,
 * read it. All of it is called at up to DISPATCH_LEVEL.
 */
#include "driver.h"

#define KDA_DESCRIBED_FAILURES 8u

typedef struct _KDA_FAILURE {
    const CHAR *Place;
    const CHAR *Call; /* NULL: free */
    NTSTATUS Status;
    ULONG64 Count;
    ULONG64 First;
    ULONG64 Last;
    ULONG64 Order; /* number of the last failure; the smallest is replaced first */
} KDA_FAILURE;

typedef struct _KDA_SENSOR_REPORT {
    enum kda_sensor_state State;
    const CHAR *Place;
    const CHAR *Call;
    NTSTATUS Status;
    ULONG64 Since;
} KDA_SENSOR_REPORT;

static KSPIN_LOCK KdapLock;
static KDA_FAILURE KdapFailures[KDA_CONTROL_FAILURES];
static ULONG64 KdapTotal;
static KDA_SENSOR_REPORT KdapReports[KDA_SENSOR_COUNT];
static volatile LONG KdapChanges;
static volatile LONG KdapImageKept;

static const CHAR *const KdapNames[KDA_SENSOR_COUNT] = {
    [KDA_SENSOR_PROCESS] = "process", [KDA_SENSOR_THREAD] = "thread",
    [KDA_SENSOR_IMAGE] = "image",     [KDA_SENSOR_REGISTRY] = "registry",
    [KDA_SENSOR_NETWORK] = "network",
};
static const CHAR *const KdapStates[] = {"off", "armed", "degraded"};
C_ASSERT((int)KDA_SENSOR_COUNT <= (int)KDA_CONTROL_SENSORS);

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaTroublesStart(KDA_DRIVER *driver)
{
    UNREFERENCED_PARAMETER(driver);
    KeInitializeSpinLock(&KdapLock);
    RtlZeroMemory(KdapFailures, sizeof KdapFailures);
    RtlZeroMemory(KdapReports, sizeof KdapReports);
    KdapTotal = 0;
    InterlockedExchange(&KdapChanges, 0);
    InterlockedExchange(&KdapImageKept, 0);
    return STATUS_SUCCESS;
}

_IRQL_requires_max_(HIGH_LEVEL) static ULONG64 KdapNow(VOID)
{
    LARGE_INTEGER time;

    KeQuerySystemTimePrecise(&time);
    return (ULONG64)time.QuadPart;
}

/* --- calls that failed ----------------------------------------------------------------------- */

/* The lock is held. The entry of this failure, or the one that is given up for it. */
_IRQL_requires_max_(DISPATCH_LEVEL) static KDA_FAILURE *KdapFailureOf(const CHAR *place,
                                                                      const CHAR *call,
                                                                      NTSTATUS status)
{
    KDA_FAILURE *oldest = &KdapFailures[0];

    for (ULONG i = 0; i < KDA_CONTROL_FAILURES; i++) {
        KDA_FAILURE *failure = &KdapFailures[i];
        if (failure->Call == call && failure->Place == place && failure->Status == status)
            return failure;
        if (failure->Order < oldest->Order)
            oldest = failure;
    }
    RtlZeroMemory(oldest, sizeof *oldest);
    return oldest;
}

_Use_decl_annotations_ NTSTATUS KdaCalled(const CHAR *place, const CHAR *call, NTSTATUS status)
{
    KDA_FAILURE *failure;
    ULONG64 now;
    KIRQL irql;

    if (NT_SUCCESS(status))
        return status;
    now = KdapNow();
    irql = KeAcquireSpinLockRaiseToDpc(&KdapLock);
    failure = KdapFailureOf(place, call, status);
    if (failure->Count++ == 0) {
        failure->Place = place;
        failure->Call = call;
        failure->Status = status;
        failure->First = now;
    }
    failure->Last = now;
    failure->Order = ++KdapTotal;
    KeReleaseSpinLock(&KdapLock, irql);
    return status;
}

/* --- sensors --------------------------------------------------------------------------------- */

_Use_decl_annotations_ VOID KdaSensorState(ULONG sensor, enum kda_sensor_state state,
                                           const CHAR *place, const CHAR *call, NTSTATUS status)
{
    KDA_SENSOR_REPORT *report = &KdapReports[sensor];
    ULONG64 now = KdapNow();
    KIRQL irql;

    KDA_ASSERT(sensor < KDA_SENSOR_COUNT);
    KDA_ASSERT((call == NULL) == (status == STATUS_SUCCESS));
    irql = KeAcquireSpinLockRaiseToDpc(&KdapLock);
    if (report->Since == 0 || report->State != state || report->Call != call ||
        report->Status != status) {
        /* A sensor that starts or stops as it should is no news: the next status tells it. */
        if (call != NULL || report->Call != NULL)
            InterlockedIncrement(&KdapChanges);
        report->Since = now;
    }
    report->State = state;
    report->Place = call ? place : NULL;
    report->Call = call;
    report->Status = status;
    KeReleaseSpinLock(&KdapLock, irql);
}

_Use_decl_annotations_ LONG KdaSensorChanges(VOID)
{
    return ReadAcquire(&KdapChanges);
}

_Use_decl_annotations_ VOID KdaKeepImage(KDA_DRIVER *driver)
{
    if (InterlockedExchange(&KdapImageKept, 1) == 0)
        ObReferenceObject(driver->DriverObject);
}

_Use_decl_annotations_ BOOLEAN KdaImageIsKept(VOID)
{
    return ReadAcquire(&KdapImageKept) != 0;
}

/* --- telling --------------------------------------------------------------------------------- */

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapCopyText(CHAR *to, ULONG room, const CHAR *from)
{
    ULONG i = 0;

    for (; from != NULL && from[i] != '\0' && i + 1 < room; i++)
        to[i] = from[i];
    to[i] = '\0';
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapTellFailure(const KDA_FAILURE *failure, struct kda_control_failure *told)
{
    KdapCopyText(told->place, sizeof told->place, failure->Place);
    KdapCopyText(told->call, sizeof told->call, failure->Call);
    told->status = failure->Status;
    told->count = failure->Count;
    told->first = failure->First;
    told->last = failure->Last;
}

/* The lock is held. The latest failure before number `before`; NULL: none. */
_IRQL_requires_max_(DISPATCH_LEVEL) static const KDA_FAILURE *KdapLatest(ULONG64 before)
{
    const KDA_FAILURE *latest = NULL;

    for (ULONG i = 0; i < KDA_CONTROL_FAILURES; i++) {
        const KDA_FAILURE *failure = &KdapFailures[i];
        if (failure->Call != NULL && failure->Order < before &&
            (latest == NULL || failure->Order > latest->Order))
            latest = failure;
    }
    return latest;
}

_Use_decl_annotations_ VOID KdaTroubles(struct kda_control_troubles *troubles)
{
    const KDA_FAILURE *failure;
    ULONG64 before = ~(ULONG64)0;
    KIRQL irql;

    irql = KeAcquireSpinLockRaiseToDpc(&KdapLock);
    troubles->total = KdapTotal;
    troubles->sensor_count = KDA_SENSOR_COUNT;
    for (ULONG i = 0; i < KDA_SENSOR_COUNT; i++) {
        struct kda_control_sensor *sensor = &troubles->sensors[i];
        KdapCopyText(sensor->name, sizeof sensor->name, KdapNames[i]);
        KdapCopyText(sensor->place, sizeof sensor->place, KdapReports[i].Place);
        KdapCopyText(sensor->call, sizeof sensor->call, KdapReports[i].Call);
        sensor->state = (ULONG)KdapReports[i].State;
        sensor->status = KdapReports[i].Status;
        sensor->since = KdapReports[i].Since;
    }
    troubles->failure_count = 0;
    while ((failure = KdapLatest(before)) != NULL) {
        KdapTellFailure(failure, &troubles->failures[troubles->failure_count++]);
        before = failure->Order;
    }
    KeReleaseSpinLock(&KdapLock, irql);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapDescribeText(struct kda_event_builder *builder, const CHAR *name, const CHAR *text)
{
    SIZE_T count = 0;

    while (text[count] != '\0')
        count++;
    kda_event_object_bytes(builder, name, KDA_TYPE_UTF8, text, count);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapDescribeCall(struct kda_event_builder *builder, const CHAR *place, const CHAR *call,
                     NTSTATUS status)
{
    KdapDescribeText(builder, "call", call);
    KdapDescribeText(builder, "place", place);
    kda_event_object_number(builder, "status", KDA_TYPE_STATUS, (ULONG)status);
}

_Use_decl_annotations_ VOID KdaSensorsDescribe(struct kda_event_builder *builder,
                                               enum kda_field field)
{
    kda_event_object_begin(builder, field);
    for (ULONG i = 0; i < KDA_SENSOR_COUNT; i++) {
        KDA_SENSOR_REPORT report;
        KIRQL irql = KeAcquireSpinLockRaiseToDpc(&KdapLock);
        report = KdapReports[i];
        KeReleaseSpinLock(&KdapLock, irql);
        if (!kda_event_object_open(builder, KdapNames[i], KDA_TYPE_OBJECT))
            break;
        KdapDescribeText(builder, "state", KdapStates[report.State]);
        if (report.Since != 0)
            kda_event_object_number(builder, "since", KDA_TYPE_TIME, report.Since);
        if (report.Call != NULL)
            KdapDescribeCall(builder, report.Place, report.Call, report.Status);
        kda_event_object_close(builder);
    }
    kda_event_object_end(builder);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapDescribeFailures(struct kda_event_builder *builder)
{
    KDA_FAILURE failure = {.Order = ~(ULONG64)0};
    BOOLEAN any;
    KIRQL irql;

    kda_event_object_begin(builder, KDA_FIELD_STATUS_FAILED_CALLS);
    kda_event_object_number(builder, "total", KDA_TYPE_NUMBER, KdapTotal);
    if (kda_event_object_open(builder, "last", KDA_TYPE_ARRAY)) {
        for (ULONG i = 0; i < KDA_DESCRIBED_FAILURES; i++) {
            const KDA_FAILURE *next;
            irql = KeAcquireSpinLockRaiseToDpc(&KdapLock);
            next = KdapLatest(failure.Order);
            any = next != NULL;
            if (any)
                failure = *next;
            KeReleaseSpinLock(&KdapLock, irql);
            if (!any || !kda_event_object_open(builder, NULL, KDA_TYPE_OBJECT))
                break;
            KdapDescribeCall(builder, failure.Place, failure.Call, failure.Status);
            kda_event_object_number(builder, "count", KDA_TYPE_NUMBER, failure.Count);
            kda_event_object_number(builder, "last", KDA_TYPE_TIME, failure.Last);
            kda_event_object_close(builder);
        }
        kda_event_object_close(builder);
    }
    kda_event_object_end(builder);
}

_Use_decl_annotations_ VOID KdaTroublesDescribe(struct kda_event_builder *builder)
{
    KdaSensorsDescribe(builder, KDA_FIELD_STATUS_SENSORS);
    if (KdapTotal != 0)
        KdapDescribeFailures(builder);
}
