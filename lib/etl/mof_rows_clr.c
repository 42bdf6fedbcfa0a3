/*
 * mof_rows_clr.c - events of .NET that neither the built-in table nor, most of the time, a trace
 * describes.
 *
 * Source: ClrEtwAll.man of dotnet/runtime (MIT); checked on real traces.
 */
#include "mof.h"

/* clang-format off */

#define ETW KDA_KIND_ETW_EVENT
#define CLR KDA_MOF_M_CLR
#define PRIVATE KDA_MOF_M_CLR_PRIVATE

#define BINDING "u32:AppDomainID u32:LoadContextID u32:FromLoaderCache u32:DynamicLoad " \
     "wstr:AssemblyCodebase wstr:AssemblyName u16:ClrInstanceID"
#define HEAP_NUMBER "u32:HeapNum u16:ClrInstanceID"
#define GLOBAL_HISTORY "u64:FinalYoungestDesired i32:NumHeaps u32:CondemnedGeneration " \
     "u32:Gen0ReductionCount u32:Reason u32:GlobalMechanisms u16:ClrInstanceID"

const struct kda_mof_row kda_clr_rows[] = {
    {CLR, 4, 2, 255, ETW, "GC/HeapStats",
     "u64:GenerationSize0 u64:TotalPromotedSize0 u64:GenerationSize1 u64:TotalPromotedSize1 "
     "u64:GenerationSize2 u64:TotalPromotedSize2 u64:GenerationSize3 u64:TotalPromotedSize3 "
     "u64:FinalizationPromotedSize u64:FinalizationPromotedCount u32:PinnedObjectCount "
     "u32:SinkBlockCount u32:GCHandleCount u16:ClrInstanceID u64:GenerationSize4 "
     "u64:TotalPromotedSize4"},
    {CLR, 10, 4, 255, ETW, "GC/AllocationTick",
     "u32:AllocationAmount u32:AllocationKind u16:ClrInstanceID u64:AllocationAmount64 "
     "ptr:TypeID wstr:TypeName u32:HeapIndex ptr:Address u64:ObjectSize"},
    {CLR, 204, 3, 255, ETW, "GC/PerHeapHistory",
     "u16:ClrInstanceID size:FreeListAllocated size:FreeListRejected size:EndOfSegAllocated "
     "size:CondemnedAllocated size:PinnedAllocated size:PinnedAllocatedAdvance "
     "u32:RunningFreeListEfficiency u32:CondemnReasons0 u32:CondemnReasons1 "
     "x32:CompactMechanisms x32:ExpandMechanisms u32:HeapIndex size:ExtraGen0Commit u32:Count "
     "struct(Count):Values size:Size size:FreeListSpaceBefore size:FreeObjSpaceBefore "
     "size:SizeAfter size:FreeListSpaceAfter size:FreeObjSpaceAfter size:In size:PinnedSurv "
     "size:NonePinnedSurv size:NewAllocation ;"},
    {CLR, 205, 3, 3, ETW, "GC/GlobalHeapHistory", GLOBAL_HISTORY " u32:PauseMode "
     "u32:MemoryPressure u32:CondemnReasons0 u32:CondemnReasons1"},
    {CLR, 205, 4, 255, ETW, "GC/GlobalHeapHistory",
     GLOBAL_HISTORY " u32:PauseMode u32:MemoryPressure u32:CondemnReasons0 u32:CondemnReasons1 "
     "u32:Count struct(Count):Values u32:Time ;"},
    {CLR, 208, 0, 255, ETW, "GC/LOHCompact",
     "u16:ClrInstanceID u16:Count struct(Count):Values u32:TimePlan u32:TimeCompact "
     "u32:TimeRelocate size:TotalRefs size:ZeroRefs ;"},
    {CLR, 209, 0, 255, ETW, "GC/FitBucketInfo",
     "u16:ClrInstanceID u16:BucketKind u64:TotalSize u16:Count struct(Count):Values u16:Index "
     "u32:Count u64:Size ;"},

    {PRIVATE, 2, 1, 255, ETW, "GC/Settings", "u64:SegmentSize u64:LargeObjectSegmentSize "
     "bool:ServerGC u16:ClrInstanceID"},
    {PRIVATE, 5, 1, 1, ETW, "GC/GlobalHeapHistory", GLOBAL_HISTORY},
    {PRIVATE, 7, 1, 255, ETW, "GC/MarkStackRoots", HEAP_NUMBER},
    {PRIVATE, 8, 1, 255, ETW, "GC/MarkFinalizeQueueRoots", HEAP_NUMBER},
    {PRIVATE, 9, 1, 255, ETW, "GC/MarkHandles", HEAP_NUMBER},
    {PRIVATE, 10, 1, 255, ETW, "GC/MarkCards", HEAP_NUMBER},
    {PRIVATE, 161, 0, 255, ETW, "Binding/NgenPhaseStart", BINDING},
    {PRIVATE, 162, 0, 255, ETW, "Binding/NgenPhaseStop", BINDING},
    {PRIVATE, 165, 0, 255, ETW, "Binding/LoaderPhaseStart", BINDING},
    {PRIVATE, 166, 0, 255, ETW, "Binding/LoaderPhaseStop", BINDING},
    {PRIVATE, 171, 0, 255, ETW, "Binding/LoaderMappingPhaseStart", BINDING},
    {PRIVATE, 172, 0, 255, ETW, "Binding/LoaderMappingPhaseStop", BINDING},
    {PRIVATE, 173, 0, 255, ETW, "Binding/LoaderAssemblyInitPhaseStart", BINDING},
    {PRIVATE, 174, 0, 255, ETW, "Binding/LoaderAssemblyInitPhaseStop", BINDING},
    {PRIVATE, 175, 0, 255, ETW, "Binding/LoaderDeliverEventPhaseStart", BINDING},
    {PRIVATE, 176, 0, 255, ETW, "Binding/LoaderDeliverEventsPhaseStop", BINDING},
    {PRIVATE, 188, 0, 255, ETW, "NgenBinder/NgenBind", "u16:ClrInstanceID u64:BindingID "
     "u32:ReasonCode wstr:AssemblyName"},
    {PRIVATE, 196, 0, 255, ETW, "Binding/FusionMessage", "u16:ClrInstanceID bool:Prepend "
     "wstr:Message"},
};

/* clang-format on */
const size_t kda_clr_row_count = sizeof(kda_clr_rows) / sizeof(kda_clr_rows[0]);
