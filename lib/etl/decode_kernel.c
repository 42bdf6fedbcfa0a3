/*
 * decode_kernel.c - the kernel's events: their fields go to the places that the schema has for
 * them, the rest into `fields`.
 */
#include "decode.h"

#define TCP 6u
#define REST_NAME "Rest"

/* ---- which layout fits ---- */

/* Is there text that is none? A wrong pointer size moves numbers into the next string. */
static bool has_clean_texts(const struct kda_payload *walk)
{
    for (unsigned i = 0; i < walk->t->count; i++) {
        const struct kda_place *place = &walk->places[i];
        bool wide = walk->t->fields[i].in == KDA_IN_UNICODE;
        if (!place->present || (!wide && walk->t->fields[i].in != KDA_IN_ANSI))
            continue;
        const uint8_t *at = walk->bytes + place->off;
        /* The first character tells: what was moved stands at the beginning. */
        if (place->size >= 2 && at[0] < 0x20 && (!wide || at[1] == 0))
            return false;
        if (wide && place->size >= 2 && at[0] == 0)
            return false;
    }
    return true;
}

/* 64-bit payloads come in records that say 32 bits, and the other way round; a null TOKEN_USER has
 * a SID behind it in files that were made by hand. The first way in which every byte fits and
 * texts are texts wins, then the first in which every byte fits, then the first that fits at all:
 * later versions of Windows add fields at the end. */
bool kda_decode_kernel_fit(struct kda_etl_decoder *d, const struct kda_etl_record *record,
                           const struct kda_mof_event *event, struct kda_payload *walk)
{
    uint8_t first = record->pointer_size == 4 ? 4 : 8;
    int best = -1;
    bool best_whole = false;
    for (int way = 0; way < 5; way++) {
        int chosen = way < 4 ? way : best;
        if (chosen < 0)
            return false;
        *walk = (struct kda_payload){
            .bytes = record->payload,
            .size = record->payload_size,
            .pointer_size = chosen & 2 ? (uint8_t)(12 - first) : first,
            .sid_behind_null = (chosen & 1) != 0,
            .t = &event->t,
            .values = d->values,
            .places = d->places,
        };
        bool fits = kda_payload_walk(walk);
        bool whole = fits && walk->pos == walk->size;
        if (way == 4 || (whole && has_clean_texts(walk)))
            return fits;
        if (whole && !best_whole)
            best = way;
        else if (fits && best < 0)
            best = way;
        best_whole = best_whole || whole;
    }
    return false;
}

/* ---- values into slots ---- */

static void put_utf16(struct kda_event_builder *b, enum kda_field field, const uint8_t *bytes,
                      uint32_t size)
{
    size_t room, want = size & ~1u;
    void *to = kda_event_room(b, &room);
    size_t limit = 2 * (size_t)KDA_STRING_MAX_UNITS;
    room = to ? room & ~(size_t)1 : 0;
    size_t taken = want < room ? want : room;
    if (taken > limit)
        taken = limit;
    if (want > 0 && taken == 0) {
        kda_event_omit(b, field, KDA_OMIT_LIMIT);
        return;
    }
    if (taken)
        memcpy(to, bytes, taken);
    kda_event_take(b, field, taken);
    if (taken < want)
        kda_event_cut(b, field);
}

/* One-byte text: the code page of the system is not known, Latin-1 is taken. */
static void put_latin1(struct kda_etl_decoder *d, enum kda_field field, const uint8_t *bytes,
                       uint32_t size)
{
    uint8_t *wide = (uint8_t *)d->text;
    uint32_t fits = sizeof(d->text) / 2, taken = size < fits ? size : fits;
    for (uint32_t i = 0; i < taken; i++) {
        wide[2 * i] = bytes[i];
        wide[2 * i + 1] = 0;
    }
    put_utf16(&d->b, field, wide, 2 * taken);
    if (taken < size)
        kda_event_cut(&d->b, field);
}

static uint64_t number_of(const struct kda_etl_field *f, const uint8_t *bytes, uint32_t size)
{
    if (f->out == KDA_OUT_PORT)
        return (uint64_t)bytes[0] << 8 | bytes[1];
    return kda_payload_integer(f->in, bytes, size);
}

/* The last number of S-1-16-x. */
static void put_integrity(struct kda_event_builder *b, enum kda_field field, const uint8_t *sid,
                          uint32_t size)
{
    if (size >= 12)
        kda_event_set(b, field, kda_le32(sid + size - 4));
}

static void put_slot(struct kda_etl_decoder *d, unsigned kind, const struct kda_etl_field *f,
                     const uint8_t *bytes, uint32_t size)
{
    struct kda_event_builder *b = &d->b;
    unsigned slot = f->target - (unsigned)KDA_TARGET_SLOT;
    enum kda_field field = kda_decode_field(kind, slot);
    switch (kda_kinds[kind].fields[slot].type) {
    case KDA_TYPE_STRING:
        if (f->in == KDA_IN_UNICODE)
            put_utf16(b, field, bytes, size);
        else
            put_latin1(d, field, bytes, size);
        break;
    case KDA_TYPE_SID:
    case KDA_TYPE_IP:
    case KDA_TYPE_GUID:
        if (size > 0)
            kda_event_bytes(b, field, bytes, size, SIZE_MAX);
        break;
    case KDA_TYPE_DATA:
    case KDA_TYPE_BINARY:
        kda_event_bytes(b, field, bytes, size, SIZE_MAX);
        break;
    case KDA_TYPE_INTEGRITY:
        put_integrity(b, field, bytes, size);
        break;
    case KDA_TYPE_BOOL:
        kda_event_set(b, field, number_of(f, bytes, size) != 0);
        break;
    default:
        kda_event_set(b, field, number_of(f, bytes, size));
        break;
    }
}

static bool head_of(const struct kda_decoding *x, const struct kda_mof_event *event,
                    enum kda_mof_target target, uint32_t *ret)
{
    unsigned index = event->place_of[target - KDA_TARGET_PID];
    if (index == 0 || !x->d->places[index - 1].present)
        return false;
    const struct kda_place *place = &x->d->places[index - 1];
    const struct kda_etl_field *f = &event->t.fields[index - 1];
    *ret = (uint32_t)kda_payload_integer(f->in, x->record->payload + place->off, place->size);
    return true;
}

static void put_placed(const struct kda_decoding *x, const struct kda_mof_event *event)
{
    struct kda_etl_decoder *d = x->d;
    for (unsigned i = 0; i < event->t.count; i++) {
        const struct kda_etl_field *f = &event->t.fields[i];
        const struct kda_place *place = &d->places[i];
        if (f->target == KDA_TARGET_NONE || f->target >= KDA_TARGET_PID || !place->present)
            continue;
        put_slot(d, event->row->kind, f, x->record->payload + place->off, place->size);
    }
    (void)head_of(x, event, KDA_TARGET_PID, &d->b.event->pid);
    (void)head_of(x, event, KDA_TARGET_TID, &d->b.event->tid);
}

/* ---- what a kind needs besides its fields ---- */

static uint64_t process_bits(const struct kda_etl_decoder *d, uint32_t pid)
{
    uint64_t bits = 0;
    (void)kda_map_get(&d->processes, (uint64_t)pid + 1, &bits);
    return bits;
}

/* Without memory for it, `remote` is left out. */
static void note_process(struct kda_etl_decoder *d, uint32_t pid, uint64_t bits)
{
    if (d->processes.count < KDA_DECODE_MAX_PROCESSES || process_bits(d, pid) != 0)
        (void)kda_map_put(&d->processes, (uint64_t)pid + 1, bits);
}

static void finish_process(const struct kda_decoding *x, unsigned kind)
{
    struct kda_event_builder *b = &x->d->b;
    const struct kda_etl_record *record = x->record;
    uint64_t session;
    uint32_t pid = b->event->pid;
    b->event->tid = KDA_NO_TID; /* of whoever acted */
    if (kda_event_get(b->event, KDA_FIELD_PROCESS_SESSION, &session) && session == UINT32_MAX)
        b->event->present &= ~((uint32_t)1 << KDA_SLOT_PROCESS_SESSION);
    if (kind != KDA_KIND_PROCESS_CREATE) {
        if (process_bits(x->d, pid) == 0)
            note_process(x->d, pid, KDA_PROCESS_SEEN);
        return;
    }
    if (record->has_ids && record->pid != KDA_NO_PID)
        kda_event_set(b, KDA_FIELD_PROCESS_CREATOR_PID, record->pid);
    if (record->has_ids && record->tid != KDA_NO_TID)
        kda_event_set(b, KDA_FIELD_PROCESS_CREATOR_TID, record->tid);
    note_process(x->d, pid, KDA_PROCESS_SEEN | KDA_PROCESS_WAITS_FOR_THREAD);
}

static void finish_process_exit(const struct kda_decoding *x)
{
    struct kda_event *event = x->d->b.event;
    if (!x->record->has_ids || x->record->pid != event->pid)
        event->tid = KDA_NO_TID;
    note_process(x->d, event->pid, 0);
}

static void finish_thread(const struct kda_decoding *x)
{
    struct kda_event_builder *b = &x->d->b;
    uint64_t target;
    if (!kda_event_get(b->event, KDA_FIELD_THREAD_TARGET_PID, &target))
        return;
    uint64_t bits = process_bits(x->d, (uint32_t)target);
    if (b->event->pid != KDA_NO_PID && bits & KDA_PROCESS_SEEN)
        kda_event_set(b, KDA_FIELD_THREAD_REMOTE,
                      b->event->pid != target && !(bits & KDA_PROCESS_WAITS_FOR_THREAD));
    note_process(x->d, (uint32_t)target, KDA_PROCESS_SEEN);
}

static void finish_image(const struct kda_decoding *x, uint8_t pointer_size)
{
    struct kda_event_builder *b = &x->d->b;
    uint64_t base, pid = 0;
    (void)kda_event_get(b->event, KDA_FIELD_IMAGE_TARGET_PID, &pid);
    if (!kda_event_get(b->event, KDA_FIELD_IMAGE_BASE, &base))
        return;
    bool high = pointer_size == 8 ? base >> 63 : base >> 31;
    kda_event_set(b, KDA_FIELD_IMAGE_KERNEL, high && pid == 0);
}

static void finish_network(const struct kda_decoding *x, unsigned kind)
{
    struct kda_event_builder *b = &x->d->b;
    struct kda_bytes ip;
    kda_event_set(b, KDA_FIELD_NETWORK_PROTOCOL, TCP);
    kda_event_set(b, KDA_FIELD_NETWORK_TRANSPORT, TCP);
    if (kda_event_get_bytes(b->event, KDA_FIELD_NETWORK_LOCAL_IP, &ip))
        kda_event_set(b, KDA_FIELD_NETWORK_IP_VERSION, ip.size == 4 ? 4 : 6);
    if (kind != KDA_KIND_NETWORK_DISCONNECT)
        kda_event_set(b, KDA_FIELD_NETWORK_DIRECTION,
                      kind == KDA_KIND_NETWORK_CONNECT ? KDA_OUTBOUND : KDA_INBOUND);
    /* The header's thread is whichever one was running. */
    if (!x->record->has_ids || x->record->pid != b->event->pid)
        b->event->tid = KDA_NO_TID;
}

static void finish(const struct kda_decoding *x, const struct kda_mof_event *event,
                   uint8_t pointer_size)
{
    unsigned kind = event->row->kind;
    switch (kda_kinds[kind].shape) {
    case KDA_SHAPE_PROCESS:
        finish_process(x, kind);
        break;
    case KDA_SHAPE_PROCESS_EXIT:
        finish_process_exit(x);
        break;
    case KDA_SHAPE_THREAD:
        finish_thread(x);
        break;
    case KDA_SHAPE_IMAGE:
        finish_image(x, pointer_size);
        break;
    case KDA_SHAPE_NETWORK:
        finish_network(x, kind);
        break;
    default:
        break;
    }
}

/* ---- the record ---- */

static bool is_registry(const struct kda_mof_event *event)
{
    return event->row->class_ == KDA_MOF_REGISTRY || event->row->class_ == KDA_MOF_M_REGISTRY;
}

static bool any_unplaced(const struct kda_mof_event *event)
{
    for (unsigned i = 0; i < event->t.count; i++)
        if (!(event->t.fields[i].flags & (KDA_FIELD_PLACED | KDA_FIELD_HIDDEN)))
            return true;
    return false;
}

/* Bytes behind the last field that is known. */
static void put_rest(struct kda_event_builder *b, const struct kda_payload *walk)
{
    for (uint32_t i = walk->pos; i < walk->size; i++)
        if (walk->bytes[i] != 0) {
            kda_event_object_bytes(b, REST_NAME, KDA_TYPE_BINARY, walk->bytes + walk->pos,
                                   walk->size - walk->pos);
            return;
        }
}

static void put_fields(const struct kda_decoding *x, const struct kda_mof_event *event,
                       struct kda_payload *walk, const struct kda_bytes *path)
{
    struct kda_event_builder *b = &x->d->b;
    unsigned kind = event->row->kind;
    bool etw = kind == KDA_KIND_ETW_EVENT;
    if (!etw && !any_unplaced(event) && walk->pos == walk->size)
        return;
    kda_event_object_begin(b, kda_decode_field(kind, x->d->slots[kind].fields));
    walk->out = b;
    walk->skip_placed = true;
    if (event->t.flat) {
        kda_payload_put(walk);
    } else {
        walk->places = NULL;
        (void)kda_payload_walk(walk);
    }
    if (etw && path)
        kda_event_object_bytes(b, "Key", KDA_TYPE_STRING, path->at, path->size);
    put_rest(b, walk);
    kda_event_object_end(b);
}

bool kda_decode_kernel(const struct kda_decoding *x)
{
    const struct kda_etl_record *record = x->record;
    struct kda_etl_decoder *d = x->d;
    struct kda_payload walk;
    struct kda_bytes path;
    const struct kda_mof_event *event =
        kda_mof_find(&d->mof, x->class_, kda_mof_type_of(record, x->class_), record->version);
    if (!event || !kda_decode_kernel_fit(d, record, event, &walk))
        return false;
    unsigned kind = event->row->kind;
    if (kind == KDA_KIND_ETW_EVENT)
        kda_decode_begin_etw(x, kda_mof_provider_name(x->class_), event->t.event_name);
    else
        kda_decode_begin(x, kind);
    bool known = false;
    if (is_registry(event))
        known =
            kda_registry_resolve(&d->registry,
                                 &(struct kda_registry_record){event, d->places, record->payload,
                                                               walk.pointer_size, record->raw_time},
                                 &path);
    if (known && kind != KDA_KIND_ETW_EVENT)
        put_utf16(&d->b, kda_decode_field(kind, x->d->slots[kind].key), path.at,
                  (uint32_t)path.size);
    put_placed(x, event);
    finish(x, event, walk.pointer_size);
    put_fields(x, event, &walk, known ? &path : NULL);
    return true;
}
