/*
 * words.c - words of the command line: numbers, comparison, and the nearest known word to a
 * mistyped one.
 */
#include "cli.h"

#include <string.h>

#define WORD_MAX 64u

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool cli_same_text(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

int cli_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool cli_parse_number(const char *text, unsigned base, uint64_t *ret)
{
    uint64_t value = 0;
    bool prefix = text[0] == '0' && lower(text[1]) == 'x';
    if (prefix && base != 10)
        text += 2;
    if (base == 0)
        base = prefix ? 16 : 10;
    if (*text == '\0')
        return false;
    for (; *text; text++) {
        int digit = cli_hex_digit(*text);
        if (digit < 0 || (unsigned)digit >= base || value > (UINT64_MAX - (unsigned)digit) / base)
            return false;
        value = value * base + (unsigned)digit;
    }
    *ret = value;
    return true;
}

/* Edits (insert, delete, replace, swap of neighbours) that turn one word into the other. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 1];
    size_t size_a = strlen(a), size_b = strlen(b);
    if (size_a > WORD_MAX || size_b > WORD_MAX)
        return SIZE_MAX;
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= size_b; j++)
        last[j] = j;
    for (size_t i = 1; i <= size_a; i++) {
        row[0] = i;
        for (size_t j = 1; j <= size_b; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            size_t best = last[j - 1] + (same ? 0 : 1);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[size_b];
}

void cli_suggest(struct cli_suggestion *suggestion, const char *word, const char *candidate)
{
    size_t edits = distance(word, candidate);
    /* A prefix is what people type when they expect it to be enough. */
    size_t size = strlen(word);
    size_t same = 0;
    while (same < size && lower(word[same]) == lower(candidate[same]))
        same++;
    if (size >= 2 && same == size)
        edits = 1;
    size_t most = size <= 4 ? 1 : size / 3 + 1;
    if (edits <= most && (!suggestion->best || edits < suggestion->distance)) {
        suggestion->best = candidate;
        suggestion->distance = edits;
    }
}
