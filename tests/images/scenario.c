#include "scenario.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "text.h"

void line_fail(struct line *l, const char *fmt, ...)
{
    char text[300];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    l->f->line = l->number;
    forge_fail(l->f, KDA_USAGE, "%s", text);
}

const char *line_word(struct line *l, size_t n)
{
    for (size_t i = 1; i < l->count; i++) {
        if (l->words[i].key || n-- > 0)
            continue;
        l->words[i].used = true;
        return l->words[i].value;
    }
    return NULL;
}

bool line_flag(struct line *l, const char *name)
{
    for (size_t i = 1; i < l->count; i++) {
        if (l->words[i].key || strcmp(l->words[i].value, name) != 0)
            continue;
        l->words[i].used = true;
        return true;
    }
    return false;
}

const char *line_text(struct line *l, const char *key, const char *other)
{
    for (size_t i = 1; i < l->count; i++) {
        if (!l->words[i].key || l->words[i].used || strcmp(l->words[i].key, key) != 0)
            continue;
        l->words[i].used = true;
        return l->words[i].value;
    }
    return other;
}

uint64_t parse_number(struct line *l, const char *text, uint64_t max)
{
    char *end = NULL;
    bool negative = *text == '-';
    uint64_t v = strtoull(text + negative, &end, 0);
    unsigned shift = 0;
    if (end && (*end == 'K' || *end == 'M' || *end == 'G'))
        shift = *end++ == 'K' ? 10 : end[-1] == 'M' ? 20 : 30;
    if (!end || end == text + negative || *end != '\0') {
        line_fail(l, "\"%s\" is not a number", text);
        return 0;
    }
    if (v > max >> shift) {
        line_fail(l, "\"%s\" is more than 0x%llx", text, (unsigned long long)max);
        return 0;
    }
    v <<= shift;
    return negative ? (0 - v) & max : v;
}

uint64_t line_number(struct line *l, const char *key, uint64_t other, uint64_t max)
{
    const char *text = line_text(l, key, NULL);
    return text ? parse_number(l, text, max) : other;
}

/* Six numbers in the fixed shape "2024-03-05T12:34:56Z". */
static bool split_time(const char *text, unsigned parts[6])
{
    static const char shape[] = "dddd-dd-ddTdd:dd:ddZ";
    size_t part = 0;
    memset(parts, 0, 6 * sizeof(parts[0]));
    for (size_t i = 0; i < sizeof(shape); i++) {
        if (shape[i] == 'd' && text[i] >= '0' && text[i] <= '9')
            parts[part] = parts[part] * 10 + (unsigned)(text[i] - '0');
        else if (shape[i] == 'd' || text[i] != shape[i])
            return false;
        else if (shape[i] != 'Z' && shape[i] != '\0')
            part++;
    }
    return true;
}

/* A FILETIME as a number, or "2024-03-05T12:34:56Z". */
uint64_t parse_time(struct line *l, const char *text)
{
    static const unsigned before[12] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    unsigned p[6];
    if (!strchr(text, '-'))
        return parse_number(l, text, UINT64_MAX);
    if (!split_time(text, p) || p[0] < 1601 || p[1] < 1 || p[1] > 12 || p[2] < 1 || p[2] > 31 ||
        p[3] > 23 || p[4] > 59 || p[5] > 59) {
        line_fail(l, "\"%s\" is not a time like 2024-03-05T12:34:56Z", text);
        return 0;
    }
    uint64_t years = p[0] - 1601;
    bool leap = (p[0] % 4 == 0 && p[0] % 100 != 0) || p[0] % 400 == 0;
    uint64_t days = years * 365 + years / 4 - years / 100 + years / 400 + before[p[1] - 1] +
                    (p[2] - 1) + (leap && p[1] > 2 ? 1 : 0);
    return (days * 86400 + p[3] * 3600u + p[4] * 60u + p[5]) * 10000000u;
}

bool line_onoff(struct line *l, const char *word)
{
    if (word && strcmp(word, "on") == 0)
        return true;
    if (!word || strcmp(word, "off") != 0)
        line_fail(l, "\"on\" or \"off\" is expected");
    return false;
}

unsigned line_silo(struct line *l)
{
    uint64_t number = line_number(l, "silo", 0, 1000);
    for (size_t i = 0; i < l->f->truth.silo_count; i++)
        if (l->f->truth.silos[i].number == number)
            return (unsigned)i;
    line_fail(l, "silo %llu is not declared above", (unsigned long long)number);
    return 0;
}

enum forge_moment line_moment(struct line *l)
{
    const char *in = line_text(l, "in", NULL);
    if (!in)
        return FORGE_BOTH;
    if (strcmp(in, "first") != 0 && strcmp(in, "later") != 0)
        line_fail(l, "\"first\" or \"later\" is expected");
    return strcmp(in, "first") == 0 ? FORGE_FIRST : FORGE_LATER;
}

struct forge_process *forge_process_by_pid(struct forge *f, uint64_t pid)
{
    for (size_t i = 0; i < f->truth.process_count; i++)
        if (f->truth.processes[i].pid == pid)
            return &f->truth.processes[i];
    return NULL;
}

struct forge_module *forge_module_by_name(struct forge *f, const char *name)
{
    if (strcmp(name, "nt") == 0)
        name = "ntoskrnl.exe";
    for (size_t i = 0; i < f->truth.module_count; i++)
        if (strcmp(f->truth.modules[i].name, name) == 0)
            return &f->truth.modules[i];
    return NULL;
}

/* ---- words ---- */

struct scan {
    const char *p;
    char *out; /* room for the decoded line */
    size_t used, room;
};

static void emit(struct scan *s, unsigned c)
{
    if (s->used < s->room)
        s->out[s->used++] = (char)c;
}

/* Three bytes also for surrogates: a name may hold a lone one. */
static void emit_unit(struct scan *s, unsigned unit)
{
    if (unit < 0x80) {
        emit(s, unit);
    } else if (unit < 0x800) {
        emit(s, 0xc0 | unit >> 6);
        emit(s, 0x80 | (unit & 0x3f));
    } else {
        emit(s, 0xe0 | unit >> 12);
        emit(s, 0x80 | (unit >> 6 & 0x3f));
        emit(s, 0x80 | (unit & 0x3f));
    }
}

/* After a backslash inside quotes: \\ \" \xNN \uNNNN. */
static bool escape(struct scan *s)
{
    char kind = *s->p;
    size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 0;
    if (digits == 0) {
        if (kind != '\\' && kind != '"')
            return false;
        emit(s, (unsigned char)kind);
        s->p++;
        return true;
    }
    unsigned v = 0;
    for (size_t i = 1; i <= digits; i++) {
        char c = s->p[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit > 15)
            return false;
        v = v << 4 | digit;
    }
    if (v == 0)
        return false; /* a text ends at NUL; the generator has no use for one inside */
    emit_unit(s, v);
    s->p += digits + 1;
    return true;
}

static bool read_word(struct line *l, struct scan *s)
{
    if (l->count == MAX_WORDS) {
        line_fail(l, "more than %u words", MAX_WORDS);
        return false;
    }
    struct word *w = &l->words[l->count++];
    size_t start = s->used;
    bool quoted = false;
    w->key = NULL;
    w->used = false;
    for (; *s->p && *s->p != '\n' && (quoted || (*s->p != ' ' && *s->p != '\t')); s->p++) {
        if (*s->p == '"') {
            quoted = !quoted;
        } else if (*s->p == '=' && !quoted && !w->key && s->used > start && s->out[start] != '{') {
            emit(s, 0);
            w->key = s->out + start;
            start = s->used;
        } else if (*s->p == '\\' && quoted) {
            s->p++;
            if (!escape(s)) {
                line_fail(l, "unknown escape in a quoted text");
                return false;
            }
            s->p--;
        } else if (*s->p != '\r') {
            emit(s, (unsigned char)*s->p);
        }
    }
    if (quoted) {
        line_fail(l, "a quote is not closed");
        return false;
    }
    w->value = s->out + start;
    emit(s, 0);
    return true;
}

static bool read_line(struct line *l, const char **text)
{
    const char *end = strchr(*text, '\n');
    size_t length = end ? (size_t)(end - *text) : strlen(*text);
    l->count = 0;
    l->number++;
    if (kda_utf8_valid_prefix(*text, length) != length || length > 8192) {
        line_fail(l, "not UTF-8, or longer than 8192 bytes");
        return false;
    }
    struct scan s = {*text, kda_arena_alloc(&l->f->arena, 2 * length + 8), 0, 2 * length + 8};
    if (!s.out) {
        forge_fail(l->f, KDA_NO_MEMORY, "out of memory");
        return false;
    }
    for (;;) {
        while (*s.p == ' ' || *s.p == '\t' || *s.p == '\r')
            s.p++;
        if (*s.p == '\0' || *s.p == '\n' || *s.p == '#')
            break;
        if (!read_word(l, &s))
            return false;
    }
    *text = end ? end + 1 : *text + length;
    return true;
}

static const struct directive *find_directive(const struct directive *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

static void run_line(struct line *l)
{
    const char *name = l->words[0].value;
    const struct directive *d = find_directive(machine_directives, name);
    if (!d)
        d = find_directive(etw_directives, name);
    if (!d)
        d = find_directive(audit_directives, name);
    if (!d || l->words[0].key) {
        line_fail(l, "unknown directive \"%s\"", l->words[0].key ? l->words[0].key : name);
        return;
    }
    d->run(l);
    for (size_t i = 1; i < l->count && forge_ok(l->f); i++)
        if (!l->words[i].used)
            line_fail(l, "\"%s\" does not understand \"%s\" (or not twice)", name,
                      l->words[i].key ? l->words[i].key : l->words[i].value);
}

bool scenario_parse(struct forge *f, const char *text)
{
    struct line *l = kda_calloc(1, sizeof(*l));
    if (!l) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return false;
    }
    l->f = f;
    while (*text && forge_ok(f)) {
        if (read_line(l, &text) && l->count > 0)
            run_line(l);
    }
    kda_free(l);
    f->line = 0;
    return forge_ok(f);
}
