/* Text that a symbol server or an old side file chose. The first byte picks the reader. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/remote.h"

static void expect(bool fact)
{
    if (!fact)
        abort();
}

static void no_controls(const char *text)
{
    for (; *text; text++)
        expect((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void pointer(const char *text, size_t size)
{
    char out[KDA_URL_MAX];
    enum kda_pointer_kind kind = kda_remote_pointer(text, size, out, sizeof(out));
    no_controls(out);
    if (kind == KDA_POINTER_URL)
        expect(kda_remote_is_http(out));
    if (kind == KDA_POINTER_RELATIVE)
        expect(!strchr(out, ':') && strncmp(out, "//", 2) != 0);
}

static void line(char kind, const char *text)
{
    char out[200];
    uint64_t first, total;
    if (kind == 1) {
        if (kda_remote_content_range(text, &first, &total))
            expect(total == 0 || first < total);
        return;
    }
    if (kind == 2) {
        kda_remote_redact(text, out, sizeof(out));
        no_controls(out);
        return;
    }
    const char *parts[] = {text, NULL, text};
    if (kda_remote_url("https://a/b//", parts, 3, out, sizeof(out))) {
        no_controls(out);
        expect(strncmp(out, "https://a/b", 11) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 8192)
        return 0;
    char kind = (char)(data[0] & 7);
    /* Exactly as long as the input, so that one byte too many is seen. */
    char *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    struct kda_part_origin origin;
    if (kind == 0) {
        char *exact = malloc(size - 1 ? size - 1 : 1);
        if (exact) {
            memcpy(exact, data + 1, size - 1);
            pointer(exact, size - 1);
        }
        free(exact);
    } else if (kind == 4) {
        if (kda_remote_origin_parse(text, size - 1, &origin)) {
            no_controls(origin.url);
            no_controls(origin.validator);
        }
    } else {
        line(kind, text);
    }
    free(text);
    return 0;
}
