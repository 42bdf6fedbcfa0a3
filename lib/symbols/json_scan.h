/*
 * json_scan.h - steps through JSON text without building anything. Internal to lib/symbols.
 *
 * A Volatility symbol table is megabytes of which a few kilobytes are wanted. This finds the
 * pieces; a JSON library then parses only those. Text that is stepped over is checked for balance
 * only.
 */
#ifndef KDA_SYMBOLS_JSON_SCAN_H
#define KDA_SYMBOLS_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct kda_json_slice {
    const char *text;
    size_t size;
};

struct kda_json_scan {
    const char *pos, *end;
    bool failed; /* sticks */
};

/* Starts on an object; `failed` if the text is none. */
struct kda_json_scan kda_json_object(struct kda_json_slice text);

/* Next member: key without quotes, escapes left as they are; value as it stands. False at the end
 * of the object, and when the text is damaged (`failed`). */
bool kda_json_next(struct kda_json_scan *scan, struct kda_json_slice *key,
                   struct kda_json_slice *value);

bool kda_json_is(struct kda_json_slice key, const char *name);

#endif
