/*
 * map.c - the view for people: who listens, who speaks. For each silo and session its attributes,
 * its consumers and its providers; then what is enabled for nobody; then what is missing.
 */
#include "map.h"

#include <string.h>

#include "alloc.h"
#include "text.h"

#define HAS(s, id) KDA_ETW_HAS(s, S, id)
#define MODE_NAMES_MAX 64u
#define GAP_KINDS_MAX 16u

void kda_map_line(struct kda_map *map, enum kda_style style)
{
    kda_out_line(map->report, map->line.bytes ? map->line.bytes : "", map->line.size, style);
    map->line.size = 0;
}

/* Bytes of `text` that fit `width` columns and end behind a comma; all of it if nothing does. */
static size_t break_at(const char *text, size_t size, size_t width)
{
    size_t best = 0, used = 0;
    for (size_t i = 0; i < size;) {
        unsigned columns;
        size_t step = kda_next_char(text + i, size - i, &columns);
        used += columns;
        if (used > width && best > 0)
            return best;
        i += step;
        if (text[i - 1] == ',' && i < size && text[i] == ' ')
            best = i;
    }
    return size;
}

void kda_map_wrapped(struct kda_map *map, size_t indent, enum kda_style style)
{
    const char *text = map->line.bytes ? map->line.bytes : "";
    size_t size = map->line.size, width = map->report->options.width;
    if (width <= indent + 20 || kda_columns(text, size) <= width) {
        kda_map_line(map, style);
        return;
    }
    size_t head = break_at(text, size, width);
    kda_out_line(map->report, text, head, style);
    while (head < size) {
        while (head < size && text[head] == ' ')
            head++;
        size_t part = break_at(text + head, size - head, width - indent);
        kda_out_repeat(map->report, ' ', indent);
        kda_out_line(map->report, text + head, part, style);
        head += part;
    }
    map->line.size = 0;
}

void kda_map_name(struct kda_map *map, const char *text)
{
    if (text && *text)
        kda_text_add_escaped(&map->line, text, strlen(text));
    else
        kda_text_adds(&map->line, "?");
}

/* "  name      " in front of an attribute; the same width for all of them. */
#define LABEL_COLUMN 14u
static void label(struct kda_map *map, const char *name)
{
    kda_text_addf(&map->line, "    %-10s", name);
}

static void put_mode(struct kda_map *map, const struct kda_etw_session *s)
{
    if (!HAS(s, MODE))
        return;
    const char *names[MODE_NAMES_MAX];
    size_t count = kda_etw_mode_names(s->mode, names, MODE_NAMES_MAX);
    label(map, "mode");
    kda_text_addf(&map->line, "0x%x", s->mode);
    for (size_t i = 0; i < count; i++)
        kda_text_addf(&map->line, "%s%s", i == 0 ? "  " : ", ", names[i]);
    kda_map_wrapped(map, LABEL_COLUMN, KDA_STYLE_NONE);
}

static void put_buffers(struct kda_map *map, const struct kda_etw_session *s)
{
    struct kda_text *line = &map->line;
    if (!HAS(s, BUFFER_SIZE) && !HAS(s, BUFFERS))
        return;
    label(map, "buffers");
    if (HAS(s, BUFFERS))
        kda_text_addf(line, "%u", s->buffers);
    if (HAS(s, MAX_BUFFERS))
        kda_text_addf(line, " (max %u)", s->max_buffers);
    if (HAS(s, BUFFER_SIZE) && s->buffer_size % 1024 == 0)
        kda_text_addf(line, " of %u KB", s->buffer_size / 1024);
    else if (HAS(s, BUFFER_SIZE))
        kda_text_addf(line, " of %u bytes", s->buffer_size);
    if (HAS(s, BUFFERS_WRITTEN))
        kda_text_addf(line, ", %u written", s->buffers_written);
    if (HAS(s, CLOCK) && kda_etw_clock_name(s->clock))
        kda_text_addf(line, ", clock %s", kda_etw_clock_name(s->clock));
    kda_map_line(map, KDA_STYLE_NONE);
}

static void put_losses(struct kda_map *map, const struct kda_etw_session *s)
{
    bool any = (HAS(s, EVENTS_LOST) && s->events_lost) ||
               (HAS(s, BUFFERS_LOST) && s->buffers_lost) ||
               (HAS(s, RT_BUFFERS_LOST) && s->realtime_buffers_lost);
    if (!any)
        return;
    label(map, "lost");
    kda_text_addf(&map->line, "%u events, %u buffers, %u real-time buffers", s->events_lost,
                  s->buffers_lost, s->realtime_buffers_lost);
    kda_map_line(map, KDA_STYLE_WARN);
}

static void put_origin(struct kda_map *map, const struct kda_etw_session *s)
{
    char text[KDA_TIME_TEXT];
    if (HAS(s, START_TIME) && s->start_time_100ns && kda_time_text(s->start_time_100ns, text)) {
        label(map, "started");
        kda_text_adds(&map->line, text);
        kda_map_line(map, KDA_STYLE_NONE);
    }
    if (HAS(s, LOG_FILE) && s->log_file && *s->log_file) {
        label(map, "log file");
        kda_map_name(map, s->log_file);
        kda_map_line(map, KDA_STYLE_NONE);
    }
    if (map->report->options.verbose && HAS(s, SECURITY) && s->security) {
        label(map, "security");
        kda_map_name(map, s->security);
        kda_map_line(map, KDA_STYLE_NONE);
    }
}

static const char *consumer_note(const struct kda_etw_consumer *c)
{
    if (c->found_by == KDA_CONSUMER_HANDLE)
        return "found by its handle only: not on the session's list";
    if (c->found_by == KDA_CONSUMER_POOL)
        return "in pool memory only: on no list and behind no handle";
    if (c->found_by == KDA_CONSUMER_LIST)
        return "on the session's list, no handle found";
    return NULL;
}

static void put_consumers(struct kda_map *map, const struct kda_etw_session *s)
{
    const char *name = "consumers";
    if (HAS(s, NUM_CONSUMERS) && s->num_consumers != s->consumer_count) {
        label(map, name);
        kda_text_addf(&map->line, "%u counted by the kernel, %zu found", s->num_consumers,
                      s->consumer_count);
        kda_map_line(map, KDA_STYLE_WARN);
        name = "";
    } else if (s->consumer_count == 0) {
        label(map, name);
        kda_text_adds(&map->line, "none");
        kda_map_line(map, KDA_STYLE_DIM);
    }
    for (size_t i = 0; i < s->consumer_count; i++, name = "") {
        const struct kda_etw_consumer *c = s->consumers[i];
        label(map, name);
        kda_map_name(map, c->process);
        if (c->has_pid)
            kda_text_addf(&map->line, " (%llu)", (unsigned long long)c->pid);
        const char *note = consumer_note(c);
        if (note)
            kda_text_addf(&map->line, "  %s", note);
        kda_map_line(map, c->found_by & KDA_CONSUMER_LIST ? KDA_STYLE_NONE : KDA_STYLE_WARN);
    }
}

static void put_session(struct kda_map *map, const struct kda_etw_session *s)
{
    kda_out(map->report, "\n", 1);
    kda_text_addf(&map->line, "[%u] ", s->id);
    if (HAS(s, NAME))
        kda_map_name(map, *s->name ? s->name : "(no name)");
    else
        kda_text_adds(&map->line, "(name not readable)");
    if (HAS(s, LOGGER_ID) && s->logger_id != s->id)
        kda_text_addf(&map->line, "  logger id %u", s->logger_id);
    if (HAS(s, COLLECTING))
        kda_text_adds(&map->line, s->collecting ? "  running" : "  stopped");
    kda_text_addf(&map->line, "  at 0x%llx", (unsigned long long)s->va);
    kda_map_line(map, KDA_STYLE_NAME);
    if (s->found_by == KDA_SESSION_POOL) {
        label(map, "slot");
        kda_text_adds(&map->line, "none: in pool memory only");
        kda_map_line(map, KDA_STYLE_WARN);
    }
    put_mode(map, s);
    put_buffers(map, s);
    put_losses(map, s);
    put_origin(map, s);
    put_consumers(map, s);
    kda_map_session_providers(map, s);
}

static void put_silo(struct kda_map *map, const struct kda_etw_silo *silo, size_t sessions,
                     size_t consumers, size_t providers)
{
    if (map->report->started)
        kda_out(map->report, "\n", 1);
    map->report->started = true;
    kda_text_adds(&map->line, silo->host ? "Host" : "Server silo ");
    if (!silo->host)
        kda_map_name(map, silo->label);
    kda_text_addf(&map->line, ": %zu session%s, %zu consumer%s, %zu provider%s", sessions,
                  sessions == 1 ? "" : "s", consumers, consumers == 1 ? "" : "s", providers,
                  providers == 1 ? "" : "s");
    if (silo->host && silo->state)
        kda_text_addf(&map->line, "  at 0x%llx", (unsigned long long)silo->state);
    kda_map_line(map, KDA_STYLE_HEAD);
}

/* grep: a session is shown as a whole when it or one of its providers says the word. */
static bool wanted(struct kda_map *map, const struct kda_etw_session *session)
{
    if (!kda_selects_session(map->selection, session))
        return false;
    if (!map->report->options.grep)
        return true;
    kda_build_session(kda_report_row(map->report, KDA_ROW_SESSION), session);
    if (kda_report_wants(map->report))
        return true;
    for (size_t i = 0; i < map->provider_count; i++) {
        if (!kda_provider_enabled_for(map->providers[i], session))
            continue;
        kda_build_provider(kda_report_row(map->report, KDA_ROW_PROVIDER), map->providers[i]);
        if (kda_report_wants(map->report))
            return true;
    }
    return false;
}

static void put_silo_sessions(struct kda_map *map, const struct kda_etw_silo *silo)
{
    size_t count, shown = 0, consumers = 0, providers = 0;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(map->etw, &count);
    for (size_t i = 0; i < count; i++) {
        if (sessions[i]->silo != silo || !kda_selects_session(map->selection, sessions[i]))
            continue;
        shown++;
        consumers += sessions[i]->consumer_count;
    }
    for (size_t i = 0; i < map->provider_count; i++)
        providers += map->providers[i]->silo == silo &&
                     kda_selects_provider(map->selection, map->providers[i]);
    if (shown == 0 && map->selection && map->selection->sessions)
        return; /* the session asked for is in another silo */
    put_silo(map, silo, shown, consumers, providers);
    uint64_t *printed = &map->report->counts[KDA_ROW_SESSION];
    uint64_t limit = map->report->options.limit;
    for (size_t i = 0; i < count && !kda_report_failed(map->report); i++) {
        if (sessions[i]->silo != silo || !wanted(map, sessions[i]))
            continue;
        if (limit && *printed >= limit) {
            map->report->skipped++;
            continue;
        }
        ++*printed;
        put_session(map, sessions[i]);
    }
}

/* Consumers whose session does not exist any more, or was never there. */
static void put_lost_consumers(struct kda_map *map)
{
    size_t count;
    bool first = true;
    const struct kda_etw_consumer *const *consumers = kda_etw_consumers(map->etw, &count);
    for (size_t i = 0; i < count; i++) {
        const struct kda_etw_consumer *c = consumers[i];
        if (c->session || !kda_selects_consumer(map->selection, c))
            continue;
        if (first) {
            kda_out(map->report, "\n", 1);
            kda_text_adds(&map->line, "Consumers of no living session");
            kda_map_line(map, KDA_STYLE_HEAD);
        }
        first = false;
        kda_text_adds(&map->line, "    ");
        kda_map_name(map, c->process);
        if (c->has_pid)
            kda_text_addf(&map->line, " (%llu)", (unsigned long long)c->pid);
        if (c->has_session_id)
            kda_text_addf(&map->line, "  session id %u", c->session_id);
        kda_text_addf(&map->line, "  at 0x%llx", (unsigned long long)c->va);
        kda_map_line(map, KDA_STYLE_WARN);
    }
}

static void put_gaps(struct kda_map *map, const struct kda_gaps *gaps)
{
    const char *kinds[GAP_KINDS_MAX];
    size_t counts[GAP_KINDS_MAX], used = 0, others = 0;
    for (size_t i = 0; i < gaps->count; i++) {
        size_t k = 0;
        while (k < used && strcmp(kinds[k], gaps->items[i].what) != 0)
            k++;
        if (k == GAP_KINDS_MAX) {
            others++;
            continue;
        }
        if (k == used) {
            kinds[used] = gaps->items[i].what;
            counts[used++] = 0;
        }
        counts[k]++;
    }
    kda_out(map->report, "\n", 1);
    kda_text_addf(&map->line, "Incomplete: %zu gap%s", gaps->count + gaps->dropped,
                  gaps->count + gaps->dropped == 1 ? "" : "s");
    kda_map_line(map, KDA_STYLE_WARN);
    for (size_t k = 0; k < used; k++) {
        kda_text_addf(&map->line, "    %6zu  ", counts[k]);
        kda_map_name(map, kinds[k]);
        kda_map_line(map, KDA_STYLE_NONE);
    }
    if (others + gaps->dropped > 0) {
        kda_text_addf(&map->line, "    %6zu  other", others + gaps->dropped);
        kda_map_line(map, KDA_STYLE_NONE);
    }
}

void kda_report_map(struct kda_report *report, const struct kda_etw *etw,
                    const struct kda_selection *selection, const struct kda_gaps *gaps)
{
    if (report->ops != &kda_report_text)
        return;
    struct kda_map map = {.report = report, .etw = etw, .selection = selection};
    if (!kda_map_sort_providers(&map)) {
        kda_report_fail(report, KDA_NO_MEMORY);
        return;
    }
    size_t count;
    const struct kda_etw_silo *silos = kda_etw_silos(etw, &count);
    for (size_t i = 0; i < count; i++)
        if (!selection || !selection->silo || selection->silo == &silos[i])
            put_silo_sessions(&map, &silos[i]);
    if (!selection || !selection->sessions) {
        put_lost_consumers(&map);
        kda_map_orphans(&map);
    }
    if (gaps && kda_gaps_any(gaps))
        put_gaps(&map, gaps);
    if (map.line.failed)
        kda_report_fail(report, KDA_NO_MEMORY);
    kda_text_deinit(&map.line);
    kda_free(map.providers);
}
