/*
 * deferred.c - work items, run at PASSIVE_LEVEL by host threads.
 *
 * The threads come into being with the first use, so that a test may fork before.
 */
#include "machine.h"
#include "ps.h"

#define WORKERS 2u

struct work {
    struct work *next;
    void (*function)(void *context);
    void *context;
};

/* All under the dispatcher lock. */
static struct {
    struct work *work;
    struct work **work_end;
    unsigned running;
    unsigned threads;
    pthread_t thread[WORKERS];
    bool stop;
} later = {.work_end = &later.work};

static void *work_thread(void *unused)
{
    (void)unused;
    sim_dispatcher_lock();
    while (!later.stop) {
        struct work *w = later.work;
        if (!w) {
            sim_dispatcher_wait(NULL);
            continue;
        }
        later.work = w->next;
        if (!later.work)
            later.work_end = &later.work;
        later.running++;
        sim_dispatcher_unlock();
        w->function(w->context);
        free(w);
        sim_dispatcher_lock();
        later.running--;
        sim_dispatcher_wake();
    }
    sim_dispatcher_unlock();
    return NULL;
}

static void start_threads_locked(void)
{
    if (later.threads)
        return;
    later.stop = false;
    for (unsigned i = 0; i < WORKERS; i++) {
        int failed = pthread_create(&later.thread[i], NULL, work_thread, NULL);
        SIM_CHECK(!failed, "the host makes no thread");
        later.threads++;
    }
}

void sim_ke_end(void)
{
    unsigned count;

    sim_threads_end();
    sim_dispatcher_lock();
    later.stop = true;
    count = later.threads;
    sim_dispatcher_wake();
    sim_dispatcher_unlock();
    for (unsigned i = 0; i < count; i++)
        pthread_join(later.thread[i], NULL);
    later.threads = 0;
}

void sim_defer(void (*function)(void *context), void *context)
{
    struct work *made = sim_alloc(sizeof(*made));

    made->function = function;
    made->context = context;
    sim_dispatcher_lock();
    start_threads_locked();
    *later.work_end = made;
    later.work_end = &made->next;
    sim_dispatcher_wake();
    sim_dispatcher_unlock();
}

static bool settled(const void *context)
{
    (void)context;
    return !later.work && !later.running;
}

void sim_settle(void)
{
    sim_wait_until(__func__, NULL, settled, NULL);
}

/* --- work items ------------------------------------------------------------------------------ */

struct _IO_WORKITEM {
    struct sim_item item;
    PDEVICE_OBJECT device;
    PIO_WORKITEM_ROUTINE routine;
    PVOID context;
    _Atomic bool queued;
};

static _Atomic unsigned queued_items;

unsigned sim_work_queued(void)
{
    return atomic_load(&queued_items);
}

PIO_WORKITEM IoAllocateWorkItem(PDEVICE_OBJECT device)
{
    PIO_WORKITEM made;

    SIM_DDI(DISPATCH_LEVEL, "IO-066");
    if (SIM_FAULT())
        return NULL;
    made = sim_alloc(sizeof(*made));
    made->device = device;
    sim_item_add(&made->item, SIM_WORK_ITEM, made, "", sizeof(*made), __builtin_return_address(0));
    return made;
}

void IoFreeWorkItem(PIO_WORKITEM item)
{
    SIM_DDI(DISPATCH_LEVEL, "IO-071");
    SIM_RULE("IO-072", !item->queued, "the work item is queued");
    sim_item_remove(&item->item);
    free(item);
}

static void run_work_item(void *context)
{
    PIO_WORKITEM item = context;
    PIO_WORKITEM_ROUTINE routine = item->routine;
    PDEVICE_OBJECT device = item->device;
    struct sim_call call;

    sim_call_enter(&call, "work item", (const void *)routine, "IO-073", PASSIVE_LEVEL);
    /* From here the routine may queue the item again or free it. */
    item->queued = false;
    atomic_fetch_sub(&queued_items, 1);
    routine(device, item->context);
    sim_call_leave(&call);
    sim_device_hold(device, -1);
}

void IoQueueWorkItem(PIO_WORKITEM item, PIO_WORKITEM_ROUTINE routine, ULONG queue, PVOID context)
{
    SIM_DDI(DISPATCH_LEVEL, "IO-067");
    SIM_RULE("IO-068", queue == DelayedWorkQueue, "queue %u", queue);
    SIM_RULE("IO-069", !atomic_exchange(&item->queued, true), "the work item is already queued");
    item->routine = routine;
    item->context = context;
    atomic_fetch_add(&queued_items, 1);
    sim_device_hold(item->device, 1);
    sim_defer(run_work_item, item);
}
