/*
 * mof_rows.c - the table of the kernel's events.
 *
 * Source: the classes of MSNT_SystemTrace (learn.microsoft.com, "MSNT_SystemTrace class"), checked
 * on real traces where docs/decoding.md says so; manifests of the Kernel- providers.
 */
#include "mof.h"

/* clang-format off */

/* --- process ------------------------------------------------------------------------------- */

#define PROCESS_HEAD "ptr:UniqueProcessKey u32:ProcessId>pid u32:ParentId>parent_pid " \
     "u32:SessionId>session "
#define PROCESS_EXIT_HEAD "ptr:UniqueProcessKey u32:ProcessId>pid u32:ParentId u32:SessionId "
#define PROCESS_V1 "ptr:PageDirectoryBase u32:ProcessId>pid u32:ParentId>parent_pid " \
     "u32:SessionId>session " \
    "status:ExitStatus sid:UserSID>user_sid str:ImageFileName>image"
#define PROCESS_V2 PROCESS_HEAD "status:ExitStatus sid:UserSID>user_sid str:ImageFileName>image " \
     "?wstr:CommandLine>command_line"
#define PROCESS_V3 PROCESS_HEAD "status:ExitStatus ptr:DirectoryTableBase sid:UserSID>user_sid " \
    "str:ImageFileName>image ?wstr:CommandLine>command_line"
#define PROCESS_V4 PROCESS_HEAD "status:ExitStatus ptr:DirectoryTableBase x32:Flags " \
     "sid:UserSID>user_sid " \
    "str:ImageFileName>image ?wstr:CommandLine>command_line ?wstr:PackageFullName " \
     "?wstr:ApplicationId"
#define PROCESS_EXIT_V1 "ptr:PageDirectoryBase u32:ProcessId>pid u32:ParentId u32:SessionId " \
    "u32:ExitStatus>exit_code sid:UserSID str:ImageFileName>image"
#define PROCESS_EXIT_V2 PROCESS_EXIT_HEAD "u32:ExitStatus>exit_code sid:UserSID " \
     "str:ImageFileName>image ?wstr:CommandLine"
#define PROCESS_EXIT_V3 PROCESS_EXIT_HEAD "u32:ExitStatus>exit_code ptr:DirectoryTableBase " \
     "sid:UserSID " \
    "str:ImageFileName>image ?wstr:CommandLine"
#define PROCESS_EXIT_V4 PROCESS_EXIT_HEAD "u32:ExitStatus>exit_code ptr:DirectoryTableBase " \
     "x32:Flags sid:UserSID " \
    "str:ImageFileName>image ?wstr:CommandLine ?wstr:PackageFullName ?wstr:ApplicationId"
#define DEFUNCT_V4 "ptr:UniqueProcessKey u32:ProcessId>pid u32:ParentId u32:SessionId " \
     "status:ExitStatus " \
    "ptr:DirectoryTableBase x32:Flags sid:UserSID str:ImageFileName wstr:CommandLine " \
     "wstr:PackageFullName " \
    "wstr:ApplicationId"
#define COUNTERS "u32:ProcessId>pid u32:PageFaultCount u32:HandleCount u32:Reserved! " \
     "size:PeakVirtualSize " \
    "size:PeakWorkingSetSize size:PeakPagefileUsage size:QuotaPeakPagedPoolUsage " \
     "size:QuotaPeakNonPagedPoolUsage " \
    "size:VirtualSize size:WorkingSetSize size:PagefileUsage size:QuotaPagedPoolUsage " \
     "size:QuotaNonPagedPoolUsage " \
    "size:PrivatePageCount"

#define PROCESS(type, kind, name) \
    {KDA_MOF_PROCESS, type, 0, 0, kind, name, \
     "size:ProcessId>pid size:ParentId>parent_pid sid:UserSID>user_sid str:ImageFileName>image"}, \
    {KDA_MOF_PROCESS, type, 1, 1, kind, name, PROCESS_V1}, \
    {KDA_MOF_PROCESS, type, 2, 2, kind, name, PROCESS_V2}, \
    {KDA_MOF_PROCESS, type, 3, 3, kind, name, PROCESS_V3}, \
    {KDA_MOF_PROCESS, type, 4, 255, kind, name, PROCESS_V4}

/* --- thread -------------------------------------------------------------------------------- */

#define STACKS "ptr:StackBase ptr:StackLimit ptr:UserStackBase ptr:UserStackLimit "
#define PRIORITIES "?u8:BasePriority ?u8:PagePriority ?u8:IoPriority ?u8:ThreadFlags " \
     "?wstr:ThreadName"

#define THREAD_RUNDOWN(type, name) \
    {KDA_MOF_THREAD, type, 0, 0, KDA_KIND_ETW_EVENT, name, "u32:TThreadId>tid u32:ProcessId>pid"}, \
    {KDA_MOF_THREAD, type, 1, 1, KDA_KIND_ETW_EVENT, name, "u32:ProcessId>pid u32:TThreadId>tid " \
     "?ptr:StackBase " \
     "?ptr:StackLimit ?ptr:UserStackBase ?ptr:UserStackLimit ?ptr:StartAddr ?ptr:Win32StartAddr " \
     "?i8:WaitMode"}, \
    {KDA_MOF_THREAD, type, 2, 2, KDA_KIND_ETW_EVENT, name, "u32:ProcessId>pid u32:TThreadId>tid " \
     "" STACKS \
     "ptr:StartAddr ptr:Win32StartAddr ptr:TebBase u32:SubProcessTag"}, \
    {KDA_MOF_THREAD, type, 3, 255, KDA_KIND_ETW_EVENT, name, "u32:ProcessId>pid " \
     "u32:TThreadId>tid " STACKS \
     "ptr:Affinity ptr:Win32StartAddr ptr:TebBase u32:SubProcessTag " PRIORITIES}

/* --- image --------------------------------------------------------------------------------- */

#define IMAGE_TAIL "x32:ImageCheckSum u32:TimeDateStamp "
#define IMAGE(type, kind, name, pid, base, size, level, signature, module) \
    {KDA_MOF_IMAGE, type, 0, 0, kind, name, "ptr:ImageBase" base " u32:ImageSize" size " " \
     "wstr:FileName" module}, \
    {KDA_MOF_IMAGE, type, 1, 1, kind, name, "ptr:ImageBase" base " size:ImageSize" size " " \
     "u32:ProcessId" pid \
     " wstr:FileName" module}, \
    {KDA_MOF_IMAGE, type, 2, 2, kind, name, "ptr:ImageBase" base " size:ImageSize" size " " \
     "u32:ProcessId" pid \
     " " IMAGE_TAIL "u32:Reserved0! ptr:DefaultBase u32:Reserved1! u32:Reserved2! u32:Reserved3! " \
     "u32:Reserved4! " \
     "wstr:FileName" module}, \
    {KDA_MOF_IMAGE, type, 3, 255, kind, name, "ptr:ImageBase" base " size:ImageSize" size " " \
     "u32:ProcessId" pid \
     " " IMAGE_TAIL "u8:SignatureLevel" level " u8:SignatureType" signature " u16:Reserved0! " \
     "ptr:DefaultBase " \
     "u32:Reserved1! u32:Reserved2! u32:Reserved3! u32:Reserved4! wstr:FileName" module}
#define IMAGE_LIVE(type, kind, name) \
    IMAGE(type, kind, name, ">target_pid", ">base", ">size", ">signature_level", \
     ">signature_type", ">module")
#define IMAGE_RUNDOWN(type, name) IMAGE(type, KDA_KIND_ETW_EVENT, name, ">pid", "", "", "", "", "")

/* --- network ------------------------------------------------------------------------------- */

#define FLOW4 "u32:PID>pid u32:size ip4:daddr>remote_ip ip4:saddr>local_ip " \
     "port:dport>remote_port port:sport>local_port"
#define FLOW6 "u32:PID>pid u32:size ip6:daddr>remote_ip ip6:saddr>local_ip " \
     "port:dport>remote_port port:sport>local_port"
#define DATA4 "u32:PID>pid u32:size ip4:daddr ip4:saddr port:dport port:sport"
#define DATA6 "u32:PID>pid u32:size ip6:daddr ip6:saddr port:dport port:sport"
#define OPTIONS " u16:mss u16:sackopt u16:tsopt u16:wsopt u32:rcvwin i16:rcvwinscale " \
     "i16:sndwinscale u32:seqnum ptr:connid"
#define SEQUENCE " u32:seqnum ptr:connid"
#define SENT " u32:startime u32:endtime u32:seqnum ptr:connid"

/* One operation over both versions of IP, in the classes of the kernel logger and of the
     provider. */
#define TCP(class_, four, six, first, kind, name, flow, tail) \
    {class_, four, first, 255, kind, name, flow##4 tail}, \
    {class_, six, first, 255, kind, name "IPV6", flow##6 tail}
#define TCP_ALL(class_, first) \
    TCP(class_, 10, 26, first, KDA_KIND_ETW_EVENT, "Send", DATA, SENT), \
    TCP(class_, 11, 27, first, KDA_KIND_ETW_EVENT, "Recv", DATA, SEQUENCE), \
    TCP(class_, 12, 28, first, KDA_KIND_NETWORK_CONNECT, "Connect", FLOW, OPTIONS), \
    TCP(class_, 13, 29, first, KDA_KIND_NETWORK_DISCONNECT, "Disconnect", FLOW, SEQUENCE), \
    TCP(class_, 14, 30, first, KDA_KIND_ETW_EVENT, "Retransmit", DATA, SEQUENCE), \
    TCP(class_, 15, 31, first, KDA_KIND_NETWORK_ACCEPT, "Accept", FLOW, OPTIONS), \
    TCP(class_, 16, 32, first, KDA_KIND_ETW_EVENT, "Reconnect", DATA, SEQUENCE), \
    {class_, 17, first, 255, KDA_KIND_ETW_EVENT, "Fail", "u16:Proto u16:FailureCode"}, \
    TCP(class_, 18, 34, first, KDA_KIND_ETW_EVENT, "TCPCopy", DATA, SEQUENCE)
#define TCP_V0 "ip4:daddr ip4:saddr port:dport port:sport u32:size u32:PID>pid"
#define TCP_V0_FLOW "ip4:daddr>remote_ip ip4:saddr>local_ip port:dport>remote_port " \
     "port:sport>local_port u32:size u32:PID>pid"
#define TCP_OLD(type, kind, name, v0, v1) \
    {KDA_MOF_TCP_IP, type, 0, 0, kind, name, v0}, \
    {KDA_MOF_TCP_IP, type, 1, 1, kind, name, v1}

/* --- files --------------------------------------------------------------------------------- */

#define OPEN_TAIL "x32:CreateOptions x32:FileAttributes x32:ShareAccess wstr:OpenPath"
#define INFO_TAIL "u32:InfoClass"
#define LIST_TAIL "u32:Length u32:InfoClass u32:FileIndex wstr:FileName"
/* Version 3 has the thread as a number, and behind the pointers. */
#define FILE_ROW(type, name, first, second, head, keys, tail) \
    {KDA_MOF_FILE_IO, type, 2, 2, KDA_KIND_ETW_EVENT, name, \
     head "ptr:IrpPtr ptr:TTID ptr:FileObject " first second tail}, \
    {KDA_MOF_FILE_IO, type, 3, 255, KDA_KIND_ETW_EVENT, name, \
     head "ptr:IrpPtr ptr:FileObject " keys "u32:TTID>tid " tail}
#define FILE_OP(type, name) FILE_ROW(type, name, "ptr:FileKey", "", "", "ptr:FileKey ", "")
#define FILE_INFO(type, name) \
    FILE_ROW(type, name, "ptr:FileKey ", "ptr:ExtraInfo ", "", "ptr:FileKey ptr:ExtraInfo ", \
             INFO_TAIL)
#define FILE_DATA(type, name) \
    FILE_ROW(type, name, "ptr:FileKey ", "", "u64:Offset ", "ptr:FileKey ", \
             "u32:IoSize x32:IoFlags")
#define FILE_LIST(type, name) \
    FILE_ROW(type, name, "ptr:FileKey ", "", "", "ptr:FileKey ", LIST_TAIL)

/* --- registry ------------------------------------------------------------------------------ */

#define REGISTRY(type, kind, name, status, key) \
    {KDA_MOF_REGISTRY, type, 0, 0, kind, name, "xptr:Status" status " ptr:KeyHandle>kcb " \
     "i64:ElapsedTime wstr:KeyName" key}, \
    {KDA_MOF_REGISTRY, type, 1, 1, kind, name, "xptr:Status" status " ptr:KeyHandle>kcb " \
     "i64:ElapsedTime u32:Index " \
     "wstr:KeyName" key}, \
    {KDA_MOF_REGISTRY, type, 2, 255, kind, name, "i64:InitialTime status:Status" status " " \
     "u32:Index ptr:KeyHandle>kcb " \
     "wstr:KeyName" key}
#define REGISTRY_OTHER(type, name) REGISTRY(type, KDA_KIND_ETW_EVENT, name, "", ">name")

#define KEY_AND_NAME "ptr:KeyObject>object status:Status wstr:KeyName>name"
#define CAPTURED(name) " u16:CapturedDataSize! bytes(CapturedDataSize):" name

/* --- rows ---------------------------------------------------------------------------------- */

const struct kda_mof_row kda_mof_rows[] = {
    {KDA_MOF_EVENT_TRACE, 0, 0, 255, KDA_KIND_ETW_EVENT, "",
     "u32:BufferSize u32:Version u32:ProviderVersion u32:NumberOfProcessors time:EndTime "
     "u32:TimerResolution "
     "u32:MaxFileSize u32:LogFileMode u32:BuffersWritten u32:StartBuffers u32:PointerSize "
     "u32:EventsLost u32:CPUSpeed "
     "ptr:LoggerNamePointer! ptr:LogFileNamePointer! i32:UtcOffsetMinutes bytes(172):TimeZone! "
     "time:BootTime u64:PerfFreq "
     "time:StartTime u32:ReservedFlags u32:BuffersLost ?wstr:SessionName ?wstr:LogFileName"},
    {KDA_MOF_EVENT_TRACE, 5, 0, 255, KDA_KIND_ETW_EVENT, "Extension",
     "x32:GroupMask1 x32:GroupMask2 x32:GroupMask3 x32:GroupMask4 x32:GroupMask5 x32:GroupMask6 "
     "x32:GroupMask7 "
     "x32:GroupMask8 u32:KernelEventVersion"},
    {KDA_MOF_EVENT_TRACE, 32, 0, 255, KDA_KIND_ETW_EVENT, "EndExtension",
     "x32:GroupMask1 x32:GroupMask2 x32:GroupMask3 x32:GroupMask4 x32:GroupMask5 x32:GroupMask6 "
     "x32:GroupMask7 "
     "x32:GroupMask8 u32:KernelEventVersion"},
    {KDA_MOF_EVENT_TRACE, 8, 0, 255, KDA_KIND_ETW_EVENT, "RundownComplete", ""},

    PROCESS(1, KDA_KIND_PROCESS_CREATE, "Start"),
    PROCESS(3, KDA_KIND_PROCESS_EXISTING, "DCStart"),
    PROCESS(4, KDA_KIND_PROCESS_EXISTING, "DCStop"),
    {KDA_MOF_PROCESS, 2, 0, 0, KDA_KIND_PROCESS_EXIT, "Stop",
     "size:ProcessId>pid size:ParentId sid:UserSID str:ImageFileName>image"},
    {KDA_MOF_PROCESS, 2, 1, 1, KDA_KIND_PROCESS_EXIT, "Stop", PROCESS_EXIT_V1},
    {KDA_MOF_PROCESS, 2, 2, 2, KDA_KIND_PROCESS_EXIT, "Stop", PROCESS_EXIT_V2},
    {KDA_MOF_PROCESS, 2, 3, 3, KDA_KIND_PROCESS_EXIT, "Stop", PROCESS_EXIT_V3},
    {KDA_MOF_PROCESS, 2, 4, 255, KDA_KIND_PROCESS_EXIT, "Stop", PROCESS_EXIT_V4},
    {KDA_MOF_PROCESS, 11, 0, 255, KDA_KIND_ETW_EVENT, "Terminate", "u32:ProcessId>pid"},
    {KDA_MOF_PROCESS, 32, 2, 255, KDA_KIND_ETW_EVENT, "PerfCtr", COUNTERS},
    {KDA_MOF_PROCESS, 33, 2, 255, KDA_KIND_ETW_EVENT, "PerfCtrRundown", COUNTERS},
    {KDA_MOF_PROCESS, 39, 4, 4, KDA_KIND_ETW_EVENT, "Defunct", DEFUNCT_V4},
    {KDA_MOF_PROCESS, 39, 5, 255, KDA_KIND_ETW_EVENT, "Defunct", DEFUNCT_V4 " time:ExitTime"},

    {KDA_MOF_THREAD, 1, 0, 0, KDA_KIND_THREAD_CREATE, "Start", "u32:TThreadId>new_tid "
     "u32:ProcessId>target_pid"},
    {KDA_MOF_THREAD, 1, 1, 1, KDA_KIND_THREAD_CREATE, "Start",
     "u32:ProcessId>target_pid u32:TThreadId>new_tid " STACKS "ptr:StartAddr "
     "ptr:Win32StartAddr>start_address "
     "?i8:WaitMode ?bytes(3):Reserved!"},
    {KDA_MOF_THREAD, 1, 2, 2, KDA_KIND_THREAD_CREATE, "Start",
     "u32:ProcessId>target_pid u32:TThreadId>new_tid " STACKS "ptr:StartAddr "
     "ptr:Win32StartAddr>start_address "
     "ptr:TebBase u32:SubProcessTag"},
    {KDA_MOF_THREAD, 1, 3, 255, KDA_KIND_THREAD_CREATE, "Start",
     "u32:ProcessId>target_pid u32:TThreadId>new_tid " STACKS "ptr:Affinity "
     "ptr:Win32StartAddr>start_address "
     "ptr:TebBase u32:SubProcessTag " PRIORITIES},
    {KDA_MOF_THREAD, 2, 0, 0, KDA_KIND_THREAD_EXIT, "Stop", "u32:TThreadId>tid u32:ProcessId>pid"},
    {KDA_MOF_THREAD, 2, 1, 1, KDA_KIND_THREAD_EXIT, "Stop", "u32:ProcessId>pid u32:TThreadId>tid"},
    {KDA_MOF_THREAD, 2, 2, 2, KDA_KIND_THREAD_EXIT, "Stop",
     "u32:ProcessId>pid u32:TThreadId>tid " STACKS "ptr:StartAddr ptr:Win32StartAddr ptr:TebBase "
     "u32:SubProcessTag"},
    {KDA_MOF_THREAD, 2, 3, 255, KDA_KIND_THREAD_EXIT, "Stop",
     "u32:ProcessId>pid u32:TThreadId>tid " STACKS "ptr:Affinity ptr:Win32StartAddr ptr:TebBase "
     "u32:SubProcessTag " PRIORITIES},
    THREAD_RUNDOWN(3, "DCStart"),
    THREAD_RUNDOWN(4, "DCStop"),
    {KDA_MOF_THREAD, 36, 2, 255, KDA_KIND_ETW_EVENT, "CSwitch",
     "u32:NewThreadId u32:OldThreadId i8:NewThreadPriority i8:OldThreadPriority "
     "u8:PreviousCState i8:SpareByte! "
     "i8:OldThreadWaitReason i8:OldThreadWaitMode i8:OldThreadState i8:OldThreadWaitIdealProcessor "
     "u32:NewThreadWaitTime u32:Reserved!"},
    {KDA_MOF_THREAD, 50, 2, 255, KDA_KIND_ETW_EVENT, "ReadyThread",
     "u32:TThreadId i8:AdjustReason i8:AdjustIncrement i8:Flag i8:Reserved!"},
    {KDA_MOF_THREAD, 72, 2, 255, KDA_KIND_ETW_EVENT, "SetName", "u32:ProcessId u32:ThreadId "
     "wstr:ThreadName"},

    IMAGE_LIVE(10, KDA_KIND_IMAGE_LOAD, "Load"),
    IMAGE_LIVE(2, KDA_KIND_IMAGE_UNLOAD, "Unload"),
    IMAGE_RUNDOWN(3, "DCStart"),
    IMAGE_RUNDOWN(4, "DCStop"),
    {KDA_MOF_IMAGE, 33, 0, 255, KDA_KIND_ETW_EVENT, "KernelBase", "ptr:ImageBase"},
    {KDA_MOF_IMAGE, 34, 0, 255, KDA_KIND_ETW_EVENT, "HypercallPage", "ptr:HypercallPageVa"},

    TCP_ALL(KDA_MOF_TCP_IP, 2),
    TCP_OLD(10, KDA_KIND_ETW_EVENT, "Send", TCP_V0, DATA4),
    TCP_OLD(11, KDA_KIND_ETW_EVENT, "Recv", TCP_V0, DATA4),
    TCP_OLD(12, KDA_KIND_NETWORK_CONNECT, "Connect", TCP_V0_FLOW, FLOW4),
    TCP_OLD(13, KDA_KIND_NETWORK_DISCONNECT, "Disconnect", TCP_V0_FLOW, FLOW4),
    TCP_OLD(14, KDA_KIND_ETW_EVENT, "Retransmit", TCP_V0, DATA4),
    TCP_OLD(15, KDA_KIND_NETWORK_ACCEPT, "Accept", TCP_V0_FLOW, FLOW4),
    TCP_OLD(16, KDA_KIND_ETW_EVENT, "Reconnect", TCP_V0, DATA4),
    {KDA_MOF_TCP_IP, 17, 1, 1, KDA_KIND_ETW_EVENT, "Fail", "u32:Proto"},
    {KDA_MOF_TCP_IP, 19, 1, 1, KDA_KIND_ETW_EVENT, "ARPCopy", DATA4},
    {KDA_MOF_TCP_IP, 20, 1, 1, KDA_KIND_ETW_EVENT, "FullACK", DATA4},
    {KDA_MOF_TCP_IP, 21, 1, 1, KDA_KIND_ETW_EVENT, "PartACK", DATA4},
    {KDA_MOF_TCP_IP, 22, 1, 1, KDA_KIND_ETW_EVENT, "DupACK", DATA4},

    TCP(KDA_MOF_UDP_IP, 10, 26, 2, KDA_KIND_ETW_EVENT, "Send", DATA, SEQUENCE),
    TCP(KDA_MOF_UDP_IP, 11, 27, 2, KDA_KIND_ETW_EVENT, "Recv", DATA, SEQUENCE),
    {KDA_MOF_UDP_IP, 17, 2, 255, KDA_KIND_ETW_EVENT, "Fail", "u16:Proto u16:FailureCode"},
    {KDA_MOF_UDP_IP, 10, 1, 1, KDA_KIND_ETW_EVENT, "Send", DATA4},
    {KDA_MOF_UDP_IP, 11, 1, 1, KDA_KIND_ETW_EVENT, "Recv", DATA4},
    {KDA_MOF_UDP_IP, 10, 0, 0, KDA_KIND_ETW_EVENT, "Send",
     "ptr:context ip4:saddr port:sport u16:size ip4:daddr port:dport u16:dsize"},
    {KDA_MOF_UDP_IP, 11, 0, 0, KDA_KIND_ETW_EVENT, "Recv",
     "ptr:context ip4:saddr port:sport u16:size ip4:daddr port:dport u16:dsize"},

    REGISTRY(10, KDA_KIND_REGISTRY_KEY_CREATE, "Create", ">status", ">name"),
    REGISTRY_OTHER(11, "Open"),
    REGISTRY(12, KDA_KIND_REGISTRY_KEY_DELETE, "Delete", ">status", ">name"),
    REGISTRY_OTHER(13, "Query"),
    REGISTRY(14, KDA_KIND_REGISTRY_VALUE_SET, "SetValue", ">status", ">value"),
    REGISTRY(15, KDA_KIND_REGISTRY_VALUE_DELETE, "DeleteValue", ">status", ">value"),
    REGISTRY_OTHER(16, "QueryValue"),
    REGISTRY_OTHER(17, "EnumerateKey"),
    REGISTRY_OTHER(18, "EnumerateValueKey"),
    REGISTRY_OTHER(19, "QueryMultipleValue"),
    REGISTRY_OTHER(20, "SetInformation"),
    REGISTRY_OTHER(21, "Flush"),
    REGISTRY_OTHER(22, "KCBCreate"),
    REGISTRY_OTHER(23, "KCBDelete"),
    REGISTRY_OTHER(24, "KCBRundownBegin"),
    REGISTRY_OTHER(25, "KCBRundownEnd"),
    REGISTRY_OTHER(26, "Virtualize"),
    REGISTRY_OTHER(27, "Close"),
    REGISTRY_OTHER(28, "SetSecurity"),
    REGISTRY_OTHER(29, "QuerySecurity"),
    {KDA_MOF_REGISTRY, 34, 0, 255, KDA_KIND_ETW_EVENT, "Counters",
     "u64:Counter1 u64:Counter2 u64:Counter3 u64:Counter4 u64:Counter5 u64:Counter6 u64:Counter7 "
     "u64:Counter8 "
     "u64:Counter9 u64:Counter10 u64:Counter11"},

    {KDA_MOF_DISK_IO, 10, 2, 255, KDA_KIND_ETW_EVENT, "Read",
     "u32:DiskNumber x32:IrpFlags u32:TransferSize u32:Reserved! u64:ByteOffset ptr:FileObject "
     "ptr:Irp "
     "u64:HighResResponseTime ?u32:IssuingThreadId>tid"},
    {KDA_MOF_DISK_IO, 11, 2, 255, KDA_KIND_ETW_EVENT, "Write",
     "u32:DiskNumber x32:IrpFlags u32:TransferSize u32:Reserved! u64:ByteOffset ptr:FileObject "
     "ptr:Irp "
     "u64:HighResResponseTime ?u32:IssuingThreadId>tid"},
    {KDA_MOF_DISK_IO, 12, 2, 255, KDA_KIND_ETW_EVENT, "ReadInit", "ptr:Irp "
     "?u32:IssuingThreadId>tid"},
    {KDA_MOF_DISK_IO, 13, 2, 255, KDA_KIND_ETW_EVENT, "WriteInit", "ptr:Irp "
     "?u32:IssuingThreadId>tid"},
    {KDA_MOF_DISK_IO, 14, 2, 255, KDA_KIND_ETW_EVENT, "FlushBuffers",
     "u32:DiskNumber x32:IrpFlags u64:HighResResponseTime ptr:Irp ?u32:IssuingThreadId>tid"},
    {KDA_MOF_DISK_IO, 15, 2, 255, KDA_KIND_ETW_EVENT, "FlushInit", "ptr:Irp "
     "?u32:IssuingThreadId>tid"},
    {KDA_MOF_PAGE_FAULT, 32, 2, 255, KDA_KIND_ETW_EVENT, "HardFault",
     "u64:InitialTime u64:ReadOffset ptr:VirtualAddress ptr:FileObject u32:TThreadId>tid "
     "u32:ByteCount"},
    {KDA_MOF_FILE_IO, 0, 2, 255, KDA_KIND_ETW_EVENT, "Name", "ptr:FileObject wstr:FileName"},
    {KDA_MOF_FILE_IO, 32, 2, 255, KDA_KIND_ETW_EVENT, "FileCreate", "ptr:FileObject wstr:FileName"},
    {KDA_MOF_FILE_IO, 35, 2, 255, KDA_KIND_ETW_EVENT, "FileDelete", "ptr:FileObject wstr:FileName"},
    {KDA_MOF_FILE_IO, 36, 2, 255, KDA_KIND_ETW_EVENT, "FileRundown", "ptr:FileObject "
     "wstr:FileName"},
    FILE_ROW(64, "Create", "", "", "", "", OPEN_TAIL),
    FILE_OP(65, "Cleanup"),
    FILE_OP(66, "Close"),
    FILE_DATA(67, "Read"),
    FILE_DATA(68, "Write"),
    FILE_INFO(69, "SetInfo"),
    FILE_INFO(70, "Delete"),
    FILE_INFO(71, "Rename"),
    FILE_LIST(72, "DirEnum"),
    FILE_OP(73, "Flush"),
    FILE_INFO(74, "QueryInfo"),
    FILE_INFO(75, "FSControl"),
    {KDA_MOF_FILE_IO, 76, 2, 255, KDA_KIND_ETW_EVENT, "OperationEnd",
     "ptr:IrpPtr ptr:ExtraInfo status:NtStatus"},
    FILE_LIST(77, "DirNotify"),
    {KDA_MOF_PAGE_FAULT, 10, 2, 255, KDA_KIND_ETW_EVENT, "TransitionFault",
     "ptr:VirtualAddress ptr:ProgramCounter"},
    {KDA_MOF_PAGE_FAULT, 11, 2, 255, KDA_KIND_ETW_EVENT, "DemandZeroFault",
     "ptr:VirtualAddress ptr:ProgramCounter"},
    {KDA_MOF_PAGE_FAULT, 12, 2, 255, KDA_KIND_ETW_EVENT, "CopyOnWrite",
     "ptr:VirtualAddress ptr:ProgramCounter"},
    {KDA_MOF_PAGE_FAULT, 13, 2, 255, KDA_KIND_ETW_EVENT, "GuardPageFault",
     "ptr:VirtualAddress ptr:ProgramCounter"},
    {KDA_MOF_PAGE_FAULT, 14, 2, 255, KDA_KIND_ETW_EVENT, "HardPageFault",
     "ptr:VirtualAddress ptr:ProgramCounter"},
    {KDA_MOF_PAGE_FAULT, 15, 2, 255, KDA_KIND_ETW_EVENT, "AccessViolation",
     "ptr:VirtualAddress ptr:ProgramCounter"},
    {KDA_MOF_PERF_INFO, 51, 2, 255, KDA_KIND_ETW_EVENT, "SysClEnter", "ptr:SysCallAddress"},
    {KDA_MOF_PERF_INFO, 52, 2, 255, KDA_KIND_ETW_EVENT, "SysClExit", "status:SysCallNtStatus"},
    {KDA_MOF_PERF_INFO, 66, 2, 255, KDA_KIND_ETW_EVENT, "ThreadDPC", "u64:InitialTime ptr:Routine"},
    {KDA_MOF_PERF_INFO, 67, 2, 255, KDA_KIND_ETW_EVENT, "ISR",
     "u64:InitialTime ptr:Routine u8:ReturnValue u16:Vector u8:Reserved!"},
    {KDA_MOF_PERF_INFO, 68, 2, 255, KDA_KIND_ETW_EVENT, "DPC", "u64:InitialTime ptr:Routine"},
    {KDA_MOF_PERF_INFO, 69, 2, 255, KDA_KIND_ETW_EVENT, "TimerDPC", "u64:InitialTime ptr:Routine"},
    {KDA_MOF_PERF_INFO, 46, 2, 255, KDA_KIND_ETW_EVENT, "Sample",
     "ptr:InstructionPointer u32:ThreadId>tid u16:Count u16:Reserved!"},
    {KDA_MOF_PERF_INFO, 73, 3, 255, KDA_KIND_ETW_EVENT, "CollectionStart",
     "u32:Source u32:NewInterval u32:OldInterval wstr:SourceName"},
    {KDA_MOF_PERF_INFO, 74, 3, 255, KDA_KIND_ETW_EVENT, "CollectionEnd",
     "u32:Source u32:NewInterval u32:OldInterval wstr:SourceName"},
    {KDA_MOF_STACK_WALK, 32, 0, 255, KDA_KIND_ETW_EVENT, "Stack",
     "u64:EventTimeStamp u32:StackProcess>pid u32:StackThread>tid ptr[]:Stack"},
    {KDA_MOF_STACK_WALK, 35, 2, 255, KDA_KIND_ETW_EVENT, "KeyDelete", "ptr:StackKey ptr[]:Stack"},
    {KDA_MOF_STACK_WALK, 36, 2, 255, KDA_KIND_ETW_EVENT, "KeyRundown", "ptr:StackKey ptr[]:Stack"},
    {KDA_MOF_STACK_WALK, 37, 2, 255, KDA_KIND_ETW_EVENT, "KeyKernel",
     "u64:EventTimeStamp u32:StackProcess>pid u32:StackThread>tid ptr:StackKey"},
    {KDA_MOF_STACK_WALK, 38, 2, 255, KDA_KIND_ETW_EVENT, "KeyUser",
     "u64:EventTimeStamp u32:StackProcess>pid u32:StackThread>tid ptr:StackKey"},
    {KDA_MOF_SYSTEM_CONFIG, 10, 3, 255, KDA_KIND_ETW_EVENT, "CPU",
     "u32:MHz u32:NumberOfProcessors u32:MemSize u32:PageSize u32:AllocationGranularity "
     "wstr(256):ComputerName "
     "wstr(134):DomainName ptr:HyperThreadingFlag ?ptr:HighestUserAddress "
     "?u16:ProcessorArchitecture "
     "?u16:ProcessorLevel ?u16:ProcessorRevision ?bytes(6):Rest!"},
    {KDA_MOF_SYSTEM_CONFIG, 11, 2, 255, KDA_KIND_ETW_EVENT, "PhyDisk",
     "u32:DiskNumber u32:BytesPerSector u32:SectorsPerTrack u32:TracksPerCylinder u64:Cylinders "
     "u32:SCSIPort u32:SCSIPath "
     "u32:SCSITarget u32:SCSILun wstr(256):Manufacturer u32:PartitionCount u8:WriteCacheEnabled "
     "u8:Pad! "
     "wstr(3):BootDriveLetter wstr(2):Spare"},
    {KDA_MOF_SYSTEM_CONFIG, 12, 2, 255, KDA_KIND_ETW_EVENT, "LogDisk",
     "u64:StartOffset u64:PartitionSize u32:DiskNumber u32:Size u32:DriveType "
     "wstr(4):DriveLetterString u32:Pad1! "
     "u32:PartitionNumber u32:SectorsPerCluster u32:BytesPerSector u32:Pad2! "
     "i64:NumberOfFreeClusters "
     "i64:TotalNumberOfClusters wstr(16):FileSystem u32:VolumeExt u32:Pad3!"},
    {KDA_MOF_SYSTEM_CONFIG, 13, 2, 255, KDA_KIND_ETW_EVENT, "NIC",
     "u64:PhysicalAddr u32:PhysicalAddrLen u32:Ipv4Index u32:Ipv6Index wstr:NICDescription "
     "wstr:IpAddresses "
     "wstr:DnsServerAddresses"},
    {KDA_MOF_SYSTEM_CONFIG, 21, 3, 255, KDA_KIND_ETW_EVENT, "IRQ",
     "x64:IRQAffinity u16:IRQGroup u16:Reserved! u32:IRQNum u32:DeviceDescriptionLen "
     "wstr:DeviceDescription"},
    {KDA_MOF_SYSTEM_CONFIG, 22, 4, 4, KDA_KIND_ETW_EVENT, "PnP",
     "guid:ClassGuid u32:UpperFiltersCount u32:LowerFiltersCount wstr:DeviceID "
     "wstr:DeviceDescription wstr:FriendlyName "
     "wstr:PdoName wstr:ServiceName"},
    {KDA_MOF_SYSTEM_CONFIG, 22, 5, 255, KDA_KIND_ETW_EVENT, "PnP",
     "guid:ClassGuid u32:UpperFiltersCount u32:LowerFiltersCount x32:DevStatus u32:DevProblem "
     "wstr:DeviceID "
     "wstr:DeviceDescription wstr:FriendlyName wstr:PdoName wstr:ServiceName"},
    {KDA_MOF_SYSTEM_CONFIG, 23, 2, 255, KDA_KIND_ETW_EVENT, "IDEChannel",
     "u32:TargetID u32:DeviceType u32:DeviceTimingMode u32:LocationInformationLen "
     "wstr:LocationInformation"},
    {KDA_MOF_SYSTEM_CONFIG, 25, 2, 255, KDA_KIND_ETW_EVENT, "Platform",
     "wstr:SystemManufacturer wstr:SystemProductName wstr:BiosDate wstr:BiosVersion"},
    {KDA_MOF_SYSTEM_CONFIG, 15, 3, 255, KDA_KIND_ETW_EVENT, "Services",
     "u32:ProcessId u32:ServiceState u32:SubProcessTag wstr:ServiceName wstr:DisplayName "
     "wstr:ProcessName "
     "?wstr:LoadOrderGroup ?wstr:SvchostGroup"},
    {KDA_MOF_SYSTEM_CONFIG, 16, 2, 255, KDA_KIND_ETW_EVENT, "Power",
     "u8:S1 u8:S2 u8:S3 u8:S4 u8:S5 bytes(3):Pad!"},
    {KDA_MOF_SYSTEM_CONFIG, 17, 2, 255, KDA_KIND_ETW_EVENT, "Network",
     "u32:TcbTablePartitions i32:MaxHashTableSize u32:MaxUserPort u32:TcpTimedWaitDelay"},

    {KDA_MOF_METADATA, 32, 0, 255, KDA_KIND_ETW_EVENT, "EventInfo",
     "guid:ProviderGuid guid:EventGuid u16:EventId u8:EventVersion u8:EventChannel u8:EventLevel "
     "u8:EventOpcode "
     "u16:EventTask x64:EventKeyword bytes:Description!"},
    {KDA_MOF_METADATA, 33, 0, 255, KDA_KIND_ETW_EVENT, "EventMapInfo", "guid:ProviderGuid "
     "bytes:Map!"},
    {KDA_MOF_IMAGE_ID, 0, 2, 255, KDA_KIND_ETW_EVENT, "",
     "ptr:ImageBase size:ImageSize u32:ProcessId>pid u32:TimeDateStamp wstr:OriginalFileName"},
    {KDA_MOF_IMAGE_ID, 32, 2, 255, KDA_KIND_ETW_EVENT, "None", "ptr:ImageBase u32:ProcessId>pid"},
    {KDA_MOF_IMAGE_ID, 36, 2, 255, KDA_KIND_ETW_EVENT, "DbgID_RSDS",
     "ptr:ImageBase u32:ProcessId>pid guid:GuidSig u32:Age str:PdbFileName"},
    {KDA_MOF_IMAGE_ID, 37, 2, 255, KDA_KIND_ETW_EVENT, "DbgID_ILRSDS",
     "ptr:ImageBase u32:ProcessId>pid guid:GuidSig u32:Age str:PdbFileName"},
    {KDA_MOF_IMAGE_ID, 64, 0, 255, KDA_KIND_ETW_EVENT, "FileVersion",
     "u32:ImageSize u32:TimeDateStamp wstr:OrigFileName wstr:FileDescription wstr:FileVersion "
     "wstr:BinFileVersion "
     "wstr:VerLanguage wstr:ProductName wstr:CompanyName wstr:ProductVersion wstr:FileId "
     "wstr:ProgramId"},
    {KDA_MOF_SYSTEM_CONFIG_EX, 32, 0, 255, KDA_KIND_ETW_EVENT, "BuildInfo",
     "time:InstallDate wstr:BuildLab wstr:ProductName"},
    {KDA_MOF_SYSTEM_CONFIG_EX, 33, 0, 255, KDA_KIND_ETW_EVENT, "SystemPaths",
     "wstr:SystemDirectory wstr:SystemWindowsDirectory"},
    {KDA_MOF_SYSTEM_CONFIG_EX, 34, 0, 255, KDA_KIND_ETW_EVENT, "UnknownVolume", "wstr:Value"},
    {KDA_MOF_SYSTEM_CONFIG_EX, 35, 0, 255, KDA_KIND_ETW_EVENT, "VolumeMapping", "wstr:NtPath "
     "wstr:DosPath"},

    {KDA_MOF_M_PROCESS, 1, 0, 0, KDA_KIND_PROCESS_CREATE, "ProcessStart",
     "u32:ProcessID>pid time:CreateTime>create_time u32:ParentProcessID>parent_pid "
     "u32:SessionID>session wstr:ImageName>image"},
    {KDA_MOF_M_PROCESS, 1, 1, 1, KDA_KIND_PROCESS_CREATE, "ProcessStart",
     "u32:ProcessID>pid time:CreateTime>create_time u32:ParentProcessID>parent_pid "
     "u32:SessionID>session x32:Flags "
     "wstr:ImageName>image"},
    {KDA_MOF_M_PROCESS, 1, 2, 2, KDA_KIND_PROCESS_CREATE, "ProcessStart",
     "u32:ProcessID>pid time:CreateTime>create_time u32:ParentProcessID>parent_pid "
     "u32:SessionID>session x32:Flags "
     "wstr:ImageName>image x32:ImageChecksum u32:TimeDateStamp wstr:PackageFullName "
     "wstr:PackageRelativeAppId"},
#define PROCESS_START_V3 \
     "u32:ProcessID>pid u64:ProcessSequenceNumber time:CreateTime>create_time " \
     "u32:ParentProcessID>parent_pid " \
     "u64:ParentProcessSequenceNumber u32:SessionID>session x32:Flags " \
     "u32:ProcessTokenElevationType " \
     "u32:ProcessTokenIsElevated>elevated bsid:MandatoryLabel>integrity wstr:ImageName>image " \
     "x32:ImageChecksum " \
     "u32:TimeDateStamp wstr:PackageFullName wstr:PackageRelativeAppId"
    {KDA_MOF_M_PROCESS, 1, 3, 3, KDA_KIND_PROCESS_CREATE, "ProcessStart", PROCESS_START_V3},
    {KDA_MOF_M_PROCESS, 1, 4, 4, KDA_KIND_PROCESS_CREATE, "ProcessStart", PROCESS_START_V3 " "
     "x32:SecurityMitigations"},
    {KDA_MOF_M_PROCESS, 1, 5, 255, KDA_KIND_PROCESS_CREATE, "ProcessStart",
     PROCESS_START_V3 " x32:SecurityMitigations u32:PartitionID u16:ProcessMachine"},
#define PROCESS_STOP_HEAD "time:CreateTime>create_time time:ExitTime>exit_time " \
     "u32:ExitCode>exit_code " \
     "u32:TokenElevationType u32:HandleCount u64:CommitCharge u64:CommitPeak "
#define PROCESS_STOP_TAIL "u64:CPUCycleCount u32:ReadOperationCount u32:WriteOperationCount " \
     "u32:ReadTransferKiloBytes " \
     "u32:WriteTransferKiloBytes u32:HardFaultCount str:ImageName>image"
    {KDA_MOF_M_PROCESS, 2, 0, 0, KDA_KIND_PROCESS_EXIT, "ProcessStop",
     "u32:ProcessID>pid " PROCESS_STOP_HEAD "str:ImageName>image"},
    {KDA_MOF_M_PROCESS, 2, 1, 1, KDA_KIND_PROCESS_EXIT, "ProcessStop",
     "u32:ProcessID>pid " PROCESS_STOP_HEAD PROCESS_STOP_TAIL},
    {KDA_MOF_M_PROCESS, 2, 2, 255, KDA_KIND_PROCESS_EXIT, "ProcessStop",
     "u32:ProcessID>pid u64:ProcessSequenceNumber " PROCESS_STOP_HEAD PROCESS_STOP_TAIL},
    {KDA_MOF_M_PROCESS, 3, 0, 255, KDA_KIND_THREAD_CREATE, "ThreadStart",
     "u32:ProcessID>target_pid u32:ThreadID>new_tid " STACKS "ptr:StartAddr "
     "ptr:Win32StartAddr>start_address "
     "ptr:TebBase ?u32:SubProcessTag"},
    {KDA_MOF_M_PROCESS, 4, 0, 255, KDA_KIND_THREAD_EXIT, "ThreadStop",
     "u32:ProcessID>pid u32:ThreadID>tid " STACKS "ptr:StartAddr ptr:Win32StartAddr ptr:TebBase "
     "?u32:SubProcessTag "
     "?u64:CycleTime"},
    {KDA_MOF_M_PROCESS, 5, 0, 255, KDA_KIND_IMAGE_LOAD, "ImageLoad",
     "ptr:ImageBase>base size:ImageSize>size u32:ProcessID>target_pid x32:ImageCheckSum "
     "u32:TimeDateStamp "
     "ptr:DefaultBase wstr:ImageName>module"},
    {KDA_MOF_M_PROCESS, 6, 0, 255, KDA_KIND_IMAGE_UNLOAD, "ImageUnload",
     "ptr:ImageBase>base size:ImageSize>size u32:ProcessID>target_pid x32:ImageCheckSum "
     "u32:TimeDateStamp "
     "ptr:DefaultBase wstr:ImageName>module"},
    {KDA_MOF_M_PROCESS, 15, 0, 0, KDA_KIND_PROCESS_EXISTING, "ProcessRundown",
     "u32:ProcessID>pid time:CreateTime>create_time u32:ParentProcessID>parent_pid "
     "u32:SessionID>session x32:Flags "
     "wstr:ImageName>image x32:ImageChecksum u32:TimeDateStamp wstr:PackageFullName "
     "wstr:PackageRelativeAppId"},
    {KDA_MOF_M_PROCESS, 15, 1, 255, KDA_KIND_PROCESS_EXISTING, "ProcessRundown", PROCESS_START_V3},

    TCP_ALL(KDA_MOF_M_NETWORK, 0),
    TCP(KDA_MOF_M_NETWORK, 42, 58, 0, KDA_KIND_ETW_EVENT, "UdpSend", DATA, SEQUENCE),
    TCP(KDA_MOF_M_NETWORK, 43, 59, 0, KDA_KIND_ETW_EVENT, "UdpRecv", DATA, SEQUENCE),
    {KDA_MOF_M_NETWORK, 49, 0, 255, KDA_KIND_ETW_EVENT, "UdpFail", "u16:Proto u16:FailureCode"},

    {KDA_MOF_M_REGISTRY, 1, 0, 255, KDA_KIND_REGISTRY_KEY_CREATE, "CreateKey",
     "ptr:BaseObject>base_object ptr:KeyObject>object status:Status>status "
     "u32:Disposition>disposition "
     "wstr:BaseName>base_name wstr:RelativeName>name"},
    {KDA_MOF_M_REGISTRY, 2, 0, 255, KDA_KIND_ETW_EVENT, "OpenKey",
     "ptr:BaseObject>base_object ptr:KeyObject>object status:Status u32:Disposition "
     "wstr:BaseName>base_name "
     "wstr:RelativeName>name"},
    {KDA_MOF_M_REGISTRY, 3, 0, 255, KDA_KIND_REGISTRY_KEY_DELETE, "DeleteKey",
     "ptr:KeyObject>object status:Status>status wstr:KeyName>name"},
    {KDA_MOF_M_REGISTRY, 5, 0, 255, KDA_KIND_REGISTRY_VALUE_SET, "SetValueKey",
     "ptr:KeyObject>object status:Status>status u32:Type>value_type u32:DataSize>data_size "
     "wstr:KeyName>name "
     "wstr:ValueName>value u16:CapturedDataSize! bytes(CapturedDataSize):CapturedData>data "
     "u32:PreviousDataType>old_type "
     "u32:PreviousDataSize>old_size u16:PreviousDataCapturedSize! "
     "bytes(PreviousDataCapturedSize):PreviousData>old_data"},
    {KDA_MOF_M_REGISTRY, 6, 0, 255, KDA_KIND_REGISTRY_VALUE_DELETE, "DeleteValueKey",
     "ptr:KeyObject>object status:Status>status wstr:KeyName>name wstr:ValueName>value"},
    {KDA_MOF_M_REGISTRY, 4, 0, 255, KDA_KIND_ETW_EVENT, "QueryKey",
     "ptr:KeyObject>object status:Status u32:InfoClass u32:DataSize wstr:KeyName>name"
     CAPTURED("CapturedData")},
    {KDA_MOF_M_REGISTRY, 11, 0, 255, KDA_KIND_ETW_EVENT, "SetInformationKey",
     "ptr:KeyObject>object status:Status u32:InfoClass u32:DataSize wstr:KeyName>name"
     CAPTURED("CapturedData")},
    {KDA_MOF_M_REGISTRY, 7, 0, 255, KDA_KIND_ETW_EVENT, "QueryValueKey",
     "ptr:KeyObject>object status:Status u32:InfoClass u32:DataSize wstr:KeyName>name "
     "wstr:ValueName"
     CAPTURED("CapturedData")},
    {KDA_MOF_M_REGISTRY, 8, 0, 255, KDA_KIND_ETW_EVENT, "EnumerateKey",
     "ptr:KeyObject>object status:Status u32:Index u32:InfoClass u32:DataSize wstr:KeyName>name"
     CAPTURED("CapturedData")},
    {KDA_MOF_M_REGISTRY, 9, 0, 255, KDA_KIND_ETW_EVENT, "EnumerateValueKey",
     "ptr:KeyObject>object status:Status u32:Index u32:InfoClass u32:DataSize wstr:KeyName>name"
     CAPTURED("CapturedData")},
    {KDA_MOF_M_REGISTRY, 10, 0, 255, KDA_KIND_ETW_EVENT, "QueryMultipleValueKey",
     "ptr:KeyObject>object status:Status u32:EntryCount u32:DataSize wstr:KeyName>name"},
    {KDA_MOF_M_REGISTRY, 12, 0, 255, KDA_KIND_ETW_EVENT, "FlushKey", KEY_AND_NAME},
    {KDA_MOF_M_REGISTRY, 13, 0, 255, KDA_KIND_ETW_EVENT, "CloseKey", KEY_AND_NAME},
    {KDA_MOF_M_REGISTRY, 14, 0, 255, KDA_KIND_ETW_EVENT, "QuerySecurityKey", KEY_AND_NAME},
    {KDA_MOF_M_REGISTRY, 15, 0, 255, KDA_KIND_ETW_EVENT, "SetSecurityKey", KEY_AND_NAME},
};

/* clang-format on */
const size_t kda_mof_row_count = sizeof(kda_mof_rows) / sizeof(kda_mof_rows[0]);
