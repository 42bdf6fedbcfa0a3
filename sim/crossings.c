/*
 * crossings.c - what processors take from one another: words that each of them writes.
 *
 * On a machine with many processors a lock or count that all of them write costs more than what it
 * guards. Here one thread after the other plays the processors, so nothing depends on the host.
 */
#include "machine.h"

#define WORDS 16384u /* power of two; more are not counted */

static struct {
    pthread_mutex_t lock;
    _Atomic bool watched;
    struct {
        const void *at;
        uint32_t cpu;
        uint64_t crossings;
    } word[WORDS];
} crossings = {.lock = PTHREAD_MUTEX_INITIALIZER};

void sim_crossings_watch(void)
{
    pthread_mutex_lock(&crossings.lock);
    memset(crossings.word, 0, sizeof(crossings.word));
    pthread_mutex_unlock(&crossings.lock);
    atomic_store(&crossings.watched, true);
}

void sim_crossing(const void *at)
{
    uint32_t cpu = sim_self()->cpu;
    uint32_t i = (uint32_t)((uintptr_t)at >> 3) * 2654435761u;

    if (!atomic_load_explicit(&crossings.watched, memory_order_relaxed))
        return;
    pthread_mutex_lock(&crossings.lock);
    for (unsigned tries = 0; tries < 64; tries++, i++) {
        if (crossings.word[i % WORDS].at && crossings.word[i % WORDS].at != at)
            continue;
        crossings.word[i % WORDS].crossings +=
            crossings.word[i % WORDS].at && crossings.word[i % WORDS].cpu != cpu;
        crossings.word[i % WORDS].at = at;
        crossings.word[i % WORDS].cpu = cpu;
        break;
    }
    pthread_mutex_unlock(&crossings.lock);
}

uint64_t sim_crossings_most(void)
{
    uint64_t most = 0;

    atomic_store(&crossings.watched, false);
    pthread_mutex_lock(&crossings.lock);
    for (unsigned i = 0; i < WORDS; i++) {
        if (crossings.word[i].crossings > most)
            most = crossings.word[i].crossings;
    }
    pthread_mutex_unlock(&crossings.lock);
    return most;
}
