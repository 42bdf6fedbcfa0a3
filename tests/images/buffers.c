#include "forge_int.h"

/* Trace buffers: their bytes, and every list that they hang on. */

#define HEADER ETL_BUFFER_HEADER
#define GLOBAL_ENTRY 0x38u
#define SLIST_ENTRY 0x20u
#define SLOT_BLOCK 64u
#define FREE 0u
#define COMPRESSED 5u
#define FLAG_COMPRESSED 0x40u
#define USER_SPACE 0x1b000000000u /* in every consumer that keeps copies */
#define USER_LIST 0x1a0af030000u  /* count, then head of the list */
#define USER_SPACE_SIZE 0x400000u
#define FIVE_DAYS (5u * 86400u * 10000000ull)

/* Members by their distance from a neighbour; see lib/etw/buffers.c for the tables they are from.
 */
#define COMPRESSION_TARGET 56u
#define PLACEHOLDER_LIST 88u

void buffers_clock(struct forge *f, struct forge_session *s)
{
    uint64_t boot = f->truth.system_time - FIVE_DAYS;
    uint64_t since = s->start_time > boot ? s->start_time - boot : 0;
    uint64_t reference = at(f, s->va, F(WMI_LOGGER_CONTEXT, ReferenceTime));
    s->reference_raw = s->clock == 2   ? s->start_time
                       : s->clock == 3 ? since / 10 * f->truth.cpu_mhz
                                       : since;
    put(f, reference, F(ETW_REF_CLOCK, StartTime), 8, s->start_time);
    put(f, reference, F(ETW_REF_CLOCK, StartPerfClock), 8, s->reference_raw);
}

static struct forge_session *session_of(struct forge *f, const struct forge_buffer *b)
{
    for (size_t i = 0; i < f->truth.session_count; i++)
        if (f->truth.sessions[i].silo == b->silo && f->truth.sessions[i].id == b->session)
            return &f->truth.sessions[i];
    forge_fail(f, KDA_USAGE, "session %u of this silo is not declared", b->session);
    return NULL;
}

/* ---- records ---- */

static void random_bytes(struct forge *f, void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)forge_random(f, 256);
}

/* Every kind of header in turn. */
static void make_record(struct forge *f, size_t n, uint64_t time, struct etl_record *r,
                        uint8_t payload[64])
{
    static const struct {
        enum etl_kind kind;
        unsigned pointer_size;
    } kinds[] = {{ETL_SYSTEM, 8}, {ETL_EVENT, 8}, {ETL_PERFINFO, 8}, {ETL_COMPACT, 8},
                 {ETL_EVENT, 4},  {ETL_FULL, 8},  {ETL_MESSAGE, 8},  {ETL_INSTANCE, 8},
                 {ETL_FULL, 4},   {ETL_SYSTEM, 4}};
    size_t kind = n % (sizeof(kinds) / sizeof(kinds[0]));
    memset(r, 0, sizeof(*r));
    r->kind = kinds[kind].kind;
    r->pointer_size = kinds[kind].pointer_size;
    r->version = 2;
    r->time = time;
    r->pid = 4u * (uint32_t)forge_random(f, 0x1000);
    r->tid = 4u * (uint32_t)forge_random(f, 0x1000);
    r->group = 3;
    r->type = (uint8_t)(1 + forge_random(f, 4));
    r->id = (uint16_t)(1 + forge_random(f, 500));
    if (r->kind == ETL_MESSAGE)
        r->flags = ETL_MSG_GUID | ETL_MSG_TIME | ETL_MSG_SYSTEMINFO;
    random_bytes(f, r->guid, sizeof(r->guid));
    r->payload_size = (size_t)forge_random(f, 64);
    random_bytes(f, payload, r->payload_size);
    r->payload = payload;
}

static void note_event(struct forge_buffer *b, const struct etl_record *r, size_t size,
                       size_t offset)
{
    struct forge_event *e = &b->events[b->event_count++];
    *e = (struct forge_event){.kind = r->kind,
                              .pointer_size = r->pointer_size,
                              .pid = r->pid,
                              .tid = r->tid,
                              .time = r->time,
                              .hook = (uint16_t)(r->group << 8 | r->type),
                              .id = r->id,
                              .size = (uint32_t)size,
                              .offset = (uint32_t)(HEADER + offset)};
    memcpy(e->guid, r->guid, sizeof(e->guid));
}

/* The records of a buffer; stops before `room` bytes. */
static void make_records(struct forge *f, struct forge_buffer *b, uint64_t start, size_t room,
                         struct blob *out)
{
    struct etl_record r;
    uint8_t payload[64];
    b->events = kda_arena_alloc(&f->arena, (b->count + 1u) * sizeof(*b->events));
    if (!b->events) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return;
    }
    for (unsigned i = 0; i < b->count && out->size + 256 < room; i++) {
        if (i == b->count / 2 && b->unwritten)
            blob_put(out, NULL, 48);
        if (i == b->count / 2 && b->leftover && i > 0) {
            make_record(f, 1, start - 36000000000u, &r, payload);
            (void)etl_put_record(out, &r);
        }
        b->time = start + 1000u * i;
        make_record(f, i, b->time, &r, payload);
        struct blob told = {0};
        if (b->story) {
            r = (struct etl_record){.pointer_size = 8, .time = b->time};
            story_record(i, &r, &told);
            r.payload = told.data;
            r.payload_size = told.size;
        }
        size_t offset = out->size;
        note_event(b, &r, etl_put_record(out, &r), offset);
        blob_free(&told);
    }
}

/* ---- bytes in memory ---- */

static void put_header(const struct forge_buffer *b, uint32_t plain, uint8_t h[HEADER])
{
    memset(h, 0, HEADER);
    uint32_t saved = b->overfull || b->reset || b->state == COMPRESSED || b->state == 3 ? plain : 0;
    kda_put_le32(h + 0x00, b->size);
    kda_put_le32(h + 0x04, saved);
    kda_put_le32(h + 0x08, b->overfull ? b->size + 96 : b->reset ? HEADER : plain);
    kda_put_le32(h + 0x0c, b->state == 1 || b->state == 2);
    kda_put_le64(h + 0x10, b->time);
    kda_put_le64(h + 0x18, b->sequence);
    kda_put_le16(h + 0x28, (uint16_t)(b->cpu | 0x800u));
    kda_put_le16(h + 0x2a, (uint16_t)b->session);
    kda_put_le32(h + 0x2c, b->state);
    kda_put_le32(h + 0x30, saved);
    kda_put_le16(h + 0x34,
                 (uint16_t)((b->lost ? 2u : 0) | (b->state == COMPRESSED ? FLAG_COMPRESSED : 0)));
}

/* The virtual memory of a process below the kernel half; pages are made as needed. */
static void put_user(struct forge *f, const struct forge_process *p, uint64_t va, const void *bytes,
                     size_t size)
{
    const uint8_t *from = bytes;
    while (size > 0 && forge_ok(f)) {
        unsigned level = 0;
        uint8_t *entry = find_entry(f, p->dtb, va, &level);
        uint64_t pfn = entry && level == 1 && kda_le64(entry) & 1
                           ? (kda_le64(entry) & 0xfffffffff000u) / PAGE
                           : 0;
        if (pfn == 0) {
            pfn = phys_page(f);
            map_page(f, p->dtb, va & ~(uint64_t)(PAGE - 1), pfn);
        }
        uint8_t *page = phys_bytes(f, pfn);
        size_t run = (size_t)(PAGE - va % PAGE);
        if (run > size)
            run = size;
        if (!page)
            return;
        memcpy(page + va % PAGE, from, run);
        from += run;
        va += run;
        size -= run;
    }
}

static struct forge_consumer *consumer_of(struct forge *f, const struct forge_buffer *b,
                                          uint64_t pid)
{
    for (size_t i = 0; i < f->truth.consumer_count; i++) {
        struct forge_consumer *c = &f->truth.consumers[i];
        if (c->pid == pid && c->session == b->session && c->silo == b->silo)
            return c;
    }
    forge_fail(f, KDA_USAGE, "process %llu is no consumer of this session",
               (unsigned long long)pid);
    return NULL;
}

/* Copies of one consumer lie one after the other in its space, from its second page on. */
static void put_copy(struct forge *f, struct forge_buffer *b, const struct blob *bytes)
{
    struct forge_consumer *c = consumer_of(f, b, b->user);
    struct forge_process *p = forge_process_by_pid(f, b->user);
    if (!c || !p)
        return;
    uint64_t next = USER_SPACE + PAGE;
    uint64_t last = 0; /* on the list so far */
    for (const struct forge_buffer *o = f->truth.buffers; o < b; o++)
        if (o->user == b->user) {
            next = o->va + (o->size + PAGE - 1) / PAGE * PAGE;
            if (o->session == b->session && o->silo == b->silo && !o->space)
                last = o->va;
        }
    b->va = next;
    put_user(f, p, b->va, bytes->data, bytes->size);
    uint64_t count = at(f, c->va, F(ETW_REALTIME_CONSUMER, UserBufferCount));
    uint64_t list = USER_LIST + 16u * (uint64_t)(c - f->truth.consumers);
    uint64_t size = at(f, c->va, F(ETW_REALTIME_CONSUMER, ReservedBufferSpaceSize));
    put64(f, count, list);
    put64(f, count + 8, list + 8);
    put32(f, size, USER_SPACE_SIZE);
    put64(f, size - 8, USER_SPACE);
    if (b->space)
        return;
    uint8_t link[8];
    kda_put_le64(link, b->va + SLIST_ENTRY);
    put_user(f, p, last ? last + SLIST_ENTRY : list + 8, link, sizeof(link));
}

/* ---- lists ---- */

static void append_chain(struct forge *f, uint64_t head, uint64_t link)
{
    uint64_t node = head;
    for (unsigned i = 0; i < FORGE_MAX_ENTITIES && get64(f, node) != 0; i++)
        node = get64(f, node);
    put64(f, node, link);
}

static void append_queue(struct forge *f, uint64_t queue, uint64_t link)
{
    uint64_t entry = at(f, queue, F(ETW_BUFFER_QUEUE, QueueEntry));
    if (!queue || !entry)
        return;
    append_chain(f, entry, link);
    put(f, queue, F(ETW_BUFFER_QUEUE, QueueTail), 8, link);
}

static void put_slot(struct forge *f, const struct forge_buffer *b)
{
    const struct forge_silo *silo = &f->truth.silos[b->silo];
    uint64_t field = at(f, silo->state, F(ETW_SILODRIVERSTATE, ProcessorBlocks));
    if (!field || b->cpu >= f->opt.cpus)
        return;
    uint64_t blocks = get64(f, field);
    if (!blocks) {
        blocks = pool_alloc(f, POOL_NONPAGED, (uint64_t)f->opt.cpus * SLOT_BLOCK, "EtwP", false);
        put64(f, field, blocks);
        for (uint32_t i = 0; i < f->opt.cpus; i++)
            put64(f, blocks + (uint64_t)i * SLOT_BLOCK,
                  pool_alloc(f, POOL_NONPAGED, 8u * (uint64_t)silo->max, "EtwP", false));
    }
    uint64_t slots = get64(f, blocks + (uint64_t)b->cpu * SLOT_BLOCK);
    put64(f, slots + 8u * (uint64_t)b->session, b->va | 7);
}

static void hang_up(struct forge *f, const struct forge_session *s, const struct forge_buffer *b)
{
    uint64_t link = b->va + SLIST_ENTRY;
    uint64_t silo = at(f, s->va, F(WMI_LOGGER_CONTEXT, SiloState));
    if (!b->unlinked)
        list_append(f, at(f, s->va, F(WMI_LOGGER_CONTEXT, GlobalList)), b->va + GLOBAL_ENTRY);
    if (b->state == FREE)
        append_queue(f,
                     at(f, s->va,
                        b->overflow ? F(WMI_LOGGER_CONTEXT, OverflowQueue)
                                    : F(WMI_LOGGER_CONTEXT, BufferQueue)),
                     link);
    if (b->slot)
        put_slot(f, b);
    if (b->current)
        put(f, s->va, F(WMI_LOGGER_CONTEXT, CurrentBuffer), 8, b->va | 15);
    if (b->compression && silo)
        put64(f, silo + COMPRESSION_TARGET, b->va);
    if (b->placeholder && silo)
        append_chain(f, silo + PLACEHOLDER_LIST, link);
    struct forge_consumer *c = b->undelivered ? consumer_of(f, b, b->undelivered) : NULL;
    if (c)
        put64(f, at(f, c->va, F(ETW_REALTIME_CONSUMER, ProcessObject)) + 8, b->va);
}

static void build_copy(struct forge *f, struct forge_buffer *b)
{
    const struct forge_buffer *of = &f->truth.buffers[b->copy_of - 1];
    struct blob bytes = {0};
    b->size = of->size;
    b->used = of->used;
    b->state = of->state;
    b->cpu = of->cpu;
    b->sequence = of->sequence;
    b->time = of->time;
    b->events = of->events;
    b->event_count = of->event_count;
    blob_put(&bytes, NULL, b->size);
    (void)get_bytes(f, of->va, bytes.data, b->size);
    memset(bytes.data + SLIST_ENTRY, 0, 8);
    put_copy(f, b, &bytes);
    blob_free(&bytes);
}

static void build_buffer(struct forge *f, struct forge_buffer *b, size_t number)
{
    struct forge_session *s = session_of(f, b);
    struct blob records = {0}, bytes = {0};
    uint8_t header[HEADER];
    if (!s)
        return;
    if (b->copy_of) {
        build_copy(f, b);
        return;
    }
    b->size = s->buffer_size;
    b->sequence = number + 1;
    b->time = s->reference_raw + 100000000u + 1000000u * number;
    make_records(f, b, b->time, b->size - HEADER, &records);
    uint32_t plain = b->used = HEADER + (uint32_t)records.size;
    if (b->state == COMPRESSED) {
        struct blob packed = {0};
        etl_compress(records.data, records.size, &packed);
        blob_free(&records);
        records = packed;
        b->size = HEADER + (uint32_t)packed.size;
    }
    put_header(b, plain, header);
    blob_put(&bytes, header, HEADER);
    blob_put(&bytes, records.data, records.size);
    size_t filled = bytes.size;
    blob_pad(&bytes, s->buffer_size);
    memset(bytes.data + filled, 0xff, bytes.size - filled);
    if (b->user) {
        put_copy(f, b, &bytes);
    } else {
        b->va = pool_alloc(f, POOL_NONPAGED, s->buffer_size, "EtwB", true);
        put_bytes(f, b->va, bytes.data, bytes.size);
        hang_up(f, s, b);
    }
    blob_free(&records);
    blob_free(&bytes);
}

void buffers_build(struct forge *f)
{
    for (size_t i = 0; i < f->truth.buffer_count && forge_ok(f); i++) {
        f->line = f->truth.buffers[i].line;
        build_buffer(f, &f->truth.buffers[i], i);
    }
    f->line = 0;
}

void buffers_readable(struct forge *f)
{
    for (size_t i = 0; i < f->truth.buffer_count; i++) {
        struct forge_buffer *b = &f->truth.buffers[i];
        if (b->user) {
            b->readable = true;
            for (size_t k = 0; k < b->event_count && !b->copy_of; k++)
                b->events[k].readable = true;
            continue;
        }
        b->readable = range_readable(f, b->va, HEADER);
        bool whole = range_readable(f, b->va, b->size); /* all or nothing when compressed */
        for (size_t k = 0; k < b->event_count; k++)
            b->events[k].readable =
                b->readable &&
                (b->state == COMPRESSED
                     ? whole
                     : range_readable(f, b->va + b->events[k].offset, b->events[k].size));
    }
}
