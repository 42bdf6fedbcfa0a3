/* scenario.h - one line of a scenario as words and options; used by the directive handlers. */
#ifndef KDA_FORGE_SCENARIO_H
#define KDA_FORGE_SCENARIO_H

#include "forge_int.h"

#define MAX_WORDS 64u

struct word {
    const char *key;   /* NULL: a word without '=' */
    const char *value; /* never NULL */
    bool used;
};

struct line {
    struct forge *f;
    unsigned number;
    struct word words[MAX_WORDS];
    size_t count;
};

void line_fail(struct line *l, const char *fmt, ...) KDA_PRINTF(2, 3);
/* n-th word after the directive, or NULL (not marked used unless taken). */
const char *line_word(struct line *l, size_t n);
bool line_flag(struct line *l, const char *name);
const char *line_text(struct line *l, const char *key, const char *other);
uint64_t line_number(struct line *l, const char *key, uint64_t other, uint64_t max);
bool line_onoff(struct line *l, const char *word);
uint64_t parse_number(struct line *l, const char *text, uint64_t max);
uint64_t parse_time(struct line *l, const char *text);
unsigned line_silo(struct line *l);
enum forge_moment line_moment(struct line *l); /* in=first|later */

/* Reads its options from the line and adds a record. */
typedef void (*directive_fn)(struct line *l);
struct directive {
    const char *name;
    directive_fn run;
};

extern const struct directive machine_directives[]; /* ends with a NULL name */
extern const struct directive etw_directives[];
extern const struct directive audit_directives[];

/* directives_buffers.c */
void on_buffer(struct line *l);

#endif
