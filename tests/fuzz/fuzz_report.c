/*
 * Names from hostile memory through every writer: json stays one well-formed line of valid UTF-8,
 * csv and text carry no control character but their own line ends.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kda/report.h"
#include "text.h"

#define NAME_MAX_BYTES 4096

struct capture {
    char bytes[8 * NAME_MAX_BYTES * 4];
    size_t size;
};

static bool take(void *context, const char *bytes, size_t size)
{
    struct capture *capture = context;
    if (size > sizeof(capture->bytes) - capture->size)
        abort();
    memcpy(capture->bytes + capture->size, bytes, size);
    capture->size += size;
    return true;
}

/* Strings closed, brackets matched, no raw control character: enough to see a broken escape. */
static void check_json(const struct capture *capture)
{
    int depth = 0;
    bool string = false;
    for (size_t i = 0; i + 1 < capture->size; i++) {
        unsigned char c = (unsigned char)capture->bytes[i];
        if (c < 0x20 || c == 0x7f || c == '<')
            abort();
        if (string && c == '\\')
            i++;
        else if (c == '"')
            string = !string;
        else if (!string)
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    }
    if (string || depth != 0 || capture->bytes[capture->size - 1] != '\n')
        abort();
    if (kda_utf8_valid_prefix(capture->bytes, capture->size) != capture->size)
        abort();
}

static void check_lines(const struct capture *capture)
{
    for (size_t i = 0; i < capture->size; i++) {
        unsigned char c = (unsigned char)capture->bytes[i];
        if ((c < 0x20 && c != '\n' && c != '\r') || c == 0x7f)
            abort();
    }
    if (kda_utf8_valid_prefix(capture->bytes, capture->size) != capture->size)
        abort();
}

static void render(const char *format, unsigned width, const char *name, struct capture *capture)
{
    struct kda_report_options options = {.format = format, .width = width};
    struct kda_report *report = NULL;
    struct kda_process process = {.va = 1, .name = name, .image = name};
    struct kda_process other = {.va = 2, .name = "System"};
    capture->size = 0;
    if (kda_report_open(&options, take, capture, &report, NULL) != KDA_OK)
        abort();
    kda_report_process(report, &process, "host");
    if (strcmp(format, "jsonl") != 0)
        kda_report_process(report, &other, NULL);
    if (kda_report_close(report, NULL) != KDA_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct capture capture;
    static char name[NAME_MAX_BYTES + 1], shown[64];
    if (size < 1 || size > NAME_MAX_BYTES)
        return 0;
    memcpy(name, data + 1, size - 1);
    name[size - 1] = '\0';
    render("jsonl", 0, name, &capture);
    check_json(&capture);
    render("csv", 0, name, &capture);
    check_lines(&capture);
    render("text", data[0], name, &capture);
    check_lines(&capture);
    if (strlen(kda_printable(name, shown, 1u + data[0] % sizeof(shown))) >= sizeof(shown))
        abort();
    return 0;
}
