/*
 * inject.c - kdainject.sys: fires callbacks into the driver under test as a client orders it, from
 * several threads at a time. What is fired is a function of its number alone, so that a test knows
 * what has to be in the log.
 *
 * One control code; a line of words goes in, a line comes back. All by the one thread of Wine that
 * serves devices; what is fired comes from threads of its own.
 */
#include "inject.h"

static PDEVICE_OBJECT Device;
static INJECT_WORK Work[INJECT_THREADS];
static volatile LONG Stop;

/* --- words ----------------------------------------------------------------------------------- */

typedef struct _WORDS {
    const CHAR *At;
    const CHAR *End;
} WORDS;

static BOOLEAN Is(WORDS *words, const CHAR *word)
{
    const CHAR *at = words->At;

    while (*word != '\0' && at < words->End && *at == *word) {
        at++;
        word++;
    }
    if (*word != '\0' || (at < words->End && *at != ' '))
        return FALSE;
    words->At = at;
    return TRUE;
}

static LONG Number(WORDS *words)
{
    BOOLEAN minus = FALSE;
    LONG value = 0;

    while (words->At < words->End && *words->At == ' ')
        words->At++;
    if (words->At < words->End && *words->At == '-') {
        minus = TRUE;
        words->At++;
    }
    while (words->At < words->End && *words->At >= '0' && *words->At <= '9')
        value = value * 10 + (*words->At++ - '0');
    return minus ? -value : value;
}

static VOID Put(INJECT_REPLY *reply, CHAR c)
{
    if (reply->Bytes < INJECT_REPLY_BYTES)
        reply->Text[reply->Bytes++] = c;
}

static VOID PutNumber(INJECT_REPLY *reply, LONG value)
{
    CHAR digits[12];
    ULONG count = 0, rest = value < 0 ? 0u - (ULONG)value : (ULONG)value;

    if (reply->Bytes != 0)
        Put(reply, ' ');
    if (value < 0)
        Put(reply, '-');
    do {
        digits[count++] = (CHAR)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    while (count != 0)
        Put(reply, digits[--count]);
}

/* --- threads --------------------------------------------------------------------------------- */

static VOID Run(PVOID context)
{
    INJECT_WORK *work = context;

    for (ULONG round = 0; work->Rounds == 0 || round < work->Rounds; round++) {
        if (work->Rounds == 0 && ReadAcquire(&Stop))
            break;
        InjectRound(work, work->First + round);
    }
    PsTerminateSystemThread(STATUS_SUCCESS);
}

static BOOLEAN Launch(INJECT_WORK *work, ULONG first, ULONG rounds)
{
    HANDLE handle;

    RtlZeroMemory(work, sizeof *work);
    work->First = first;
    work->Rounds = rounds;
    if (!NT_SUCCESS(PsCreateSystemThread(&handle, THREAD_ALL_ACCESS, NULL, NULL, NULL, Run, work)))
        return FALSE;
    if (!NT_SUCCESS(ObReferenceObjectByHandle(handle, THREAD_ALL_ACCESS, NULL, KernelMode,
                                              &work->Thread, NULL)))
        work->Thread = NULL;
    ZwClose(handle);
    return work->Thread != NULL;
}

static VOID Join(INJECT_REPLY *reply)
{
    LONG fired = 0, refused = 0, kept = 0;

    for (ULONG i = 0; i < INJECT_THREADS; i++) {
        if (Work[i].Thread == NULL)
            continue;
        KeWaitForSingleObject(Work[i].Thread, Executive, KernelMode, FALSE, NULL);
        ObDereferenceObject(Work[i].Thread);
        Work[i].Thread = NULL;
        fired += Work[i].Fired;
        refused += Work[i].Refused;
        kept += Work[i].Kept;
    }
    PutNumber(reply, fired);
    PutNumber(reply, refused);
    PutNumber(reply, kept);
}

/* --- orders ---------------------------------------------------------------------------------- */

static VOID Storm(WORDS *words, INJECT_REPLY *reply, BOOLEAN wait)
{
    ULONG threads = (ULONG)Number(words), rounds = (ULONG)Number(words);
    ULONG first = (ULONG)Number(words);

    InterlockedExchange(&Stop, 0);
    for (ULONG i = 0; i < threads && i < INJECT_THREADS; i++)
        Launch(&Work[i], first + i * (rounds != 0 ? rounds : 1000000u), rounds);
    if (wait)
        Join(reply);
    else
        PutNumber(reply, (LONG)threads);
}

static VOID Switch(WORDS *words)
{
    TEST_SWITCHES *switches = TestSwitches();

    switches->FailFrom = Number(words);
    switches->FailOnce = Number(words);
    switches->Busy = Number(words);
    switches->Newer = Number(words);
    switches->Plain = Number(words);
    switches->Refuse = Number(words);
    InterlockedExchange(&TestLedger()->Allocations, 0);
}

static VOID TellLedger(INJECT_REPLY *reply)
{
    const TEST_LEDGER *ledger = TestLedger();

    PutNumber(reply, ledger->Blocks);
    PutNumber(reply, ledger->Objects);
    PutNumber(reply, ledger->Names);
    PutNumber(reply, ledger->Routines);
    PutNumber(reply, ledger->Callouts);
    PutNumber(reply, ledger->Engines);
    PutNumber(reply, ledger->WrongTags);
    PutNumber(reply, ledger->Allocations);
}

static VOID TellDescriptor(INJECT_REPLY *reply)
{
    static const CHAR digits[] = "0123456789abcdef";
    const TEST_DESCRIPTOR *descriptor = TestDescriptor();

    for (ULONG i = 0; i < descriptor->Bytes; i++) {
        Put(reply, digits[descriptor->Data[i] >> 4]);
        Put(reply, digits[descriptor->Data[i] & 15]);
    }
}

/* The image stays mapped, as it does on Windows while its driver object is referenced. */
static VOID Pin(INJECT_REPLY *reply)
{
    UNICODE_STRING name;
    PVOID base = NULL;

    RtlInitUnicodeString(&name, KDA_W("kdamonitor.sys"));
    PutNumber(reply, NT_SUCCESS(LdrGetDllHandle(NULL, NULL, &name, &base)) &&
                         NT_SUCCESS(LdrAddRefDll(1, base)));
}

static VOID Order(WORDS *words, INJECT_REPLY *reply)
{
    if (Is(words, "switches"))
        Switch(words);
    else if (Is(words, "ledger"))
        TellLedger(reply);
    else if (Is(words, "descriptor"))
        TellDescriptor(reply);
    else if (Is(words, "storm"))
        Storm(words, reply, TRUE);
    else if (Is(words, "begin"))
        Storm(words, reply, FALSE);
    else if (Is(words, "end")) {
        InterlockedExchange(&Stop, 1);
        Join(reply);
    } else if (Is(words, "fault"))
        PutNumber(reply, InjectBadData());
    else if (Is(words, "unseen"))
        PutNumber(reply, InjectPreOnly((ULONG)Number(words)));
    else if (Is(words, "classify"))
        PutNumber(reply, InjectFlow((ULONG)Number(words), TRUE));
    else if (Is(words, "pin"))
        Pin(reply);
    else if (Is(words, "crash"))
        *(volatile LONG *)(ULONG_PTR)0x18 = 1;
    else
        Put(reply, '?');
}

/* --- device ---------------------------------------------------------------------------------- */

static NTSTATUS Dispatch(PDEVICE_OBJECT device, PIRP irp)
{
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
    INJECT_REPLY reply;

    UNREFERENCED_PARAMETER(device);
    reply.Bytes = 0;
    if (stack->MajorFunction == IRP_MJ_DEVICE_CONTROL) {
        WORDS words = {irp->AssociatedIrp.SystemBuffer, irp->AssociatedIrp.SystemBuffer};
        words.End += stack->Parameters.DeviceIoControl.InputBufferLength;
        Order(&words, &reply);
        if (reply.Bytes > stack->Parameters.DeviceIoControl.OutputBufferLength)
            reply.Bytes = stack->Parameters.DeviceIoControl.OutputBufferLength;
        RtlCopyMemory(irp->AssociatedIrp.SystemBuffer, reply.Text, reply.Bytes);
    }
    irp->IoStatus.Status = STATUS_SUCCESS;
    irp->IoStatus.Information = reply.Bytes;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return STATUS_SUCCESS;
}

static VOID Unload(PDRIVER_OBJECT driver)
{
    UNICODE_STRING link;

    UNREFERENCED_PARAMETER(driver);
    RtlInitUnicodeString(&link, KDA_W("\\DosDevices\\KDAInject"));
    IoDeleteSymbolicLink(&link);
    IoDeleteDevice(Device);
}

NTSTATUS GsDriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path);
NTSTATUS GsDriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path)
{
    UNICODE_STRING name, link;
    NTSTATUS status;

    UNREFERENCED_PARAMETER(path);
    RtlInitUnicodeString(&name, KDA_W("\\Device\\KDAInject"));
    RtlInitUnicodeString(&link, KDA_W("\\DosDevices\\KDAInject"));
    status = IoCreateDevice(driver, 0, &name, FILE_DEVICE_UNKNOWN, 0, FALSE, &Device);
    if (!NT_SUCCESS(status))
        return status;
    driver->MajorFunction[IRP_MJ_CREATE] = Dispatch;
    driver->MajorFunction[IRP_MJ_CLOSE] = Dispatch;
    driver->MajorFunction[IRP_MJ_CLEANUP] = Dispatch;
    driver->MajorFunction[IRP_MJ_DEVICE_CONTROL] = Dispatch;
    driver->DriverUnload = Unload;
    return IoCreateSymbolicLink(&link, &name);
}
