#include "world.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* --- machine --------------------------------------------------------------------------------- */

void world_begin(const struct sim_options *options)
{
    struct sim_options own = {.hang_ms = 20000};
    const struct sim_process shell = {.pid = WORLD_SHELL,
                                      .parent_pid = 4,
                                      .first_tid = WORLD_SHELL + 4,
                                      .image =
                                          STR("\\Device\\HarddiskVolume3\\Windows\\explorer.exe"),
                                      .command_line = STR("explorer.exe /x"),
                                      .session = 1};
    static const uint8_t user_sid[] = {1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0,    0, 1, 0,
                                       0, 0, 2, 0, 0, 0, 3, 0, 0,  0, 0xE9, 3, 0, 0};
    const struct sim_process user = {
        .pid = WORLD_USER,
        .parent_pid = WORLD_SHELL,
        .first_tid = WORLD_USER + 4,
        .image = STR("\\Device\\HarddiskVolume3\\Program Files\\T\u00e9st\\user.exe"),
        .command_line = STR("\"user.exe\" \u4e2d\u6587"),
        .sid = user_sid,
        .sid_size = sizeof(user_sid),
        .integrity = 0x2000,
        .session = 1};

    if (options)
        own = *options;
    if (!own.hang_ms)
        own.hang_ms = 20000;
    assert_true(sim_boot(&own));
    assert_int_equal(sim_process_existing(&shell, NULL), 0);
    assert_int_equal(sim_process_existing(&user, NULL), 0);
    sim_settings_set_dword(STR("RecordEverything"), 1);
}

void world_load(void)
{
    assert_int_equal(sim_driver_load(DriverEntry), STATUS_SUCCESS);
    sim_settle(); /* the network sensor is armed by a work item */
}

void world_unload(void)
{
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    assert_false(sim_driver_loaded());
    assert_int_equal(sim_ledger_count(), 0);
    world_verify();
}

void world_end(void)
{
    if (sim_driver_loaded())
        world_unload();
    sim_shutdown_machine();
}

/* --- activity -------------------------------------------------------------------------------- */

static void registry_activity(unsigned n)
{
    uint16_t key[] = u"\\REGISTRY\\MACHINE\\SOFTWARE\\Test\\K0";
    const size_t count = sizeof(key) / 2 - 1;
    struct sim_registry op = {.key = {key, count}};
    uint32_t value = n;

    key[count - 1] = (uint16_t)(u'A' + n % 26);
    sim_registry_create_key(&op);
    op.name = STR("Count");
    op.type = REG_DWORD;
    op.data = &value;
    op.size = 4;
    sim_registry_set_value(&op);
    op.refusal = SIM_REFUSE_AFTER;
    sim_registry_set_value(&op);
    op.refusal = SIM_REFUSE_NOT;
    sim_registry_delete_value(&op);
    op.name = STR("Renamed");
    op.refusal = SIM_REFUSE_AFTER_POST;
    sim_registry_rename_key(&op);
    op.refusal = SIM_REFUSE_NOT;
    sim_registry_delete_key(&op);
}

static void network_activity(unsigned n)
{
    struct sim_flow flow = {.version = 4,
                            .protocol = 6,
                            .local = {10, 0, 0, 1},
                            .remote = {192, 0, 2, 7},
                            .local_port = (uint16_t)(40000 + n % 20000),
                            .remote_port = 443,
                            .pid = WORLD_USER};
    uint64_t id;

    sim_net_connect(&flow, &id);
    sim_net_authorize(&flow, false, true, false, id);
    sim_net_close(id);
    sim_set_irql(DISPATCH_LEVEL);
    flow.version = 6;
    flow.local[0] = 0x20;
    flow.local[1] = 1;
    sim_net_accept(&flow, NULL);
    sim_net_listen(&flow);
    sim_set_irql(PASSIVE_LEVEL);
}

void world_activity(unsigned n)
{
    struct sim_process process = {.image =
                                      STR("\\Device\\HarddiskVolume3\\Windows\\System32\\cmd.exe"),
                                  .command_line = STR("cmd.exe /c echo"),
                                  .start_address = 0x7FF600001000};
    const struct sim_image image = {
        .path = STR("\\Device\\HarddiskVolume3\\Windows\\System32\\test.dll"),
        .base = 0x7FFA00000000,
        .size = 0x10000};
    uint32_t pid = 0;
    uint32_t tid = 0;

    sim_enter(WORLD_SHELL, 0);
    if (sim_process_create(&process, &pid) >= 0) {
        sim_enter(pid, 0);
        sim_image_load(&image);
        sim_thread_create(&(struct sim_thread){.start_address = 0x7FFA00000100}, &tid);
        sim_thread_exit(tid, 0);
        registry_activity(n);
        network_activity(n);
        sim_enter(4, 0);
        sim_process_exit(pid, n);
    }
    sim_enter(4, 0);
}

static pthread_t threads[16];
static unsigned thread_count;
static _Atomic bool stopping;
static _Atomic unsigned rounds;

static void *activity_thread(void *unused)
{
    (void)unused;
    while (!stopping)
        world_activity(atomic_fetch_add(&rounds, 1));
    return NULL;
}

void world_start(unsigned count)
{
    stopping = false;
    for (thread_count = 0; thread_count < count; thread_count++)
        assert_int_equal(pthread_create(&threads[thread_count], NULL, activity_thread, NULL), 0);
}

void world_stop(void)
{
    stopping = true;
    while (thread_count > 0)
        pthread_join(threads[--thread_count], NULL);
}

/* --- log ------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct kda_log *open_log(void)
{
    char folder[1024];
    char *paths[4096];
    size_t count = 0;
    DIR *listing;
    const struct dirent *entry;
    struct kda_log *log = NULL;

    snprintf(folder, sizeof(folder), "%s/Windows/KDAMonitor", sim_disk());
    listing = opendir(folder);
    while (listing && (entry = readdir(listing)) != NULL && count < 4096) {
        size_t size = strlen(entry->d_name);
        if (size < 6 || strcmp(entry->d_name + size - 6, ".jsonl") != 0)
            continue;
        paths[count] = malloc(strlen(folder) + size + 2);
        snprintf(paths[count], strlen(folder) + size + 2, "%s/%s", folder, entry->d_name);
        count++;
    }
    if (listing)
        closedir(listing);
    qsort(paths, count, sizeof(paths[0]), by_name);
    if (count > 0)
        assert_int_equal(kda_log_open((const char *const *)paths, count, &log, NULL), KDA_OK);
    while (count > 0)
        free(paths[--count]);
    return log;
}

void world_read(struct world_log *out)
{
    struct kda_log *log = open_log();
    struct kda_log_line *line = calloc(1, sizeof(*line));
    size_t room = 0;

    memset(out, 0, sizeof(*out));
    while (log && kda_log_next(log, line, NULL) == KDA_OK && line->what != KDA_LOG_END) {
        struct world_line *made;
        if (line->what != KDA_LOG_LINE)
            continue;
        if (out->count == room) {
            room = room ? room * 2 : 256;
            out->lines = realloc(out->lines, room * sizeof(out->lines[0]));
        }
        made = &out->lines[out->count++];
        made->kind = line->kind;
        made->id = line->has_id ? line->id : UINT64_MAX;
        made->pid = line->has_pid ? line->pid : UINT64_MAX;
        made->time = line->time;
        made->text = malloc(line->size + 1);
        memcpy(made->text, line->text, line->size);
        made->text[line->size] = 0;
    }
    kda_log_close(log);
    free(line);
}

void world_free(struct world_log *log)
{
    for (size_t i = 0; i < log->count; i++)
        free(log->lines[i].text);
    free(log->lines);
    memset(log, 0, sizeof(*log));
}

static bool holds(const struct world_line *line, unsigned kind, va_list texts)
{
    va_list copy;
    const char *text;
    bool all = line->kind == kind;

    va_copy(copy, texts);
    while (all && (text = va_arg(copy, const char *)) != NULL)
        all = strstr(line->text, text) != NULL;
    va_end(copy);
    return all;
}

static size_t find(const struct world_log *log, const char *kind, va_list texts, const char **first)
{
    unsigned number = kda_log_kind_find(kind, strlen(kind));
    size_t count = 0;

    assert_true(number != 0);
    for (size_t i = 0; i < log->count; i++) {
        if (!holds(&log->lines[i], number, texts))
            continue;
        if (count++ == 0)
            *first = log->lines[i].text;
    }
    return count;
}

size_t world_count(const struct world_log *log, const char *kind, ...)
{
    const char *first = NULL;
    va_list texts;
    size_t count;

    va_start(texts, kind);
    count = find(log, kind, texts, &first);
    va_end(texts);
    return count;
}

const char *world_line(const struct world_log *log, const char *kind, ...)
{
    const char *first = NULL;
    va_list texts;
    size_t count;

    va_start(texts, kind);
    count = find(log, kind, texts, &first);
    va_end(texts);
    if (count != 1) {
        for (size_t i = 0; i < log->count && i < 200; i++)
            fprintf(stderr, "%s\n", log->lines[i].text);
        fail_msg("%zu lines of kind %s in place of 1", count, kind);
    }
    return first;
}

struct sums {
    unsigned logs;
    uint64_t findings;
    uint64_t written;
    uint64_t lost;
};

static void on_finding(void *context, const struct kda_log_finding *finding)
{
    (void)context;
    fprintf(stderr, "%s: %s:%llu: %s\n", finding->check, finding->file ? finding->file : "",
            (unsigned long long)finding->line, finding->text);
}

static void on_verdict(void *context, const struct kda_log_verdict *verdict)
{
    struct sums *sums = context;

    sums->logs++;
    sums->findings += verdict->findings;
    for (unsigned i = 0; i < KDA_LOG_MAX_KINDS; i++) {
        sums->written += verdict->account[i].lines;
        sums->lost += verdict->account[i].lost_lines;
    }
}

static void sum_up(struct sums *sums)
{
    struct kda_log *log = open_log();
    const struct kda_log_listener listener = {
        .finding = on_finding, .verdict = on_verdict, .context = sums};

    memset(sums, 0, sizeof(*sums));
    if (!log)
        return;
    assert_int_equal(kda_log_verify(log, &listener, NULL), KDA_OK);
    kda_log_close(log);
}

unsigned world_verify(void)
{
    struct sums sums;

    sum_up(&sums);
    assert_int_equal(sums.findings, 0);
    return sums.logs;
}

void world_totals(uint64_t *written, uint64_t *lost)
{
    struct sums sums;

    sum_up(&sums);
    *written = sums.written;
    *lost = sums.lost;
}

bool world_wait(const char *kind, const char *text)
{
    uint64_t seen = UINT64_MAX;

    for (int i = 0; i < 400; i++) {
        struct world_log log;
        size_t count = 0;
        if (sim_disk_written() != seen) {
            seen = sim_disk_written();
            world_read(&log);
            count = world_count(&log, kind, text, NULL);
            world_free(&log);
        }
        if (count)
            return true;
        sim_clock_advance(WORLD_SECOND / 10);
        usleep(5000);
    }
    return false;
}
