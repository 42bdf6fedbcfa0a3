/*
 * nt_io.h - second half of nt.h: objects, files, devices, registry, security, power.
 */
#ifndef KDA_NT_IO_H
#define KDA_NT_IO_H

#ifndef KDA_NT_H
#error "include nt.h"
#endif

/* --- objects and handles ---------------------------------------------------------------------- */

struct _OBJECT_ATTRIBUTES {
    ULONG Length;
    HANDLE RootDirectory;
    PUNICODE_STRING ObjectName;
    ULONG Attributes;
    PVOID SecurityDescriptor;
    PVOID SecurityQualityOfService;
};
C_ASSERT(sizeof(OBJECT_ATTRIBUTES) == 48);
#define OBJ_CASE_INSENSITIVE 0x40u
#define OBJ_KERNEL_HANDLE 0x200u
/* No name is followed through a link: STATUS_REPARSE_POINT_ENCOUNTERED. */
#define OBJ_DONT_REPARSE 0x1000u

static inline VOID InitializeObjectAttributes(POBJECT_ATTRIBUTES attributes, PUNICODE_STRING name,
                                              ULONG flags, HANDLE root, PVOID security)
{
    attributes->Length = sizeof *attributes;
    attributes->RootDirectory = root;
    attributes->ObjectName = name;
    attributes->Attributes = flags;
    attributes->SecurityDescriptor = security;
    attributes->SecurityQualityOfService = NULL;
}

typedef struct _OBJECT_TYPE *POBJECT_TYPE;
typedef struct _ACCESS_STATE *PACCESS_STATE;
typedef struct _OBJECT_NAME_INFORMATION {
    UNICODE_STRING Name;
} OBJECT_NAME_INFORMATION, *POBJECT_NAME_INFORMATION;

/* A NULL type is allowed with KernelMode. */
NTSTATUS ObOpenObjectByPointer(PVOID object, ULONG attributes, PACCESS_STATE state,
                               ACCESS_MASK access, POBJECT_TYPE type, KPROCESSOR_MODE mode,
                               PHANDLE handle);
NTSTATUS ObReferenceObjectByHandle(HANDLE handle, ACCESS_MASK access, POBJECT_TYPE type,
                                   KPROCESSOR_MODE mode, PVOID *object, PVOID handleInformation);
LONG64 ObfReferenceObject(PVOID object);
LONG64 ObfDereferenceObject(PVOID object);
#define ObReferenceObject(object) ((void)ObfReferenceObject(object))
#define ObDereferenceObject(object) ((void)ObfDereferenceObject(object))
NTSTATUS ObQueryNameString(PVOID object, POBJECT_NAME_INFORMATION name, ULONG length,
                           PULONG returned);
NTSTATUS ZwClose(HANDLE handle);

#define DELETE 0x00010000u
#define READ_CONTROL 0x00020000u
#define WRITE_DAC 0x00040000u
#define SYNCHRONIZE 0x00100000u
#define FILE_ALL_ACCESS 0x001F01FFu
#define PROCESS_QUERY_LIMITED_INFORMATION 0x1000u
#define PROCESS_QUERY_INFORMATION 0x0400u
#define THREAD_QUERY_INFORMATION 0x0040u
#define THREAD_ALL_ACCESS 0x001FFFFFu

/* --- files ------------------------------------------------------------------------------------ */

typedef struct _IO_STATUS_BLOCK {
    union {
        NTSTATUS Status;
        PVOID Pointer;
    };
    ULONG_PTR Information;
} IO_STATUS_BLOCK, *PIO_STATUS_BLOCK;
C_ASSERT(sizeof(IO_STATUS_BLOCK) == 16);

typedef VOID (*PIO_APC_ROUTINE)(PVOID context, PIO_STATUS_BLOCK status, ULONG reserved);

#define FILE_READ_DATA 0x0001u
#define FILE_WRITE_DATA 0x0002u
#define FILE_APPEND_DATA 0x0004u
#define FILE_LIST_DIRECTORY 0x0001u
#define FILE_READ_ATTRIBUTES 0x0080u
#define FILE_ATTRIBUTE_READONLY 0x1u
#define FILE_ATTRIBUTE_DIRECTORY 0x10u
#define FILE_ATTRIBUTE_NORMAL 0x80u
#define FILE_SHARE_READ 0x1u
#define FILE_SHARE_WRITE 0x2u
#define FILE_SHARE_DELETE 0x4u
#define FILE_OPEN 1u
#define FILE_CREATE 2u
#define FILE_OPEN_IF 3u
#define FILE_DIRECTORY_FILE 0x00000001u
#define FILE_SEQUENTIAL_ONLY 0x00000004u
#define FILE_SYNCHRONOUS_IO_NONALERT 0x00000020u
#define FILE_NON_DIRECTORY_FILE 0x00000040u

NTSTATUS ZwCreateFile(PHANDLE file, ACCESS_MASK access, POBJECT_ATTRIBUTES attributes,
                      PIO_STATUS_BLOCK status, PLARGE_INTEGER allocation, ULONG fileAttributes,
                      ULONG share, ULONG disposition, ULONG options, PVOID ea, ULONG eaLength);
NTSTATUS ZwWriteFile(HANDLE file, HANDLE event, PIO_APC_ROUTINE apc, PVOID apcContext,
                     PIO_STATUS_BLOCK status, PVOID buffer, ULONG length, PLARGE_INTEGER offset,
                     PULONG key);
NTSTATUS ZwFlushBuffersFile(HANDLE file, PIO_STATUS_BLOCK status);
NTSTATUS ZwDeleteFile(POBJECT_ATTRIBUTES attributes);
/* `class` 1, FileDirectoryInformation: chain of FILE_DIRECTORY_INFORMATION. */
NTSTATUS ZwQueryDirectoryFile(HANDLE file, HANDLE event, PIO_APC_ROUTINE apc, PVOID apcContext,
                              PIO_STATUS_BLOCK status, PVOID buffer, ULONG length, ULONG class_,
                              BOOLEAN single, PUNICODE_STRING pattern, BOOLEAN restart);
#define FileDirectoryInformation 1u
typedef struct _FILE_DIRECTORY_INFORMATION {
    ULONG NextEntryOffset;
    ULONG FileIndex;
    LARGE_INTEGER CreationTime;
    LARGE_INTEGER LastAccessTime;
    LARGE_INTEGER LastWriteTime;
    LARGE_INTEGER ChangeTime;
    LARGE_INTEGER EndOfFile;
    LARGE_INTEGER AllocationSize;
    ULONG FileAttributes;
    ULONG FileNameLength; /* bytes */
    WCHAR FileName[1];
} FILE_DIRECTORY_INFORMATION, *PFILE_DIRECTORY_INFORMATION;
C_ASSERT(FIELD_OFFSET(FILE_DIRECTORY_INFORMATION, FileName) == 64);

/* --- devices and requests --------------------------------------------------------------------- */

#define IRP_MJ_CREATE 0x00
#define IRP_MJ_CLOSE 0x02
#define IRP_MJ_READ 0x03
#define IRP_MJ_DEVICE_CONTROL 0x0e
#define IRP_MJ_SHUTDOWN 0x10
#define IRP_MJ_CLEANUP 0x12
#define IRP_MJ_MAXIMUM_FUNCTION 0x1b

#define FILE_DEVICE_UNKNOWN 0x22u
#define FILE_DEVICE_SECURE_OPEN 0x100u
#define DO_BUFFERED_IO 0x4u
#define DO_DEVICE_INITIALIZING 0x80u
#define SL_PENDING_RETURNED 0x01u
#define IO_NO_INCREMENT 0

typedef struct _DRIVER_OBJECT DRIVER_OBJECT, *PDRIVER_OBJECT;
typedef struct _DEVICE_OBJECT DEVICE_OBJECT, *PDEVICE_OBJECT;
typedef struct _IRP IRP, *PIRP;
typedef struct _IO_STACK_LOCATION IO_STACK_LOCATION, *PIO_STACK_LOCATION;

typedef NTSTATUS DRIVER_DISPATCH(PDEVICE_OBJECT device, PIRP irp);
typedef VOID DRIVER_UNLOAD(PDRIVER_OBJECT driver);
typedef NTSTATUS DRIVER_INITIALIZE(PDRIVER_OBJECT driver, PUNICODE_STRING registryPath);
typedef VOID DRIVER_CANCEL(PDEVICE_OBJECT device, PIRP irp);

struct _DRIVER_OBJECT {
    CSHORT Type;
    CSHORT Size;
    PDEVICE_OBJECT DeviceObject;
    ULONG Flags;
    PVOID DriverStart;
    ULONG DriverSize;
    PVOID DriverSection;
    PVOID DriverExtension;
    UNICODE_STRING DriverName;
    PUNICODE_STRING HardwareDatabase;
    PVOID FastIoDispatch;
    PVOID DriverInit;
    PVOID DriverStartIo;
    DRIVER_UNLOAD *DriverUnload;
    DRIVER_DISPATCH *MajorFunction[IRP_MJ_MAXIMUM_FUNCTION + 1];
};
C_ASSERT(sizeof(DRIVER_OBJECT) == 336 && FIELD_OFFSET(DRIVER_OBJECT, DriverUnload) == 104);

struct _DEVICE_OBJECT {
    CSHORT Type;
    USHORT Size;
    LONG ReferenceCount;
    PDRIVER_OBJECT DriverObject;
    PDEVICE_OBJECT NextDevice;
    PDEVICE_OBJECT AttachedDevice;
    PIRP CurrentIrp;
    PVOID Timer;
    ULONG Flags;
    ULONG Characteristics;
    PVOID Vpb;
    PVOID DeviceExtension;
    DEVICE_TYPE DeviceType;
    CCHAR StackSize;
    UCHAR Rest[336 - 77]; /* queue, DPC, lock: the I/O manager's */
};
C_ASSERT(FIELD_OFFSET(DEVICE_OBJECT, Flags) == 48);
C_ASSERT(FIELD_OFFSET(DEVICE_OBJECT, DeviceExtension) == 64);
C_ASSERT(sizeof(DEVICE_OBJECT) == 336);

struct _FILE_OBJECT {
    CSHORT Type;
    CSHORT Size;
    PDEVICE_OBJECT DeviceObject;
    PVOID Vpb;
    PVOID FsContext;
    PVOID FsContext2;
    PVOID SectionObjectPointer;
    PVOID PrivateCacheMap;
    NTSTATUS FinalStatus;
    PFILE_OBJECT RelatedFileObject;
    BOOLEAN Modes[8]; /* LockOperation .. SharedDelete */
    ULONG Flags;
    UNICODE_STRING FileName;
    LARGE_INTEGER CurrentByteOffset;
    UCHAR Rest[216 - 112];
};
C_ASSERT(FIELD_OFFSET(FILE_OBJECT, FsContext) == 24 && FIELD_OFFSET(FILE_OBJECT, FileName) == 88);
C_ASSERT(sizeof(FILE_OBJECT) == 216);

struct _IO_STACK_LOCATION {
    UCHAR MajorFunction;
    UCHAR MinorFunction;
    UCHAR Flags;
    UCHAR Control;
    union {
        struct {
            ULONG Length;
            KDA_ALIGNED(8) ULONG Key;
            LARGE_INTEGER ByteOffset;
        } Read;
        struct {
            ULONG OutputBufferLength;
            KDA_ALIGNED(8) ULONG InputBufferLength;
            KDA_ALIGNED(8) ULONG IoControlCode;
            PVOID Type3InputBuffer;
        } DeviceIoControl;
        struct {
            PVOID Argument[4];
        } Others;
    } Parameters;
    PDEVICE_OBJECT DeviceObject;
    PFILE_OBJECT FileObject;
    PVOID CompletionRoutine;
    PVOID Context;
};
C_ASSERT(sizeof(IO_STACK_LOCATION) == 72 && FIELD_OFFSET(IO_STACK_LOCATION, FileObject) == 48);
C_ASSERT(FIELD_OFFSET(IO_STACK_LOCATION, Parameters.DeviceIoControl.IoControlCode) == 24);

struct _IRP {
    CSHORT Type;
    USHORT Size;
    ULONG Reserved;
    PVOID MdlAddress;
    ULONG Flags;
    union {
        PIRP MasterIrp;
        PVOID SystemBuffer;
    } AssociatedIrp;
    LIST_ENTRY ThreadListEntry;
    IO_STATUS_BLOCK IoStatus;
    KPROCESSOR_MODE RequestorMode;
    BOOLEAN PendingReturned;
    CHAR StackCount;
    CHAR CurrentLocation;
    BOOLEAN Cancel;
    KIRQL CancelIrql;
    CCHAR ApcEnvironment;
    UCHAR AllocationFlags;
    PIO_STATUS_BLOCK UserIosb;
    PKEVENT UserEvent;
    PVOID Overlay[2];
    DRIVER_CANCEL *CancelRoutine;
    PVOID UserBuffer;
    union {
        struct {
            PVOID DriverContext[4];
            PETHREAD Thread;
            PVOID AuxiliaryBuffer;
            LIST_ENTRY ListEntry;
            PIO_STACK_LOCATION CurrentStackLocation;
            PFILE_OBJECT OriginalFileObject;
            PVOID IrpExtension;
        } Overlay;
    } Tail;
};
C_ASSERT(sizeof(IRP) == 208 && FIELD_OFFSET(IRP, IoStatus) == 48);
C_ASSERT(FIELD_OFFSET(IRP, CancelRoutine) == 104);
C_ASSERT(FIELD_OFFSET(IRP, Tail.Overlay.CurrentStackLocation) == 184);

NTSTATUS IoCreateDevice(PDRIVER_OBJECT driver, ULONG extensionSize, PUNICODE_STRING name,
                        DEVICE_TYPE type, ULONG characteristics, BOOLEAN exclusive,
                        PDEVICE_OBJECT *device);
VOID IoDeleteDevice(PDEVICE_OBJECT device);
NTSTATUS IoCreateSymbolicLink(PUNICODE_STRING link, PUNICODE_STRING device);
NTSTATUS IoDeleteSymbolicLink(PUNICODE_STRING link);
NTSTATUS IoRegisterShutdownNotification(PDEVICE_OBJECT device);
VOID IoUnregisterShutdownNotification(PDEVICE_OBJECT device);
/* The request that the file system began this thread's work with; NULL: it is in none. */
PIRP IoGetTopLevelIrp(VOID);
#ifdef KDA_SIM
VOID IoCompleteRequest(PIRP irp, CCHAR priorityBoost);
VOID IoMarkIrpPending(PIRP irp);
PIO_STACK_LOCATION IoGetCurrentIrpStackLocation(PIRP irp);
#else
VOID IofCompleteRequest(PIRP irp, CCHAR priorityBoost);
#define IoCompleteRequest(irp, boost) IofCompleteRequest(irp, boost)
static inline PIO_STACK_LOCATION IoGetCurrentIrpStackLocation(PIRP irp)
{
    return irp->Tail.Overlay.CurrentStackLocation;
}
static inline VOID IoMarkIrpPending(PIRP irp)
{
    IoGetCurrentIrpStackLocation(irp)->Control |= SL_PENDING_RETURNED;
}
#endif

typedef struct _IO_CSQ IO_CSQ, *PIO_CSQ;
typedef VOID (*PIO_CSQ_INSERT_IRP)(PIO_CSQ csq, PIRP irp);
typedef VOID (*PIO_CSQ_REMOVE_IRP)(PIO_CSQ csq, PIRP irp);
typedef PIRP (*PIO_CSQ_PEEK_NEXT_IRP)(PIO_CSQ csq, PIRP irp, PVOID peekContext);
typedef VOID (*PIO_CSQ_ACQUIRE_LOCK)(PIO_CSQ csq, PKIRQL irql);
typedef VOID (*PIO_CSQ_RELEASE_LOCK)(PIO_CSQ csq, KIRQL irql);
typedef VOID (*PIO_CSQ_COMPLETE_CANCELED_IRP)(PIO_CSQ csq, PIRP irp);
struct _IO_CSQ {
    ULONG Type;
    PIO_CSQ_INSERT_IRP CsqInsertIrp;
    PIO_CSQ_REMOVE_IRP CsqRemoveIrp;
    PIO_CSQ_PEEK_NEXT_IRP CsqPeekNextIrp;
    PIO_CSQ_ACQUIRE_LOCK CsqAcquireLock;
    PIO_CSQ_RELEASE_LOCK CsqReleaseLock;
    PIO_CSQ_COMPLETE_CANCELED_IRP CsqCompleteCanceledIrp;
    PVOID ReservePointer;
};
C_ASSERT(sizeof(IO_CSQ) == 64);
NTSTATUS IoCsqInitialize(PIO_CSQ csq, PIO_CSQ_INSERT_IRP insert, PIO_CSQ_REMOVE_IRP remove,
                         PIO_CSQ_PEEK_NEXT_IRP peek, PIO_CSQ_ACQUIRE_LOCK acquire,
                         PIO_CSQ_RELEASE_LOCK release, PIO_CSQ_COMPLETE_CANCELED_IRP complete);
/* The last parameter is an IO_CSQ_IRP_CONTEXT; the driver passes NULL. */
VOID IoCsqInsertIrp(PIO_CSQ csq, PIRP irp, PVOID context);
PIRP IoCsqRemoveNextIrp(PIO_CSQ csq, PVOID peekContext);

typedef struct _IO_WORKITEM *PIO_WORKITEM;
typedef VOID (*PIO_WORKITEM_ROUTINE)(PDEVICE_OBJECT device, PVOID context);
#define DelayedWorkQueue 1
PIO_WORKITEM IoAllocateWorkItem(PDEVICE_OBJECT device);
VOID IoFreeWorkItem(PIO_WORKITEM item);
VOID IoQueueWorkItem(PIO_WORKITEM item, PIO_WORKITEM_ROUTINE routine, ULONG queue, PVOID context);

/* --- registry --------------------------------------------------------------------------------- */

#define KEY_QUERY_VALUE 0x0001u
#define KEY_SET_VALUE 0x0002u
#define REG_NONE 0u
#define REG_SZ 1u
#define REG_EXPAND_SZ 2u
#define REG_BINARY 3u
#define REG_DWORD 4u
#define REG_MULTI_SZ 7u
#define REG_QWORD 11u
#define REG_CREATED_NEW_KEY 1u
#define REG_OPENED_EXISTING_KEY 2u

/* `class` 2, KeyValuePartialInformation. */
#define KeyValuePartialInformation 2u
typedef struct _KEY_VALUE_PARTIAL_INFORMATION {
    ULONG TitleIndex;
    ULONG Type;
    ULONG DataLength;
    UCHAR Data[1];
} KEY_VALUE_PARTIAL_INFORMATION, *PKEY_VALUE_PARTIAL_INFORMATION;
C_ASSERT(FIELD_OFFSET(KEY_VALUE_PARTIAL_INFORMATION, Data) == 12);

NTSTATUS ZwOpenKey(PHANDLE key, ACCESS_MASK access, POBJECT_ATTRIBUTES attributes);
NTSTATUS ZwQueryValueKey(HANDLE key, PUNICODE_STRING name, ULONG class_, PVOID information,
                         ULONG length, PULONG returned);
NTSTATUS ZwSetValueKey(HANDLE key, PUNICODE_STRING name, ULONG titleIndex, ULONG type, PVOID data,
                       ULONG dataSize);

typedef enum _REG_NOTIFY_CLASS {
    RegNtPreDeleteKey = 0,
    RegNtPreSetValueKey = 1,
    RegNtPreDeleteValueKey = 2,
    RegNtPreRenameKey = 4,
    RegNtPreQueryValueKey = 8,
    RegNtPostDeleteKey = 15,
    RegNtPostSetValueKey = 16,
    RegNtPostDeleteValueKey = 17,
    RegNtPostRenameKey = 19,
    RegNtPreCreateKeyEx = 26,
    RegNtPostCreateKeyEx = 27
} REG_NOTIFY_CLASS;

typedef struct _REG_DELETE_KEY_INFORMATION {
    PVOID Object;
    PVOID CallContext;
    PVOID ObjectContext;
    PVOID Reserved;
} REG_DELETE_KEY_INFORMATION, *PREG_DELETE_KEY_INFORMATION;

typedef struct _REG_SET_VALUE_KEY_INFORMATION {
    PVOID Object;
    PUNICODE_STRING ValueName;
    ULONG TitleIndex;
    ULONG Type;
    PVOID Data;
    ULONG DataSize;
    PVOID CallContext;
    PVOID ObjectContext;
    PVOID Reserved;
} REG_SET_VALUE_KEY_INFORMATION, *PREG_SET_VALUE_KEY_INFORMATION;
C_ASSERT(FIELD_OFFSET(REG_SET_VALUE_KEY_INFORMATION, CallContext) == 40);

typedef struct _REG_DELETE_VALUE_KEY_INFORMATION {
    PVOID Object;
    PUNICODE_STRING ValueName;
    PVOID CallContext;
    PVOID ObjectContext;
    PVOID Reserved;
} REG_DELETE_VALUE_KEY_INFORMATION, *PREG_DELETE_VALUE_KEY_INFORMATION;

typedef struct _REG_RENAME_KEY_INFORMATION {
    PVOID Object;
    PUNICODE_STRING NewName;
    PVOID CallContext;
    PVOID ObjectContext;
    PVOID Reserved;
} REG_RENAME_KEY_INFORMATION, *PREG_RENAME_KEY_INFORMATION;

typedef struct _REG_CREATE_KEY_INFORMATION {
    PUNICODE_STRING CompleteName; /* absolute, or relative to RootObject */
    PVOID RootObject;
    PVOID ObjectType;
    ULONG CreateOptions;
    PUNICODE_STRING Class;
    PVOID SecurityDescriptor;
    PVOID SecurityQualityOfService;
    ACCESS_MASK DesiredAccess;
    ACCESS_MASK GrantedAccess;
    PULONG Disposition;
    PVOID *ResultObject;
    PVOID CallContext;
    PVOID RootObjectContext;
    PVOID Transaction;
    PVOID Reserved;
} REG_CREATE_KEY_INFORMATION, *PREG_CREATE_KEY_INFORMATION;
C_ASSERT(FIELD_OFFSET(REG_CREATE_KEY_INFORMATION, Disposition) == 64);
C_ASSERT(FIELD_OFFSET(REG_CREATE_KEY_INFORMATION, CallContext) == 80);

typedef struct _REG_POST_OPERATION_INFORMATION {
    PVOID Object;
    NTSTATUS Status;
    PVOID PreInformation;
    NTSTATUS ReturnStatus;
    PVOID CallContext;
    PVOID ObjectContext;
    PVOID Reserved;
} REG_POST_OPERATION_INFORMATION, *PREG_POST_OPERATION_INFORMATION;
C_ASSERT(FIELD_OFFSET(REG_POST_OPERATION_INFORMATION, CallContext) == 32);

typedef NTSTATUS (*PEX_CALLBACK_FUNCTION)(PVOID context, PVOID notifyClass, PVOID information);
NTSTATUS CmRegisterCallbackEx(PEX_CALLBACK_FUNCTION function, PCUNICODE_STRING altitude,
                              PVOID driver, PVOID context, PLARGE_INTEGER cookie, PVOID reserved);
NTSTATUS CmUnRegisterCallback(LARGE_INTEGER cookie);
NTSTATUS CmCallbackGetKeyObjectIDEx(PLARGE_INTEGER cookie, PVOID object, PULONG_PTR objectId,
                                    PCUNICODE_STRING *objectName, ULONG flags);
VOID CmCallbackReleaseKeyObjectIDEx(PCUNICODE_STRING objectName);
/* The transaction that a key object was opened in; NULL: none. Not referenced for the caller. */
PVOID CmGetBoundTransaction(PLARGE_INTEGER cookie, PVOID object);

/* --- queries ---------------------------------------------------------------------------------- */

#define ProcessBasicInformation 0u
typedef struct _PROCESS_BASIC_INFORMATION {
    NTSTATUS ExitStatus;
    PVOID PebBaseAddress;
    ULONG_PTR AffinityMask;
    KPRIORITY BasePriority;
    ULONG_PTR UniqueProcessId;
    ULONG_PTR InheritedFromUniqueProcessId;
} PROCESS_BASIC_INFORMATION;
C_ASSERT(sizeof(PROCESS_BASIC_INFORMATION) == 48);
NTSTATUS ZwQueryInformationProcess(HANDLE process, ULONG class_, PVOID information, ULONG length,
                                   PULONG returned);
#define ThreadQuerySetWin32StartAddress 9u
NTSTATUS ZwQueryInformationThread(HANDLE thread, ULONG class_, PVOID information, ULONG length,
                                  PULONG returned);
NTSTATUS ZwQueryVirtualMemory(HANDLE process, PVOID base, ULONG class_, PVOID information,
                              SIZE_T length, PSIZE_T returned);

/* --- security --------------------------------------------------------------------------------- */

#define TOKEN_QUERY 0x0008u
#define TokenUser 1u            /* SID_AND_ATTRIBUTES, the SID behind it */
#define TokenSessionId 12u      /* ULONG */
#define TokenElevation 20u      /* ULONG, not 0: elevated */
#define TokenIntegrityLevel 25u /* SID_AND_ATTRIBUTES: last part of the SID is the level */
typedef struct _SID_AND_ATTRIBUTES {
    PVOID Sid;
    ULONG Attributes;
} SID_AND_ATTRIBUTES;
NTSTATUS ZwOpenProcessTokenEx(HANDLE process, ACCESS_MASK access, ULONG attributes, PHANDLE token);
NTSTATUS ZwQueryInformationToken(HANDLE token, ULONG class_, PVOID information, ULONG length,
                                 PULONG returned);
#define DACL_SECURITY_INFORMATION 4u
NTSTATUS ZwSetSecurityObject(HANDLE handle, ULONG information, PVOID descriptor);

/* --- power ------------------------------------------------------------------------------------ */

typedef struct _CALLBACK_OBJECT *PCALLBACK_OBJECT;
typedef VOID (*PCALLBACK_FUNCTION)(PVOID context, PVOID argument1, PVOID argument2);
/* `\Callback\PowerState`: argument1 PO_CB_SYSTEM_STATE_LOCK, argument2 0 before sleep, 1 after. */
#define PO_CB_SYSTEM_STATE_LOCK 3
NTSTATUS ExCreateCallback(PCALLBACK_OBJECT *callback, POBJECT_ATTRIBUTES attributes, BOOLEAN create,
                          BOOLEAN allowMultiple);
PVOID ExRegisterCallback(PCALLBACK_OBJECT callback, PCALLBACK_FUNCTION function, PVOID context);
VOID ExUnregisterCallback(PVOID registration);

/* --- host only -------------------------------------------------------------------------------- */

#ifdef KDA_SIM
/* What guarded.c does with structured exceptions: copies, or fails if a byte of the source
 * may not be read. */
NTSTATUS sim_guarded_copy(void *to, const void *from, SIZE_T bytes);
#endif

#endif
