#include "forge_int.h"

/* Logger contexts and their real-time consumers. */

#define GROUP_MASK_SIZE 32u

static void write_counters(struct forge *f, const struct forge_session *s)
{
    const struct {
        enum kda_field_id id;
        uint32_t value;
    } rows[] = {
        {F(WMI_LOGGER_CONTEXT, LoggerId), s->logger_id},
        {F(WMI_LOGGER_CONTEXT, BufferSize), s->buffer_size},
        {F(WMI_LOGGER_CONTEXT, MaximumEventSize), s->buffer_size - 0x48},
        {F(WMI_LOGGER_CONTEXT, LoggerMode), s->mode},
        {F(WMI_LOGGER_CONTEXT, AcceptNewEvents), (uint32_t)s->accept},
        {F(WMI_LOGGER_CONTEXT, CollectionOn), s->collecting},
        {F(WMI_LOGGER_CONTEXT, ClockType), s->clock},
        {F(WMI_LOGGER_CONTEXT, FlushTimer), 1},
        {F(WMI_LOGGER_CONTEXT, MinimumBuffers), s->min_buffers},
        {F(WMI_LOGGER_CONTEXT, BuffersAvailable), s->buffers},
        {F(WMI_LOGGER_CONTEXT, NumberOfBuffers), s->buffers},
        {F(WMI_LOGGER_CONTEXT, MaximumBuffers), s->max_buffers},
        {F(WMI_LOGGER_CONTEXT, PeakBuffersCount), s->buffers},
        {F(WMI_LOGGER_CONTEXT, EventsLost), s->events_lost},
        {F(WMI_LOGGER_CONTEXT, BuffersWritten), s->written},
        {F(WMI_LOGGER_CONTEXT, LogBuffersLost), s->buffers_lost},
        {F(WMI_LOGGER_CONTEXT, RealTimeBuffersLost), s->realtime_lost},
        {F(WMI_LOGGER_CONTEXT, RealTimeBuffersDelivered), s->written},
        {F(WMI_LOGGER_CONTEXT, PoolType), 0},
        {F(WMI_LOGGER_CONTEXT, Flags), s->flags},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        put(f, s->va, rows[i].id, 4, rows[i].value);
}

static void write_lists(struct forge *f, const struct forge_session *s)
{
    static const enum kda_field_id lists[] = {
        F(WMI_LOGGER_CONTEXT, GlobalList),         F(WMI_LOGGER_CONTEXT, DebugIdTrackingList),
        F(WMI_LOGGER_CONTEXT, ProviderBinaryList), F(WMI_LOGGER_CONTEXT, WinRtProviderBinaryList),
        F(WMI_LOGGER_CONTEXT, BinaryTrackingList), F(WMI_LOGGER_CONTEXT, Consumers),
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        list_init(f, at(f, s->va, lists[i]));
    static const enum kda_field_id queues[] = {F(WMI_LOGGER_CONTEXT, BufferQueue),
                                               F(WMI_LOGGER_CONTEXT, OverflowQueue)};
    for (size_t i = 0; i < 2; i++) {
        uint64_t queue = at(f, s->va, queues[i]);
        uint64_t entry = at(f, queue, F(ETW_BUFFER_QUEUE, QueueEntry));
        if (entry)
            put(f, queue, F(ETW_BUFFER_QUEUE, QueueTail), 8, entry);
    }
}

/* The clock of a session: the address of a function up to Windows 10 1909, a small number since. */
static uint64_t cpu_clock(struct forge *f, const struct forge_session *s)
{
    return f->build >= 19041 ? s->clock : nt_code(f);
}

static void name_system_logger(struct forge *f, const struct forge_session *s, uint32_t index)
{
    uint64_t state = f->truth.silos[s->silo].state;
    uint64_t settings = at(f, state, F(ETW_SILODRIVERSTATE, SystemLoggerSettings));
    put(f, s->va, F(WMI_LOGGER_CONTEXT, SystemLoggerIndex), 4, index);
    uint64_t slots = at(f, settings, F(ETW_SYSTEM_LOGGER_SETTINGS, EtwpSystemLogger));
    uint64_t masks = at(f, settings, F(ETW_SYSTEM_LOGGER_SETTINGS, EtwpGroupMasks));
    uint64_t sum = at(f, settings, F(ETW_SYSTEM_LOGGER_SETTINGS, SiloGlobalGroupMask));
    uint64_t active = symbol(f, S(EtwpActiveSystemLoggers));
    if (slots) {
        put8(f, slots + 2 * (uint64_t)index, (uint8_t)s->logger_id);
        put8(f, slots + 2 * (uint64_t)index + 1, (uint8_t)s->clock);
        put(f, settings, F(ETW_SYSTEM_LOGGER_SETTINGS, EtwpActiveSystemLoggers), 4,
            (2u << index) - 1);
    } else if (s->silo == 0 && active && symbol(f, S(EtwpSystemLogger))) {
        put32(f, symbol(f, S(EtwpSystemLogger)) + 4 * (uint64_t)index, s->logger_id);
        put32(f, active, (2u << index) - 1);
        masks = symbol(f, S(EtwpGroupMasks));
    }
    if (masks)
        put32(f, masks + GROUP_MASK_SIZE * (uint64_t)index, s->groups);
    if (sum)
        put32(f, sum, (uint32_t)get64(f, sum) | s->groups);
}

static void build_session(struct forge *f, struct forge_session *s, size_t number)
{
    const struct forge_silo *silo = &f->truth.silos[s->silo];
    if (s->id >= silo->max) {
        forge_fail(f, KDA_USAGE, "session %u: this silo has %u slots", s->id, silo->max);
        return;
    }
    uint64_t va = pool_alloc(f, POOL_NONPAGED, size_of(f, ST(WMI_LOGGER_CONTEXT), 0x560), "EtwL",
                             forge_planned(f, "session", s->id));
    s->va = va;
    if (s->start_time == 0)
        s->start_time = f->truth.system_time - 36000000000u * (2 + number % 40);
    if (s->get_cpu_clock == UINT64_MAX)
        s->get_cpu_clock = cpu_clock(f, s);
    bool any = false;
    for (size_t i = 0; i < sizeof(s->instance); i++)
        any = any || s->instance[i] != 0;
    for (size_t i = 0; !any && i < sizeof(s->instance); i++)
        s->instance[i] = (uint8_t)forge_random(f, 256);
    write_counters(f, s);
    write_lists(f, s);
    put(f, va, F(WMI_LOGGER_CONTEXT, GetCpuClock), 8, s->get_cpu_clock);
    put(f, va, F(WMI_LOGGER_CONTEXT, StartTime), 8, s->start_time);
    buffers_clock(f, s);
    put_field_bytes(f, va, F(WMI_LOGGER_CONTEXT, InstanceGuid), s->instance, 16);
    put(f, va, F(WMI_LOGGER_CONTEXT, SiloState), 8, silo->state);
    s->name_va = put_string(f, at(f, va, F(WMI_LOGGER_CONTEXT, LoggerName)), s->name,
                            forge_planned(f, "name", s->id));
    (void)put_string(f, at(f, va, F(WMI_LOGGER_CONTEXT, LogFileName)), s->file, false);
    if (s->sddl) {
        s->sd_va = security_build(f, s->sddl, forge_planned(f, "sd", s->id));
        put(f, va, F(WMI_LOGGER_CONTEXT, SecurityDescriptor), 8, s->sd_va | (number & 15));
    }
    s->list_va = at(f, va, F(WMI_LOGGER_CONTEXT, Consumers));
    s->slot_va = silo->array + 8 * (uint64_t)s->id;
    put64(f, s->slot_va, s->hidden || forge_away(f, s->in) ? 1 : va);
}

static struct forge_session *session_of(struct forge *f, const struct forge_consumer *c)
{
    for (size_t i = 0; i < f->truth.session_count; i++) {
        struct forge_session *s = &f->truth.sessions[i];
        if (s->silo == c->silo && s->id == c->session)
            return s;
    }
    return NULL;
}

static void write_flags(struct forge *f, const struct forge_consumer *c)
{
    /* One byte of bits since Windows 8; a byte for each on Windows 7. */
    static const enum kda_field_id bits[] = {
        F(ETW_REALTIME_CONSUMER, ShutDownRequested), F(ETW_REALTIME_CONSUMER, NewBuffersLost),
        F(ETW_REALTIME_CONSUMER, Disconnected), F(ETW_REALTIME_CONSUMER, Notified),
        F(ETW_REALTIME_CONSUMER, Wow)};
    if (has(f, F(ETW_REALTIME_CONSUMER, Flags)))
        put(f, c->va, F(ETW_REALTIME_CONSUMER, Flags), 1, c->flags);
    else
        for (size_t i = 0; i < 5; i++)
            put(f, c->va, bits[i], 1, c->flags >> i & 1);
}

static void build_consumer(struct forge *f, struct forge_consumer *c)
{
    const struct forge_process *p = forge_process_by_pid(f, c->pid);
    struct forge_session *s = session_of(f, c);
    if (!p)
        return;
    uint64_t va = object_alloc(f, "EtwConsumer", size_of(f, ST(ETW_REALTIME_CONSUMER), 0xa0),
                               "EtwC", forge_planned(f, "consumer", c->pid));
    uint64_t link = at(f, va, F(ETW_REALTIME_CONSUMER, Links));
    c->va = va;
    put(f, va, F(ETW_REALTIME_CONSUMER, ProcessHandle), 8, UINT64_MAX);
    put(f, va, F(ETW_REALTIME_CONSUMER, ProcessObject), 8, p->va);
    put(f, va, F(ETW_REALTIME_CONSUMER, UserBufferCount), 8, 0x1a0af030000u);
    put(f, va, F(ETW_REALTIME_CONSUMER, BuffersLost), 4, c->buffers_lost);
    put(f, va, F(ETW_REALTIME_CONSUMER, LoggerId), 2, c->session);
    put(f, va, F(ETW_REALTIME_CONSUMER, SiloState), 8, f->truth.silos[c->silo].state);
    write_flags(f, c);
    if (s && !c->unlinked && !forge_away(f, c->in)) {
        list_append(f, s->list_va, link);
        s->num_consumers++;
    } else {
        list_init(f, link);
    }
    if (!c->no_handle)
        c->handle =
            handle_add(f, (size_t)(p - f->truth.processes), va, 0x804, forge_away(f, c->in));
}

void sessions_build(struct forge *f)
{
    struct forge_truth *t = &f->truth;
    uint32_t system[64] = {0};
    for (size_t i = 0; i < t->session_count && forge_ok(f); i++) {
        struct forge_session *s = &t->sessions[i];
        f->line = s->line;
        build_session(f, s, i);
        if (s->system && s->silo < 64)
            name_system_logger(f, s, system[s->silo]++ & 7);
    }
    for (size_t i = 0; i < t->consumer_count && forge_ok(f); i++) {
        f->line = t->consumers[i].line;
        build_consumer(f, &t->consumers[i]);
    }
    f->line = 0;
    for (size_t i = 0; i < t->session_count && forge_ok(f); i++)
        put(f, t->sessions[i].va, F(WMI_LOGGER_CONTEXT, NumConsumers), 4,
            t->sessions[i].num_consumers);
}
