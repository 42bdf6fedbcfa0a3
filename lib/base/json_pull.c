/*
 * json_pull.c - see json_pull.h.
 */
#include "json_pull.h"

#include <string.h>

#include "text.h"

void kda_json_pull_begin(struct kda_json_pull *json, const char *text, size_t size)
{
    memset(json, 0, sizeof(*json));
    json->text = text;
    json->size = size;
}

static bool refuse(struct kda_json_pull *json, const char *problem)
{
    json->failed = true;
    json->problem = problem;
    return false;
}

static inline void skip_space(struct kda_json_pull *json)
{
    size_t at = json->at;
    while (at < json->size && (unsigned char)json->text[at] <= ' ' &&
           (json->text[at] == ' ' || json->text[at] == '\t' || json->text[at] == '\r' ||
            json->text[at] == '\n'))
        at++;
    json->at = at;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Value of four hex digits, or -1. */
static int unit_at(const char *text, size_t left)
{
    int unit = 0;
    if (left < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* The backslash is at text[at]; moves behind the escape. */
static bool take_escape(struct kda_json_pull *json)
{
    if (json->at + 1 >= json->size)
        return refuse(json, "a string has no end");
    char c = json->text[json->at + 1];
    if (c == 'u') {
        if (unit_at(json->text + json->at + 2, json->size - json->at - 2) < 0)
            return refuse(json, "\\u without four hex digits");
        json->at += 6;
        return true;
    }
    if (c == '\0' || !strchr("\"\\/bfnrt", c))
        return refuse(json, "unknown escape in a string");
    json->at += 2;
    return true;
}

#define EACH_BYTE(c) (UINT64_C(0x0101010101010101) * (c))

/* Do all eight bytes stand for themselves in a string: ASCII from 0x20, no quote, no backslash? */
static bool are_plain(const char *text)
{
    uint64_t word, quote, slash;
    memcpy(&word, text, sizeof(word));
    quote = word ^ EACH_BYTE('"');
    slash = word ^ EACH_BYTE('\\');
    uint64_t odd = word | ((word - EACH_BYTE(0x20)) & ~word) | ((quote - EACH_BYTE(1)) & ~quote) |
                   ((slash - EACH_BYTE(1)) & ~slash);
    return (odd & EACH_BYTE(0x80)) == 0;
}

static bool take_string(struct kda_json_pull *json, const char **value, size_t *size, bool *escaped)
{
    size_t start = ++json->at;
    size_t wide = SIZE_MAX; /* first byte that is not ASCII */
    *escaped = false;
    for (;;) {
        while (json->size - json->at >= 8 && are_plain(json->text + json->at))
            json->at += 8;
        if (json->at >= json->size)
            return refuse(json, "a string has no end");
        unsigned char c = (unsigned char)json->text[json->at];
        if (c == '"')
            break;
        if (c == '\\') {
            *escaped = true;
            if (!take_escape(json))
                return false;
            continue;
        }
        if (c < 0x20)
            return refuse(json, "a control character in a string");
        if (c >= 0x80 && wide == SIZE_MAX)
            wide = json->at;
        json->at++;
    }
    if (wide != SIZE_MAX &&
        kda_utf8_valid_prefix(json->text + wide, json->at - wide) != json->at - wide)
        return refuse(json, "a string is not valid UTF-8");
    *value = json->text + start;
    *size = json->at - start;
    json->at++;
    return true;
}

static size_t digits(struct kda_json_pull *json)
{
    size_t start = json->at;
    while (json->at < json->size && json->text[json->at] >= '0' && json->text[json->at] <= '9')
        json->at++;
    return json->at - start;
}

static bool take_number(struct kda_json_pull *json, struct kda_json_token *token)
{
    const char *text = json->text;
    size_t start = json->at;
    if (text[json->at] == '-')
        json->at++;
    size_t first = json->at;
    size_t whole = digits(json);
    if (whole == 0 || (whole > 1 && text[first] == '0'))
        return refuse(json, "a malformed number");
    if (json->at < json->size && text[json->at] == '.') {
        json->at++;
        if (digits(json) == 0)
            return refuse(json, "a malformed number");
    }
    if (json->at < json->size && (text[json->at] == 'e' || text[json->at] == 'E')) {
        json->at++;
        if (json->at < json->size && (text[json->at] == '+' || text[json->at] == '-'))
            json->at++;
        if (digits(json) == 0)
            return refuse(json, "a malformed number");
    }
    token->type = KDA_JSON_NUMBER;
    token->value = text + start;
    token->size = json->at - start;
    return true;
}

static bool take_word(struct kda_json_pull *json, struct kda_json_token *token)
{
    static const struct {
        const char *word;
        size_t size;
        enum kda_json_type type;
    } words[] = {
        {"true", 4, KDA_JSON_TRUE}, {"false", 5, KDA_JSON_FALSE}, {"null", 4, KDA_JSON_NULL}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].size > json->size - json->at ||
            memcmp(json->text + json->at, words[i].word, words[i].size) != 0)
            continue;
        token->type = words[i].type;
        token->value = json->text + json->at;
        token->size = words[i].size;
        json->at += words[i].size;
        return true;
    }
    return refuse(json, "a value was expected");
}

static bool open_container(struct kda_json_pull *json, struct kda_json_token *token, char c)
{
    if (json->depth == KDA_JSON_MAX_DEPTH)
        return refuse(json, "nested too deeply");
    token->type = c == '{' ? KDA_JSON_OBJECT : KDA_JSON_ARRAY;
    token->value = json->text + json->at;
    token->size = json->size - json->at;
    json->open[json->depth++] = c;
    json->first = true;
    json->at++;
    return true;
}

static bool take_value(struct kda_json_pull *json, struct kda_json_token *token)
{
    if (json->at >= json->size)
        return refuse(json, "the text ends where a value was expected");
    char c = json->text[json->at];
    if (c == '{' || c == '[')
        return open_container(json, token, c);
    if (c == '"') {
        token->type = KDA_JSON_STRING;
        return take_string(json, &token->value, &token->size, &token->escaped);
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return take_number(json, token);
    return take_word(json, token);
}

static bool take_key(struct kda_json_pull *json, struct kda_json_token *token)
{
    bool escaped;
    if (json->at >= json->size || json->text[json->at] != '"')
        return refuse(json, "a key was expected");
    if (!take_string(json, &token->key, &token->key_size, &escaped))
        return false;
    skip_space(json);
    if (json->at >= json->size || json->text[json->at] != ':')
        return refuse(json, "a colon was expected");
    json->at++;
    skip_space(json);
    return true;
}

static bool take_end(struct kda_json_pull *json, struct kda_json_token *token)
{
    if (json->at != json->size)
        return refuse(json, "there is text behind the object");
    token->type = KDA_JSON_END;
    return true;
}

bool kda_json_pull_next(struct kda_json_pull *json, struct kda_json_token *token)
{
    if (json->failed)
        return false;
    memset(token, 0, sizeof(*token));
    skip_space(json);
    if (!json->started) {
        json->started = true;
        if (json->at >= json->size || json->text[json->at] != '{')
            return refuse(json, "not a JSON object");
        return open_container(json, token, '{');
    }
    if (json->depth == 0)
        return take_end(json, token);
    if (json->at >= json->size)
        return refuse(json, "the object has no end");
    char c = json->text[json->at];
    char open = json->open[json->depth - 1];
    token->depth = json->depth;
    if (c == (open == '{' ? '}' : ']')) {
        json->at++;
        json->depth--;
        json->first = false;
        token->type = KDA_JSON_CLOSE;
        token->depth = json->depth;
        return true;
    }
    if (!json->first) {
        if (c != ',')
            return refuse(json, "a comma was expected");
        json->at++;
        skip_space(json);
    }
    json->first = false;
    if (open == '{' && !take_key(json, token))
        return false;
    return take_value(json, token);
}

static size_t put_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* `value` is behind "\u"; returns the bytes of `value` that were used. */
static size_t take_unicode(const char *value, size_t left, uint32_t *ret)
{
    int high = unit_at(value, left);
    *ret = 0xfffd;
    if (high < 0)
        return 0; /* the reader lets no such text through */
    if (high < 0xd800 || high > 0xdfff) {
        *ret = (uint32_t)high;
        return 4;
    }
    if (high > 0xdbff || left < 10 || value[4] != '\\' || value[5] != 'u')
        return 4;
    int low = unit_at(value + 6, left - 6);
    if (low < 0xdc00 || low > 0xdfff)
        return 4;
    *ret = 0x10000u + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
    return 10;
}

size_t kda_json_unescape(const char *value, size_t size, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < size;) {
        char c = value[i++];
        if (c != '\\' || i == size) {
            out[used++] = c;
            continue;
        }
        c = value[i++];
        if (c == 'u') {
            uint32_t code;
            i += take_unicode(value + i, size - i, &code);
            used += put_utf8(code, out + used);
            continue;
        }
        out[used++] = c == 'b'   ? '\b'
                      : c == 'f' ? '\f'
                      : c == 'n' ? '\n'
                      : c == 'r' ? '\r'
                      : c == 't' ? '\t'
                                 : c;
    }
    return used;
}

bool kda_json_uint(const char *value, size_t size, uint64_t *ret)
{
    uint64_t number = 0;
    if (size == 0)
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned digit = (unsigned)(value[i] - '0');
        if (digit > 9 || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret = number;
    return true;
}
