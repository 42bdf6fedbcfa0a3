/*
 * clock.c - the performance counter and the system time.
 *
 * One number, units of 100 ns since boot, drives both. The system time differs from it by the time
 * of boot and by corrections, which the counter never sees.
 */
#include "machine.h"

#include <time.h>

/* The counter ran for ten hours before the boot that a test sees: times before it can be told. */
#define COUNTER_BASE (UINT64_C(36000) * SIM_UNITS_PER_SECOND)

static struct {
    _Atomic uint64_t units; /* manual: the clock; host: what it is ahead of the host's */
    _Atomic int64_t correction;
    struct timespec boot;
    _Atomic bool delays_pass;
} clock_state;

void sim_clock_boot(void)
{
    atomic_store(&clock_state.units, 0);
    atomic_store(&clock_state.correction, 0);
    atomic_store(&clock_state.delays_pass, false);
    clock_gettime(CLOCK_MONOTONIC, &clock_state.boot);
}

uint64_t sim_now(void)
{
    uint64_t units = atomic_load(&clock_state.units);
    struct timespec now;

    if (sim.options.clock == SIM_CLOCK_MANUAL)
        return units;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return units +
           (uint64_t)((now.tv_sec - clock_state.boot.tv_sec) * (int64_t)SIM_UNITS_PER_SECOND +
                      (now.tv_nsec - clock_state.boot.tv_nsec) / 100);
}

uint64_t sim_counter_of(uint64_t units)
{
    uint64_t ticks = COUNTER_BASE + units;

    return ticks / SIM_UNITS_PER_SECOND * sim.options.frequency +
           ticks % SIM_UNITS_PER_SECOND * sim.options.frequency / SIM_UNITS_PER_SECOND;
}

static uint64_t utc_of(uint64_t units)
{
    return sim.options.utc + units + (uint64_t)atomic_load(&clock_state.correction);
}

uint64_t sim_clock_utc(void)
{
    uint64_t own = sim_self()->utc;

    return own ? own : utc_of(sim_now());
}

uint64_t sim_clock_counter(void)
{
    uint64_t own = sim_self()->utc;

    return sim_counter_of(own ? own - utc_of(0) : sim_now());
}

void sim_clock_thread(uint64_t utc)
{
    sim_self()->utc = utc;
}

void sim_clock_advance(uint64_t units)
{
    atomic_fetch_add(&clock_state.units, units);
    sim_ke_clock_moved(sim_now());
}

void sim_clock_delays(bool pass)
{
    atomic_store(&clock_state.delays_pass, pass);
}

bool sim_clock_passes(const LARGE_INTEGER *interval)
{
    if (interval->QuadPart >= 0 || !atomic_load(&clock_state.delays_pass))
        return false;
    sim_clock_advance((uint64_t)-interval->QuadPart);
    return true;
}

void sim_clock_set(uint64_t utc)
{
    uint64_t now = sim_now();
    uint64_t target = utc - utc_of(0);

    while (utc > utc_of(0) && target > now) {
        uint64_t units = atomic_load(&clock_state.units);
        /* Somebody else may set it too: the later of the two times wins. */
        if (atomic_compare_exchange_weak(&clock_state.units, &units, units + (target - now)))
            break;
        now = sim_now();
    }
    sim_ke_clock_moved(sim_now());
}

void sim_clock_correct(int64_t units)
{
    atomic_fetch_add(&clock_state.correction, units);
}

void sim_real_deadline(struct timespec *deadline, uint64_t units)
{
    uint64_t most = UINT64_C(100000) * SIM_UNITS_PER_SECOND;

    if (units > most)
        units = most;
    clock_gettime(CLOCK_MONOTONIC, deadline);
    deadline->tv_sec += (time_t)(units / SIM_UNITS_PER_SECOND);
    deadline->tv_nsec += (long)(units % SIM_UNITS_PER_SECOND * 100);
    if (deadline->tv_nsec >= 1000000000) {
        deadline->tv_sec++;
        deadline->tv_nsec -= 1000000000;
    }
}

bool sim_real_passed(const struct timespec *deadline)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > deadline->tv_sec ||
           (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

/* --- DDIs: documented for any IRQL ----------------------------------------------------------- */

LARGE_INTEGER KeQueryPerformanceCounter(PLARGE_INTEGER frequency)
{
    LARGE_INTEGER counter;

    SIM_DDI(HIGH_LEVEL, "KE-021");
    if (frequency)
        frequency->QuadPart = (LONGLONG)sim.options.frequency;
    counter.QuadPart = (LONGLONG)sim_clock_counter();
    return counter;
}

void KeQuerySystemTimePrecise(PLARGE_INTEGER time)
{
    SIM_DDI(HIGH_LEVEL, "KE-020");
    time->QuadPart = (LONGLONG)sim_clock_utc();
}
