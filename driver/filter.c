/*
 * filter.c - what is not recorded although its kind is on, and how much of it there was.
 *
 * Rules look at strings from their end or start and at numbers. The rate limit is a token bucket in
 * one word per process and kind: the time at which the bucket would be full again. Repeats are
 * found by a 128-bit hash of the whole record without time, processor and thread.
 */
#include "driver.h"

#define KDA_REPEAT_PLACES 1024u /* power of two */
#define KDA_REPEAT_LOCKS 16u    /* power of two */

typedef struct _KDA_REPEAT {
    ULONG64 Hash[2];
    ULONGLONG PassedAt; /* milliseconds; 0: free */
} KDA_REPEAT;

typedef struct _KDA_FILTER {
    volatile LONG64 Kinds[KDA_KIND_COUNT];
    volatile LONG64 Rules[KDA_MAX_RULES + 2];
    ULONG RuleKinds;              /* kinds that any rule speaks of */
    ULONG RateOf[KDA_KIND_COUNT]; /* index of the limit + 1; 0: none */
    ULONG BucketOf[KDA_KIND_COUNT];
    ULONG BucketCount;
    LONG64 TicksPerToken[KDA_MAX_RATES];
    LONG64 Burst[KDA_MAX_RATES]; /* in ticks */
    KSPIN_LOCK RepeatLocks[KDA_REPEAT_LOCKS];
    KDA_REPEAT *Repeats; /* NULL: off */
} KDA_FILTER;

static KDA_FILTER *KdapFilter;

/* --- text ------------------------------------------------------------------------------------ */

_IRQL_requires_max_(DISPATCH_LEVEL) static WCHAR KdapFold(WCHAR unit)
{
    return unit >= 'A' && unit <= 'Z' ? (WCHAR)(unit + ('a' - 'A')) : unit;
}

_IRQL_requires_max_(DISPATCH_LEVEL) static BOOLEAN
    KdapEqual(const WCHAR *a, const WCHAR *b, ULONG units)
{
    for (ULONG i = 0; i < units; i++) {
        if (a[i] != b[i] && KdapFold(a[i]) != KdapFold(b[i]))
            return FALSE;
    }
    return TRUE;
}

_Use_decl_annotations_ BOOLEAN KdaHasSuffix(PCUNICODE_STRING text, PCUNICODE_STRING suffix)
{
    ULONG units = suffix->Length / sizeof(WCHAR);
    ULONG whole = text->Length / sizeof(WCHAR);

    return whole >= units && KdapEqual(text->Buffer + (whole - units), suffix->Buffer, units);
}

_Use_decl_annotations_ BOOLEAN KdaHasPrefix(PCUNICODE_STRING text, PCUNICODE_STRING prefix)
{
    ULONG units = prefix->Length / sizeof(WCHAR);

    return text->Length / sizeof(WCHAR) >= units && KdapEqual(text->Buffer, prefix->Buffer, units);
}

/* --- start and stop -------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID
    KdapSetUpRates(KDA_FILTER *filter, const KDA_SETTINGS *settings, ULONGLONG frequency)
{
    for (ULONG i = 0; i < settings->RateCount; i++) {
        const KDA_RATE *rate = &settings->Rates[i];
        LONG64 ticks = (LONG64)(frequency / rate->PerSecond);
        filter->TicksPerToken[i] = ticks ? ticks : 1;
        filter->Burst[i] = filter->TicksPerToken[i] * (LONG64)rate->Burst;
        for (ULONG kind = 0; kind < KDA_KIND_COUNT; kind++) {
            /* The first limit that names a kind is the one. */
            if (!(rate->Kinds >> kind & 1u) || filter->RateOf[kind] != 0)
                continue;
            filter->RateOf[kind] = i + 1;
            filter->BucketOf[kind] = filter->BucketCount++;
        }
    }
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaFilterStart(KDA_DRIVER *driver)
{
    const KDA_SETTINGS *settings = &driver->Settings;
    SIZE_T bytes = KDA_REPEAT_PLACES * sizeof(KDA_REPEAT);

    KdapFilter = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *KdapFilter, KDA_TAG_FILTER);
    if (KdapFilter == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    RtlZeroMemory(KdapFilter, sizeof *KdapFilter);
    for (ULONG i = 0; i < KDA_REPEAT_LOCKS; i++)
        KeInitializeSpinLock(&KdapFilter->RepeatLocks[i]);
    if (settings->RecordEverything)
        return STATUS_SUCCESS;
    for (ULONG i = 0; i < settings->RuleCount; i++)
        KdapFilter->RuleKinds |= settings->Rules[i].Kinds;
    KdapSetUpRates(KdapFilter, settings, driver->Frequency);
    if (settings->RepeatMilliseconds == 0)
        return STATUS_SUCCESS;
    KdapFilter->Repeats = ExAllocatePoolWithTag(NonPagedPoolNx, bytes, KDA_TAG_FILTER);
    if (KdapFilter->Repeats == NULL) {
        ExFreePoolWithTag(KdapFilter, KDA_TAG_FILTER);
        KdapFilter = NULL;
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    RtlZeroMemory(KdapFilter->Repeats, bytes);
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ KDA_PAGED VOID KdaFilterStop(KDA_DRIVER *driver)
{
    PAGED_CODE();
    UNREFERENCED_PARAMETER(driver);
    if (KdapFilter->Repeats != NULL)
        ExFreePoolWithTag(KdapFilter->Repeats, KDA_TAG_FILTER);
    ExFreePoolWithTag(KdapFilter, KDA_TAG_FILTER);
    KdapFilter = NULL;
}

_Use_decl_annotations_ ULONG KdaFilterBuckets(VOID)
{
    return KdapFilter->BucketCount;
}

_IRQL_requires_max_(DISPATCH_LEVEL) static BOOLEAN KdapTake(ULONG kind, ULONG rule)
{
    InterlockedIncrement64(&KdapFilter->Kinds[kind]);
    InterlockedIncrement64(&KdapFilter->Rules[rule]);
    return FALSE;
}

/* --- rules and rates ------------------------------------------------------------------------- */

_IRQL_requires_max_(DISPATCH_LEVEL) static BOOLEAN
    KdapMatches(const KDA_RULE *rule, const KDA_SUBJECT *subject)
{
    if (!(rule->Kinds >> subject->Kind & 1u))
        return FALSE;
    if (rule->Pid != KDA_NO_PID && rule->Pid != subject->Pid)
        return FALSE;
    if (rule->Image.Length != 0 &&
        (subject->Process == NULL || !KdaHasSuffix(&subject->Process->Image, &rule->Image)))
        return FALSE;
    if (rule->Key.Length != 0 && (subject->Key == NULL || !KdaHasPrefix(subject->Key, &rule->Key)))
        return FALSE;
    if (rule->Module.Length != 0 &&
        (subject->Module == NULL || !KdaHasSuffix(subject->Module, &rule->Module)))
        return FALSE;
    return TRUE;
}

/* One token from the bucket of this process and kind: the stored time moves forward by the price of
 * a token and may not be further ahead of now than the burst. */
_IRQL_requires_max_(DISPATCH_LEVEL) static BOOLEAN
    KdapSpend(volatile LONG64 *bucket, LONG64 now, LONG64 price, LONG64 burst)
{
    for (;;) {
        LONG64 full = ReadNoFence64(bucket);
        LONG64 next = (full > now ? full : now) + price;
        if (next - now > burst)
            return FALSE;
        if (InterlockedCompareExchange64(bucket, next, full) == full)
            return TRUE;
    }
}

_Use_decl_annotations_ BOOLEAN KdaFilterPass(const KDA_SUBJECT *subject)
{
    const KDA_SETTINGS *settings = &KdaDriver->Settings;
    ULONG kind = subject->Kind;
    ULONG rate;

    if (KdapFilter->RuleKinds >> kind & 1u) {
        for (ULONG i = 0; i < settings->RuleCount; i++) {
            if (!KdapMatches(&settings->Rules[i], subject))
                continue;
            if (!settings->Rules[i].Include)
                return KdapTake(kind, i);
            break;
        }
    }
    rate = KdapFilter->RateOf[kind];
    if (rate == 0 || subject->Process == NULL ||
        KdapSpend(&subject->Process->Buckets[KdapFilter->BucketOf[kind]], (LONG64)KdaClockCounter(),
                  KdapFilter->TicksPerToken[rate - 1], KdapFilter->Burst[rate - 1]))
        return TRUE;
    return KdapTake(kind, KDA_MAX_RULES);
}

/* --- repeats --------------------------------------------------------------------------------- */

_IRQL_requires_max_(DISPATCH_LEVEL) static ULONG64
    KdapMix(ULONG64 hash, ULONG64 word, ULONG64 factor)
{
    hash = (hash ^ word) * factor;
    return hash ^ hash >> 29;
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapHash(const struct kda_event *event, ULONG64 hash[2])
{
    const ULONG64 *words = (const ULONG64 *)(const VOID *)(event + 1);
    ULONG count = (event->size - (ULONG)sizeof *event) / 8;
    ULONG64 head[3] = {(ULONG64)event->kind << 32 | event->pid,
                       (ULONG64)event->present << 32 | event->omitted,
                       (ULONG64)event->truncated << 32 | event->size};

    hash[0] = 0x9E3779B97F4A7C15u;
    hash[1] = 0xC2B2AE3D27D4EB4Fu;
    for (ULONG i = 0; i < 3; i++) {
        hash[0] = KdapMix(hash[0], head[i], 0xD6E8FEB86659FD93u);
        hash[1] = KdapMix(hash[1], head[i], 0xFF51AFD7ED558CCDu);
    }
    for (ULONG i = 0; i < count; i++) {
        hash[0] = KdapMix(hash[0], words[i], 0xD6E8FEB86659FD93u);
        hash[1] = KdapMix(hash[1], words[i], 0xFF51AFD7ED558CCDu);
    }
}

_Use_decl_annotations_ BOOLEAN KdaFilterFirst(const struct kda_event *event)
{
    ULONGLONG window = KdaDriver->Settings.RepeatMilliseconds;
    ULONGLONG now = KdaMilliseconds() + 1;
    ULONG64 hash[2];
    KDA_REPEAT *place;
    BOOLEAN repeat;
    KIRQL irql;
    KSPIN_LOCK *lock;

    if (KdapFilter->Repeats == NULL || kda_class_of(event->kind) == KDA_CLASS_PROCESS)
        return TRUE;
    KdapHash(event, hash);
    place = &KdapFilter->Repeats[hash[0] & (KDA_REPEAT_PLACES - 1)];
    lock = &KdapFilter->RepeatLocks[hash[0] & (KDA_REPEAT_LOCKS - 1)];
    irql = KeAcquireSpinLockRaiseToDpc(lock);
    repeat = place->PassedAt != 0 && place->Hash[0] == hash[0] && place->Hash[1] == hash[1] &&
             now - place->PassedAt <= window;
    if (!repeat) {
        place->Hash[0] = hash[0];
        place->Hash[1] = hash[1];
        place->PassedAt = now;
    }
    KeReleaseSpinLock(lock, irql);
    return repeat ? KdapTake(event->kind, KDA_MAX_RULES + 1) : TRUE;
}

_Use_decl_annotations_ VOID KdaFilterKinds(uint64_t *kinds)
{
    for (ULONG i = 0; i < KDA_KIND_COUNT; i++)
        kinds[i] = (uint64_t)ReadNoFence64(&KdapFilter->Kinds[i]);
}

_Use_decl_annotations_ VOID KdaFilterTotals(KDA_FILTER_COUNTS *counts)
{
    KdaFilterKinds(counts->Kinds);
    for (ULONG i = 0; i < KDA_MAX_RULES + 2; i++)
        counts->Rules[i] = (uint64_t)ReadNoFence64(&KdapFilter->Rules[i]);
}
