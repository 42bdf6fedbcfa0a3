#include "kda/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_names[KDA_STATUS_COUNT] = {
    [KDA_OK] = "ok",
    [KDA_NOT_MINE] = "not_mine",
    [KDA_BAD_DATA] = "bad_data",
    [KDA_UNSUPPORTED] = "unsupported",
    [KDA_ABSENT] = "absent",
    [KDA_PAGED_OUT] = "paged_out",
    [KDA_UNMAPPED] = "unmapped",
    [KDA_NO_SYMBOL] = "no_symbol",
    [KDA_LIMIT] = "limit",
    [KDA_IO] = "io",
    [KDA_NO_MEMORY] = "no_memory",
    [KDA_CANCELLED] = "cancelled",
    [KDA_USAGE] = "usage",
};

const char *kda_status_name(enum kda_status status)
{
    if ((unsigned)status >= KDA_STATUS_COUNT)
        return "unknown";
    return status_names[status];
}

static void fill(struct kda_error *err, enum kda_status status, const char *layer,
                 const uint64_t *where, const char *fmt, va_list args)
{
    if (!err)
        return;
    err->status = status;
    err->layer = layer;
    err->has_where = where != NULL;
    err->where = where ? *where : 0;
    (void)vsnprintf(err->text, sizeof(err->text), fmt, args);
}

enum kda_status kda_fail(struct kda_error *err, enum kda_status status, const char *layer,
                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, status, layer, NULL, fmt, args);
    va_end(args);
    return status;
}

enum kda_status kda_fail_at(struct kda_error *err, enum kda_status status, const char *layer,
                            uint64_t where, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, status, layer, &where, fmt, args);
    va_end(args);
    return status;
}

void kda_error_prepend(struct kda_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    char phrase[sizeof(err->text)];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(phrase, sizeof(phrase), fmt, args);
    va_end(args);
    char joined[sizeof(err->text) * 2 + 4];
    (void)snprintf(joined, sizeof(joined), "%s: %s", phrase, err->text);
    joined[sizeof(err->text) - 1] = '\0';
    memcpy(err->text, joined, strlen(joined) + 1);
}
