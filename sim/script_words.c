/*
 * script_words.c - words of a script: blanks, quotes, numbers, names of the kernel.
 */
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool script_wrong(const struct script *script, const char *what)
{
    (void)fprintf(stderr, "kda-sim: %s:%u: %s\n", script->file, script->line, what);
    return false;
}

/* ---- words ---- */

/* Splits in place. NULL at the end; quotes are removed. */
static char *next_word(char **rest)
{
    char *at = *rest;
    while (*at == ' ' || *at == '\t')
        at++;
    if (*at == '\0')
        return NULL;
    char *word = at, *out = at;
    bool quoted = false;
    for (; *at && (quoted || (*at != ' ' && *at != '\t')); at++) {
        if (*at != '"')
            *out++ = *at;
        else if (quoted && at[1] == '"')
            *out++ = *at++;
        else
            quoted = !quoted;
    }
    *rest = *at ? at + 1 : at;
    *out = '\0';
    return word;
}

void script_free_words(struct script *script)
{
    for (size_t i = 0; i < script->word_count; i++)
        free(script->words[i].units);
    script->word_count = 0;
}

bool script_split(struct script *script, char *line)
{
    char *text;
    while ((text = next_word(&line)) != NULL) {
        struct script_word *word = &script->words[script->word_count];
        if (script->word_count == SCRIPT_MAX_WORDS)
            return script_wrong(script, "too many words");
        word->text = text;
        if (!run_text(text, strlen(text), &word->units, &word->count))
            return script_wrong(script, "malformed text");
        script->word_count++;
    }
    return true;
}

/* The word's units from `skip` on. */
static bool keep_units(struct script *script, const struct script_word *word, size_t skip,
                       struct sim_str *ret)
{
    size_t count = word->count - skip;
    if (count > SIM_MAX_UNITS)
        return script_wrong(script, "a text is longer than the kernel can hold");
    uint16_t *copy = recording_alloc(&script->memory, (count + 1) * sizeof(*copy));
    if (!copy)
        return script_wrong(script, "out of memory");
    memcpy(copy, word->units + skip, (count + 1) * sizeof(*copy));
    *ret = (struct sim_str){copy, count};
    return true;
}

/* Word `index` as a string that stays; options ("name=...") are not counted. */
bool script_string_at(struct script *script, size_t index, struct sim_str *ret)
{
    if (index >= script->word_count)
        return script_wrong(script, "a word is missing");
    return keep_units(script, &script->words[index], 0, ret);
}

bool script_number(const char *text, uint64_t *ret)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &end, 0);
    return *end == '\0' && errno == 0;
}

static bool take_number(struct script *script, const char *text, uint64_t most, uint64_t *ret)
{
    if (!script_number(text, ret))
        return script_wrong(script, "a number was expected");
    return *ret <= most || script_wrong(script, "a number is too large");
}

bool script_number_at(struct script *script, size_t index, uint64_t most, uint64_t *ret)
{
    return take_number(script, index < script->word_count ? script->words[index].text : "", most,
                       ret);
}

/* Place of "name=" and what follows it; false if it is not there. */
static bool option_of(const struct script *script, const char *name, size_t *index, size_t *skip)
{
    size_t size = strlen(name);
    for (size_t i = 1; i < script->word_count; i++) {
        if (strncmp(script->words[i].text, name, size) == 0 && script->words[i].text[size] == '=') {
            *index = i;
            *skip = size + 1;
            return true;
        }
    }
    return false;
}

bool script_option_number(struct script *script, const char *name, uint64_t most, uint64_t *ret)
{
    size_t index, skip;
    if (!option_of(script, name, &index, &skip))
        return true;
    return take_number(script, script->words[index].text + skip, most, ret);
}

bool script_option_string(struct script *script, const char *name, struct sim_str *ret)
{
    size_t index, skip;
    return !option_of(script, name, &index, &skip) ||
           keep_units(script, &script->words[index], skip, ret);
}

/* Units that stand before the part which differs between people and the kernel and the rest. */
static size_t start_of(const struct sim_str *name, bool key)
{
    size_t size = 0;
    if (!key)
        return name->count >= 3 && name->units[1] == ':' && name->units[2] == '\\' ? 3 : 0;
    if (name->count > 0 && name->units[0] == '\\')
        return 0; /* the kernel's form already */
    while (size < name->count && name->units[size] != '\\')
        size++;
    return size;
}

/* Paths and keys are written as people write them. The rest of the name stays as it is, with
 * units that UTF-8 could not hold. */
bool script_real_name(struct script *script, struct sim_str *name, bool key)
{
    char start[8] = "";
    size_t size = start_of(name, key);
    if (size == 0)
        return true;
    for (size_t i = 0; i < size && size < sizeof(start); i++)
        start[i] = name->units[i] < 0x80 ? (char)name->units[i] : '?';
    struct sim_str begin =
        key ? recording_key(&script->memory, start) : recording_path(&script->memory, start);
    if (begin.count == 0)
        return script_wrong(script, "a key begins with HKLM, HKU, HKCR or \\REGISTRY\\");
    if (begin.count + name->count - size > SIM_MAX_UNITS)
        return script_wrong(script, "a name is longer than the kernel can hold");
    uint16_t *units =
        recording_alloc(&script->memory, (begin.count + name->count - size + 1) * sizeof(*units));
    if (!units)
        return script_wrong(script, "out of memory");
    memcpy(units, begin.units, begin.count * sizeof(*units));
    memcpy(units + begin.count, name->units + size, (name->count - size) * sizeof(*units));
    *name = (struct sim_str){units, begin.count + name->count - size};
    return true;
}
