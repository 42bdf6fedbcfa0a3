/*
 * kda/fields.h - every kernel global, structure and field this project reads, by id.
 *
 * One list: the enums below, the profile generator (tools/gen_profiles.py), the PDB and ISF readers
 * and the image generator of the tests all expand it. To read one more field, add a row and
 * regenerate the profile table. Fields are addressed by id and looked up in `struct kda_layout`;
 * code branches on the presence of a field, never on a build number.
 *
 * Source: names as in ntkrnlmp.pdb of the surveyed builds (6.1.7601 .. 10.0.22000) and, for newer
 * ones, the public sources named in docs/symbols.md.
 */
#ifndef KDA_FIELDS_H
#define KDA_FIELDS_H

/* clang-format off */

/* Kernel globals: X(id) with id = symbol name. */
#define KDA_SYMBOLS(X) \
    X(PspHostSiloGlobals) \
    X(EtwpHostSiloState) \
    X(WmipLoggerContext) \
    X(EtwpGuidHashTable) \
    X(EtwpSecurityProviderGuidEntry) \
    X(EtwpLoggerRundown) \
    X(EtwpDebuggerData) \
    X(EtwThreatIntProvRegHandle) \
    X(EtwpPsProvRegHandle) \
    X(EtwpRealTimeConnectionObjectType) \
    X(EtwpRegistrationObjectType) \
    X(PsActiveProcessHead) \
    X(PsInitialSystemProcess) \
    X(PsLoadedModuleList) \
    X(PspCidTable) \
    X(ObTypeIndexTable) \
    X(ObHeaderCookie) \
    X(ObpRootDirectoryObject) \
    X(ObpTypeObjectType) \
    X(KdDebuggerDataBlock) \
    X(KdpDebuggerDataListHead) \
    X(KdVersionBlock) \
    X(KdpDataBlockEncoded) \
    X(KiWaitNever) \
    X(KiWaitAlways) \
    X(NtBuildLab) \
    X(NtBuildNumber) \
    X(PoolBigPageTable) \
    X(KiProcessorBlock) \
    X(MmPfnDatabase) \
    X(PsGetServerSiloServiceSessionId) \
    X(HandleTableListHead) \
    X(PspJobList) \
    X(PspCreateProcessNotifyRoutine) \
    X(PspCreateThreadNotifyRoutine) \
    X(PspLoadImageNotifyRoutine) \
    X(PspCreateProcessNotifyRoutineCount) \
    X(PspCreateProcessNotifyRoutineExCount) \
    X(PspCreateThreadNotifyRoutineCount) \
    X(PspCreateThreadNotifyRoutineNonSystemCount) \
    X(PspLoadImageNotifyRoutineCount) \
    X(CallbackListHead) \
    X(CmpCallBackVector) \
    X(CmpCallBackCount) \
    X(PsProcessType) \
    X(PsThreadType) \
    X(KeNumberProcessors) \
    X(EtwPerfFreq) \
    X(EtwpSystemLogger) \
    X(EtwpActiveSystemLoggers) \
    X(EtwpGroupMasks)

/* Structures: X(id): the PDB name is "_" + id. */
#define KDA_STRUCTS(X) \
    X(ESERVERSILO_GLOBALS) \
    X(ETW_SILODRIVERSTATE) \
    X(WMI_LOGGER_CONTEXT) \
    X(ETW_REALTIME_CONSUMER) \
    X(ETW_GUID_ENTRY) \
    X(ETW_REG_ENTRY) \
    X(ETW_HASH_BUCKET) \
    X(TRACE_ENABLE_INFO) \
    X(ETW_LAST_ENABLE_INFO) \
    X(ETW_FILTER_HEADER) \
    X(ETW_PROVIDER_TRAITS) \
    X(ETW_REF_CLOCK) \
    X(ETW_BUFFER_QUEUE) \
    X(ETW_SYSTEM_LOGGER_SETTINGS) \
    X(WMI_BUFFER_HEADER) \
    X(ETW_BUFFER_CONTEXT) \
    X(KPROCESS) \
    X(EPROCESS) \
    X(EJOB) \
    X(SE_AUDIT_PROCESS_CREATION_INFO) \
    X(OBJECT_NAME_INFORMATION) \
    X(HANDLE_TABLE) \
    X(HANDLE_TABLE_ENTRY) \
    X(OBJECT_HEADER) \
    X(OBJECT_TYPE) \
    X(KLDR_DATA_TABLE_ENTRY) \
    X(LDR_DATA_TABLE_ENTRY) \
    X(UNICODE_STRING) \
    X(LIST_ENTRY) \
    X(PS_PROTECTION) \
    X(POOL_HEADER) \
    X(POOL_TRACKER_BIG_PAGES) \
    X(DBGKD_GET_VERSION64) \
    X(KPRCB) \
    X(KPCR) \
    X(ETW_FILTER_PID) \
    X(KUSER_SHARED_DATA)

/* Fields: X(struct id, field name), grouped by structure in the order of KDA_STRUCTS. */
#define KDA_FIELDS(X) \
    X(ESERVERSILO_GLOBALS, EtwSiloState) \
    X(ESERVERSILO_GLOBALS, UserSharedData) \
    X(ESERVERSILO_GLOBALS, State) \
    X(ETW_SILODRIVERSTATE, Silo) \
    X(ETW_SILODRIVERSTATE, SiloGlobals) \
    X(ETW_SILODRIVERSTATE, MaxLoggers) \
    X(ETW_SILODRIVERSTATE, EtwpSecurityProviderGuidEntry) \
    X(ETW_SILODRIVERSTATE, EtwpLoggerRundown) \
    X(ETW_SILODRIVERSTATE, EtwpLoggerContext) \
    X(ETW_SILODRIVERSTATE, WmipLoggerContext) \
    X(ETW_SILODRIVERSTATE, EtwpGuidHashTable) \
    X(ETW_SILODRIVERSTATE, EtwpSecurityLoggers) \
    X(ETW_SILODRIVERSTATE, EtwpSecurityProviderEnableMask) \
    X(ETW_SILODRIVERSTATE, EtwpSecurityProviderPID) \
    X(ETW_SILODRIVERSTATE, EtwpCounters) \
    X(ETW_SILODRIVERSTATE, ProcessorBlocks) \
    X(ETW_SILODRIVERSTATE, PartitionId) \
    X(ETW_SILODRIVERSTATE, SystemLoggerSettings) \
    X(WMI_LOGGER_CONTEXT, LoggerId) \
    X(WMI_LOGGER_CONTEXT, BufferSize) \
    X(WMI_LOGGER_CONTEXT, MaximumEventSize) \
    X(WMI_LOGGER_CONTEXT, LoggerMode) \
    X(WMI_LOGGER_CONTEXT, AcceptNewEvents) \
    X(WMI_LOGGER_CONTEXT, CollectionOn) \
    X(WMI_LOGGER_CONTEXT, GetCpuClock) \
    X(WMI_LOGGER_CONTEXT, LoggerThread) \
    X(WMI_LOGGER_CONTEXT, LoggerStatus) \
    X(WMI_LOGGER_CONTEXT, FailureReason) \
    X(WMI_LOGGER_CONTEXT, BufferQueue) \
    X(WMI_LOGGER_CONTEXT, OverflowQueue) \
    X(WMI_LOGGER_CONTEXT, NBQHead) \
    X(WMI_LOGGER_CONTEXT, OverflowNBQHead) \
    X(WMI_LOGGER_CONTEXT, GlobalList) \
    X(WMI_LOGGER_CONTEXT, DebugIdTrackingList) \
    X(WMI_LOGGER_CONTEXT, ProviderBinaryList) \
    X(WMI_LOGGER_CONTEXT, WinRtProviderBinaryList) \
    X(WMI_LOGGER_CONTEXT, BinaryTrackingList) \
    X(WMI_LOGGER_CONTEXT, DecodeControlList) \
    X(WMI_LOGGER_CONTEXT, BatchedBufferList) \
    X(WMI_LOGGER_CONTEXT, CurrentBuffer) \
    X(WMI_LOGGER_CONTEXT, LoggerName) \
    X(WMI_LOGGER_CONTEXT, LogFileName) \
    X(WMI_LOGGER_CONTEXT, LogFilePattern) \
    X(WMI_LOGGER_CONTEXT, NewLogFileName) \
    X(WMI_LOGGER_CONTEXT, ClockType) \
    X(WMI_LOGGER_CONTEXT, LastFlushedBuffer) \
    X(WMI_LOGGER_CONTEXT, FlushTimer) \
    X(WMI_LOGGER_CONTEXT, FlushThreshold) \
    X(WMI_LOGGER_CONTEXT, ByteOffset) \
    X(WMI_LOGGER_CONTEXT, MinimumBuffers) \
    X(WMI_LOGGER_CONTEXT, BuffersAvailable) \
    X(WMI_LOGGER_CONTEXT, NumberOfBuffers) \
    X(WMI_LOGGER_CONTEXT, MaximumBuffers) \
    X(WMI_LOGGER_CONTEXT, EventsLost) \
    X(WMI_LOGGER_CONTEXT, PeakBuffersCount) \
    X(WMI_LOGGER_CONTEXT, BuffersWritten) \
    X(WMI_LOGGER_CONTEXT, LogBuffersLost) \
    X(WMI_LOGGER_CONTEXT, RealTimeBuffersDelivered) \
    X(WMI_LOGGER_CONTEXT, RealTimeBuffersLost) \
    X(WMI_LOGGER_CONTEXT, InstanceGuid) \
    X(WMI_LOGGER_CONTEXT, MaximumFileSize) \
    X(WMI_LOGGER_CONTEXT, FileCounter) \
    X(WMI_LOGGER_CONTEXT, PoolType) \
    X(WMI_LOGGER_CONTEXT, ReferenceTime) \
    X(WMI_LOGGER_CONTEXT, ProviderInfoSize) \
    X(WMI_LOGGER_CONTEXT, Consumers) \
    X(WMI_LOGGER_CONTEXT, NumConsumers) \
    X(WMI_LOGGER_CONTEXT, TransitionConsumer) \
    X(WMI_LOGGER_CONTEXT, RealtimeLogfileName) \
    X(WMI_LOGGER_CONTEXT, RealtimeLogfileSize) \
    X(WMI_LOGGER_CONTEXT, RealtimeLogfileUsage) \
    X(WMI_LOGGER_CONTEXT, RealtimeBuffersSaved) \
    X(WMI_LOGGER_CONTEXT, RealtimeReferenceTime) \
    X(WMI_LOGGER_CONTEXT, NewRTEventsLost) \
    X(WMI_LOGGER_CONTEXT, SecurityDescriptor) \
    X(WMI_LOGGER_CONTEXT, StartTime) \
    X(WMI_LOGGER_CONTEXT, LogFileHandle) \
    X(WMI_LOGGER_CONTEXT, BufferSequenceNumber) \
    X(WMI_LOGGER_CONTEXT, Flags) \
    X(WMI_LOGGER_CONTEXT, Flags2) \
    X(WMI_LOGGER_CONTEXT, SystemLoggerIndex) \
    X(WMI_LOGGER_CONTEXT, SecurityTrace) \
    X(WMI_LOGGER_CONTEXT, RequestFlag) \
    X(WMI_LOGGER_CONTEXT, HookIdMap) \
    X(WMI_LOGGER_CONTEXT, StackHookIdMap) \
    X(WMI_LOGGER_CONTEXT, DisallowedGuids) \
    X(WMI_LOGGER_CONTEXT, SiloState) \
    X(WMI_LOGGER_CONTEXT, CallbackContext) \
    X(WMI_LOGGER_CONTEXT, LastBufferSwitchTime) \
    X(ETW_REALTIME_CONSUMER, Links) \
    X(ETW_REALTIME_CONSUMER, ProcessHandle) \
    X(ETW_REALTIME_CONSUMER, ProcessObject) \
    X(ETW_REALTIME_CONSUMER, DisconnectEvent) \
    X(ETW_REALTIME_CONSUMER, DataAvailableEvent) \
    X(ETW_REALTIME_CONSUMER, UserBufferCount) \
    X(ETW_REALTIME_CONSUMER, BuffersLost) \
    X(ETW_REALTIME_CONSUMER, EmptyBuffersCount) \
    X(ETW_REALTIME_CONSUMER, LoggerId) \
    X(ETW_REALTIME_CONSUMER, Flags) \
    X(ETW_REALTIME_CONSUMER, ShutDownRequested) \
    X(ETW_REALTIME_CONSUMER, NewBuffersLost) \
    X(ETW_REALTIME_CONSUMER, Disconnected) \
    X(ETW_REALTIME_CONSUMER, Notified) \
    X(ETW_REALTIME_CONSUMER, Wow) \
    X(ETW_REALTIME_CONSUMER, ReservedBufferSpaceSize) \
    X(ETW_REALTIME_CONSUMER, UserPagesAllocated) \
    X(ETW_REALTIME_CONSUMER, EventsLostCount) \
    X(ETW_REALTIME_CONSUMER, BuffersLostCount) \
    X(ETW_REALTIME_CONSUMER, SiloState) \
    X(ETW_GUID_ENTRY, GuidList) \
    X(ETW_GUID_ENTRY, SiloGuidList) \
    X(ETW_GUID_ENTRY, RefCount) \
    X(ETW_GUID_ENTRY, Guid) \
    X(ETW_GUID_ENTRY, RegListHead) \
    X(ETW_GUID_ENTRY, SecurityDescriptor) \
    X(ETW_GUID_ENTRY, LastEnable) \
    X(ETW_GUID_ENTRY, ProviderEnableInfo) \
    X(ETW_GUID_ENTRY, EnableInfo) \
    X(ETW_GUID_ENTRY, FilterData) \
    X(ETW_GUID_ENTRY, SiloState) \
    X(ETW_GUID_ENTRY, HostEntry) \
    X(ETW_GUID_ENTRY, Lock) \
    X(ETW_REG_ENTRY, RegList) \
    X(ETW_REG_ENTRY, GroupRegList) \
    X(ETW_REG_ENTRY, GuidEntry) \
    X(ETW_REG_ENTRY, GroupEntry) \
    X(ETW_REG_ENTRY, ReplyQueue) \
    X(ETW_REG_ENTRY, SessionId) \
    X(ETW_REG_ENTRY, Process) \
    X(ETW_REG_ENTRY, CallbackContext) \
    X(ETW_REG_ENTRY, Callback) \
    X(ETW_REG_ENTRY, Caller) \
    X(ETW_REG_ENTRY, Index) \
    X(ETW_REG_ENTRY, Flags) \
    X(ETW_REG_ENTRY, DbgKernelRegistration) \
    X(ETW_REG_ENTRY, DbgUserRegistration) \
    X(ETW_REG_ENTRY, DbgReplyRegistration) \
    X(ETW_REG_ENTRY, DbgClassicRegistration) \
    X(ETW_REG_ENTRY, DbgSessionSpaceRegistration) \
    X(ETW_REG_ENTRY, DbgModernRegistration) \
    X(ETW_REG_ENTRY, DbgClosed) \
    X(ETW_REG_ENTRY, DbgInserted) \
    X(ETW_REG_ENTRY, DbgWow64) \
    X(ETW_REG_ENTRY, EnableMask) \
    X(ETW_REG_ENTRY, GroupEnableMask) \
    X(ETW_REG_ENTRY, HostEnableMask) \
    X(ETW_REG_ENTRY, HostGroupEnableMask) \
    X(ETW_REG_ENTRY, Traits) \
    X(ETW_HASH_BUCKET, ListHead) \
    X(ETW_HASH_BUCKET, BucketLock) \
    X(TRACE_ENABLE_INFO, IsEnabled) \
    X(TRACE_ENABLE_INFO, Level) \
    X(TRACE_ENABLE_INFO, Reserved1) \
    X(TRACE_ENABLE_INFO, LoggerId) \
    X(TRACE_ENABLE_INFO, EnableProperty) \
    X(TRACE_ENABLE_INFO, MatchAnyKeyword) \
    X(TRACE_ENABLE_INFO, MatchAllKeyword) \
    X(ETW_LAST_ENABLE_INFO, EnableFlags) \
    X(ETW_LAST_ENABLE_INFO, LoggerId) \
    X(ETW_LAST_ENABLE_INFO, Level) \
    X(ETW_LAST_ENABLE_INFO, Enabled) \
    X(ETW_LAST_ENABLE_INFO, InternalFlag) \
    X(ETW_FILTER_HEADER, FilterFlags) \
    X(ETW_FILTER_HEADER, PidFilter) \
    X(ETW_FILTER_HEADER, ExeFilter) \
    X(ETW_FILTER_HEADER, PkgIdFilter) \
    X(ETW_FILTER_HEADER, PkgAppIdFilter) \
    X(ETW_FILTER_HEADER, ContainerFilter) \
    X(ETW_FILTER_HEADER, EventIdFilter) \
    X(ETW_FILTER_HEADER, PayloadFilter) \
    X(ETW_FILTER_HEADER, ProviderSideFilter) \
    X(ETW_FILTER_HEADER, EventNameFilter) \
    X(ETW_FILTER_HEADER, StackWalkFilter) \
    X(ETW_FILTER_HEADER, StackWalkIdFilter) \
    X(ETW_FILTER_HEADER, StackWalkNameFilter) \
    X(ETW_FILTER_HEADER, StackWalkLevelKwFilter) \
    X(ETW_PROVIDER_TRAITS, ReferenceCount) \
    X(ETW_PROVIDER_TRAITS, Traits) \
    X(ETW_REF_CLOCK, StartTime) \
    X(ETW_REF_CLOCK, StartPerfClock) \
    X(ETW_BUFFER_QUEUE, QueueHead) \
    X(ETW_BUFFER_QUEUE, QueueTail) \
    X(ETW_BUFFER_QUEUE, QueueEntry) \
    X(ETW_SYSTEM_LOGGER_SETTINGS, EtwpSystemLogger) \
    X(ETW_SYSTEM_LOGGER_SETTINGS, EtwpActiveSystemLoggers) \
    X(ETW_SYSTEM_LOGGER_SETTINGS, SiloGlobalGroupMask) \
    X(ETW_SYSTEM_LOGGER_SETTINGS, EtwpGroupMasks) \
    X(WMI_BUFFER_HEADER, BufferSize) \
    X(WMI_BUFFER_HEADER, SavedOffset) \
    X(WMI_BUFFER_HEADER, CurrentOffset) \
    X(WMI_BUFFER_HEADER, ReferenceCount) \
    X(WMI_BUFFER_HEADER, TimeStamp) \
    X(WMI_BUFFER_HEADER, SequenceNumber) \
    X(WMI_BUFFER_HEADER, ClockType) \
    X(WMI_BUFFER_HEADER, Frequency) \
    X(WMI_BUFFER_HEADER, NextBuffer) \
    X(WMI_BUFFER_HEADER, ClientContext) \
    X(WMI_BUFFER_HEADER, State) \
    X(WMI_BUFFER_HEADER, Offset) \
    X(WMI_BUFFER_HEADER, BufferFlag) \
    X(WMI_BUFFER_HEADER, BufferType) \
    X(WMI_BUFFER_HEADER, GlobalEntry) \
    X(WMI_BUFFER_HEADER, ReferenceTime) \
    X(ETW_BUFFER_CONTEXT, ProcessorNumber) \
    X(ETW_BUFFER_CONTEXT, ProcessorIndex) \
    X(ETW_BUFFER_CONTEXT, Alignment) \
    X(ETW_BUFFER_CONTEXT, LoggerId) \
    X(KPROCESS, DirectoryTableBase) \
    X(KPROCESS, UserDirectoryTableBase) \
    X(EPROCESS, UniqueProcessId) \
    X(EPROCESS, ActiveProcessLinks) \
    X(EPROCESS, ImageFileName) \
    X(EPROCESS, SeAuditProcessCreationInfo) \
    X(EPROCESS, ObjectTable) \
    X(EPROCESS, InheritedFromUniqueProcessId) \
    X(EPROCESS, CreateTime) \
    X(EPROCESS, ExitTime) \
    X(EPROCESS, Protection) \
    X(EPROCESS, SignatureLevel) \
    X(EPROCESS, SectionSignatureLevel) \
    X(EPROCESS, Token) \
    X(EPROCESS, Job) \
    X(EPROCESS, Peb) \
    X(EPROCESS, Session) \
    X(EPROCESS, WoW64Process) \
    X(EPROCESS, Wow64Process) \
    X(EPROCESS, ImageFilePointer) \
    X(EPROCESS, ServerSilo) \
    X(EPROCESS, Flags) \
    X(EPROCESS, JobLinks) \
    X(EJOB, ServerSiloGlobals) \
    X(EJOB, JobLinks) \
    X(EJOB, ProcessListHead) \
    X(SE_AUDIT_PROCESS_CREATION_INFO, ImageFileName) \
    X(OBJECT_NAME_INFORMATION, Name) \
    X(HANDLE_TABLE, TableCode) \
    X(HANDLE_TABLE, QuotaProcess) \
    X(HANDLE_TABLE, UniqueProcessId) \
    X(HANDLE_TABLE, HandleTableList) \
    X(HANDLE_TABLE, NextHandleNeedingPool) \
    X(HANDLE_TABLE, HandleCount) \
    X(HANDLE_TABLE, Flags) \
    X(HANDLE_TABLE_ENTRY, Object) \
    X(HANDLE_TABLE_ENTRY, ObjectPointerBits) \
    X(HANDLE_TABLE_ENTRY, Attributes) \
    X(HANDLE_TABLE_ENTRY, RefCnt) \
    X(HANDLE_TABLE_ENTRY, Unlocked) \
    X(HANDLE_TABLE_ENTRY, GrantedAccess) \
    X(HANDLE_TABLE_ENTRY, GrantedAccessBits) \
    X(OBJECT_HEADER, PointerCount) \
    X(OBJECT_HEADER, HandleCount) \
    X(OBJECT_HEADER, TypeIndex) \
    X(OBJECT_HEADER, InfoMask) \
    X(OBJECT_HEADER, Flags) \
    X(OBJECT_HEADER, SecurityDescriptor) \
    X(OBJECT_HEADER, Body) \
    X(OBJECT_TYPE, TypeList) \
    X(OBJECT_TYPE, Name) \
    X(OBJECT_TYPE, Index) \
    X(OBJECT_TYPE, TotalNumberOfObjects) \
    X(OBJECT_TYPE, TotalNumberOfHandles) \
    X(OBJECT_TYPE, Key) \
    X(OBJECT_TYPE, CallbackList) \
    X(KLDR_DATA_TABLE_ENTRY, InLoadOrderLinks) \
    X(KLDR_DATA_TABLE_ENTRY, DllBase) \
    X(KLDR_DATA_TABLE_ENTRY, EntryPoint) \
    X(KLDR_DATA_TABLE_ENTRY, SizeOfImage) \
    X(KLDR_DATA_TABLE_ENTRY, FullDllName) \
    X(KLDR_DATA_TABLE_ENTRY, BaseDllName) \
    X(KLDR_DATA_TABLE_ENTRY, CheckSum) \
    X(KLDR_DATA_TABLE_ENTRY, TimeDateStamp) \
    X(LDR_DATA_TABLE_ENTRY, InLoadOrderLinks) \
    X(LDR_DATA_TABLE_ENTRY, DllBase) \
    X(LDR_DATA_TABLE_ENTRY, EntryPoint) \
    X(LDR_DATA_TABLE_ENTRY, SizeOfImage) \
    X(LDR_DATA_TABLE_ENTRY, FullDllName) \
    X(LDR_DATA_TABLE_ENTRY, BaseDllName) \
    X(LDR_DATA_TABLE_ENTRY, TimeDateStamp) \
    X(UNICODE_STRING, Length) \
    X(UNICODE_STRING, MaximumLength) \
    X(UNICODE_STRING, Buffer) \
    X(LIST_ENTRY, Flink) \
    X(LIST_ENTRY, Blink) \
    X(PS_PROTECTION, Type) \
    X(PS_PROTECTION, Audit) \
    X(PS_PROTECTION, Signer) \
    X(POOL_HEADER, PoolTag) \
    X(POOL_HEADER, BlockSize) \
    X(POOL_HEADER, PoolType) \
    X(POOL_TRACKER_BIG_PAGES, Va) \
    X(POOL_TRACKER_BIG_PAGES, Key) \
    X(POOL_TRACKER_BIG_PAGES, NumberOfBytes) \
    X(DBGKD_GET_VERSION64, MajorVersion) \
    X(DBGKD_GET_VERSION64, MinorVersion) \
    X(DBGKD_GET_VERSION64, KernBase) \
    X(DBGKD_GET_VERSION64, PsLoadedModuleList) \
    X(DBGKD_GET_VERSION64, DebuggerDataList) \
    X(KPRCB, Number) \
    X(KPCR, Prcb) \
    X(ETW_FILTER_PID, Count) \
    X(ETW_FILTER_PID, Pids) \
    X(KUSER_SHARED_DATA, QpcFrequency) \
    X(KUSER_SHARED_DATA, SystemTime) \
    X(KUSER_SHARED_DATA, InterruptTime) \
    X(KUSER_SHARED_DATA, BaselineSystemTimeQpc)

/* clang-format on */

#define KDA_X(id) KDA_SYM_##id,
enum kda_symbol_id { KDA_SYMBOLS(KDA_X) KDA_SYM_COUNT };
#undef KDA_X

#define KDA_X(id) KDA_STRUCT_##id,
enum kda_struct_id { KDA_STRUCTS(KDA_X) KDA_STRUCT_COUNT };
#undef KDA_X

#define KDA_X(type, name) KDA_F_##type##_##name,
enum kda_field_id { KDA_FIELDS(KDA_X) KDA_FIELD_COUNT };
#undef KDA_X

#endif
