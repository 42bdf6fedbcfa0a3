/*
 * reader.c - the lines of all files of a log, in its order.
 *
 * A file is open only while its lines come out: a log may have more files than a process may have
 * open. Every file is looked into once at the start, because only its first line says which log it
 * belongs to and where in it.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "file.h"

#define FIRST_BUFFER ((size_t)256 << 10)

struct part {
    char *path; /* NULL: memory */
    char log[KDA_LOG_ID_TEXT];
    uint64_t first_id;
    size_t group; /* index of the first named file of the same log */
    size_t given; /* place on the caller's list */
    uint64_t size;
};

struct kda_log {
    struct part *parts;
    size_t count, room; /* of `parts` */
    const void *memory;
    size_t memory_size;
    char *memory_name;
    size_t current;
    struct kda_file *file;
    uint64_t file_size;
    uint64_t off;    /* of buffer[0] in the current file */
    uint64_t number; /* of the line at `start` */
    char *buffer;
    size_t capacity, start, used;
    bool skipping; /* inside a line over the limit */
    bool told_cut; /* of the current file's last line */
    bool ended;
    uint64_t total, done;
};

static const char *part_name(const struct kda_log *log, size_t index)
{
    return log->memory ? log->memory_name : log->parts[index].path;
}

static enum kda_status open_part(struct kda_log *log, size_t index, struct kda_file **ret,
                                 struct kda_error *err)
{
    if (log->memory)
        return kda_file_open_memory(log->memory, log->memory_size, log->memory_name, ret, err);
    return kda_file_open(log->parts[index].path, ret, err);
}

/* ---- what a file is ---- */

static void place_part(struct part *part, const struct kda_log_line *first)
{
    if (first->what != KDA_LOG_LINE)
        return;
    const struct kda_log_member *id = kda_log_find(first, "log");
    if (id && id->type == '"' && id->size < sizeof(part->log))
        (void)kda_log_text(id, part->log, sizeof(part->log));
    part->first_id = first->has_id ? first->id : 0;
}

/* Closes the file. A first line that is longer than the buffer says nothing about its place: no
 * such line exists. */
static enum kda_status look_into(struct part *part, struct kda_file *file, char *buffer,
                                 size_t capacity, struct kda_error *err)
{
    part->size = kda_file_size(file);
    size_t want = part->size < capacity ? (size_t)part->size : capacity;
    enum kda_status status = kda_file_read_at(file, 0, buffer, want, err);
    if (status == KDA_OK && want > 0 && buffer[0] != '{')
        status = kda_fail(err, KDA_UNSUPPORTED, "log",
                          "\"%s\" is no event log: its first line is no JSON object",
                          kda_file_name(file));
    kda_file_close(file);
    const char *end = status == KDA_OK ? memchr(buffer, '\n', want) : NULL;
    if (end) {
        struct kda_log_line line;
        kda_log_parse(buffer, (size_t)(end - buffer), &line);
        place_part(part, &line);
    }
    return status;
}

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->first_id != y->first_id)
        return x->first_id < y->first_id ? -1 : 1;
    return x->given < y->given ? -1 : x->given > y->given;
}

static int compare_ids(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int order = strcmp(x->log, y->log);
    return order ? order : x->given < y->given ? -1 : x->given > y->given;
}

/* Files of one log become neighbours; the logs keep the order in which they were first named. */
static void sort_parts(struct kda_log *log)
{
    qsort(log->parts, log->count, sizeof(*log->parts), compare_ids);
    for (size_t i = 0; i < log->count; i++) {
        struct part *part = &log->parts[i];
        bool same = i > 0 && part->log[0] && strcmp(part->log, log->parts[i - 1].log) == 0;
        part->group = same ? log->parts[i - 1].group : part->given;
    }
    qsort(log->parts, log->count, sizeof(*log->parts), compare_parts);
}

static enum kda_status open_all(struct kda_log *log, const char *const *paths,
                                struct kda_error *err)
{
    for (size_t i = 0; i < log->count; i++) {
        log->parts[i].given = i;
        if (paths && !(log->parts[i].path = kda_strdup(paths[i])))
            return kda_fail(err, KDA_NO_MEMORY, "log", "out of memory for %zu files", log->count);
        struct kda_file *file = NULL;
        enum kda_status status = open_part(log, i, &file, err);
        if (status == KDA_OK)
            status = look_into(&log->parts[i], file, log->buffer, log->capacity, err);
        if (status != KDA_OK)
            return status;
        log->total += log->parts[i].size;
    }
    sort_parts(log);
    return KDA_OK;
}

static enum kda_status create(size_t count, struct kda_log **ret, struct kda_error *err)
{
    if (count == 0)
        return kda_fail(err, KDA_USAGE, "log", "no files were named");
    if (count > KDA_LOG_MAX_FILES)
        return kda_fail(err, KDA_LIMIT, "log", "%zu files are more than the %u allowed", count,
                        KDA_LOG_MAX_FILES);
    struct kda_log *log = kda_calloc(1, sizeof(*log));
    if (log) {
        log->parts = kda_calloc(count, sizeof(*log->parts));
        log->buffer = kda_calloc(FIRST_BUFFER, 1);
        log->capacity = FIRST_BUFFER;
        log->count = log->parts ? count : 0;
        log->room = log->count;
    }
    if (!log || !log->parts || !log->buffer) {
        kda_log_close(log);
        return kda_fail(err, KDA_NO_MEMORY, "log", "out of memory for %zu files", count);
    }
    *ret = log;
    return KDA_OK;
}

enum kda_status kda_log_open(const char *const *paths, size_t count, struct kda_log **ret,
                             struct kda_error *err)
{
    struct kda_log *log = NULL;
    enum kda_status status = create(count, &log, err);
    if (status == KDA_OK)
        status = open_all(log, paths, err);
    if (status != KDA_OK) {
        kda_log_close(log);
        return status;
    }
    *ret = log;
    return KDA_OK;
}

enum kda_status kda_log_open_memory(const void *bytes, size_t size, const char *name,
                                    struct kda_log **ret, struct kda_error *err)
{
    struct kda_log *log = NULL;
    enum kda_status status = create(1, &log, err);
    if (status != KDA_OK)
        return status;
    log->memory = bytes ? bytes : "";
    log->memory_size = size;
    log->memory_name = kda_strdup(name);
    status = log->memory_name ? open_all(log, NULL, err)
                              : kda_fail(err, KDA_NO_MEMORY, "log", "out of memory");
    if (status != KDA_OK) {
        kda_log_close(log);
        return status;
    }
    *ret = log;
    return KDA_OK;
}

void kda_log_close(struct kda_log *log)
{
    if (!log)
        return;
    for (size_t i = 0; i < log->count; i++)
        kda_free(log->parts[i].path);
    kda_file_close(log->file);
    kda_free(log->memory_name);
    kda_free(log->parts);
    kda_free(log->buffer);
    kda_free(log);
}

/* ---- lines ---- */

/* Room for more bytes behind what is not handed out yet; *full: the line is over the limit. */
static enum kda_status make_room(struct kda_log *log, bool *full, struct kda_error *err)
{
    *full = false;
    if (log->start > 0) {
        memmove(log->buffer, log->buffer + log->start, log->used - log->start);
        log->off += log->start;
        log->used -= log->start;
        log->start = 0;
    }
    if (log->used < log->capacity)
        return KDA_OK;
    if (log->capacity > KDA_LOG_MAX_LINE) {
        *full = true;
        return KDA_OK;
    }
    char *grown = kda_realloc_array(log->buffer, log->capacity * 2, 1);
    if (!grown)
        return kda_fail(err, KDA_NO_MEMORY, "log", "out of memory for a line of \"%s\"",
                        part_name(log, log->current));
    log->buffer = grown;
    log->capacity *= 2;
    return KDA_OK;
}

/* Reads on; *more is false where the file ends. */
static enum kda_status fill(struct kda_log *log, bool *more, struct kda_error *err)
{
    uint64_t at = log->off + log->used;
    uint64_t left = log->file_size > at ? log->file_size - at : 0;
    size_t room = log->capacity - log->used;
    size_t want = left < room ? (size_t)left : room;
    *more = want > 0;
    if (want == 0)
        return KDA_OK;
    enum kda_status status = kda_file_read_at(log->file, at, log->buffer + log->used, want, err);
    if (status == KDA_OK) {
        log->used += want;
        log->done += want;
    }
    return status;
}

static void place_line(struct kda_log *log, struct kda_log_line *line)
{
    line->file = log->current;
    line->number = log->number + 1;
    line->off = log->off + log->start;
}

static void hand_out(struct kda_log *log, struct kda_log_line *line, size_t size)
{
    kda_log_parse(log->buffer + log->start, size, line);
    place_line(log, line);
    /* Not there yet when the file was looked into. */
    if (log->number == 0 && !log->parts[log->current].log[0])
        place_part(&log->parts[log->current], line);
    log->number++;
    log->start += size;
    log->told_cut = false;
}

static void hand_out_problem(struct kda_log *log, struct kda_log_line *line, const char *problem)
{
    kda_log_parse("", 0, line);
    line->what = KDA_LOG_BAD;
    line->problem = problem;
    place_line(log, line);
    log->number++;
}

/* Drops the rest of a line over the limit. *more is false where the file ends within it. */
static enum kda_status skip_rest(struct kda_log *log, bool *more, struct kda_error *err)
{
    enum kda_status status = KDA_OK;
    *more = true;
    while (log->skipping && *more && status == KDA_OK) {
        const char *begin = log->buffer + log->start;
        const char *end = memchr(begin, '\n', log->used - log->start);
        log->skipping = end == NULL;
        log->start = end ? (size_t)(end - log->buffer) + 1 : log->used;
        bool full;
        if (!end)
            status = make_room(log, &full, err);
        if (!end && status == KDA_OK)
            status = fill(log, more, err);
    }
    return status;
}

/* A line of the current file, or *have false at its end. */
static enum kda_status next_in_file(struct kda_log *log, struct kda_log_line *line, bool *have,
                                    struct kda_error *err)
{
    size_t looked = 0; /* bytes behind `start` known to hold no line end */
    bool more = true, full;
    enum kda_status status = skip_rest(log, &more, err);
    *have = false;
    while (status == KDA_OK && more) {
        const char *begin = log->buffer + log->start;
        size_t left = log->used - log->start;
        const char *end = memchr(begin + looked, '\n', left - looked);
        if (end) {
            *have = true;
            hand_out(log, line, (size_t)(end - begin) + 1);
            return KDA_OK;
        }
        looked = left;
        status = make_room(log, &full, err);
        if (status == KDA_OK && full) {
            *have = true;
            hand_out_problem(log, line, "longer than any line of the schema");
            log->start = log->used;
            log->skipping = true;
            return KDA_OK;
        }
        if (status == KDA_OK)
            status = fill(log, &more, err);
    }
    return status;
}

/* What a file ends with after its last line end. Not taken: a file that grows completes it. */
static bool tell_cut(struct kda_log *log, struct kda_log_line *line)
{
    size_t left = log->used - log->start;
    if (log->told_cut || (left == 0 && !log->skipping))
        return false;
    kda_log_parse(log->buffer + log->start, left, line);
    line->what = KDA_LOG_CUT;
    place_line(log, line);
    log->told_cut = true;
    return true;
}

/* The open file may have grown, even if its name has gone. */
static enum kda_status measure_file(struct kda_log *log, struct kda_error *err)
{
    enum kda_status status = kda_file_measure(log->file, err);
    if (status == KDA_OK)
        log->file_size = kda_file_size(log->file);
    return status;
}

static enum kda_status start_file(struct kda_log *log, size_t index, struct kda_error *err)
{
    struct kda_file *file = NULL;
    enum kda_status status = open_part(log, index, &file, err);
    if (status != KDA_OK)
        return status;
    kda_file_close(log->file);
    log->file = file;
    log->file_size = kda_file_size(file);
    log->current = index;
    log->off = log->number = 0;
    log->start = log->used = 0;
    log->skipping = log->told_cut = log->ended = false;
    return KDA_OK;
}

static void say_end(struct kda_log *log, struct kda_log_line *line)
{
    kda_log_parse("", 0, line);
    line->what = KDA_LOG_END;
    line->problem = NULL;
    place_line(log, line);
    log->ended = true;
}

enum kda_status kda_log_next(struct kda_log *log, struct kda_log_line *line, struct kda_error *err)
{
    enum kda_status status = KDA_OK;
    if (!log->file)
        status = start_file(log, 0, err);
    else if (log->ended)
        status = measure_file(log, err);
    while (status == KDA_OK) {
        bool have;
        status = next_in_file(log, line, &have, err);
        if (status != KDA_OK || have || tell_cut(log, line))
            return status;
        if (log->current + 1 == log->count) {
            say_end(log, line);
            return KDA_OK;
        }
        status = start_file(log, log->current + 1, err);
    }
    return status;
}

/* ---- the file in which a log goes on ---- */

#define NAMES_MAX ((size_t)1 << 20)
#define FIRST_LINE_MAX 4096u /* of a further file: sensor.file */

/* A name ends with a number before its suffix: kdamonitor-20261129-210405-1a2b3c4d-000001.jsonl. */
struct numbered {
    size_t stem; /* bytes before the number */
    uint64_t number;
    const char *suffix;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool split_name(const char *name, struct numbered *ret)
{
    const char *dot = strrchr(name, '.');
    size_t end = dot ? (size_t)(dot - name) : strlen(name);
    size_t stem = end;
    while (stem > 0 && is_digit(name[stem - 1]))
        stem--;
    if (stem == end || end - stem > 18)
        return false;
    ret->stem = stem;
    ret->suffix = name + end;
    ret->number = 0;
    for (size_t i = stem; i < end; i++)
        ret->number = ret->number * 10 + (unsigned)(name[i] - '0');
    return true;
}

struct search {
    const char *name;
    struct numbered now, best;
    char *found; /* name with the smallest greater number */
    bool out_of_memory;
};

static bool consider(void *context, const char *name)
{
    struct search *search = context;
    struct numbered other;
    if (!split_name(name, &other) || other.stem != search->now.stem ||
        memcmp(name, search->name, other.stem) != 0 ||
        strcmp(other.suffix, search->now.suffix) != 0 || other.number <= search->now.number ||
        (search->found && other.number >= search->best.number))
        return true;
    kda_free(search->found);
    search->found = kda_strdup(name);
    search->best = other;
    search->out_of_memory = !search->found;
    return search->found != NULL;
}

/* Path of the file beside `path` that has the next number there is; *ret stays NULL if none has. */
static enum kda_status find_successor(const char *path, char **ret, struct kda_error *err)
{
    struct search search = {.name = kda_path_name(path)};
    if (!split_name(search.name, &search.now))
        return KDA_OK;
    size_t folder = (size_t)(search.name - path);
    char *text = kda_calloc(folder + 2, 1);
    enum kda_status status = KDA_NO_MEMORY;
    if (text) {
        memcpy(text, path, folder);
        status = kda_dir_walk(folder > 0 ? text : ".", NAMES_MAX, consider, &search, err);
    }
    kda_free(text);
    if (status == KDA_OK && search.found) {
        size_t size = strlen(search.found) + 1;
        char *whole = kda_calloc(folder + size, 1);
        if (whole) {
            memcpy(whole, path, folder);
            memcpy(whole + folder, search.found, size);
        }
        search.out_of_memory = !whole;
        *ret = whole;
    }
    kda_free(search.found);
    return !text || search.out_of_memory
               ? kda_fail(err, KDA_NO_MEMORY, "log", "out of memory for the next file")
               : status;
}

/* Takes over part->path when it has been added. */
static enum kda_status add_part(struct kda_log *log, struct part *part, struct kda_error *err)
{
    const struct part *last = &log->parts[log->count - 1];
    if (log->count == KDA_LOG_MAX_FILES)
        return kda_fail(err, KDA_LIMIT, "log", "the log has more files than the %u allowed",
                        KDA_LOG_MAX_FILES);
    part->group = last->group;
    part->given = log->count;
    if (log->count == log->room) {
        struct part *grown = kda_realloc_array(log->parts, log->room * 2, sizeof(*log->parts));
        if (!grown)
            return kda_fail(err, KDA_NO_MEMORY, "log", "out of memory for the next file");
        log->parts = grown;
        log->room *= 2;
    }
    log->total += part->size;
    log->parts[log->count++] = *part;
    return KDA_OK;
}

enum kda_status kda_log_find_next_file(struct kda_log *log, bool *found, struct kda_error *err)
{
    struct part part = {0};
    struct kda_file *file = NULL;
    char head[FIRST_LINE_MAX];
    *found = false;
    const struct part *last = &log->parts[log->count - 1];
    if (log->memory || !last->log[0])
        return KDA_OK;
    enum kda_status status = find_successor(last->path, &part.path, err);
    if (status != KDA_OK || !part.path)
        return status;
    status = kda_file_open(part.path, &file, err);
    if (status == KDA_OK)
        status = look_into(&part, file, head, sizeof(head), err);
    /* Its first line may not be there yet, or it may be of another log: then it is none. */
    if (status == KDA_OK && strcmp(part.log, last->log) == 0 && part.first_id > last->first_id) {
        status = add_part(log, &part, err);
        *found = status == KDA_OK;
    }
    if (!*found)
        kda_free(part.path);
    return status;
}

/* ---- what is known about the files ---- */

size_t kda_log_file_count(const struct kda_log *log)
{
    return log->count;
}

const char *kda_log_file_name(const struct kda_log *log, size_t file)
{
    return file < log->count ? part_name(log, file) : "";
}

const char *kda_log_file_log(const struct kda_log *log, size_t file)
{
    return file < log->count ? log->parts[file].log : "";
}

bool kda_log_starts_at(const struct kda_log *log, size_t file)
{
    return file == 0 || log->parts[file].group != log->parts[file - 1].group;
}

uint64_t kda_log_bytes_total(const struct kda_log *log)
{
    return log->total;
}

uint64_t kda_log_bytes_done(const struct kda_log *log)
{
    return log->done;
}

uint64_t kda_log_file_size(const struct kda_log *log, size_t file)
{
    return file < log->count ? log->parts[file].size : 0;
}
