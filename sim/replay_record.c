/*
 * replay_record.c - fields of a recorded event in the forms that the kernel has.
 *
 * Source: Sysmon's own output (schema 4.30 to 4.82) as the recordings show it; forms of registry
 * data and the names of registry roots are those that Sysmon prints.
 */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)1 << 20)
#define UNITS_PER_SECOND UINT64_C(10000000)
#define SECONDS_1601_TO_1970 UINT64_C(11644473600)

#define REG_SZ_TYPE 1u
#define REG_BINARY_TYPE 3u
#define REG_DWORD_TYPE 4u
#define REG_QWORD_TYPE 11u

struct replay_block {
    struct replay_block *next;
    size_t used, size;
    uint64_t bytes[];
};

void recording_init(struct recording *recording, const char *host)
{
    memset(recording, 0, sizeof(*recording));
    recording->host = host;
}

void recording_deinit(struct recording *recording)
{
    for (size_t i = 0; i < recording->count; i++) {
        struct replay_machine *machine = &recording->machines[i];
        for (size_t u = 0; u < machine->user_count; u++)
            free(machine->users[u]);
        free(machine->users);
        free(machine->records);
        free(machine->processes);
        free(machine->by_pid);
        free(machine->own);
    }
    free(recording->machines);
    while (recording->blocks) {
        struct replay_block *block = recording->blocks;
        recording->blocks = block->next;
        free(block);
    }
    memset(recording, 0, sizeof(*recording));
}

void *recording_alloc(struct recording *recording, size_t size)
{
    struct replay_block *block = recording->blocks;
    size = (size + 7) & ~(size_t)7;
    if (!block || block->size - block->used < size) {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = malloc(sizeof(*block) + room);
        if (!block) {
            recording->out_of_memory = true;
            return NULL;
        }
        block->next = recording->blocks;
        block->used = 0;
        block->size = room;
        recording->blocks = block;
    }
    void *at = (char *)block->bytes + block->used;
    block->used += size;
    return at;
}

bool recording_grow(void **items, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    size_t room = *capacity ? *capacity * 2 : 16;
    if (room < need)
        room = need;
    void *grown = room <= SIZE_MAX / size ? realloc(*items, room * size) : NULL;
    if (!grown)
        return false;
    *items = grown;
    *capacity = room;
    return true;
}

/* ---- text ---- */

/* One character of valid UTF-8. */
static size_t take_utf8(const unsigned char *text, uint32_t *c)
{
    if (text[0] < 0x80) {
        *c = text[0];
        return 1;
    }
    size_t size = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    uint32_t value = text[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80) { /* ends before it should */
            *c = 0xfffd;
            return i;
        }
        value = value << 6 | (text[i] & 0x3fu);
    }
    *c = value;
    return size;
}

/* `before` is put in front of `text`. Strings end at what a UNICODE_STRING can hold. */
static struct sim_str join_utf16(struct recording *recording, const char *before, const char *text)
{
    const char *parts[] = {before, text};
    size_t size = strlen(before) + strlen(text);
    uint16_t *units = recording_alloc(recording, (size + 1) * sizeof(*units));
    struct sim_str string = {units, 0};
    for (size_t p = 0; units && p < 2; p++) {
        const unsigned char *at = (const unsigned char *)parts[p];
        while (*at && string.count < 32766) {
            uint32_t c;
            at += take_utf8(at, &c);
            if (c >= 0x10000) {
                units[string.count++] = (uint16_t)(0xd800 + ((c - 0x10000) >> 10));
                units[string.count++] = (uint16_t)(0xdc00 + ((c - 0x10000) & 0x3ff));
            } else {
                units[string.count++] = (uint16_t)c;
            }
        }
    }
    return string;
}

struct sim_str recording_utf16(struct recording *recording, const char *text)
{
    return join_utf16(recording, "", text);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool starts(const char *text, const char *start)
{
    for (; *start; start++, text++)
        if (lower(*text) != lower(*start))
            return false;
    return true;
}

static bool is_drive(const char *text)
{
    return lower(text[0]) >= 'a' && lower(text[0]) <= 'z' && text[1] == ':' && text[2] == '\\';
}

struct sim_str recording_path(struct recording *recording, const char *text)
{
    char volume[] = "\\Device\\HarddiskVolume3";
    if (!is_drive(text))
        return recording_utf16(recording, text);
    /* C: is volume 3, as on most machines; the other letters follow it. */
    unsigned letter = (unsigned)(lower(text[0]) - 'a');
    if (letter >= 2 && letter <= 8) {
        volume[sizeof(volume) - 2] = (char)('1' + letter);
        return join_utf16(recording, volume, text + 2);
    }
    return join_utf16(recording, "\\??\\", text);
}

struct sim_str recording_key(struct recording *recording, const char *text)
{
    static const struct {
        const char *shown, *real;
    } roots[] = {
        {"HKLM", "\\REGISTRY\\MACHINE"},
        {"HKU", "\\REGISTRY\\USER"},
        {"HKCR", "\\REGISTRY\\MACHINE\\SOFTWARE\\Classes"},
    };
    if (starts(text, "\\REGISTRY\\"))
        return recording_utf16(recording, text);
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        size_t size = strlen(roots[i].shown);
        if (starts(text, roots[i].shown) && (text[size] == '\\' || text[size] == '\0'))
            return join_utf16(recording, roots[i].real, text + size);
    }
    return SIM_NO_STR;
}

/* Where the value's name begins; NULL if there is no value in it. */
static const char *value_in(const char *text)
{
    for (const char *at = text; *at; at++) {
        if (at[0] != '\\' || at == text)
            continue;
        if (at[1] == '\\' || (is_drive(at + 1)))
            return at + 1;
    }
    const char *last = strrchr(text, '\\');
    return last && last != text ? last + 1 : NULL;
}

bool recording_value(struct recording *recording, const char *text, struct sim_str *key,
                     struct sim_str *value)
{
    const char *name = value_in(text);
    if (!name)
        return false;
    size_t size = (size_t)(name - text) - 1;
    char *copy = recording_alloc(recording, size + 1);
    if (!copy)
        return false;
    memcpy(copy, text, size);
    copy[size] = '\0';
    *key = recording_key(recording, copy);
    *value = strcmp(name, "(Default)") == 0 ? SIM_NO_STR : recording_utf16(recording, name);
    return key->count > 0;
}

/* ---- numbers ---- */

/* "0x%08x" at *text; moves behind it. */
static bool take_hex32(const char **text, uint32_t *ret)
{
    const char *at = *text;
    uint32_t value = 0;
    if (at[0] != '0' || lower(at[1]) != 'x')
        return false;
    at += 2;
    for (unsigned i = 0; i < 8; i++, at++) {
        char c = lower(*at);
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        value = value << 4 | digit;
    }
    *text = at;
    *ret = value;
    return true;
}

/* Little-endian data of `size` bytes. */
static bool number_data(struct recording *recording, uint64_t number, size_t size,
                        const void **data)
{
    uint8_t *bytes = recording_alloc(recording, size);
    for (size_t i = 0; bytes && i < size; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    *data = bytes;
    return bytes != NULL;
}

/* False: it only looks like a number. */
static bool take_number_data(struct recording *recording, const char *details, uint32_t *type,
                             const void **data, size_t *size)
{
    uint32_t high = 0, low;
    bool wide = strncmp(details, "QWORD (", 7) == 0;
    const char *at = details + 7;
    if (!wide && strncmp(details, "DWORD (", 7) != 0)
        return false;
    if (wide && (!take_hex32(&at, &high) || *at++ != '-'))
        return false;
    if (!take_hex32(&at, &low) || strcmp(at, ")") != 0)
        return false;
    *type = wide ? REG_QWORD_TYPE : REG_DWORD_TYPE;
    *size = wide ? 8 : 4;
    return number_data(recording, (uint64_t)high << 32 | low, *size, data);
}

bool recording_data(struct recording *recording, const char *details, uint32_t *type,
                    const void **data, size_t *size)
{
    if (strcmp(details, "Binary Data") == 0) {
        /* The bytes were not recorded. */
        *type = REG_BINARY_TYPE;
        *data = NULL;
        *size = 0;
        return true;
    }
    if (take_number_data(recording, details, type, data, size))
        return true;
    struct sim_str text = recording_utf16(recording, strcmp(details, "(Empty)") ? details : "");
    if (!text.units)
        return false;
    /* Room for the terminator is part of what recording_utf16 takes. */
    ((uint16_t *)(uintptr_t)text.units)[text.count] = 0;
    *type = REG_SZ_TYPE;
    *data = text.units;
    *size = (text.count + 1) * sizeof(uint16_t);
    return true;
}

/* ---- times ---- */

static bool take_digits(const char **text, unsigned count, unsigned *ret)
{
    unsigned value = 0;
    for (unsigned i = 0; i < count; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        value = value * 10 + (unsigned)(**text - '0');
    }
    *ret = value;
    return true;
}

static uint64_t days_before(unsigned year, unsigned month, unsigned day)
{
    static const unsigned short before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    uint64_t years = year - 1601;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return years * 365 + years / 4 - years / 100 + years / 400 + before[month - 1] +
           (leap && month > 2 ? 1 : 0) + day - 1;
}

bool recording_time(const char *text, uint64_t *ret)
{
    unsigned part[6]; /* year, month, day, hour, minute, second */
    static const char ends[] = "-- ::";
    for (unsigned i = 0; i < 6; i++) {
        if (!take_digits(&text, i == 0 ? 4 : 2, &part[i]))
            return false;
        if (i < 5 && *text != ends[i] && !(i == 2 && *text == 'T'))
            return false;
        text += i < 5;
    }
    /* The log of a recording ends after it: that has to be in a year of four digits too. */
    if (part[0] < 1601 || part[0] > 9998 || part[1] < 1 || part[1] > 12 || part[2] < 1 ||
        part[2] > 31 || part[3] > 23 || part[4] > 59 || part[5] > 59)
        return false;
    uint64_t fraction = 0, scale = UNITS_PER_SECOND;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++) {
            scale /= 10;
            fraction += scale * (unsigned)(*text - '0');
        }
    if (*text == 'Z')
        text++;
    if (*text != '\0')
        return false;
    uint64_t seconds =
        days_before(part[0], part[1], part[2]) * 86400u + part[3] * 3600u + part[4] * 60u + part[5];
    *ret = seconds * UNITS_PER_SECOND + fraction;
    return true;
}

uint64_t recording_guid_time(const char *guid)
{
    /* {machine-low-high-...}: the second and third group are the halves of a Unix time. */
    unsigned value = 0;
    if (strlen(guid) != 38)
        return 0;
    static const unsigned char places[] = {15, 16, 17, 18, 10, 11, 12, 13};
    for (size_t i = 0; i < sizeof(places); i++) {
        char c = lower(guid[places[i]]);
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
        if (digit == 16)
            return 0;
        value = value << 4 | digit;
    }
    return value ? (value + SECONDS_1601_TO_1970) * UNITS_PER_SECOND : 0;
}

/* ---- addresses ---- */

static bool take_v4(const char *text, uint8_t out[4])
{
    for (unsigned i = 0; i < 4; i++) {
        unsigned value = 0, digits = 0;
        for (; *text >= '0' && *text <= '9' && digits < 3; text++, digits++)
            value = value * 10 + (unsigned)(*text - '0');
        if (digits == 0 || value > 255 || *text != (i < 3 ? '.' : '\0'))
            return false;
        out[i] = (uint8_t)value;
        text += i < 3;
    }
    return true;
}

/* Groups of four hex digits with one "::"; a zone behind '%' is dropped. */
static bool take_v6(const char *text, uint8_t out[16])
{
    unsigned groups[8], count = 0, gap = 9;
    if (text[0] == ':' && text[1] == ':') {
        gap = 0;
        text += 2;
    }
    while (*text && *text != '%') {
        unsigned value = 0, digits = 0;
        for (; digits < 5; text++, digits++) {
            char c = lower(*text);
            if (c >= '0' && c <= '9')
                value = value << 4 | (unsigned)(c - '0');
            else if (c >= 'a' && c <= 'f')
                value = value << 4 | (unsigned)(c - 'a' + 10);
            else
                break;
        }
        if (digits == 0 || digits > 4 || count == 8)
            return false;
        groups[count++] = value;
        if (*text == ':' && text[1] == ':' && gap == 9) {
            gap = count;
            text += 2;
        } else if (*text == ':' && text[1] != '\0' && text[1] != ':') {
            text++;
        } else if (*text && *text != '%') {
            return false;
        }
    }
    if (gap == 9 ? count != 8 : count == 8)
        return false;
    memset(out, 0, 16);
    for (unsigned i = 0; i < count; i++) {
        unsigned place = (i < gap ? i : 8 - (count - i)) & 7u; /* as the compiler cannot know */
        out[place * 2] = (uint8_t)(groups[i] >> 8);
        out[place * 2 + 1] = (uint8_t)groups[i];
    }
    return true;
}

bool recording_address(const char *text, uint8_t out[16], uint8_t *version)
{
    memset(out, 0, 16);
    if (take_v4(text, out)) {
        *version = 4;
        return true;
    }
    *version = 6;
    return take_v6(text, out);
}

/* ---- who ---- */

uint32_t recording_integrity(const char *name)
{
    static const struct {
        const char *name;
        uint32_t level;
    } levels[] = {{"Untrusted", 0x0000}, {"Low", 0x1000},       {"AppContainer", 0x1000},
                  {"Medium", 0x2000},    {"High", 0x3000},      {"System", 0x4000},
                  {"Protected", 0x5000}, {"MediumPlus", 0x2100}};
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
        if (strlen(name) == strlen(levels[i].name) && starts(name, levels[i].name))
            return levels[i].level;
    return 0;
}

static void put_sid(struct replay_process *process, uint8_t count, const uint32_t *subs)
{
    process->sid[0] = 1;
    process->sid[1] = count;
    memset(process->sid + 2, 0, 6);
    process->sid[7] = 5; /* NT authority */
    for (size_t i = 0; i < count; i++)
        for (size_t b = 0; b < 4; b++)
            process->sid[8 + 4 * i + b] = (uint8_t)(subs[i] >> (8 * b));
    process->sid_size = 8 + 4 * (size_t)count;
}

/* Place of a name among the users of the machine. */
static bool place_of(struct replay_machine *machine, const char *user, uint32_t *place)
{
    for (size_t i = 0; i < machine->user_count; i++) {
        if (strlen(machine->users[i]) == strlen(user) && starts(machine->users[i], user)) {
            *place = (uint32_t)i;
            return true;
        }
    }
    void *items = machine->users;
    size_t size = strlen(user) + 1;
    char *copy = malloc(size);
    bool grown = recording_grow(&items, &machine->user_capacity, machine->user_count + 1,
                                sizeof(*machine->users));
    machine->users = items;
    if (!copy || !grown) {
        free(copy);
        return false;
    }
    memcpy(copy, user, size);
    *place = (uint32_t)machine->user_count;
    machine->users[machine->user_count++] = copy;
    return true;
}

void recording_sid(struct recording *recording, struct replay_machine *machine, const char *user,
                   struct replay_process *process)
{
    static const struct {
        const char *name;
        uint32_t id;
    } known[] = {{"NT AUTHORITY\\SYSTEM", 18},
                 {"NT AUTHORITY\\LOCAL SERVICE", 19},
                 {"NT AUTHORITY\\NETWORK SERVICE", 20}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(user) == strlen(known[i].name) && starts(user, known[i].name)) {
            put_sid(process, 1, &known[i].id);
            return;
        }
    }
    uint32_t subs[5] = {21, 1, 1, 1, 1000};
    uint32_t place;
    if (!place_of(machine, user, &place)) {
        recording->out_of_memory = true;
        return;
    }
    subs[4] += place;
    put_sid(process, 5, subs);
}
