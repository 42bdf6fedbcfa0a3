#include "event_json.h"

#ifdef KDA_TEST_JANSSON
#include <jansson.h>

bool is_json_object(const char *text, size_t bytes)
{
    json_t *root = json_loadb(text, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    bool object = json_is_object(root);
    json_decref(root);
    return object;
}
#else
bool is_json_object(const char *text, size_t bytes)
{
    int depth = 0;
    bool inside = false;
    for (size_t i = 0; i < bytes; i++) {
        if (inside) {
            if ((unsigned char)text[i] < 0x20)
                return false;
            if (text[i] == '\\')
                i++;
            else if (text[i] == '"')
                inside = false;
        } else if (text[i] == '"') {
            inside = true;
        } else if (text[i] == '{' || text[i] == '[') {
            depth++;
        } else if (text[i] == '}' || text[i] == ']') {
            depth--;
        }
    }
    return depth == 0 && !inside && bytes > 0 && text[0] == '{';
}
#endif
