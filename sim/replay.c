/*
 * replay.c - recordings: files and archives of JSON lines -> records. The only file that knows the
 * JSON and archive libraries.
 */
#include "replay.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SYSMON "Microsoft-Windows-Sysmon"
#define READ_BYTES ((size_t)256 << 10)
#define PID_MAX 0xFFFFFFFCu
#define BY_PID_MAX ((size_t)1 << 16) /* entries; real pids are small, others are looked for */
#define SYSTEM_TID_MAX 8u
#define NO_GUID "{00000000-0000-0000-0000-000000000000}"

const char *const replay_skip_names[REPLAY_SKIP_COUNT] = {
#define S(name, text) text,
    REPLAY_SKIPS(S)
#undef S
};

/* ---- members ---- */

/* What Sysmon prints where it knows nothing. */
static bool is_empty(const char *text)
{
    return text[0] == '\0' || strcmp(text, "-") == 0 || strcmp(text, "<unknown process>") == 0;
}

/* A text with a NUL in it is none: only its beginning could be fired. */
static const char *string_of(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);
    const char *text = json_string_value(member);
    return text && strlen(text) == json_string_length(member) ? text : NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = string_of(object, key);
    return text && !is_empty(text) ? text : NULL;
}

/* Numbers come as numbers or as texts, decimal or with 0x. */
static bool number_of(const json_t *object, const char *key, uint64_t *ret)
{
    const json_t *member = json_object_get(object, key);
    if (json_is_integer(member)) {
        if (json_integer_value(member) < 0)
            return false;
        *ret = (uint64_t)json_integer_value(member);
        return true;
    }
    const char *text = string_of(object, key);
    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, text[1] == 'x' || text[1] == 'X' ? 16 : 10);
    if (*end != '\0' || errno != 0)
        return false;
    *ret = value;
    return true;
}

static bool is_true(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);
    const char *text = json_string_value(member);
    return json_is_true(member) || (text && strcmp(text, "true") == 0);
}

static uint32_t pid_of(const json_t *object, const char *key)
{
    uint64_t pid;
    return number_of(object, key, &pid) && pid <= PID_MAX ? (uint32_t)pid : 0;
}

/* ---- machines and processes ---- */

static struct replay_machine *machine_of(struct recording *recording, const char *name)
{
    for (size_t i = 0; i < recording->count; i++)
        if (strcmp(recording->machines[i].name, name) == 0)
            return &recording->machines[i];
    if (recording->count == REPLAY_MAX_HOSTS)
        return NULL;
    void *items = recording->machines;
    bool grown = recording_grow(&items, &recording->capacity, recording->count + 1,
                                sizeof(*recording->machines));
    recording->machines = items;
    if (!grown) {
        recording->out_of_memory = true;
        return NULL;
    }
    struct replay_machine *machine = &recording->machines[recording->count++];
    memset(machine, 0, sizeof(*machine));
    size_t size = strlen(name);
    memcpy(machine->name, name, size + 1);
    return machine;
}

static bool note_pid(struct recording *recording, struct replay_machine *machine, uint32_t pid,
                     size_t index)
{
    size_t place = pid / 4;
    if (place >= BY_PID_MAX)
        return true;
    if (place >= machine->by_pid_count) {
        size_t count = place * 2 + 256 < BY_PID_MAX ? place * 2 + 256 : BY_PID_MAX;
        size_t *grown = realloc(machine->by_pid, count * sizeof(*grown));
        if (!grown) {
            recording->out_of_memory = true;
            return false;
        }
        for (size_t i = machine->by_pid_count; i < count; i++)
            grown[i] = REPLAY_NONE;
        machine->by_pid = grown;
        machine->by_pid_count = count;
    }
    machine->by_pid[place] = index;
    return true;
}

static size_t add_process(struct recording *recording, struct replay_machine *machine,
                          const char *guid)
{
    void *items = machine->processes;
    bool grown = recording_grow(&items, &machine->process_capacity, machine->process_count + 1,
                                sizeof(*machine->processes));
    machine->processes = items;
    if (!grown) {
        recording->out_of_memory = true;
        return REPLAY_NONE;
    }
    size_t index = machine->process_count++;
    struct replay_process *process = &machine->processes[index];
    memset(process, 0, sizeof(*process));
    process->parent = process->create = process->exit = REPLAY_NONE;
    if (guid) {
        memcpy(process->guid, guid, strlen(guid));
        process->created = recording_guid_time(guid);
    }
    return index;
}

static const char *guid_of(const json_t *object, const char *key)
{
    const char *guid = text_of(object, key);
    return guid && strcmp(guid, NO_GUID) != 0 && strlen(guid) < REPLAY_GUID_TEXT ? guid : NULL;
}

/* The newest process with that pid. */
static size_t find_by_pid(const struct replay_machine *machine, uint32_t pid)
{
    if (pid / 4 < BY_PID_MAX)
        return pid / 4 < machine->by_pid_count ? machine->by_pid[pid / 4] : REPLAY_NONE;
    for (size_t i = machine->process_count; i-- > 0;)
        if (machine->processes[i].pid == pid)
            return i;
    return REPLAY_NONE;
}

/* By guid where there is one; else the newest process with that pid. REPLAY_NONE too where the guid
 * belongs to another pid. */
static size_t process_of(struct recording *recording, struct replay_machine *machine,
                         const json_t *object, const char *guid_key, const char *pid_key)
{
    const char *guid = guid_of(object, guid_key);
    uint32_t pid = pid_of(object, pid_key);
    size_t index = REPLAY_NONE;
    if (!guid && pid == 0)
        return REPLAY_NONE;
    if (!guid)
        index = find_by_pid(machine, pid);
    for (size_t i = guid ? machine->process_count : 0; i-- > 0 && index == REPLAY_NONE;)
        if (strcmp(machine->processes[i].guid, guid) == 0)
            index = i;
    if (index != REPLAY_NONE && pid != 0 && machine->processes[index].pid != 0 &&
        machine->processes[index].pid != pid)
        return REPLAY_NONE;
    if (index == REPLAY_NONE)
        index = add_process(recording, machine, guid);
    if (index == REPLAY_NONE)
        return index;
    struct replay_process *process = &machine->processes[index];
    if (pid != 0 && process->pid == 0) {
        process->pid = pid;
        process->pid_recorded = true;
        if (!note_pid(recording, machine, pid, index))
            return REPLAY_NONE;
    }
    return index;
}

static void name_image(struct recording *recording, struct replay_process *process,
                       const char *image)
{
    if (image && process->image.count == 0)
        process->image = recording_path(recording, image);
}

static void name_user(struct recording *recording, struct replay_machine *machine,
                      struct replay_process *process, const json_t *object)
{
    const char *user = text_of(object, "User");
    if (user && process->sid_size == 0)
        recording_sid(recording, machine, user, process);
}

/* ---- events ---- */

/* What every reader of an event works on. */
struct event {
    struct recording *recording;
    struct replay_machine *machine;
    const json_t *object;
    struct replay_record record;
};

/* Result of a reader: taken, or the reason why not. */
#define TAKEN (-1)

/* Why there is no process: none is named, or it cannot be the one that is. */
static int why_none(const json_t *object, const char *guid_key, const char *pid_key)
{
    return guid_of(object, guid_key) || pid_of(object, pid_key) ? REPLAY_SKIP_IMPOSSIBLE
                                                                : REPLAY_SKIP_PROCESS;
}

static int read_actor(struct event *event)
{
    size_t index =
        process_of(event->recording, event->machine, event->object, "ProcessGuid", "ProcessId");
    event->record.process = index;
    if (index == REPLAY_NONE)
        return why_none(event->object, "ProcessGuid", "ProcessId");
    struct replay_process *process = &event->machine->processes[index];
    name_image(event->recording, process, text_of(event->object, "Image"));
    name_user(event->recording, event->machine, process, event->object);
    return TAKEN;
}

static int read_process_create(struct event *event)
{
    struct recording *recording = event->recording;
    struct replay_machine *machine = event->machine;
    int result = read_actor(event);
    if (result != TAKEN)
        return result;
    if (machine->processes[event->record.process].create != REPLAY_NONE)
        return REPLAY_SKIP_OPERATION; /* told twice */
    size_t parent =
        process_of(recording, machine, event->object, "ParentProcessGuid", "ParentProcessId");
    struct replay_process *process = &machine->processes[event->record.process];
    const char *line = string_of(event->object, "CommandLine");
    const char *integrity = text_of(event->object, "IntegrityLevel");
    uint64_t session;
    event->record.type = REPLAY_PROCESS_CREATE;
    event->record.other = process->parent = parent;
    if (line)
        process->command_line = recording_utf16(recording, line);
    if (number_of(event->object, "TerminalSessionId", &session)) {
        process->session = (uint32_t)session;
        process->has_session = true;
    }
    if (integrity)
        process->integrity = recording_integrity(integrity);
    process->create = machine->count;
    if (parent != REPLAY_NONE)
        name_image(recording, &machine->processes[parent], text_of(event->object, "ParentImage"));
    return TAKEN;
}

static int read_process_exit(struct event *event)
{
    int result = read_actor(event);
    event->record.type = REPLAY_PROCESS_EXIT;
    if (result != TAKEN)
        return result;
    struct replay_process *process = &event->machine->processes[event->record.process];
    if (process->exit != REPLAY_NONE)
        return REPLAY_SKIP_OPERATION;
    process->exit = event->machine->count;
    return TAKEN;
}

static bool read_endpoint(const json_t *object, const char *ip, const char *port,
                          struct replay_endpoint *end, uint8_t *version)
{
    const char *address = text_of(object, ip);
    uint64_t number;
    if (!address || !recording_address(address, end->address, version) ||
        !number_of(object, port, &number) || number > 0xffff)
        return false;
    end->port = (uint16_t)number;
    return true;
}

static int read_flow(struct event *event)
{
    struct replay_record *record = &event->record;
    static const struct {
        const char *name;
        uint8_t number;
    } protocols[] = {{"tcp", 6}, {"udp", 17}, {"icmp", 1}, {"icmpv6", 58}};
    int result = read_actor(event);
    if (result != TAKEN)
        return result;
    const char *protocol = text_of(event->object, "Protocol");
    uint8_t other = 0;
    record->type = REPLAY_FLOW;
    record->initiated = is_true(event->object, "Initiated");
    for (size_t i = 0; protocol && i < sizeof(protocols) / sizeof(protocols[0]); i++)
        if (strcmp(protocol, protocols[i].name) == 0)
            record->protocol = protocols[i].number;
    if (record->protocol == 0 ||
        !read_endpoint(event->object, "SourceIp", "SourcePort", &record->source,
                       &record->ip_version) ||
        !read_endpoint(event->object, "DestinationIp", "DestinationPort", &record->destination,
                       &other) ||
        other != record->ip_version)
        return REPLAY_SKIP_FIELD;
    return TAKEN;
}

static int read_driver_load(struct event *event)
{
    const char *path = text_of(event->object, "ImageLoaded");
    event->record.type = REPLAY_DRIVER_LOAD;
    if (!path)
        return REPLAY_SKIP_FIELD;
    event->record.path = recording_path(event->recording, path);
    return TAKEN;
}

static int read_image_load(struct event *event)
{
    const char *path = text_of(event->object, "ImageLoaded");
    int result = read_actor(event);
    event->record.type = REPLAY_IMAGE_LOAD;
    if (result != TAKEN)
        return result;
    if (!path)
        return REPLAY_SKIP_FIELD;
    event->record.path = recording_path(event->recording, path);
    return TAKEN;
}

static int read_remote_thread(struct event *event)
{
    struct recording *recording = event->recording;
    struct replay_machine *machine = event->machine;
    struct replay_record *record = &event->record;
    uint64_t tid = 0;
    record->type = REPLAY_THREAD_REMOTE;
    record->process =
        process_of(recording, machine, event->object, "SourceProcessGuid", "SourceProcessId");
    record->other =
        process_of(recording, machine, event->object, "TargetProcessGuid", "TargetProcessId");
    if (record->process == REPLAY_NONE)
        return why_none(event->object, "SourceProcessGuid", "SourceProcessId");
    if (record->other == REPLAY_NONE)
        return why_none(event->object, "TargetProcessGuid", "TargetProcessId");
    name_image(recording, &machine->processes[record->process],
               text_of(event->object, "SourceImage"));
    name_image(recording, &machine->processes[record->other],
               text_of(event->object, "TargetImage"));
    if (!number_of(event->object, "NewThreadId", &tid) || tid == 0 || tid > REPLAY_MAX_TID)
        return REPLAY_SKIP_FIELD;
    if (tid <= SYSTEM_TID_MAX)
        return REPLAY_SKIP_IMPOSSIBLE; /* the first thread of the system runs for ever */
    if (tid > machine->max_tid)
        machine->max_tid = (uint32_t)tid;
    record->tid = (uint32_t)tid;
    (void)number_of(event->object, "StartAddress", &record->address);
    return TAKEN;
}

/* Event 12 says by EventType which of three operations it was; some recordings lost it. */
static int read_key_event(struct event *event)
{
    const char *operation = text_of(event->object, "EventType");
    const char *target = string_of(event->object, "TargetObject");
    struct replay_record *record = &event->record;
    int result = read_actor(event);
    if (result != TAKEN)
        return result;
    if (operation && strcmp(operation, "CreateKey") == 0)
        record->type = REPLAY_KEY_CREATE;
    else if (operation && strcmp(operation, "DeleteKey") == 0)
        record->type = REPLAY_KEY_DELETE;
    else if (operation && strcmp(operation, "DeleteValue") == 0)
        record->type = REPLAY_VALUE_DELETE;
    else
        return REPLAY_SKIP_OPERATION;
    if (!target)
        return REPLAY_SKIP_FIELD;
    if (record->type == REPLAY_VALUE_DELETE)
        return recording_value(event->recording, target, &record->path, &record->name)
                   ? TAKEN
                   : REPLAY_SKIP_FIELD;
    record->path = recording_key(event->recording, target);
    return record->path.count ? TAKEN : REPLAY_SKIP_FIELD;
}

static int read_value_set(struct event *event)
{
    const char *target = string_of(event->object, "TargetObject");
    const char *details = string_of(event->object, "Details");
    struct replay_record *record = &event->record;
    int result = read_actor(event);
    record->type = REPLAY_VALUE_SET;
    if (result != TAKEN)
        return result;
    if (!target || !details ||
        !recording_value(event->recording, target, &record->path, &record->name) ||
        !recording_data(event->recording, details, &record->value_type, &record->data,
                        &record->data_size))
        return REPLAY_SKIP_FIELD;
    return TAKEN;
}

/* NewName is the whole new path; the kernel is given the last part. */
static int read_rename(struct event *event)
{
    const char *target = string_of(event->object, "TargetObject");
    const char *name = text_of(event->object, "NewName");
    struct replay_record *record = &event->record;
    int result = read_actor(event);
    record->type = REPLAY_KEY_RENAME;
    if (result != TAKEN)
        return result;
    if (!target || !name)
        return REPLAY_SKIP_FIELD;
    const char *last = strrchr(name, '\\');
    record->path = recording_key(event->recording, target);
    record->name = recording_utf16(event->recording, last ? last + 1 : name);
    return record->path.count && record->name.count ? TAKEN : REPLAY_SKIP_FIELD;
}

static const struct {
    unsigned id;
    int (*read)(struct event *event);
} readers[] = {
    {1, read_process_create}, {3, read_flow},       {5, read_process_exit},
    {6, read_driver_load},    {7, read_image_load}, {8, read_remote_thread},
    {12, read_key_event},     {13, read_value_set}, {14, read_rename},
};

static int take_event(struct recording *recording, const json_t *object, uint64_t id, uint64_t line)
{
    int (*read)(struct event *) = NULL;
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
        if (readers[i].id == id)
            read = readers[i].read;
    if (!read)
        return REPLAY_SKIP_EVENT;
    const char *host = text_of(object, "Hostname");
    const char *time = text_of(object, "UtcTime");
    if (!host)
        return REPLAY_SKIP_FIELD;
    if (recording->host && strcmp(recording->host, host) != 0)
        return REPLAY_SKIP_HOST;
    if (strlen(host) > REPLAY_MAX_HOST_BYTES)
        return REPLAY_SKIP_FIELD;
    struct event event = {.recording = recording, .object = object};
    event.record.process = event.record.other = REPLAY_NONE;
    event.record.line = line;
    event.machine = machine_of(recording, host);
    if (!event.machine)
        return REPLAY_SKIP_LIMIT;
    if (!time || !recording_time(time, &event.record.time))
        return REPLAY_SKIP_FIELD;
    struct replay_machine *machine = event.machine;
    void *items = machine->records;
    bool grown =
        machine->count < REPLAY_MAX_RECORDS &&
        recording_grow(&items, &machine->capacity, machine->count + 1, sizeof(*machine->records));
    machine->records = items;
    if (!grown) {
        recording->out_of_memory = true;
        return REPLAY_SKIP_FIELD;
    }
    int result = read(&event);
    if (result == TAKEN)
        machine->records[machine->count++] = event.record;
    return result;
}

void recording_line(struct recording *recording, const char *text, size_t size, uint64_t line)
{
    json_error_t error;
    json_t *object = json_loadb(text, size, JSON_ALLOW_NUL, &error);
    int result = REPLAY_SKIP_NOT_JSON;
    uint64_t id;
    recording->read++;
    if (json_is_object(object)) {
        const char *source = text_of(object, "SourceName");
        if (!source || strcmp(source, SYSMON) != 0)
            result = REPLAY_SKIP_CHANNEL;
        else if (!number_of(object, "EventID", &id))
            result = REPLAY_SKIP_FIELD;
        else
            result = take_event(recording, object, id, line);
        if (result == TAKEN) {
            recording->taken++;
            recording->by_event[id & 0xff]++;
        }
    }
    if (result != TAKEN)
        recording->skipped[result]++;
    json_decref(object);
}

/* ---- files ---- */

/* Lines out of pieces. */
struct splitter {
    char *line;
    size_t used, capacity;
    uint64_t number;
    bool too_long;
    uint64_t skipped; /* bytes of a line that is too long */
};

static void end_line(struct recording *recording, struct splitter *splitter)
{
    splitter->number++;
    if (splitter->too_long) {
        recording->read++;
        recording->skipped[REPLAY_SKIP_NOT_JSON]++;
    } else if (splitter->used > 0) {
        /* Windows tools put a byte order mark in front. */
        bool mark = splitter->number == 1 && splitter->used > 3 &&
                    memcmp(splitter->line, "\xef\xbb\xbf", 3) == 0;
        size_t skip = mark ? 3 : 0;
        recording_line(recording, splitter->line + skip, splitter->used - skip, splitter->number);
    }
    splitter->used = 0;
    splitter->too_long = false;
    splitter->skipped = 0;
}

static bool split(struct recording *recording, struct splitter *splitter, const char *bytes,
                  size_t size)
{
    while (size > 0) {
        const char *end = memchr(bytes, '\n', size);
        size_t part = end ? (size_t)(end - bytes) : size;
        void *items = splitter->line;
        if (splitter->used + part > REPLAY_MAX_LINE)
            splitter->too_long = true;
        if (splitter->too_long && (splitter->skipped += part) > REPLAY_MAX_SKIP)
            return false;
        if (!splitter->too_long && part > 0) {
            if (!recording_grow(&items, &splitter->capacity, splitter->used + part, 1))
                return false;
            splitter->line = items;
            memcpy(splitter->line + splitter->used, bytes, part);
            splitter->used += part;
        }
        if (end)
            end_line(recording, splitter);
        bytes += part + (end != NULL);
        size -= part + (end != NULL);
    }
    return true;
}

/* macOS puts its own notes into archives. */
static bool is_recording(struct archive_entry *entry)
{
    const char *name = archive_entry_pathname(entry);
    if (!name || archive_entry_filetype(entry) == AE_IFDIR)
        return false;
    const char *base = strrchr(name, '/');
    return strncmp(name, "__MACOSX/", 9) != 0 && strncmp(base ? base + 1 : name, "._", 2) != 0;
}

static bool read_entry(struct recording *recording, struct archive *archive, char *buffer)
{
    struct splitter splitter = {0};
    bool good = true;
    while (good && !recording->out_of_memory) {
        la_ssize_t got = archive_read_data(archive, buffer, READ_BYTES);
        if (got <= 0) {
            good = got == 0;
            break;
        }
        good = split(recording, &splitter, buffer, (size_t)got);
        if (!good && splitter.too_long)
            archive_set_error(archive, EFBIG, "a line without end: these are no JSON lines");
    }
    if (good && (splitter.used > 0 || splitter.too_long))
        end_line(recording, &splitter);
    free(splitter.line);
    return good && !recording->out_of_memory;
}

static bool read_entries(struct recording *recording, struct archive *archive, const char *path,
                         char *buffer)
{
    if (archive_read_open_filename(archive, path, READ_BYTES) != ARCHIVE_OK)
        return false;
    for (;;) {
        struct archive_entry *entry;
        int result = archive_read_next_header(archive, &entry);
        if (result == ARCHIVE_EOF)
            return true;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
            return false;
        if (is_recording(entry) && !read_entry(recording, archive, buffer))
            return false;
    }
}

bool recording_read(struct recording *recording, const char *path, FILE *messages)
{
    struct archive *archive = archive_read_new();
    char *buffer = malloc(READ_BYTES);
    bool good = false;
    if (archive && buffer) {
        /* No others: some of them run programs. */
        (void)archive_read_support_filter_gzip(archive);
        (void)archive_read_support_format_zip(archive);
        /* Plain and .gz: what is no .zip is taken as it is. */
        (void)archive_read_support_format_raw(archive);
        (void)archive_read_support_format_empty(archive);
        good = read_entries(recording, archive, path, buffer);
        if (!good && archive_errno(archive) != 0)
            (void)fprintf(messages, "kda-sim: %s: %s\n", path, archive_error_string(archive));
        else if (!good)
            (void)fprintf(messages, "kda-sim: %s: out of memory\n", path);
    }
    if (archive)
        (void)archive_read_free(archive);
    free(buffer);
    return good;
}
