/*
 * clock.c - raw time stamps to FILETIME.
 */
#include "internal.h"

#define PER_SECOND 10000000u /* 100 ns units */

/* ticks * 10^7 / frequency, rounded down, held at UINT64_MAX; *exact tells if nothing was cut. */
static uint64_t to_100ns(uint64_t ticks, uint64_t frequency, bool *exact)
{
    *exact = true;
    if (frequency == PER_SECOND)
        return ticks;
    if (ticks <= UINT64_MAX / PER_SECOND) { /* most: 51 hours of a 10 MHz counter */
        *exact = ticks * PER_SECOND % frequency == 0;
        return ticks * PER_SECOND / frequency;
    }
    unsigned __int128 wide = (unsigned __int128)ticks * PER_SECOND;
    *exact = wide % frequency == 0;
    wide /= frequency;
    return wide > UINT64_MAX ? UINT64_MAX : (uint64_t)wide;
}

uint64_t kda_etl_clock_time(const struct kda_etl_clock *clock, uint64_t raw)
{
    if (clock->type == KDA_ETL_CLOCK_SYSTEM)
        return raw;
    uint64_t frequency = clock->frequency != 0 ? clock->frequency : PER_SECOND;
    bool exact;
    if (raw >= clock->raw) {
        uint64_t after = to_100ns(raw - clock->raw, frequency, &exact);
        return after > UINT64_MAX - clock->filetime ? UINT64_MAX : clock->filetime + after;
    }
    uint64_t before = to_100ns(clock->raw - raw, frequency, &exact);
    if (!exact && before < UINT64_MAX)
        before++; /* down, also on this side: time stamps keep their order */
    return before > clock->filetime ? 0 : clock->filetime - before;
}
