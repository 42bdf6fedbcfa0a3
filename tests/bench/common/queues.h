/*
 * queues.h - the queues that are compared, behind one interface. Every push takes the time itself
 * and copies the event in; every pop makes all of its bytes readable until the next pop.
 */
#ifndef BENCH_QUEUES_H
#define BENCH_QUEUES_H

#include "mix.h"

#define QUEUE_BYTES (2u << 20)
#define QUEUE_PRODUCERS 8u

struct queue_ops {
    const char *name;
    void *(*create)(void);
    bool (*push)(void *queue, unsigned producer, const struct kda_event *event);
    const struct kda_event *(*pop)(void *queue); /* NULL: empty */
    void (*idle)(void *queue);                   /* nullable: before waiting */
    void (*destroy)(void *queue);
};

/* Ends with a row whose name is NULL; the first one is the reference. */
extern const struct queue_ops queue_table[];

/* No queue: nothing comes out of it (its pop is NULL). What a push costs at least. */
extern const struct queue_ops queue_floor;

/* CPU that the calling producer says it runs on. */
void queue_set_cpu(unsigned cpu);

#endif
