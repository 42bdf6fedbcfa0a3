/*
 * decode_filter.c - which events are handed out, and what a trace has lost.
 */
#include "decode.h"

#include "text.h"

void kda_etl_decoder_filter(struct kda_etl_decoder *d, const struct kda_decode_filter *filter)
{
    d->filter = *filter;
    d->filter_has_guid = filter->provider && kda_guid_parse(filter->provider, d->filter_guid);
}

/* ---- before decoding ---- */

bool kda_decode_wants_record(const struct kda_decoding *x)
{
    const struct kda_etl_decoder *d = x->d;
    const struct kda_decode_filter *filter = &d->filter;
    if (x->place->has_time && ((filter->since && x->place->time < filter->since) ||
                               (filter->until && x->place->time >= filter->until)))
        return false;
    if (!x->place->has_time && (filter->since || filter->until))
        return false;
    if (!d->filter_has_guid)
        return true;
    const uint8_t *guid = x->record->guid;
    if (!guid && x->class_ < KDA_MOF_CLASS_COUNT)
        guid = d->mof.guids[x->class_];
    return guid && memcmp(guid, d->filter_guid, 16) == 0;
}

/* ---- after it ---- */

static bool contains(const char *text, const char *part)
{
    for (; *text; text++)
        if (kda_starts_nocase(text, part))
            return true;
    return *part == '\0';
}

static bool field_contains(const struct kda_event *event, const char *name, const char *part)
{
    unsigned slot = kda_decode_slot(event->kind, name);
    struct kda_bytes value;
    char text[3 * 2048 + 1];
    if (slot == KDA_DECODE_NO_SLOT ||
        !kda_event_get_bytes(event, kda_decode_field(event->kind, slot), &value))
        return false;
    /* In steps that overlap, so that no part is missed between two of them. */
    size_t units = value.size / 2, overlap = strlen(part) + 1;
    size_t step = 2048 > overlap ? 2048 - overlap : 0;
    for (size_t at = 0; step > 0 && at < units; at += step) {
        size_t count = units - at < 2048 ? units - at : 2048;
        (void)kda_utf16_to_utf8(value.at + 2 * at, count, true, text, sizeof(text));
        if (contains(text, part))
            return true;
        if (at + count == units)
            break;
    }
    return false;
}

static bool number_is(const struct kda_event *event, const char *name, uint64_t wanted)
{
    unsigned slot = kda_decode_slot(event->kind, name);
    uint64_t value;
    return slot != KDA_DECODE_NO_SLOT &&
           kda_event_get(event, kda_decode_field(event->kind, slot), &value) && value == wanted;
}

static bool has_pid(const struct kda_event *event, uint64_t pid)
{
    return (event->pid == pid && event->pid != KDA_NO_PID) || number_is(event, "target_pid", pid) ||
           number_is(event, "parent_pid", pid) || number_is(event, "creator_pid", pid);
}

static bool same_bytes(struct kda_bytes a, const char *b)
{
    char text[512];
    if (a.size >= sizeof(text))
        return false;
    memcpy(text, a.at, a.size);
    text[a.size] = '\0';
    return kda_same_nocase(text, b);
}

/* By name: of events with a provider that one, else "Windows Kernel" and the class. */
static bool has_provider(const struct kda_etl_decoder *d, const struct kda_event *event,
                         unsigned class_)
{
    struct kda_bytes name;
    const char *wanted = d->filter.provider;
    if (kda_event_get_bytes(event, KDA_FIELD_ETW_PROVIDER_NAME, &name) && same_bytes(name, wanted))
        return true;
    if (class_ >= KDA_MOF_CLASS_COUNT)
        return false;
    return kda_same_nocase(kda_mof_provider_name(class_), wanted) ||
           (kda_mof_class_name(class_) && kda_same_nocase(kda_mof_class_name(class_), wanted));
}

bool kda_decode_wants_event(const struct kda_etl_decoder *d, const struct kda_event *event,
                            unsigned class_)
{
    const struct kda_decode_filter *filter = &d->filter;
    if (filter->kinds && !(filter->kinds >> event->kind & 1))
        return false;
    if (filter->has_pid && !has_pid(event, filter->pid))
        return false;
    if (filter->provider && !d->filter_has_guid && !has_provider(d, event, class_))
        return false;
    return !filter->image || field_contains(event, "image", filter->image) ||
           field_contains(event, "module", filter->image) ||
           field_contains(event, "command_line", filter->image);
}

/* ---- losses ---- */

const struct kda_event *kda_etl_decoder_loss(struct kda_etl_decoder *d,
                                             const struct kda_decode_loss *loss)
{
    struct kda_event_builder *b = &d->b;
    if (d->filter.kinds && !(d->filter.kinds >> KDA_KIND_SENSOR_LOSS & 1))
        return NULL;
    (void)kda_event_begin(b, d->event, sizeof(d->event), KDA_KIND_SENSOR_LOSS,
                          (unsigned)loss->source);
    b->event->time = loss->time;
    if (loss->time == 0)
        b->event->flags |= KDA_EVENT_NO_TIME;
    kda_event_set(b, KDA_FIELD_LOSS_REASON,
                  loss->damaged ? KDA_LOSS_DAMAGED : KDA_LOSS_BUFFER_LOST);
    if (loss->events)
        kda_event_set(b, KDA_FIELD_LOSS_LOST_EVENTS, loss->events);
    if (loss->buffers)
        kda_event_set(b, KDA_FIELD_LOSS_LOST_BUFFERS, loss->buffers);
    if (loss->damaged) {
        kda_event_set(b, KDA_FIELD_LOSS_LOST_BYTES, loss->bytes);
        kda_event_set(b, KDA_FIELD_LOSS_OFFSET, loss->off);
    }
    if (loss->file)
        kda_event_text(b, KDA_FIELD_LOSS_FILE, loss->file);
    if (loss->why)
        kda_event_text(b, KDA_FIELD_LOSS_WHY, loss->why);
    (void)kda_event_end(b);
    return (const struct kda_event *)(const void *)d->event;
}
