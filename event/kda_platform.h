/*
 * kda_platform.h - the one switch between the NT kernel and a host: atomics, copying, vectors.
 *
 * The compilers are gcc and clang (for the kernel: clang --target=x86_64-pc-windows-msvc
 * -ffreestanding). Their __atomic built-ins work on plain integers, which a record needs: the
 * first word of a struct kda_event is atomic inside the ring and plain outside of it. What they
 * may call, memcpy and memset, the NT kernel exports. IRQL, time and current CPU come from the
 * caller of the ring.
 */
#ifndef KDA_PLATFORM_H
#define KDA_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__GNUC__) && !defined(__clang__)
#error "event/ needs gcc or clang"
#endif

/* Fields written by different sides keep this distance: two lines, because the adjacent-line
 * prefetcher of x86 takes pairs. */
#define KDA_APART 128

#define KDA_LIKELY(x) __builtin_expect(!!(x), 1)
#define KDA_UNLIKELY(x) __builtin_expect(!!(x), 0)

static inline uint32_t kda_load32_acquire(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void kda_store32_release(uint32_t *p, uint32_t value)
{
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

static inline uint64_t kda_load64_relaxed(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline uint64_t kda_load64_acquire(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* Takes part in one order with all other _ordered accesses. */
static inline uint64_t kda_load64_ordered(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static inline void kda_store64_release(uint64_t *p, uint64_t value)
{
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

static inline uint64_t kda_add64_relaxed(uint64_t *p, uint64_t value)
{
    return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}

static inline uint64_t kda_add64_release(uint64_t *p, uint64_t value)
{
    return __atomic_fetch_add(p, value, __ATOMIC_RELEASE);
}

static inline uint64_t kda_add64_ordered(uint64_t *p, uint64_t value)
{
    return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}

static inline uint64_t kda_swap64_ordered(uint64_t *p, uint64_t value)
{
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);
}

/* On failure *expected holds what was there. */
static inline _Bool kda_cas64_ordered(uint64_t *p, uint64_t *expected, uint64_t value)
{
    return __atomic_compare_exchange_n(p, expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static inline void kda_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void kda_copy(void *to, const void *from, size_t bytes)
{
    __builtin_memcpy(to, from, bytes);
}

static inline void kda_clear(void *at, size_t bytes)
{
    __builtin_memset(at, 0, bytes);
}

/* Between two steps of the ring that another CPU or an interrupt can come in between. A test that
 * compiles the ring with KDA_RACE_POINTS does just that, at each of them in turn. */
#ifdef KDA_RACE_POINTS
void kda_race_point(void);
#define KDA_RACE_POINT() kda_race_point()
#else
#define KDA_RACE_POINT() ((void)0)
#endif

/* Unaligned load of a machine-order value. */
static inline uint16_t kda_read16(const void *at)
{
    uint16_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

static inline uint32_t kda_read32(const void *at)
{
    uint32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t kda_read64(const void *at)
{
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

/* SSE2 is part of x64 and needs no state saving in kernel code there. */
#if defined(__SSE2__) && !defined(KDA_NO_SSE2)
#define KDA_HAVE_SSE2 1
#endif

#endif
