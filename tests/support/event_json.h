/*
 * event_json.h - is it JSON? By a reader that is not ours where there is one.
 */
#ifndef EVENT_JSON_H
#define EVENT_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* True if `bytes` bytes are one JSON object, with nothing behind it but white space. Without
 * jansson only balance and strings are looked at. */
bool is_json_object(const char *text, size_t bytes);

#define assert_json_object(text, bytes) assert_true(is_json_object(text, bytes))

#endif
