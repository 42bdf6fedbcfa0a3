/*
 * ps.c - processes and threads: their tables, their life, and the notifications about it.
 */
#include "ps.h"

#define BUCKETS 4096u
/* As many as kernels have. */
#define ROUTINES_MAX 64u
/* Of thread routines: told in the new thread. */
enum { FLAVOUR_CLASSIC, FLAVOUR_SUBSYSTEMS, FLAVOUR_NON_SYSTEM };

static struct {
    pthread_mutex_t lock;
    struct sim_proc *processes[BUCKETS];
    struct sim_thr *threads[BUCKETS];
    struct sim_proc *oldest;
    struct sim_proc **newest;
    struct sim_thr *system;
    uint32_t next_id;
    uint64_t next_key;
} ps = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct sim_notify_list process_routines =
    SIM_NOTIFY_LIST(STATUS_INVALID_PARAMETER, "PS-007", "PS-009", false);
static struct sim_notify_list thread_routines =
    SIM_NOTIFY_LIST(STATUS_INSUFFICIENT_RESOURCES, "PS-037", "PS-046", true);

/* --- tables ---------------------------------------------------------------------------------- */

static unsigned bucket_of(uint32_t id)
{
    return (id >> 2) % BUCKETS;
}

static struct sim_proc *proc_find_locked(uint32_t pid)
{
    struct sim_proc *p = ps.processes[bucket_of(pid)];

    while (p && p->pid != pid)
        p = p->next;
    return p;
}

static struct sim_thr *thr_find_locked(uint32_t tid)
{
    struct sim_thr *t = ps.threads[bucket_of(tid)];

    while (t && t->tid != tid)
        t = t->next;
    return t;
}

struct sim_proc *sim_proc_find(uint32_t pid)
{
    struct sim_proc *found;

    pthread_mutex_lock(&ps.lock);
    found = proc_find_locked(pid);
    if (found)
        sim_object_ref(found);
    pthread_mutex_unlock(&ps.lock);
    return found;
}

struct sim_thr *sim_thr_find(uint32_t tid)
{
    struct sim_thr *found;

    pthread_mutex_lock(&ps.lock);
    found = thr_find_locked(tid);
    if (found)
        sim_object_ref(found);
    pthread_mutex_unlock(&ps.lock);
    return found;
}

void sim_proc_walk(void (*visit)(struct sim_proc *process, void *context), void *context)
{
    pthread_mutex_lock(&ps.lock);
    for (struct sim_proc *p = ps.oldest; p; p = p->newer)
        visit(p, context);
    pthread_mutex_unlock(&ps.lock);
}

/* Process and thread ids come from one space. */
static uint32_t id_next_locked(void)
{
    do {
        ps.next_id += 4;
    } while (proc_find_locked(ps.next_id) || thr_find_locked(ps.next_id));
    return ps.next_id;
}

/* --- making and removing --------------------------------------------------------------------- */

static void thr_destroy(void *body)
{
    struct sim_thr *t = body;

    if (!sim.ending)
        sim_object_unref(t->process);
}

static void proc_destroy(void *body)
{
    struct sim_proc *p = body;

    if (p->file && !sim.ending)
        sim_object_unref(p->file);
    sim_wide_free(&p->image);
    sim_wide_free(&p->command_line);
    sim_modules_free(p->modules);
}

struct sim_thr *sim_thr_make(struct sim_proc *process, uint32_t tid)
{
    struct sim_thr *made = sim_object_create(SIM_TYPE_THREAD, sizeof(*made), thr_destroy);

    sim_header_init(&made->header, 6, false);
    made->process = process;
    made->exit_status = STATUS_PENDING;
    sim_object_ref(process);
    pthread_mutex_lock(&ps.lock);
    made->tid = tid ? tid : id_next_locked();
    if (tid && thr_find_locked(tid)) {
        pthread_mutex_unlock(&ps.lock);
        sim_object_unref(made);
        return NULL;
    }
    made->next = ps.threads[bucket_of(made->tid)];
    ps.threads[bucket_of(made->tid)] = made;
    made->sibling = process->threads;
    process->threads = made;
    pthread_mutex_unlock(&ps.lock);
    return made;
}

void sim_thr_remove(struct sim_thr *t)
{
    pthread_mutex_lock(&ps.lock);
    for (struct sim_thr **at = &ps.threads[bucket_of(t->tid)]; *at; at = &(*at)->next) {
        if (*at == t) {
            *at = t->next;
            break;
        }
    }
    for (struct sim_thr **at = &t->process->threads; *at; at = &(*at)->sibling) {
        if (*at == t) {
            *at = t->sibling;
            break;
        }
    }
    pthread_mutex_unlock(&ps.lock);
    sim_dispatcher_lock();
    t->ended = true;
    sim_header_signal(&t->header);
    sim_dispatcher_unlock();
    sim_object_unref(t);
}

static struct sim_proc *proc_make(const struct sim_process *info)
{
    static const uint8_t system_sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    struct sim_proc *made = sim_object_create(SIM_TYPE_PROCESS, sizeof(*made), proc_destroy);

    SIM_CHECK(info->sid_size <= sizeof(made->sid), "a SID has at most %zu bytes",
              sizeof(made->sid));
    sim_header_init(&made->header, 3, false);
    made->info = *info;
    sim_wide_set(&made->image, info->image);
    sim_wide_set(&made->command_line, info->command_line);
    memcpy(made->sid, info->sid ? info->sid : system_sid,
           info->sid ? info->sid_size : sizeof(system_sid));
    made->info.sid = made->sid;
    made->info.sid_size = info->sid ? info->sid_size : sizeof(system_sid);
    if (!info->integrity)
        made->info.integrity = 0x4000;
    made->parent_pid = info->parent_pid ? info->parent_pid : sim_self()->thread->process->pid;
    made->create_time = info->create_time ? info->create_time : sim_clock_utc();
    made->exit_status = STATUS_PENDING;
    return made;
}

/* False: the pid is taken. */
static bool proc_insert(struct sim_proc *p)
{
    pthread_mutex_lock(&ps.lock);
    p->pid = p->info.pid ? p->info.pid : id_next_locked();
    if (p->info.pid && proc_find_locked(p->pid)) {
        pthread_mutex_unlock(&ps.lock);
        return false;
    }
    if (!p->info.start_key)
        p->info.start_key = ++ps.next_key;
    p->next = ps.processes[bucket_of(p->pid)];
    ps.processes[bucket_of(p->pid)] = p;
    *ps.newest = p;
    ps.newest = &p->newer;
    pthread_mutex_unlock(&ps.lock);
    return true;
}

static void proc_remove(struct sim_proc *p)
{
    pthread_mutex_lock(&ps.lock);
    for (struct sim_proc **at = &ps.processes[bucket_of(p->pid)]; *at; at = &(*at)->next) {
        if (*at == p) {
            *at = p->next;
            break;
        }
    }
    for (struct sim_proc **at = &ps.oldest; *at; at = &(*at)->newer) {
        if (*at == p) {
            *at = p->newer;
            if (ps.newest == &p->newer)
                ps.newest = at;
            break;
        }
    }
    pthread_mutex_unlock(&ps.lock);
    sim_dispatcher_lock();
    p->ended = true;
    sim_header_signal(&p->header);
    sim_dispatcher_unlock();
    sim_object_unref(p);
}

void sim_ps_boot(void)
{
    struct sim_process info = {.pid = 4, .session = 0, .start_key = 1};
    struct sim_proc *p;

    ps.oldest = NULL;
    ps.newest = &ps.oldest;
    ps.next_id = 1000;
    ps.next_key = UINT64_C(0x0001000000000001);
    /* proc_make asks for the creator, which the first process has not. */
    info.parent_pid = UINT32_MAX;
    info.create_time = sim.options.utc;
    p = proc_make(&info);
    p->parent_pid = 0;
    proc_insert(p);
    ps.system = sim_thr_make(p, 8);
}

void sim_ps_end(void)
{
    sim_notify_clear(&process_routines);
    sim_notify_clear(&thread_routines);
    sim_image_end();
    memset(ps.processes, 0, sizeof(ps.processes));
    memset(ps.threads, 0, sizeof(ps.threads));
    ps.oldest = NULL;
    ps.system = NULL;
}

struct sim_thr *sim_system_thread(void)
{
    return ps.system;
}

/* --- context --------------------------------------------------------------------------------- */

bool sim_enter(uint32_t pid, uint32_t tid)
{
    struct sim_ctx *self = sim_self();
    struct sim_thr *found = NULL;

    SIM_CHECK(self->inside == 0, "in the middle of a callback");
    pthread_mutex_lock(&ps.lock);
    if (pid == 4 && tid == 0) {
        found = ps.system;
    } else if (tid) {
        found = thr_find_locked(tid);
        if (found && found->process->pid != pid)
            found = NULL;
    } else {
        const struct sim_proc *p = proc_find_locked(pid);
        found = p ? p->threads : NULL;
        while (found && found->sibling)
            found = found->sibling;
    }
    if (found)
        sim_object_ref(found);
    pthread_mutex_unlock(&ps.lock);
    if (!found)
        return false;
    if (self->entered)
        sim_object_unref(self->entered);
    self->thread = self->entered = found;
    return true;
}

void sim_as_begin(struct sim_as *as, struct sim_thr *thread)
{
    struct sim_ctx *self = sim_self();

    as->thread = self->thread;
    self->thread = thread;
}

void sim_as_end(struct sim_as *as)
{
    sim_self()->thread = as->thread;
}

/* --- notifications --------------------------------------------------------------------------- */

/* Enters a notification: what has to be back when it leaves. */
static void told_begin(bool *before)
{
    *before = sim_self()->notified;
    sim_self()->notified = true;
}

static void tell_process(struct sim_proc *p, PS_CREATE_NOTIFY_INFO *info)
{
    struct sim_call call;
    struct sim_notify *n = NULL;
    int32_t guarded = sim_self()->guarded;
    bool before;

    /* Special kernel APCs are delivered here, whatever the caller had set. */
    sim_self()->guarded = 0;
    sim_self()->critical++;
    told_begin(&before);
    while ((n = sim_notify_next(&process_routines, n)) != NULL) {
        PCREATE_PROCESS_NOTIFY_ROUTINE_EX routine =
            (PCREATE_PROCESS_NOTIFY_ROUTINE_EX)(uintptr_t)n->routine;
        if (p->info.wsl && n->flavour == 0)
            continue; /* only Ex2 is told about subsystem processes */
        sim_call_enter(&call, "process notification", n->routine, "PS-017", PASSIVE_LEVEL);
        routine((PEPROCESS)p, (HANDLE)(uintptr_t)p->pid, info);
        sim_call_leave(&call);
    }
    sim_self()->notified = before;
    sim_self()->critical--;
    sim_self()->guarded = guarded;
}

static void tell_thread(struct sim_thr *t, bool create)
{
    struct sim_call call;
    struct sim_notify *n = NULL;
    struct sim_as as;
    bool before;

    told_begin(&before);
    while ((n = sim_notify_next(&thread_routines, n)) != NULL) {
        PCREATE_THREAD_NOTIFY_ROUTINE routine =
            (PCREATE_THREAD_NOTIFY_ROUTINE)(uintptr_t)n->routine;
        bool in_new = create && n->flavour == FLAVOUR_NON_SYSTEM;
        if (in_new)
            sim_as_begin(&as, t);
        sim_call_enter(&call, "thread notification", n->routine, "PS-048", APC_LEVEL);
        routine((HANDLE)(uintptr_t)t->process->pid, (HANDLE)(uintptr_t)t->tid, create);
        sim_call_leave(&call);
        if (in_new)
            sim_as_end(&as);
    }
    sim_self()->notified = before;
}

static void proc_end(struct sim_proc *p, int32_t status)
{
    struct sim_as as;
    struct sim_thr *t;

    p->exit_status = status;
    for (;;) {
        bool last;
        pthread_mutex_lock(&ps.lock);
        t = p->threads;
        if (t)
            sim_object_ref(t);
        last = t && !t->sibling;
        pthread_mutex_unlock(&ps.lock);
        if (!t)
            break;
        t->exit_status = status;
        sim_as_begin(&as, t);
        tell_thread(t, false);
        if (last) {
            p->exit_time = sim_clock_utc();
            tell_process(p, NULL);
        }
        sim_as_end(&as);
        sim_thr_remove(t);
        sim_object_unref(t);
    }
    proc_remove(p);
}

/* Inserted, with its first thread; NULL if an id is taken. */
static struct sim_proc *proc_begin(const struct sim_process *process, uint32_t *pid,
                                   struct sim_thr **first)
{
    struct sim_proc *made = proc_make(process);

    if (!proc_insert(made)) {
        sim_object_unref(made);
        return NULL;
    }
    *first = sim_thr_make(made, process->first_tid);
    if (!*first)
        *first = sim_thr_make(made, 0);
    (*first)->start_address = process->start_address;
    made->file = process->wsl ? NULL : sim_file_object(process->image);
    if (pid)
        *pid = made->pid;
    return made;
}

int32_t sim_process_create(const struct sim_process *process, uint32_t *pid)
{
    struct sim_thr *first = NULL;
    struct sim_proc *made = proc_begin(process, pid, &first);
    struct sim_wide image = {NULL, 0};
    struct sim_wide command = {NULL, 0};
    UNICODE_STRING image_name;
    UNICODE_STRING command_line;
    PS_CREATE_NOTIFY_INFO info;
    PS_CREATE_NOTIFY_INFO *lent;
    size_t size = process->info_size ? process->info_size : sizeof(info);
    int32_t status;

    SIM_RULE("PS-017", sim_self()->irql == PASSIVE_LEVEL, "processes are made at PASSIVE_LEVEL");
    if (!made)
        return STATUS_INVALID_PARAMETER;
    /* The strings are lent: copies that go after the call show who keeps them. */
    sim_wide_set(&image, process->image);
    sim_wide_set(&command, process->command_line);
    image_name = sim_unicode(&image);
    command_line = sim_unicode(&command);
    memset(&info, 0, sizeof(info));
    info.Size = size;
    info.Flags = (process->no_open_name ? 0 : KDA_NOTIFY_FILE_OPEN_NAME_AVAILABLE) |
                 (process->wsl ? KDA_NOTIFY_IS_SUBSYSTEM_PROCESS : 0);
    info.ParentProcessId = (HANDLE)(uintptr_t)made->parent_pid;
    info.CreatingThreadId.UniqueProcess = (HANDLE)(uintptr_t)sim_self()->thread->process->pid;
    info.CreatingThreadId.UniqueThread = (HANDLE)(uintptr_t)sim_self()->thread->tid;
    info.FileObject = made->file;
    info.ImageFileName = process->no_image_name ? NULL : &image_name;
    info.CommandLine = process->no_command_line ? NULL : &command_line;
    sim_object_ref(made);
    /* A block of just that size: what is read behind it is seen by the sanitizers. */
    lent = sim_alloc(size);
    memset(lent, 0xEE, size);
    memcpy(lent, &info, size < sizeof(info) ? size : sizeof(info));
    tell_process(made, lent);
    status = size < sizeof(info) ? STATUS_SUCCESS : lent->CreationStatus;
    free(lent);
    sim_wide_free(&image);
    sim_wide_free(&command);
    if (status < 0)
        proc_end(made, status);
    else if (!process->no_thread_told)
        tell_thread(first, true);
    sim_object_unref(made);
    return status;
}

int32_t sim_process_existing(const struct sim_process *process, uint32_t *pid)
{
    struct sim_thr *first = NULL;

    return proc_begin(process, pid, &first) ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
}

bool sim_process_exit(uint32_t pid, uint32_t exit_code)
{
    struct sim_proc *p = sim_proc_find(pid);

    SIM_RULE("PS-017", sim_self()->irql == PASSIVE_LEVEL, "processes end at PASSIVE_LEVEL");
    SIM_CHECK(pid != 4, "the System process does not end");
    if (!p)
        return false;
    proc_end(p, (int32_t)exit_code);
    sim_object_unref(p);
    return true;
}

bool sim_process_alive(uint32_t pid)
{
    bool alive;

    pthread_mutex_lock(&ps.lock);
    alive = proc_find_locked(pid) != NULL;
    pthread_mutex_unlock(&ps.lock);
    return alive;
}

int32_t sim_thread_create(const struct sim_thread *thread, uint32_t *tid)
{
    uint32_t pid = thread->pid ? thread->pid : sim_self()->thread->process->pid;
    struct sim_proc *p = sim_proc_find(pid);
    struct sim_thr *made;

    if (!p)
        return STATUS_INVALID_CID;
    made = sim_thr_make(p, thread->tid);
    if (made) {
        made->start_address = thread->start_address;
        made->no_start_address = thread->no_start_address;
        if (tid)
            *tid = made->tid;
        sim_object_ref(made);
        tell_thread(made, true);
        sim_object_unref(made);
    }
    sim_object_unref(p);
    return made ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
}

bool sim_thread_exit(uint32_t tid, uint32_t exit_code)
{
    struct sim_thr *t = sim_thr_find(tid);
    struct sim_as as;

    if (!t)
        return false;
    t->exit_status = (int32_t)exit_code;
    sim_as_begin(&as, t);
    tell_thread(t, false);
    sim_as_end(&as);
    sim_thr_remove(t);
    sim_object_unref(t);
    return true;
}

/* --- registration ---------------------------------------------------------------------------- */

NTSTATUS sim_set_routine(struct sim_notify_list *list, const char *ddi, const char *rule,
                         void *routine, uint8_t flavour)
{
    NTSTATUS status;

    sim_ddi(ddi, rule, PASSIVE_LEVEL);
    if (sim_fails(ddi, SIM_ANY_CLASS, list->full, &status))
        return status;
    return sim_notify_add(list, ddi, routine, NULL, flavour, ROUTINES_MAX, NULL);
}

NTSTATUS sim_remove_routine(struct sim_notify_list *list, const char *ddi, const char *rule,
                            void *routine, unsigned irql)
{
    NTSTATUS status;

    sim_ddi(ddi, rule, irql);
    if (sim_removal_refused(&status) || sim_planned(ddi, SIM_ANY_CLASS, &status))
        return status;
    return sim_notify_remove(list, ddi, routine);
}

void sim_routines_taken(unsigned process, unsigned thread, unsigned image)
{
    process_routines.foreign = process;
    thread_routines.foreign = thread;
    sim_image_routines_taken(image);
}

NTSTATUS PsSetCreateProcessNotifyRoutineEx(PCREATE_PROCESS_NOTIFY_ROUTINE_EX routine,
                                           BOOLEAN remove)
{
    void *at = (void *)(uintptr_t)routine;

    return remove ? sim_remove_routine(&process_routines, __func__, "PS-001", at, PASSIVE_LEVEL)
                  : sim_set_routine(&process_routines, __func__, "PS-001", at, 0);
}

NTSTATUS PsSetCreateProcessNotifyRoutineEx2(ULONG type, PVOID routine, BOOLEAN remove)
{
    if (type != 0)
        return STATUS_INVALID_PARAMETER;
    return remove
               ? sim_remove_routine(&process_routines, __func__, "PS-001", routine, PASSIVE_LEVEL)
               : sim_set_routine(&process_routines, __func__, "PS-001", routine, 1);
}

NTSTATUS PsSetCreateThreadNotifyRoutine(PCREATE_THREAD_NOTIFY_ROUTINE routine)
{
    return sim_set_routine(&thread_routines, __func__, "PS-035", (void *)(uintptr_t)routine,
                           FLAVOUR_CLASSIC);
}

NTSTATUS PsSetCreateThreadNotifyRoutineEx(ULONG type, PVOID routine)
{
    SIM_RULE("PS-039", type <= 1, "%u is no type of notification", type);
    return sim_set_routine(&thread_routines, __func__, "PS-035", routine,
                           type == 0 ? FLAVOUR_NON_SYSTEM : FLAVOUR_SUBSYSTEMS);
}

NTSTATUS PsRemoveCreateThreadNotifyRoutine(PCREATE_THREAD_NOTIFY_ROUTINE routine)
{
    return sim_remove_routine(&thread_routines, __func__, "PS-043", (void *)(uintptr_t)routine,
                              APC_LEVEL);
}
