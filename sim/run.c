/*
 * run.c - a machine with the driver on it.
 */
#define _POSIX_C_SOURCE 200809L

#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "driver_entry.h"

bool run_make_folder(const char *path)
{
    char part[4096];
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof(part))
        return false;
    memcpy(part, path, size + 1);
    for (size_t i = 1; i <= size; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
        part[i] = kept;
    }
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

void run_sleep(double seconds)
{
    struct timespec rest;
    if (seconds <= 0)
        return;
    rest.tv_sec = (time_t)seconds;
    rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

double run_seconds(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0.0;
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- texts ---- */

struct units {
    uint16_t *at;
    size_t count, capacity;
};

#define UNITS_MAX 65536u

static bool add_unit(struct units *units, uint32_t unit)
{
    if (units->count == UNITS_MAX)
        return false;
    if (units->count == units->capacity) {
        size_t capacity = units->capacity ? units->capacity * 2 : 64;
        uint16_t *grown = realloc(units->at, capacity * sizeof(*grown));
        if (!grown)
            return false;
        units->at = grown;
        units->capacity = capacity;
    }
    units->at[units->count++] = (uint16_t)unit;
    return true;
}

static bool add_character(struct units *units, uint32_t c)
{
    if (c < 0x10000)
        return add_unit(units, c);
    return add_unit(units, 0xd800 + ((c - 0x10000) >> 10)) &&
           add_unit(units, 0xdc00 + ((c - 0x10000) & 0x3ff));
}

/* Bytes of the character at `text`; invalid UTF-8 counts as U+FFFD, byte by byte. */
static size_t take_character(const char *text, size_t left, uint32_t *c)
{
    unsigned char first = (unsigned char)text[0];
    size_t size = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
    if (size == 1) {
        *c = first;
        return 1;
    }
    *c = 0xfffd;
    if (size == 0 || size > left)
        return 1;
    uint32_t value = first & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 1;
        value = value << 6 | ((unsigned char)text[i] & 0x3fu);
    }
    *c = value <= 0x10ffff ? value : 0xfffd;
    return size;
}

/* Inside the braces: "x*N" or "u+XXXX". */
static bool add_braces(struct units *units, const char *text, size_t size)
{
    char number[12];
    char *end;
    uint32_t c;
    bool unit = size > 2 && text[0] == 'u' && text[1] == '+';
    size_t skip = unit ? 2 : take_character(text, size, &c);
    if (!unit && (skip >= size || text[skip] != '*'))
        return false;
    skip += !unit;
    if (size - skip == 0 || size - skip >= sizeof(number))
        return false;
    memcpy(number, text + skip, size - skip);
    number[size - skip] = '\0';
    unsigned long value = strtoul(number, &end, unit ? 16 : 10);
    if (*end != '\0' || value > (unit ? 0xfffful : UNITS_MAX))
        return false;
    if (unit)
        return add_unit(units, (uint32_t)value);
    for (unsigned long i = 0; i < value; i++)
        if (!add_character(units, c))
            return false;
    return true;
}

bool run_text(const char *text, size_t size, uint16_t **units, size_t *count)
{
    struct units out = {0};
    bool good = true;
    for (size_t i = 0; good && i < size;) {
        const char *close = text[i] == '{' ? memchr(text + i, '}', size - i) : NULL;
        if (close && close[-1] != '{' &&
            memchr(text + i, text[i + 1] == 'u' ? '+' : '*', (size_t)(close - text) - i)) {
            size_t end = (size_t)(close - text);
            good = add_braces(&out, text + i + 1, end - i - 1);
            i = end + 1;
            continue;
        }
        uint32_t c;
        i += take_character(text + i, size - i, &c);
        good = add_character(&out, c);
    }
    /* One more, so that there is memory even for an empty text, and room for a terminator. */
    good = good && add_unit(&out, 0);
    if (!good) {
        free(out.at);
        return false;
    }
    *units = out.at;
    *count = out.count - 1;
    return true;
}

/* ---- the machine ---- */

static bool set_one(const char *setting)
{
    const char *equals = strchr(setting, '=');
    uint16_t *name = NULL, *value = NULL;
    size_t name_count = 0, value_count = 0;
    bool good = equals && equals != setting &&
                run_text(setting, (size_t)(equals - setting), &name, &name_count) &&
                run_text(equals + 1, strlen(equals + 1), &value, &value_count) &&
                name_count <= SIM_MAX_UNITS && value_count <= SIM_MAX_UNITS;
    if (good) {
        char *end;
        unsigned long number = strtoul(equals + 1, &end, 0);
        struct sim_str key = {name, name_count};
        if (*end == '\0' && end != equals + 1 && number <= UINT32_MAX)
            sim_settings_set_dword(key, (uint32_t)number);
        else
            sim_settings_set_string(key, (struct sim_str){value, value_count});
    } else {
        (void)fprintf(stderr, "kda-sim: a setting is NAME=VALUE, not '%.80s'\n", setting);
    }
    free(name);
    free(value);
    return good;
}

/* Logs of two runs have the same id and belong into two folders. */
static bool has_log(const char *folder)
{
    char path[4096];
    int size = snprintf(path, sizeof(path), "%s/log", folder);
    DIR *listing = size > 0 && (size_t)size < sizeof(path) ? opendir(path) : NULL;
    const struct dirent *entry;
    bool found = false;
    while (listing && !found && (entry = readdir(listing)) != NULL)
        found = strstr(entry->d_name, ".jsonl") != NULL;
    if (listing)
        (void)closedir(listing);
    return found;
}

bool run_boot(const struct run_options *options, const char *folder, const char *host, uint64_t utc)
{
    struct sim_options machine = {
        .cpus = options->threads > 4 ? options->threads : 4,
        .utc = utc,
        .clock = options->running_clock ? SIM_CLOCK_HOST : SIM_CLOCK_MANUAL,
        .disk = folder,
    };
    if (!run_make_folder(folder)) {
        (void)fprintf(stderr, "kda-sim: cannot create folder '%s'\n", folder);
        return false;
    }
    if (has_log(folder)) {
        (void)fprintf(stderr, "kda-sim: there is a log in '%s/log' already\n", folder);
        return false;
    }
    uint16_t *name = NULL;
    size_t count = 0;
    bool good = run_text(host, strlen(host), &name, &count);
    machine.host = (struct sim_str){name, count};
    good = good && sim_boot(&machine);
    free(name);
    if (!good)
        (void)fprintf(stderr, "kda-sim: the machine does not start\n");
    return good;
}

bool run_load(const struct run_options *options)
{
    sim_settings_set_string(SIM_STR(u"LogDirectory"), SIM_STR(u"\\??\\C:\\log"));
    for (size_t i = 0; i < options->setting_count; i++)
        if (!set_one(options->settings[i]))
            return false;
    int32_t status = sim_driver_load(DriverEntry);
    if (status >= 0)
        return true;
    (void)fprintf(stderr, "kda-sim: the driver does not load: 0x%08x\n", (unsigned)status);
    return false;
}

bool run_begin(const struct run_options *options, const char *folder, const char *host,
               uint64_t utc, void (*before)(void *context), void *context)
{
    if (!run_boot(options, folder, host, utc))
        return false;
    if (before)
        before(context);
    if (run_load(options))
        return true;
    sim_shutdown_machine();
    return false;
}

bool run_end(void)
{
    int32_t status = sim_driver_unload();
    bool good = status == 0 && sim_ledger_check() == 0;
    if (status != 0)
        (void)fprintf(stderr, "kda-sim: the driver does not unload: 0x%08x\n", (unsigned)status);
    if (sim_disk_refuses()) {
        (void)fprintf(stderr, "kda-sim: the log in '%s' is not whole: it could not be written\n",
                      sim_disk());
        good = false;
    }
    sim_shutdown_machine();
    return good;
}
