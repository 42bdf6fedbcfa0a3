/*
 * line.c - one line of a log: its members, the fields every line has, times.
 */
#include "internal.h"

#include <string.h>

#include "json_pull.h"
#include "text.h"

#define UNITS_PER_SECOND UINT64_C(10000000)

static char type_of(enum kda_json_type type)
{
    static const char types[] = {
        [KDA_JSON_STRING] = '"', [KDA_JSON_NUMBER] = '0', [KDA_JSON_TRUE] = 't',
        [KDA_JSON_FALSE] = 'f',  [KDA_JSON_NULL] = 'n',   [KDA_JSON_OBJECT] = '{',
        [KDA_JSON_ARRAY] = '['};
    return types[type];
}

static bool bad(struct kda_log_line *line, const char *problem)
{
    line->what = KDA_LOG_BAD;
    line->problem = problem;
    return false;
}

/* Is the last member's key there before? `seen` has a bit for each length and last character met,
 * so that keys are hardly ever compared. */
static bool is_second(const struct kda_log_line *line, uint64_t *seen)
{
    const struct kda_log_member *last = &line->members[line->member_count - 1];
    unsigned end = last->key_size > 0 ? (unsigned char)last->key[last->key_size - 1] : 0;
    uint64_t bit = UINT64_C(1) << ((last->key_size * 7 + end) & 63);
    bool maybe = (*seen & bit) != 0;
    *seen |= bit;
    for (size_t i = 0; maybe && i + 1 < line->member_count; i++)
        if (line->members[i].key_size == last->key_size &&
            memcmp(line->members[i].key, last->key, last->key_size) == 0)
            return true;
    return false;
}

/* Members of the object in order. Keys beyond the table's end are a line of no known schema, and
 * so is a key that stands twice: readers differ in which of them they believe. */
static bool take_members(struct kda_log_line *line)
{
    uint64_t seen = 0;
    struct kda_json_pull json;
    struct kda_json_token token;
    struct kda_log_member *outer = NULL;
    kda_json_pull_begin(&json, line->text, line->size);
    while (kda_json_pull_next(&json, &token)) {
        if (token.type == KDA_JSON_END)
            return true;
        if (token.type == KDA_JSON_CLOSE) {
            if (token.depth == 1 && outer)
                outer->size = (size_t)(line->text + json.at - outer->value);
            continue;
        }
        if (token.depth != 1)
            continue;
        if (line->member_count == KDA_LOG_MAX_MEMBERS)
            return bad(line, "more members than any kind has");
        outer = &line->members[line->member_count++];
        outer->key = token.key;
        outer->key_size = token.key_size;
        outer->value = token.value;
        outer->size = token.size;
        outer->type = type_of(token.type);
        outer->escaped = token.escaped;
        if (memchr(outer->key, '\\', outer->key_size))
            return bad(line, "the name of a member is written with an escape");
        if (is_second(line, &seen))
            return bad(line, "a member stands twice");
    }
    return bad(line, json.problem);
}

static bool take_number(const struct kda_log_line *line, const char *key, bool *has, uint64_t *ret)
{
    const struct kda_log_member *member = kda_log_find(line, key);
    *has = false;
    if (!member)
        return true;
    if (member->type != '0' || !kda_json_uint(member->value, member->size, ret))
        return false;
    *has = true;
    return true;
}

static bool take_head(struct kda_log_line *line)
{
    bool has_version;
    uint64_t version = 0;
    if (!take_number(line, "v", &has_version, &version) || !has_version)
        return bad(line, "no schema version (\"v\")");
    if (version != KDA_LOG_SCHEMA_VERSION)
        return bad(line, "of a schema version that is not known");
    const struct kda_log_member *kind = kda_log_find(line, "kind");
    if (!kind || kind->type != '"')
        return bad(line, "no kind");
    line->kind = kda_log_kind_find(kind->value, kind->size);
    if (!take_number(line, "id", &line->has_id, &line->id))
        return bad(line, "the id is no number");
    if (!take_number(line, "pid", &line->has_pid, &line->pid) ||
        !take_number(line, "tid", &line->has_tid, &line->tid))
        return bad(line, "pid or tid is no number");
    const struct kda_log_member *when = kda_log_find(line, "time");
    if (!when)
        return true;
    if (when->type != '"' || !kda_log_time_parse(when->value, when->size, &line->time))
        return bad(line, "the time is none");
    line->has_time = true;
    return true;
}

void kda_log_parse(const char *text, size_t size, struct kda_log_line *line)
{
    if (size > 0 && text[size - 1] == '\n')
        size--;
    if (size > 0 && text[size - 1] == '\r')
        size--;
    line->what = KDA_LOG_LINE;
    line->problem = NULL;
    line->text = text;
    line->size = size;
    line->kind = 0;
    line->has_id = line->has_pid = line->has_tid = line->has_time = false;
    line->id = line->pid = line->tid = line->time = 0;
    line->member_count = 0;
    if (take_members(line))
        (void)take_head(line);
}

const struct kda_log_member *kda_log_find(const struct kda_log_line *line, const char *key)
{
    size_t size = strlen(key);
    for (size_t i = 0; i < line->member_count; i++)
        if (line->members[i].key_size == size && memcmp(line->members[i].key, key, size) == 0)
            return &line->members[i];
    return NULL;
}

bool kda_log_member_is(const struct kda_log_member *member, const char *text)
{
    return member && member->type == '"' && strlen(text) == member->size &&
           memcmp(member->value, text, member->size) == 0;
}

size_t kda_log_text(const struct kda_log_member *member, char *out, size_t cap)
{
    size_t whole = 0, used = 0;
    const char *value = member->value;
    /* In steps that are smaller than any buffer, so that a cut never splits an escape. */
    for (size_t at = 0; at < member->size;) {
        char piece[16];
        size_t step = 1;
        if (value[at] == '\\' && member->escaped) {
            step = at + 1 < member->size && value[at + 1] == 'u' ? 6 : 2;
            if (step == 6 && member->size - at >= 12 && value[at + 6] == '\\' &&
                value[at + 7] == 'u' && (value[at + 2] | 0x20) == 'd' &&
                strchr("89abAB", value[at + 3]) && (value[at + 8] | 0x20) == 'd' &&
                strchr("cdefCDEF", value[at + 9]))
                step = 12;
            if (step > member->size - at)
                step = member->size - at;
        } else {
            while (at + step < member->size && step < 4 &&
                   ((unsigned char)value[at + step] & 0xc0) == 0x80)
                step++;
        }
        size_t size = member->escaped ? kda_json_unescape(value + at, step, piece) : step;
        const char *from = member->escaped ? piece : value + at;
        if (whole == used && cap > 0 && used + size < cap) {
            memcpy(out + used, from, size);
            used += size;
        }
        whole += size;
        at += step;
    }
    if (cap > 0)
        out[used] = '\0';
    return whole;
}

bool kda_log_number(const struct kda_log_member *member, uint64_t *ret)
{
    if (member->type == '0')
        return kda_json_uint(member->value, member->size, ret);
    if (member->type != '"' || member->size < 3 || member->size > 18 ||
        memcmp(member->value, "0x", 2) != 0)
        return false;
    uint64_t value = 0;
    for (size_t i = 2; i < member->size; i++) {
        char c = member->value[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        value = value << 4 | digit;
    }
    *ret = value;
    return true;
}

bool kda_log_counts(const struct kda_log_member *member,
                    void (*put)(void *context, unsigned kind, uint64_t count), void *context)
{
    struct kda_json_pull json;
    struct kda_json_token token;
    uint64_t seen = 0; /* a kind that stands twice would be added up, perhaps beyond 64 bits */
    if (member->type != '{')
        return false;
    kda_json_pull_begin(&json, member->value, member->size);
    if (!kda_json_pull_next(&json, &token))
        return false;
    while (kda_json_pull_next(&json, &token) && token.type == KDA_JSON_NUMBER) {
        uint64_t count;
        if (!kda_json_uint(token.value, token.size, &count))
            return false;
        unsigned kind = kda_log_kind_find(token.key, token.key_size);
        if (kind != 0 && (seen & UINT64_C(1) << kind) != 0)
            return false;
        seen |= UINT64_C(1) << kind;
        put(context, kind, count);
    }
    return !json.failed && token.type == KDA_JSON_CLOSE;
}

/* ---- times ---- */

struct reader {
    const char *text;
    size_t size, at;
};

static bool take_digits(struct reader *r, size_t count, unsigned *ret)
{
    unsigned value = 0;
    if (r->size - r->at < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        unsigned digit = (unsigned)(r->text[r->at + i] - '0');
        if (digit > 9)
            return false;
        value = value * 10 + digit;
    }
    r->at += count;
    *ret = value;
    return true;
}

static bool take_char(struct reader *r, char c)
{
    if (r->at >= r->size || r->text[r->at] != c)
        return false;
    r->at++;
    return true;
}

static bool is_leap(unsigned year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days since 1601-01-01 of a date that exists; false otherwise. */
static bool days_of(unsigned year, unsigned month, unsigned day, uint64_t *ret)
{
    static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1601 || month < 1 || month > 12 || day < 1)
        return false;
    unsigned length = lengths[month - 1] + (month == 2 && is_leap(year) ? 1u : 0u);
    if (day > length)
        return false;
    uint64_t before = year - 1601;
    uint64_t days = before * 365 + before / 4 - before / 100 + before / 400;
    for (unsigned m = 1; m < month; m++)
        days += lengths[m - 1] + (m == 2 && is_leap(year) ? 1u : 0u);
    *ret = days + day - 1;
    return true;
}

/* Up to seven digits behind the point; more are dropped. */
static bool take_fraction(struct reader *r, uint64_t *units)
{
    uint64_t scale = UNITS_PER_SECOND, value = 0;
    unsigned digit;
    if (!take_digits(r, 1, &digit))
        return false;
    do {
        scale /= 10;
        value += digit * scale;
    } while (take_digits(r, 1, &digit));
    *units = value;
    return true;
}

static bool take_clock(struct reader *r, uint64_t *units)
{
    unsigned hour, minute, second = 0;
    uint64_t fraction = 0;
    if (!take_digits(r, 2, &hour) || !take_char(r, ':') || !take_digits(r, 2, &minute))
        return false;
    if (take_char(r, ':')) {
        if (!take_digits(r, 2, &second))
            return false;
        if (take_char(r, '.') && !take_fraction(r, &fraction))
            return false;
    }
    if (hour > 23 || minute > 59 || second > 59)
        return false;
    *units = (hour * 3600u + minute * 60u + second) * UNITS_PER_SECOND + fraction;
    return true;
}

bool kda_log_time_parse(const char *text, size_t size, uint64_t *ret)
{
    struct reader r = {text, size, 0};
    unsigned year, month, day;
    uint64_t days, units = 0;
    if (!take_digits(&r, 4, &year) || !take_char(&r, '-') || !take_digits(&r, 2, &month) ||
        !take_char(&r, '-') || !take_digits(&r, 2, &day) || !days_of(year, month, day, &days))
        return false;
    if (take_char(&r, 'T') || take_char(&r, ' ')) {
        if (!take_clock(&r, &units))
            return false;
        (void)take_char(&r, 'Z');
    }
    if (r.at != r.size)
        return false;
    *ret = days * 86400u * UNITS_PER_SECOND + units;
    return true;
}
