/*
 * rules_irp.c - requests and cancel-safe queues.
 */
#include "rules_io.h"

/* --- requests -------------------------------------------------------------------------------- */

OUTCOME_COLD("IO-027 IO-038 IO-041 IO-042 IO-043", life_of_a_handle)
{
    const struct sim_process user = {.pid = 100};
    struct sim_reader *reader;

    boot();
    sim_process_existing(&user, NULL);
    EXPECT(sim_enter(100, 0));
    EXPECT_STATUS(
        0, sim_reader_open(SIM_STR(u"\\??\\Rules\\abc"), SIM_CALLER_ADMIN, 0x80000000u, &reader));
    EXPECT(seen.irql == PASSIVE_LEVEL && seen.create_pid == PID(100));
    EXPECT(seen.name_length == 8 && seen.options >> 24 == FILE_OPEN);
    EXPECT(seen.options & FILE_SYNCHRONOUS_IO_NONALERT);
    sim_reader_close(reader);
    EXPECT(strcmp(seen.order, "Cuc") == 0);
    EXPECT(seen.cleanup_pid == PID(100) && seen.close_pid == PID(4));
}

VIOLATION_COLD("IO-027", request_at_apc)
{
    struct sim_reader *reader;
    uint8_t buffer[8];

    boot();
    reader = open_device();
    sim_set_irql(APC_LEVEL);
    sim_reader_read(reader, buffer, 8);
}

static NTSTATUS refuse(PIRP irp, PIO_STACK_LOCATION stack)
{
    (void)stack;
    return finish(irp, STATUS_ACCESS_DENIED, 0);
}

OUTCOME_COLD("IO-039", failed_create)
{
    struct sim_reader *reader;

    boot();
    on_request = refuse;
    EXPECT_STATUS(0xC0000022,
                  sim_reader_open(SIM_STR(u"\\??\\Rules"), SIM_CALLER_ADMIN, 0, &reader));
    EXPECT(seen.cleanups == 0 && seen.closes == 0);
}

static NTSTATUS (*on_read)(PIRP irp, PIO_STACK_LOCATION stack);

static NTSTATUS reads_only(PIRP irp, PIO_STACK_LOCATION stack)
{
    return stack->MajorFunction == IRP_MJ_READ ? on_read(irp, stack)
                                               : finish(irp, STATUS_SUCCESS, 0);
}

static struct sim_reader *reader_with(NTSTATUS (*routine)(PIRP irp, PIO_STACK_LOCATION stack))
{
    boot();
    on_request = reads_only;
    on_read = routine;
    return open_device();
}

static uint8_t buffer[16];

#define MISUSE(rule, name)                                                                         \
    static NTSTATUS name##_read(PIRP irp, PIO_STACK_LOCATION stack);                               \
    VIOLATION_COLD(rule, name)                                                                     \
    {                                                                                              \
        sim_reader_read(reader_with(name##_read), buffer, sizeof(buffer));                         \
    }                                                                                              \
    static NTSTATUS name##_read(PIRP irp, PIO_STACK_LOCATION stack)

MISUSE("IO-028", pending_without_a_mark)
{
    (void)irp;
    (void)stack;
    return STATUS_PENDING;
}

MISUSE("IO-028", neither_completed_nor_pending)
{
    (void)irp;
    (void)stack;
    return STATUS_SUCCESS;
}

MISUSE("IO-029", marked_and_answered_otherwise)
{
    (void)stack;
    IoMarkIrpPending(irp);
    return finish(irp, STATUS_SUCCESS, 0);
}

MISUSE("IO-030", answers_something_else)
{
    (void)stack;
    finish(irp, STATUS_SUCCESS, 0);
    return STATUS_ACCESS_DENIED;
}

MISUSE("IO-031", looks_after_the_completion)
{
    (void)stack;
    finish(irp, STATUS_SUCCESS, 0);
    IoGetCurrentIrpStackLocation(irp);
    return STATUS_SUCCESS;
}

MISUSE("IO-032", completes_above_dispatch)
{
    KIRQL old;

    (void)stack;
    KeRaiseIrql(HIGH_LEVEL, &old);
    return finish(irp, STATUS_SUCCESS, 0);
}

MISUSE("IO-033", completes_with_a_lock)
{
    static KSPIN_LOCK lock;

    (void)stack;
    KeInitializeSpinLock(&lock);
    KeAcquireSpinLockRaiseToDpc(&lock);
    return finish(irp, STATUS_SUCCESS, 0);
}

MISUSE("IO-034", completes_twice)
{
    (void)stack;
    finish(irp, STATUS_SUCCESS, 0);
    IoCompleteRequest(irp, 0);
    return STATUS_SUCCESS;
}

MISUSE("IO-035", completes_as_pending)
{
    (void)stack;
    return finish(irp, STATUS_PENDING, 0);
}

MISUSE("IO-036", completes_with_a_cancel_routine)
{
    (void)stack;
    irp->CancelRoutine = (DRIVER_CANCEL *)(uintptr_t)finish;
    return finish(irp, STATUS_SUCCESS, 0);
}

MISUSE("IO-045", gives_more_than_asked)
{
    (void)stack;
    return finish(irp, STATUS_SUCCESS, 17);
}

static NTSTATUS fail_cleanup(PIRP irp, PIO_STACK_LOCATION stack)
{
    return finish(irp,
                  stack->MajorFunction == IRP_MJ_CLEANUP ? STATUS_UNSUCCESSFUL : STATUS_SUCCESS, 0);
}

VIOLATION_COLD("IO-040", cleanup_fails)
{
    boot();
    on_request = fail_cleanup;
    sim_reader_close(open_device());
}

static NTSTATUS read_bytes(PIRP irp, PIO_STACK_LOCATION stack)
{
    if (stack->Parameters.Read.Length == 0) {
        EXPECT(!irp->AssociatedIrp.SystemBuffer);
        return finish(irp, STATUS_SUCCESS, 0);
    }
    memset(irp->AssociatedIrp.SystemBuffer, 7, 3);
    return finish(irp, STATUS_SUCCESS, 3);
}

OUTCOME_COLD("IO-030 IO-044 IO-045", bytes_of_a_read)
{
    struct sim_reader *reader = reader_with(read_bytes);
    size_t got;

    EXPECT_STATUS(0, sim_reader_read_wait(reader, buffer, sizeof(buffer), &got));
    EXPECT(got == 3 && buffer[2] == 7 && buffer[3] == 0);
    EXPECT_STATUS(0, sim_reader_read_wait(reader, buffer, 0, &got));
}

static NTSTATUS control(PIRP irp, PIO_STACK_LOCATION stack)
{
    uint8_t *both = irp->AssociatedIrp.SystemBuffer;

    if (stack->MajorFunction != IRP_MJ_DEVICE_CONTROL)
        return finish(irp, STATUS_SUCCESS, 0);
    if (stack->Parameters.DeviceIoControl.IoControlCode != 0x222000)
        return finish(irp, STATUS_INVALID_DEVICE_REQUEST, 0);
    EXPECT(stack->Parameters.DeviceIoControl.InputBufferLength == 2 &&
           stack->Parameters.DeviceIoControl.OutputBufferLength == 8);
    EXPECT(both[0] == 1 && both[1] == 2);
    memset(both, 9, 8); /* as large as the longer of the two */
    return finish(irp, STATUS_SUCCESS, 8);
}

OUTCOME_COLD("IO-046 IO-047", controls)
{
    const uint8_t in[2] = {1, 2};
    struct sim_reader *reader;
    size_t returned;

    boot();
    on_request = control;
    reader = open_device();
    EXPECT_STATUS(0, sim_reader_control(reader, 0x222000, in, 2, buffer, 8, &returned));
    EXPECT(returned == 8 && buffer[7] == 9);
    EXPECT_STATUS(0xC0000010, sim_reader_control(reader, 0x222004, in, 2, buffer, 8, &returned));
}

/* --- cancel-safe queues ---------------------------------------------------------------------- */

static IO_CSQ queue;
static LIST_ENTRY parked;
static KSPIN_LOCK queue_lock;
static bool insert_locks;
static bool stores_elsewhere;
static KIRQL elsewhere;
static bool wrong_status;
static bool lock_was_held;
static char csq_order[16];

static void csq_note(char what)
{
    size_t used = strlen(csq_order);

    if (used + 1 < sizeof(csq_order))
        csq_order[used] = what;
}

static VOID csq_acquire(PIO_CSQ csq, PKIRQL irql)
{
    KIRQL old = KeAcquireSpinLockRaiseToDpc(&queue_lock);

    (void)csq;
    if (stores_elsewhere)
        elsewhere = old;
    else
        *irql = old;
    lock_was_held = true;
}

static VOID csq_release(PIO_CSQ csq, KIRQL irql)
{
    (void)csq;
    lock_was_held = false;
    KeReleaseSpinLock(&queue_lock, irql);
}

static VOID csq_insert(PIO_CSQ csq, PIRP irp)
{
    KIRQL irql;

    EXPECT(lock_was_held);
    if (insert_locks)
        csq_acquire(csq, &irql);
    InsertTailList(&parked, &irp->Tail.Overlay.ListEntry);
    csq_note('i');
}

static VOID csq_remove(PIO_CSQ csq, PIRP irp)
{
    (void)csq;
    EXPECT(lock_was_held);
    RemoveEntryList(&irp->Tail.Overlay.ListEntry);
    csq_note('r');
}

static PVOID peeked; /* what the last look was for */

static PIRP csq_peek(PIO_CSQ csq, PIRP irp, PVOID context)
{
    PLIST_ENTRY at = irp ? irp->Tail.Overlay.ListEntry.Flink : parked.Flink;

    (void)csq;
    peeked = context;
    EXPECT(lock_was_held);
    return at == &parked ? NULL : CONTAINING_RECORD(at, IRP, Tail.Overlay.ListEntry);
}

static KIRQL cancelled_at = HIGH_LEVEL;

static VOID csq_cancelled(PIO_CSQ csq, PIRP irp)
{
    (void)csq;
    EXPECT(!lock_was_held);
    EXPECT(irp->Cancel && !irp->CancelRoutine);
    cancelled_at = KeGetCurrentIrql();
    csq_note('x');
    finish(irp, wrong_status ? STATUS_SUCCESS : STATUS_CANCELLED, 0);
}

static NTSTATUS park(PIRP irp, PIO_STACK_LOCATION stack)
{
    (void)stack;
    IoCsqInsertIrp(&queue, irp, NULL);
    return STATUS_PENDING;
}

static PVOID cleaned;

static NTSTATUS park_and_clean(PIRP irp, PIO_STACK_LOCATION stack)
{
    PIRP next;

    if (stack->MajorFunction == IRP_MJ_READ)
        return on_read(irp, stack);
    cleaned = stack->FileObject;
    while (stack->MajorFunction == IRP_MJ_CLEANUP &&
           (next = IoCsqRemoveNextIrp(&queue, stack->FileObject)) != NULL) {
        EXPECT(!next->CancelRoutine);
        finish(next, STATUS_CANCELLED, 0);
    }
    return finish(irp, STATUS_SUCCESS, 0);
}

static struct sim_reader *parking(void)
{
    boot();
    InitializeListHead(&parked);
    KeInitializeSpinLock(&queue_lock);
    EXPECT_STATUS(0, IoCsqInitialize(&queue, csq_insert, csq_remove, csq_peek, csq_acquire,
                                     csq_release, csq_cancelled));
    on_request = park_and_clean;
    on_read = park;
    return open_device();
}

OUTCOME_COLD("IO-040 IO-057 IO-060 IO-063 IO-064", parked_reads)
{
    struct sim_reader *reader = parking();
    struct sim_request *first = sim_reader_read(reader, buffer, 8);
    struct sim_request *second = sim_reader_read(reader, buffer, 8);

    EXPECT(!sim_request_wait(first, 0));
    sim_reader_close(reader);
    EXPECT_STATUS(0xC0000120, sim_request_status(first));
    EXPECT_STATUS(0xC0000120, sim_request_status(second));
    EXPECT(strcmp(csq_order, "iirr") == 0);
    EXPECT(peeked == cleaned);
}

VIOLATION_COLD("IO-040", parked_read_outlives_its_handle)
{
    struct sim_reader *reader = parking();

    on_request = reads_only;
    sim_reader_read(reader, buffer, 8);
    sim_reader_close(reader);
}

OUTCOME_COLD("IO-049 IO-050 IO-051 IO-052 IO-061 IO-062", cancelled_read)
{
    struct sim_request *request = sim_reader_read(parking(), buffer, 8);

    EXPECT(sim_request_cancel(request));
    EXPECT_STATUS(0xC0000120, sim_request_status(request));
    EXPECT(sim_request_bytes(request) == 0 && strcmp(csq_order, "irx") == 0);
    EXPECT(cancelled_at <= DISPATCH_LEVEL);
    EXPECT(!sim_request_cancel(request)); /* nothing is left to cancel */
}

VIOLATION_COLD("IO-050", cancelled_as_a_success)
{
    struct sim_request *request = sim_reader_read(parking(), buffer, 8);

    wrong_status = true;
    sim_request_cancel(request);
}

static NTSTATUS use_the_place(PIRP irp, PIO_STACK_LOCATION stack)
{
    NTSTATUS status = park(irp, stack);

    irp->Tail.Overlay.DriverContext[3] = &buffer;
    return status;
}

VIOLATION_COLD("IO-054", place_of_the_queue_written)
{
    struct sim_reader *reader = parking();

    on_read = use_the_place;
    sim_reader_read(reader, buffer, 8);
    sim_reader_close(reader);
}

static NTSTATUS park_locked(PIRP irp, PIO_STACK_LOCATION stack)
{
    KIRQL irql;

    csq_acquire(&queue, &irql);
    return park(irp, stack);
}

VIOLATION_COLD("IO-056", queue_with_its_lock_held)
{
    struct sim_reader *reader = parking();

    on_read = park_locked;
    sim_reader_read(reader, buffer, 8);
}

static NTSTATUS park_above_dispatch(PIRP irp, PIO_STACK_LOCATION stack)
{
    KIRQL irql;

    KeRaiseIrql(HIGH_LEVEL, &irql);
    return park(irp, stack);
}

VIOLATION_COLD("IO-056", queue_above_dispatch)
{
    struct sim_reader *reader = parking();

    on_read = park_above_dispatch;
    sim_reader_read(reader, buffer, 8);
}

VIOLATION_COLD("IO-059", next_above_dispatch)
{
    KIRQL old;

    parking();
    KeRaiseIrql(HIGH_LEVEL, &old);
    IoCsqRemoveNextIrp(&queue, NULL);
}

static NTSTATUS mark_and_park(PIRP irp, PIO_STACK_LOCATION stack)
{
    IoMarkIrpPending(irp);
    return park(irp, stack);
}

VIOLATION_COLD("IO-057", marked_before_the_queue)
{
    struct sim_reader *reader = parking();

    on_read = mark_and_park;
    sim_reader_read(reader, buffer, 8);
}

static NTSTATUS cancel_and_park(PIRP irp, PIO_STACK_LOCATION stack)
{
    irp->Cancel = TRUE; /* as the client did a moment before */
    return park(irp, stack);
}

OUTCOME_COLD("IO-058", cancelled_before_it_is_queued)
{
    struct sim_reader *reader = parking();
    struct sim_request *request;

    on_read = cancel_and_park;
    request = sim_reader_read(reader, buffer, 8);
    EXPECT(sim_request_wait(request, 0));
    EXPECT_STATUS(0xC0000120, sim_request_status(request));
    EXPECT(IsListEmpty(&parked));
}

VIOLATION_COLD("IO-063", queue_locks_itself)
{
    struct sim_reader *reader = parking();

    insert_locks = true;
    sim_reader_read(reader, buffer, 8);
}

VIOLATION_COLD("IO-065", level_kept_elsewhere)
{
    struct sim_reader *reader = parking();

    stores_elsewhere = true;
    sim_reader_read(reader, buffer, 8);
}

static void any_queue(void)
{
    IoCsqInitialize(&queue, csq_insert, csq_remove, csq_peek, csq_acquire, csq_release,
                    csq_cancelled);
}

LEVEL_VOID("IO-053", HIGH_LEVEL, any_queue());
