#include "control.h"

#include <stdlib.h>
#include <string.h>

#include "kda_ioctl.h"
#include "kda_jsonl.h"
#include "kda_settings.h"

_Static_assert(CONTROL_KINDS == KDA_CONTROL_KINDS, "kinds");
_Static_assert(CONTROL_MAX_RULES == KDA_SETTINGS_MAX_RULES, "rules");
_Static_assert(CONTROL_RULE_MAX == KDA_STRING_MAX_UNITS, "rules");

const char control_service[] = "kdamonitor";
const char control_device[] = "\\\\.\\KDAMonitor";

/* ---- requests ---- */

static uint32_t ask(const struct host_ops *host, uint32_t code, const void *in, size_t in_size,
                    void *out, size_t out_size)
{
    const struct kda_control *head = out;
    size_t returned = 0;
    uint32_t error =
        host->device_control(host->context, code, in, in_size, out, out_size, &returned);
    if (error != HOST_OK)
        return error;
    if (returned != out_size || head->version != KDA_CONTROL_VERSION || head->size != out_size)
        return CONTROL_BAD_ANSWER;
    return HOST_OK;
}

uint32_t control_get_version(const struct host_ops *host, struct control_version *version)
{
    struct kda_control_version answer = {.head = {0, 0}};
    uint32_t error = ask(host, KDA_IOCTL_VERSION, NULL, 0, &answer, sizeof(answer));
    if (error == HOST_OK)
        *version =
            (struct control_version){answer.schema, answer.major, answer.minor, answer.patch};
    return error;
}

bool control_schema_known(const struct control_version *version)
{
    return version->schema == KDA_SCHEMA_VERSION;
}

/* A GUID in memory order: three little-endian numbers, then bytes. */
static void put_guid(const uint64_t words[2], char *out)
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[16];
    memcpy(bytes, words, sizeof(bytes));
    char *at = out;
    *at++ = '{';
    for (size_t i = 0; i < sizeof(order); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = digits[bytes[order[i]] >> 4];
        *at++ = digits[bytes[order[i]] & 15];
    }
    *at++ = '}';
    *at = '\0';
}

uint32_t control_get_status(const struct host_ops *host, struct control_status *status)
{
    struct kda_control_status answer = {.head = {0, 0}};
    uint32_t error = ask(host, KDA_IOCTL_STATUS, NULL, 0, &answer, sizeof(answer));
    if (error != HOST_OK)
        return error;
    put_guid(answer.log, status->log);
    status->next_id = answer.next_id;
    status->queued = answer.queued;
    status->file_bytes = answer.file_bytes;
    status->kinds = answer.kinds;
    status->write_status = (uint32_t)answer.write_status;
    status->writing = answer.writing == 1;
    status->readers = answer.readers;
    status->file_number = answer.file_number;
    for (size_t i = 0; i < CONTROL_KINDS; i++)
        status->kind[i] = (struct control_counts){answer.offered[i], answer.written[i],
                                                  answer.lost[i], answer.filtered[i]};
    return HOST_OK;
}

/* Text of a fixed size, NUL or not, that somebody else wrote: only what can be printed. */
static void put_text(char to[CONTROL_TEXT], const char *from, size_t size)
{
    size_t i = 0;
    for (; i < size && i + 1 < CONTROL_TEXT && from[i] != '\0'; i++)
        to[i] = from[i] >= ' ' && from[i] < 0x7f ? from[i] : '?';
    to[i] = '\0';
}

static const char *state_name(uint32_t state)
{
    static const char *const names[] = {
        [KDA_SENSOR_OFF] = "off", [KDA_SENSOR_ARMED] = "armed", [KDA_SENSOR_DEGRADED] = "degraded"};
    return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static void put_sensor(const struct kda_control_sensor *from, struct control_sensor *to)
{
    put_text(to->name, from->name, sizeof(from->name));
    put_text(to->cause.place, from->place, sizeof(from->place));
    put_text(to->cause.call, from->call, sizeof(from->call));
    to->cause.status = (uint32_t)from->status;
    to->state = state_name(from->state);
    to->troubled = to->cause.call[0] != '\0';
    to->since = from->since;
}

static void put_failure(const struct kda_control_failure *from, struct control_failure *to)
{
    put_text(to->place, from->place, sizeof(from->place));
    put_text(to->call, from->call, sizeof(from->call));
    to->status = (uint32_t)from->status;
    to->count = from->count;
    to->first = from->first;
    to->last = from->last;
}

void control_time(uint64_t time, char text[CONTROL_TIME_TEXT])
{
    _Static_assert(CONTROL_TIME_TEXT > KDA_TIME_BYTES, "room for a time");
    text[kda_jsonl_time(time, text)] = '\0';
}

uint32_t control_get_troubles(const struct host_ops *host, struct control_troubles *troubles)
{
    struct kda_control_troubles answer = {.head = {0, 0}};
    uint32_t error = ask(host, KDA_IOCTL_TROUBLES, NULL, 0, &answer, sizeof(answer));
    if (error != HOST_OK)
        return error;
    if (answer.sensor_count > CONTROL_SENSORS || answer.failure_count > CONTROL_FAILURES)
        return CONTROL_BAD_ANSWER;
    troubles->total = answer.total;
    troubles->sensor_count = answer.sensor_count;
    troubles->failure_count = answer.failure_count;
    for (size_t i = 0; i < answer.sensor_count; i++)
        put_sensor(&answer.sensors[i], &troubles->sensors[i]);
    for (size_t i = 0; i < answer.failure_count; i++)
        put_failure(&answer.failures[i], &troubles->failures[i]);
    return HOST_OK;
}

uint32_t control_set_kinds(const struct host_ops *host, uint64_t enable, uint64_t disable,
                           uint64_t *on)
{
    const struct kda_control_kinds request = {
        {KDA_CONTROL_VERSION, sizeof(struct kda_control_kinds)}, enable, disable};
    struct kda_control_kinds answer = {.head = {0, 0}};
    uint32_t error = ask(host, KDA_IOCTL_KINDS, &request, sizeof(request), &answer, sizeof(answer));
    if (error == HOST_OK)
        *on = answer.enable;
    return error;
}

/* ---- kinds ---- */

uint64_t control_kinds(void)
{
    return KDA_SETTINGS_KINDS;
}

uint64_t control_default_kinds(void)
{
    return KDA_SETTINGS_DEFAULT_KINDS;
}

static bool kind_matches(const char *pattern, size_t size, const char *name)
{
    if (size == 0 || pattern[size - 1] != '*')
        return strlen(name) == size && memcmp(name, pattern, size) == 0;
    return strncmp(name, pattern, size - 1) == 0;
}

uint64_t control_parse_kinds(const char *text, size_t size)
{
    uint64_t all = 0;
    for (size_t at = 0; at < size;) {
        const char *comma = memchr(text + at, ',', size - at);
        size_t length = comma ? (size_t)(comma - (text + at)) : size - at;
        uint64_t found = 0;
        for (unsigned kind = 1; kind < KDA_KIND_COUNT; kind++)
            if ((control_kinds() >> kind & 1) &&
                kind_matches(text + at, length, kda_kinds[kind].name))
                found |= (uint64_t)1 << kind;
        if (found == 0)
            return 0;
        all |= found;
        at += length + (comma ? 1 : 0);
    }
    return all;
}

/* ---- rules: the grammar of driver/settings_text.c, which a test compares ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The next word, a part in quotes may hold spaces. False: there is none, or (*word NULL) a quote
 * does not end. */
static bool next_word(const char **rest, const char **word, size_t *size)
{
    const char *at = *rest;
    bool quoted = false;
    while (is_blank(*at))
        at++;
    *word = at;
    for (; *at && (quoted || !is_blank(*at)); at++)
        quoted = *at == '"' ? !quoted : quoted;
    *rest = at;
    *size = (size_t)(at - *word);
    if (quoted)
        *word = NULL;
    return !quoted && *size > 0;
}

static bool is_word(const char *word, size_t size, const char *text)
{
    return strlen(text) == size && memcmp(word, text, size) == 0;
}

static bool is_pid(const char *text, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
        if (value >= UINT32_MAX)
            return false;
    }
    return size > 0;
}

static const char *condition_problem(const char *word, size_t size)
{
    static const char *const names[] = {"kind", "pid", "image", "key", "module"};
    const char *equal = memchr(word, '=', size);
    size_t name = equal ? (size_t)(equal - word) : 0, which = 0;
    while (which < 5 && !(equal && is_word(word, name, names[which])))
        which++;
    if (which == 5)
        return "unknown condition";
    const char *value = equal + 1;
    size_t length = size - name - 1;
    if (length >= 2 && value[0] == '"' && value[length - 1] == '"') {
        value++;
        length -= 2;
    }
    if (which == 0)
        return control_parse_kinds(value, length) ? NULL : "unknown kind";
    if (which == 1)
        return is_pid(value, length) ? NULL : "pid is no number";
    return length > 0 ? NULL : "an empty condition";
}

/* Units of UTF-16 that a text will have. */
static size_t units_of(const char *text)
{
    size_t units = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        units += (*p & 0xc0) == 0x80 ? 0 : *p >= 0xf0 ? 2 : 1;
    return units;
}

const char *control_rule_problem(const char *rule)
{
    const char *rest = rule, *word;
    size_t size;
    if (units_of(rule) > CONTROL_RULE_MAX)
        return "longer than a string can be";
    if (!next_word(&rest, &word, &size) ||
        (!is_word(word, size, "include") && !is_word(word, size, "exclude")))
        return "begins with neither include nor exclude";
    while (next_word(&rest, &word, &size)) {
        const char *problem = condition_problem(word, size);
        if (problem)
            return problem;
    }
    return word ? NULL : "a quote does not end";
}

char *control_join_rule(char *const *words, size_t count)
{
    size_t size = 1;
    for (size_t i = 0; i < count; i++)
        size += strlen(words[i]) + 3;
    char *rule = malloc(size), *at = rule;
    for (size_t i = 0; rule && i < count; i++) {
        const char *word = words[i], *equal = strchr(word, '=');
        /* A shell takes quotes away: image=\Program Files\x was one word. */
        bool quote = count > 1 && equal && strpbrk(equal, " \t") && !strchr(word, '"');
        if (i > 0)
            *at++ = ' ';
        size_t head = quote ? (size_t)(equal - word) + 1 : 0;
        memcpy(at, word, head);
        at += head;
        if (quote)
            *at++ = '"';
        size_t tail = strlen(word) - head;
        memcpy(at, word + head, tail);
        at += tail;
        if (quote)
            *at++ = '"';
    }
    if (rule)
        *at = '\0';
    return rule;
}

const char *control_default_rule(size_t index)
{
#define R(text) text,
    static const char *const rules[] = {KDA_SETTINGS_DEFAULT_RULES(R)};
#undef R
    return index < sizeof(rules) / sizeof(rules[0]) ? rules[index] : NULL;
}

void host_texts_free(struct host_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free(texts->items[i]);
    free(texts->items);
    *texts = (struct host_texts){NULL, 0};
}
