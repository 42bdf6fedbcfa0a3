/*
 * faults.c - calls that fail: the sweep's n-th, or any with a status that its page lists.
 */
#include "machine.h"

/* --- the sweep ------------------------------------------------------------------------------- */

static struct {
    _Atomic uint64_t armed;
    _Atomic uint64_t calls;
    const char *_Atomic name;
    _Atomic int scope;
    void *_Atomic owner; /* mark of the thread that set the scope */
} faults;
static _Thread_local char mark;

void sim_fault_arm(uint64_t n)
{
    atomic_store(&faults.armed, 0);
    atomic_store(&faults.calls, 0);
    atomic_store(&faults.name, NULL);
    atomic_store(&faults.armed, n);
}

void sim_fault_scope(enum sim_fault_scope scope)
{
    atomic_store(&faults.owner, &mark);
    atomic_store(&faults.scope, (int)scope);
}

bool sim_fault(const char *ddi)
{
    int scope = atomic_load(&faults.scope);
    uint64_t call;

    if (scope != SIM_FAULT_ALL &&
        (atomic_load(&faults.owner) == &mark) != (scope == SIM_FAULT_THIS_THREAD))
        return false;
    call = atomic_fetch_add(&faults.calls, 1) + 1;
    if (call != atomic_load(&faults.armed))
        return false;
    atomic_store(&faults.name, ddi);
    return true;
}

bool sim_fault_fired(void)
{
    return atomic_load(&faults.name) != NULL;
}

uint64_t sim_fault_calls(void)
{
    return atomic_load(&faults.calls);
}

const char *sim_fault_name(void)
{
    return atomic_load(&faults.name);
}

/* --- statuses that pages list ---------------------------------------------------------------- */

#define STATUSES 16u

#define ANY 0xFFFFFFFFu /* the page names none, or says that there are others */

static const struct {
    const char *ddi;
    const char *rule;
    uint32_t status[STATUSES];
} documented[] = {
    {"PsSetCreateProcessNotifyRoutineEx", "PS-006", {0xC0000022, 0xC000000D}},
    {"PsSetCreateProcessNotifyRoutineEx2", "PS-014", {0xC0000022, 0xC000000D}},
    {"PsSetCreateThreadNotifyRoutine", "PS-036", {0xC000009A}},
    {"PsSetCreateThreadNotifyRoutineEx", "PS-042", {0xC000009A}},
    {"PsRemoveCreateThreadNotifyRoutine", "PS-044", {0xC000007A}},
    {"PsSetLoadImageNotifyRoutine", "PS-054", {0xC000009A}},
    {"PsSetLoadImageNotifyRoutineEx", "PS-059", {0xC000009A, 0xC00000F0}},
    {"PsRemoveLoadImageNotifyRoutine", "PS-061", {0xC000007A}},
    {"PsLookupProcessByProcessId", "PS-080", {0xC000000B}},
    {"PsLookupThreadByThreadId", "PS-084", {0xC000000D}},
    {"SeLocateProcessImageName", "PS-105", {0xC0000225, 0xC000009A}},
    {"PsCreateSystemThread", "PS-107", {0xC000009A}},
    {"ZwQueryInformationProcess",
     "PS-122",
     {0xC0000003, 0xC0000004, 0xC0000008, 0xC0000022, 0xC000009A, 0xC000010A}},
    {"ZwQueryInformationThread", "PS-126", {0xC0000003, 0xC0000004, 0xC0000022, 0xC000009A}},
    {"ZwQuerySystemInformation", "PS-127", {0xC0000004, 0xC000009A}},
    {"ZwQueryVirtualMemory",
     "PS-130",
     {0xC0000003, 0xC0000004, 0xC000000D, 0xC0000022, 0xC0000098, 0xC0000141, 0xC000009A}},
    {"CmRegisterCallbackEx", "CM-004", {0xC000009A, 0xC01C0011}},
    {"CmUnRegisterCallback", "CM-012", {0xC000000D}},
    {"CmCallbackGetKeyObjectIDEx", "CM-023", {0xC000000D, 0xC000009A, 0xC000017C}},
    {"FwpmBfeStateSubscribeChanges0", "WFP-001", {0xC000009A}},
    {"FwpmBfeStateUnsubscribeChanges0", "WFP-008", {ANY}},
    {"FwpmEngineOpen0", "WFP-012", {0xC0020017, 0xC000009A}},
    {"FwpmEngineClose0", "WFP-014", {ANY}},
    {"FwpmTransactionBegin0", "WFP-020", {0xC0220012, 0xC022000E, 0xC0220010, 0xC000009A}},
    {"FwpmTransactionCommit0", "WFP-024", {0xC022000D, 0xC0220010, 0xC0020017, 0xC000009A}},
    {"FwpmTransactionAbort0", "WFP-025", {0xC022000D, 0xC0220010}},
    {"FwpmProviderAdd0", "WFP-026", {0xC0220009, 0xC0220023, 0xC0220011, 0xC000009A}},
    {"FwpmSubLayerAdd0", "WFP-029", {0xC0220036, 0xC0220009, 0xC0220011, 0xC000009A}},
    {"FwpmCalloutAdd0", "WFP-034", {0xC0220018, 0xC0220009, 0xC0220011, 0xC000009A}},
    {"FwpmFilterAdd0",
     "WFP-044",
     {0xC022001E, 0xC0220024, 0xC0220029, 0xC0220023, 0xC0220001, 0xC0220007, 0xC0220004,
      0xC0220005, 0xC0220002, 0xC0220027, 0xC0220026, 0xC0220037, 0xC0220011, 0xC0220025,
      0xC0020017, 0xC000009A}},
    {"FwpsCalloutRegister1", "WFP-051", {0xC0220009, 0xC000009A}},
    {"FwpsCalloutRegister2", "WFP-051", {0xC0220009, 0xC000009A}},
    {"FwpsCalloutUnregisterById0", "WFP-065", {0xC022000A, 0x80000011, 0xC0220001, ANY}},
    {"IoCreateDevice", "IO-009", {0xC000009A, 0xC0000035}},
    {"IoCreateDeviceSecure", "IO-009", {0xC000009A, 0xC0000035}},
    {"IoCreateSymbolicLink", "IO-019", {0xC0000035, ANY}},
    {"IoDeleteSymbolicLink", "IO-021", {0xC0000034, ANY}},
    {"IoRegisterShutdownNotification", "IO-022", {0xC000009A}},
    {"IoCsqInitialize", "IO-053", {ANY}},
    {"ExCreateCallback", "EX-036", {0xC0000001, 0xC0000034, 0xC000009A}},
    {"ExUuidCreate", "EX-044", {0xC000022D, 0x40020056}},
    {"ObReferenceObjectByHandle", "OB-002", {0xC0000024, 0xC0000022, 0xC0000008}},
    {"ObOpenObjectByPointer",
     "OB-011",
     {0xC0000022, 0xC000009A, 0xC0000061, 0xC0000044, 0xC0000001, 0xC000000D, 0xC0000024,
      0xC000010A, 0xC000004B}},
    {"ObQueryNameString", "OB-015", {0xC0000004, 0xC000009A}},
    {"ZwCreateFile",
     "ZW-005",
     {0xC0000054, 0x00000108, 0xC0000043, 0xC0000022, 0xC0000034, 0xC000003A, 0xC0000035,
      0xC000009A}},
    {"ZwWriteFile", "ZW-009", {0xC000007F, 0xC000009A}},
    {"ZwFlushBuffersFile", "ZW-011", {0xC00000A2, 0xC000026E}},
    {"ZwQueryDirectoryFile", "ZW-012", {0x80000006, 0xC000000F, 0x80000005, 0xC0000023}},
    {"ZwDeleteFile",
     "ZW-018",
     {0xC0000034, 0xC0000033, 0xC000003A, 0xC000003B, 0xC000000D, 0xC000009A, 0xC0000121,
      0xC0000043}},
    {"ZwClose", "ZW-020", {0xC0000008, 0xC0000235}},
    {"ZwOpenKey", "ZW-022", {0xC0000034, 0xC0000022, 0xC0000008}},
    {"ZwQueryValueKey", "ZW-025", {0xC0000034, 0xC0000022, 0xC0000008}},
    {"ZwSetValueKey", "ZW-027", {0xC0000022, 0xC0000008}},
    {"ZwOpenProcessTokenEx",
     "ZW-030",
     {0xC0000022, 0xC0000008, 0xC0000024, 0xC0000061, 0xC0000044, 0xC000009A, 0xC0000001}},
    {"ZwQueryInformationToken", "ZW-033", {0xC0000023, 0xC0000022, 0xC0000008}},
    {"ZwSetSecurityObject", "ZW-036", {0xC0000077, 0xC0000079, 0xC0000078, 0xC0000058, 0xC0000022}},
};
#define DOCUMENTED (sizeof(documented) / sizeof(documented[0]))

bool sim_status_at(size_t index, const char **ddi, const char **rule, int32_t *status)
{
    for (size_t i = 0; i < DOCUMENTED; i++) {
        for (size_t s = 0; s < STATUSES && (s == 0 || documented[i].status[s]); s++) {
            if (index-- > 0)
                continue;
            *ddi = documented[i].ddi;
            *rule = documented[i].rule;
            *status = documented[i].status[s] != ANY ? (int32_t)documented[i].status[s]
                                                     : STATUS_UNSUCCESSFUL;
            return true;
        }
    }
    return false;
}

static bool may_answer(const char *ddi, int32_t status)
{
    for (size_t i = 0; i < DOCUMENTED; i++) {
        for (size_t s = 0; s < STATUSES && strcmp(documented[i].ddi, ddi) == 0; s++) {
            if (documented[i].status[s] == ANY ||
                (documented[i].status[s] && documented[i].status[s] == (uint32_t)status))
                return true;
        }
    }
    return false;
}

/* --- planned statuses ------------------------------------------------------------------------ */

#define PLANS 16u

static struct {
    pthread_mutex_t lock;
    _Atomic unsigned count;
    struct {
        char ddi[48];
        uint32_t class_;
        int32_t status;
        uint32_t times;
    } plan[PLANS];
} plans = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    _Atomic int32_t status;
    _Atomic uint32_t times;
    _Atomic uint32_t after; /* removals that are let pass before */
} refusals;

void sim_status_clear(void)
{
    atomic_store(&plans.count, 0);
    atomic_store(&refusals.times, 0);
}

void sim_status_class(const char *ddi, uint32_t class_, int32_t status, uint32_t times)
{
    unsigned i;

    SIM_CHECK(may_answer(ddi, status), "%s: no page lists status 0x%08X", ddi, (unsigned)status);
    pthread_mutex_lock(&plans.lock);
    i = plans.count;
    SIM_CHECK(i < PLANS, "more than %u plans", PLANS);
    snprintf(plans.plan[i].ddi, sizeof(plans.plan[i].ddi), "%s", ddi);
    plans.plan[i].class_ = class_;
    plans.plan[i].status = status;
    plans.plan[i].times = times;
    atomic_store(&plans.count, i + 1);
    pthread_mutex_unlock(&plans.lock);
}

void sim_status_next(const char *ddi, int32_t status, uint32_t times)
{
    sim_status_class(ddi, SIM_ANY_CLASS, status, times);
}

void sim_refuse_removal_after(uint32_t removals, int32_t status, uint32_t times)
{
    sim_refuse_removal(status, times);
    atomic_store(&refusals.after, removals);
}

void sim_refuse_removal(int32_t status, uint32_t times)
{
    atomic_store(&refusals.after, 0);
    atomic_store(&refusals.status, status);
    atomic_store(&refusals.times, times);
}

bool sim_removal_refused(NTSTATUS *status)
{
    if (atomic_load(&refusals.times) == 0)
        return false;
    if (atomic_load(&refusals.after) > 0) {
        atomic_fetch_sub(&refusals.after, 1);
        return false;
    }
    if (atomic_load(&refusals.times) != UINT32_MAX)
        atomic_fetch_sub(&refusals.times, 1);
    *status = atomic_load(&refusals.status);
    return true;
}

bool sim_planned(const char *ddi, uint32_t class_, NTSTATUS *status)
{
    bool planned = false;

    if (atomic_load(&plans.count) == 0)
        return false;
    pthread_mutex_lock(&plans.lock);
    for (unsigned i = 0; i < plans.count && !planned; i++) {
        planned = plans.plan[i].times > 0 && strcmp(plans.plan[i].ddi, ddi) == 0 &&
                  (plans.plan[i].class_ == SIM_ANY_CLASS || plans.plan[i].class_ == class_);
        if (planned) {
            *status = plans.plan[i].status;
            plans.plan[i].times -= plans.plan[i].times != UINT32_MAX;
        }
    }
    pthread_mutex_unlock(&plans.lock);
    return planned;
}

bool sim_fails(const char *ddi, uint32_t class_, NTSTATUS usual, NTSTATUS *status)
{
    if (sim_fault(ddi)) {
        *status = usual;
        return true;
    }
    return sim_planned(ddi, class_, status);
}
