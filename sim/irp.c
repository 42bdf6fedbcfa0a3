/*
 * irp.c - requests: from the client's call to the completion, with cancellation.
 *
 * A request that the driver completes is freed at once, so that a touch after the completion is
 * seen by the sanitizers; what the client waits for is kept apart from it.
 */
#include "io.h"

#include <time.h>

struct sim_reader {
    struct sim_device *device;
    PFILE_OBJECT file;
    struct sim_request *requests;
    uint32_t access;
};

struct sim_request {
    struct sim_request *next;
    struct sim_reader *reader;
    struct packet *packet; /* NULL: completed */
    void *buffer;
    size_t size;
    NTSTATUS status;
    size_t bytes;
};

/* What is around an IRP. It goes with its completion, or with the last thread that looks at it. */
struct packet {
    IRP irp;
    IO_STACK_LOCATION stack;
    struct sim_item item;
    struct sim_request *request;
    unsigned pins; /* dispatching or cancelling threads */
    NTSTATUS final;
    bool completed;
    bool pending;    /* the mark at the time of completion */
    bool cancelling; /* handed over to be completed as cancelled */
};

static pthread_mutex_t irp_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

#define IS_ERROR(status) ((uint32_t)(status) >> 30 == 3)

static struct packet *packet_of(const char *ddi, const char *rule, PIRP irp)
{
    struct packet *p = CONTAINING_RECORD(irp, struct packet, irp);

    if (irp->Type != 6 || p->item.kind != SIM_IRP)
        sim_violation(rule, ddi, "%p is no IRP, or one that is completed", (void *)irp);
    return p;
}

/* --- making and sending ---------------------------------------------------------------------- */

static struct packet *packet_make(struct sim_device *device, PFILE_OBJECT file,
                                  struct sim_request *request, UCHAR major, size_t buffer)
{
    struct packet *p = sim_alloc(sizeof(*p));

    p->irp.Type = 6;
    p->irp.Size = sizeof(p->irp);
    p->irp.StackCount = p->irp.CurrentLocation = 1;
    p->irp.RequestorMode = UserMode;
    p->irp.Tail.Overlay.CurrentStackLocation = &p->stack;
    p->irp.Tail.Overlay.OriginalFileObject = file;
    p->irp.Tail.Overlay.Thread = (PETHREAD)(void *)sim_self()->thread;
    p->irp.AssociatedIrp.SystemBuffer = buffer ? sim_alloc(buffer) : NULL;
    /* What the driver does not write it must not give away: rubbish shows it. */
    if (buffer)
        memset(p->irp.AssociatedIrp.SystemBuffer, 0xA5, buffer);
    p->stack.MajorFunction = major;
    p->stack.DeviceObject = &device->object;
    p->stack.FileObject = file;
    p->request = request;
    p->pins = 1;
    if (request)
        request->packet = p;
    sim_item_add(&p->item, SIM_IRP, p, "", 0, NULL);
    return p;
}

static void packet_unpin(struct packet *p)
{
    bool last;

    pthread_mutex_lock(&irp_lock);
    last = --p->pins == 0 && p->completed;
    pthread_mutex_unlock(&irp_lock);
    if (last)
        sim_rest(p, 8, sizeof(*p));
}

/* With the system's part of the completion done, the IRP's memory means nothing any more. */
static void complete(const char *ddi, struct packet *p)
{
    IRP *irp = &p->irp;
    struct sim_request *r = p->request;
    size_t bytes = irp->IoStatus.Information;
    void *buffer = irp->AssociatedIrp.SystemBuffer;
    bool last;

    pthread_mutex_lock(&irp_lock);
    if (irp->IoStatus.Status == STATUS_PENDING)
        sim_violation("IO-035", ddi, "completes with STATUS_PENDING");
    if (__atomic_load_n(&irp->CancelRoutine, __ATOMIC_SEQ_CST))
        sim_violation("IO-036", ddi, "completes while a cancel routine is set");
    if (p->cancelling && (irp->IoStatus.Status != STATUS_CANCELLED || bytes))
        sim_violation("IO-050", ddi, "a cancelled IRP ends with 0x%08X and %zu bytes",
                      (unsigned)irp->IoStatus.Status, bytes);
    p->completed = true;
    p->final = irp->IoStatus.Status;
    p->pending = (p->stack.Control & SL_PENDING_RETURNED) != 0;
    sim_item_remove(&p->item);
    if (r) {
        if (!IS_ERROR(p->final) && bytes > r->size)
            sim_violation("IO-045", ddi, "%zu bytes for a buffer of %zu", bytes, r->size);
        if (!IS_ERROR(p->final) && bytes && buffer && r->buffer)
            memcpy(r->buffer, buffer, bytes);
        r->status = p->final;
        r->bytes = bytes;
        r->packet = NULL;
        pthread_cond_broadcast(&ended);
    }
    free(buffer);
    memset(irp, 0xDD, sizeof(*irp));
    last = p->pins == 0;
    pthread_mutex_unlock(&irp_lock);
    if (last)
        sim_rest(p, 8, sizeof(*p));
}

static void dispatch(struct packet *p)
{
    DRIVER_DISPATCH *routine = sim_driver_object()->MajorFunction[p->stack.MajorFunction];
    struct sim_call call;
    NTSTATUS status;
    bool completed;
    bool pending;

    if (!routine) {
        p->irp.IoStatus.Status = STATUS_INVALID_DEVICE_REQUEST;
        complete("I/O manager", p);
        packet_unpin(p);
        return;
    }
    if (p->stack.MajorFunction == IRP_MJ_SHUTDOWN)
        sim_call_enter(&call, "dispatch routine", (const void *)(uintptr_t)routine, "IO-026",
                       APC_LEVEL);
    else
        sim_call_enter(&call, "dispatch routine", (const void *)(uintptr_t)routine, "IO-027",
                       PASSIVE_LEVEL);
    status = routine(p->stack.DeviceObject, &p->irp);
    sim_call_leave(&call);
    pthread_mutex_lock(&irp_lock);
    completed = p->completed;
    pending = completed ? p->pending : (p->stack.Control & SL_PENDING_RETURNED) != 0;
    pthread_mutex_unlock(&irp_lock);
    SIM_RULE(pending ? "IO-029" : "IO-028", (status == STATUS_PENDING) == pending,
             "answers 0x%08X for an IRP that is%s marked pending", (unsigned)status,
             pending ? "" : " not");
    SIM_RULE("IO-028", pending || completed, "answers 0x%08X without having completed the IRP",
             (unsigned)status);
    SIM_RULE("IO-030", pending || status == p->final, "answers 0x%08X, completed with 0x%08X",
             (unsigned)status, (unsigned)p->final);
    packet_unpin(p);
}

VOID IoCompleteRequest(PIRP irp, CCHAR priorityBoost)
{
    const struct sim_ctx *self = sim_self();

    SIM_DDI(DISPATCH_LEVEL, "IO-032");
    (void)priorityBoost;
    SIM_RULE("IO-033", self->held_count == 0, "completes with a lock held");
    complete(__func__, packet_of(__func__, "IO-034", irp));
}

VOID IoMarkIrpPending(PIRP irp)
{
    SIM_DDI(DISPATCH_LEVEL, NULL);
    packet_of(__func__, "IO-031", irp)->stack.Control |= SL_PENDING_RETURNED;
}

PIO_STACK_LOCATION IoGetCurrentIrpStackLocation(PIRP irp)
{
    SIM_DDI(DISPATCH_LEVEL, NULL);
    return &packet_of(__func__, "IO-031", irp)->stack;
}

/* --- cancel-safe queues ---------------------------------------------------------------------- */

/* The queue's lock, taken through the driver's routine: who takes it again is told by which rule.
 */
static KIRQL csq_lock(PIO_CSQ csq)
{
    struct sim_ctx *self = sim_self();
    const KIRQL nothing = 0xEE;
    KIRQL irql = nothing;

    self->lock_rule = "IO-056";
    csq->CsqAcquireLock(csq, &irql);
    self->lock_rule = "IO-063";
    SIM_RULE("IO-065", irql != nothing || self->irql == PASSIVE_LEVEL,
             "the level before the lock is not stored through the argument");
    return irql;
}

static void csq_unlock(PIO_CSQ csq, KIRQL irql)
{
    sim_self()->lock_rule = NULL;
    csq->CsqReleaseLock(csq, irql);
}

static void csq_remove(PIO_CSQ csq, PIRP irp)
{
    SIM_RULE("IO-054", irp->Tail.Overlay.DriverContext[3] == csq,
             "the queue's place in the IRP was written");
    csq->CsqRemoveIrp(csq, irp);
}

static void csq_cancelled(PIO_CSQ csq, PIRP irp)
{
    CONTAINING_RECORD(irp, struct packet, irp)->cancelling = true;
    csq->CsqCompleteCanceledIrp(csq, irp);
}

static void csq_cancel(PDEVICE_OBJECT device, PIRP irp)
{
    PIO_CSQ csq = irp->Tail.Overlay.DriverContext[3];
    KIRQL irql = csq_lock(csq);

    (void)device;
    csq_remove(csq, irp);
    csq_unlock(csq, irql);
    csq_cancelled(csq, irp);
}

static DRIVER_CANCEL *exchange_cancel(PIRP irp, DRIVER_CANCEL *routine)
{
    return __atomic_exchange_n(&irp->CancelRoutine, routine, __ATOMIC_SEQ_CST);
}

NTSTATUS IoCsqInitialize(PIO_CSQ csq, PIO_CSQ_INSERT_IRP insert, PIO_CSQ_REMOVE_IRP remove,
                         PIO_CSQ_PEEK_NEXT_IRP peek, PIO_CSQ_ACQUIRE_LOCK acquire,
                         PIO_CSQ_RELEASE_LOCK release, PIO_CSQ_COMPLETE_CANCELED_IRP done)
{
    SIM_DDI(HIGH_LEVEL, "IO-053");
    SIM_MAY_FAIL_PLANNED();
    memset(csq, 0, sizeof(*csq));
    csq->Type = 1;
    csq->CsqInsertIrp = insert;
    csq->CsqRemoveIrp = remove;
    csq->CsqPeekNextIrp = peek;
    csq->CsqAcquireLock = acquire;
    csq->CsqReleaseLock = release;
    csq->CsqCompleteCanceledIrp = done;
    return STATUS_SUCCESS;
}

VOID IoCsqInsertIrp(PIO_CSQ csq, PIRP irp, PVOID context)
{
    struct packet *p;
    KIRQL irql;

    SIM_DDI(DISPATCH_LEVEL, "IO-056");
    SIM_CHECK(csq->Type == 1 && !context, "the queue is not initialized, or has a context");
    p = packet_of(__func__, "IO-031", irp);
    SIM_RULE("IO-057", !(p->stack.Control & SL_PENDING_RETURNED), "the IRP is already marked");
    irql = csq_lock(csq);
    p->stack.Control |= SL_PENDING_RETURNED;
    irp->Tail.Overlay.DriverContext[3] = csq;
    csq->CsqInsertIrp(csq, irp);
    exchange_cancel(irp, csq_cancel);
    if (__atomic_load_n(&irp->Cancel, __ATOMIC_SEQ_CST) && exchange_cancel(irp, NULL)) {
        csq_remove(csq, irp);
        csq_unlock(csq, irql);
        csq_cancelled(csq, irp);
        return;
    }
    csq_unlock(csq, irql);
}

PIRP IoCsqRemoveNextIrp(PIO_CSQ csq, PVOID peekContext)
{
    KIRQL irql;
    PIRP irp;

    SIM_DDI(DISPATCH_LEVEL, "IO-059");
    SIM_CHECK(csq->Type == 1, "the queue is not initialized");
    irql = csq_lock(csq);
    irp = csq->CsqPeekNextIrp(csq, NULL, peekContext);
    /* One whose cancel routine is gone is being cancelled and belongs to that thread. */
    while (irp && !exchange_cancel(irp, NULL))
        irp = csq->CsqPeekNextIrp(csq, irp, peekContext);
    if (irp)
        csq_remove(csq, irp);
    csq_unlock(csq, irql);
    return irp;
}

bool sim_request_cancel(struct sim_request *request)
{
    struct sim_call call;
    struct packet *p;
    DRIVER_CANCEL *routine = NULL;

    pthread_mutex_lock(&irp_lock);
    p = request->packet; /* NULL after the completion */
    if (p) {
        p->pins++;
        __atomic_store_n(&p->irp.Cancel, TRUE, __ATOMIC_SEQ_CST);
        routine = exchange_cancel(&p->irp, NULL);
    }
    pthread_mutex_unlock(&irp_lock);
    if (!p)
        return false;
    if (routine) {
        sim_call_enter(&call, "cancel routine", NULL, "IO-049", DISPATCH_LEVEL);
        routine(p->stack.DeviceObject, &p->irp);
        sim_call_leave(&call);
    }
    packet_unpin(p);
    return routine != NULL;
}

/* --- clients --------------------------------------------------------------------------------- */

bool sim_request_wait(struct sim_request *request, uint32_t milliseconds)
{
    struct timespec deadline;
    bool done;

    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += (time_t)(milliseconds / 1000);
    deadline.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&irp_lock);
    while (request->packet && milliseconds &&
           pthread_cond_timedwait(&ended, &irp_lock, &deadline) == 0)
        ;
    done = !request->packet;
    pthread_mutex_unlock(&irp_lock);
    return done;
}

static void wait_end(struct sim_request *request, const char *what)
{
    if (!sim_request_wait(request, (uint32_t)sim.hang_ms))
        sim_bugcheck(what, "hang: the request is never completed");
}

int32_t sim_request_status(const struct sim_request *request)
{
    return request->status;
}

size_t sim_request_bytes(const struct sim_request *request)
{
    return request->bytes;
}

/* Sends a request and waits for its end. */
static NTSTATUS send(struct sim_device *device, PFILE_OBJECT file, UCHAR major, const char *what)
{
    struct sim_request request = {.buffer = NULL};
    struct packet *p = packet_make(device, file, &request, major, 0);

    if (major == IRP_MJ_CREATE) /* disposition and options */
        p->stack.Parameters.Others.Argument[1] =
            (PVOID)(uintptr_t)(FILE_OPEN << 24 | FILE_SYNCHRONOUS_IO_NONALERT);
    dispatch(p);
    wait_end(&request, what);
    SIM_RULE("IO-040", major != IRP_MJ_CLEANUP || request.status == STATUS_SUCCESS,
             "a cleanup fails with 0x%08X", (unsigned)request.status);
    return request.status;
}

void sim_irp_shutdown(struct sim_device *device)
{
    send(device, NULL, IRP_MJ_SHUTDOWN, "shutdown");
}

int32_t sim_reader_open(struct sim_str name, enum sim_caller caller, uint32_t access,
                        struct sim_reader **reader)
{
    struct sim_str rest = SIM_NO_STR;
    struct sim_device *device;
    struct sim_reader *made;
    bool secure;
    NTSTATUS status = STATUS_SUCCESS;

    SIM_CHECK(sim_self()->irql == PASSIVE_LEVEL, "clients run at PASSIVE_LEVEL");
    sim_io_lock();
    device = sim_device_find(name, &rest);
    /* Below the device's name its own descriptor counts only if it asks for that. */
    secure = rest.count == 0 ||
             (device && (device->object.Characteristics & FILE_DEVICE_SECURE_OPEN) != 0);
    SIM_RULE("IO-010", !device || device->security.set || caller != SIM_CALLER_USER,
             "a device without a descriptor of its own is open to everybody");
    if (!device)
        status = STATUS_OBJECT_NAME_NOT_FOUND;
    else if ((device->object.Flags & DO_DEVICE_INITIALIZING) || sim_io_unload_pending())
        status = STATUS_NO_SUCH_DEVICE;
    else if ((secure && !sim_se_allows(&device->security, caller)) ||
             (device->exclusive && device->opens))
        status = STATUS_ACCESS_DENIED;
    else
        sim_device_opened(device);
    sim_io_unlock();
    if (!NT_SUCCESS(status))
        return status;
    made = sim_alloc(sizeof(*made));
    made->device = device;
    made->access = access;
    made->file = sim_file_object(rest);
    made->file->DeviceObject = &device->object;
    status = send(device, made->file, IRP_MJ_CREATE, "open");
    if (!NT_SUCCESS(status)) {
        sim_object_unref(made->file);
        free(made);
        sim_device_release(device);
        return status;
    }
    *reader = made;
    return status;
}

struct sim_request *sim_reader_read(struct sim_reader *reader, void *buffer, size_t size)
{
    struct sim_request *r = sim_alloc(sizeof(*r));
    bool buffered = (reader->device->object.Flags & DO_BUFFERED_IO) != 0;
    struct packet *p;

    r->reader = reader;
    r->buffer = buffer;
    r->size = size;
    pthread_mutex_lock(&irp_lock);
    r->next = reader->requests;
    reader->requests = r;
    pthread_mutex_unlock(&irp_lock);
    p = packet_make(reader->device, reader->file, r, IRP_MJ_READ, buffered ? size : 0);
    p->stack.Parameters.Read.Length = (ULONG)size;
    if (!buffered)
        p->irp.UserBuffer = buffer;
    dispatch(p);
    return r;
}

static void request_unlink(struct sim_request *request)
{
    struct sim_request **at;

    pthread_mutex_lock(&irp_lock);
    if (request->reader) {
        at = &request->reader->requests;
        while (*at != request)
            at = &(*at)->next;
        *at = request->next;
    }
    pthread_mutex_unlock(&irp_lock);
}

void sim_request_free(struct sim_request *request)
{
    wait_end(request, "read");
    request_unlink(request);
    free(request);
}

int32_t sim_reader_read_wait(struct sim_reader *reader, void *buffer, size_t size, size_t *got)
{
    struct sim_request *r = sim_reader_read(reader, buffer, size);
    int32_t status;

    wait_end(r, "read");
    status = r->status;
    *got = r->bytes;
    sim_request_free(r);
    return status;
}

int32_t sim_reader_control(struct sim_reader *reader, uint32_t code, const void *in, size_t in_size,
                           void *out, size_t out_size, size_t *returned)
{
    struct sim_request r = {.buffer = out, .size = out_size};
    uint32_t needed = code >> 14 & 3;
    bool buffered = (code & 3) != 3;
    size_t room = in_size > out_size ? in_size : out_size;
    struct packet *p;

    if (((needed & 1) && !(reader->access & 0x80000001u)) ||
        ((needed & 2) && !(reader->access & 0x40000002u)))
        return STATUS_ACCESS_DENIED;
    p = packet_make(reader->device, reader->file, &r, IRP_MJ_DEVICE_CONTROL, buffered ? room : 0);
    p->stack.Parameters.DeviceIoControl.IoControlCode = code;
    p->stack.Parameters.DeviceIoControl.InputBufferLength = (ULONG)in_size;
    p->stack.Parameters.DeviceIoControl.OutputBufferLength = (ULONG)out_size;
    if (buffered && in_size)
        memcpy(p->irp.AssociatedIrp.SystemBuffer, in, in_size);
    if (!buffered) {
        p->stack.Parameters.DeviceIoControl.Type3InputBuffer = (PVOID)(uintptr_t)in;
        p->irp.UserBuffer = out;
    }
    dispatch(p);
    wait_end(&r, "control");
    if (returned)
        *returned = r.bytes;
    return r.status;
}

int32_t sim_reader_other(struct sim_reader *reader, uint8_t major)
{
    SIM_CHECK(major <= IRP_MJ_MAXIMUM_FUNCTION, "there is no function %u", major);
    return send(reader->device, reader->file, major, "request");
}

void sim_reader_close(struct sim_reader *reader)
{
    struct sim_as as;

    send(reader->device, reader->file, IRP_MJ_CLEANUP, "cleanup");
    for (;;) {
        struct sim_request *r;
        pthread_mutex_lock(&irp_lock);
        r = reader->requests;
        if (r) {
            reader->requests = r->next;
            r->reader = NULL;
        }
        pthread_mutex_unlock(&irp_lock);
        if (!r)
            break;
        if (!sim_request_wait(r, (uint32_t)sim.hang_ms))
            sim_violation("IO-040", "cleanup",
                          "hang: a read of the closed file is never completed");
    }
    /* The last reference may go anywhere, so the close comes in the System process. */
    sim_as_begin(&as, sim_system_thread());
    send(reader->device, reader->file, IRP_MJ_CLOSE, "close");
    sim_as_end(&as);
    sim_object_unref(reader->file);
    sim_device_release(reader->device);
    free(reader);
}

void sim_reader_kill(struct sim_reader *reader)
{
    struct sim_request *r;

    /* Only this thread adds or frees requests of a reader. */
    for (r = reader->requests; r; r = r->next)
        sim_request_cancel(r);
    sim_reader_close(reader);
}
