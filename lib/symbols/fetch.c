#include "fetch.h"

#ifdef KDA_HAVE_DOWNLOAD

#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "http.h"

#define PROGRESS_GAP_MS 100
#define MAGIC_SIZE 27
#define IGNORED_MAX ((uint64_t)1 << 20)

static const char msf_magic[MAGIC_SIZE + 1] = "Microsoft C/C++ MSF 7.00\r\n\x1a";
static const char cab_magic[] = "MSCF";

struct kda_fetcher {
    struct kda_http *http;
    struct kda_download_limits limits;
    kda_progress_fn progress;
    void *context;
    int64_t last_ms; /* of the last progress call */
};

/* One request. The callbacks stop it by setting `stop`. */
struct transfer {
    struct kda_fetcher *fetcher;
    const char *url;
    struct kda_part *part; /* file, or … */
    char *small;           /* … buffer */
    size_t small_size, small_cap;
    uint64_t from;  /* first byte asked for */
    uint64_t total; /* bytes of the whole file, 0 = not told */
    struct kda_http_head head;
    uint64_t ignored; /* bytes of an error page */
    bool begun;       /* body of a good answer has begun */
    bool changed;     /* the server's file is not the one of the part: start again */
    bool local;
    bool pdb, cab; /* what the bytes so far can be */
    enum kda_status stop;
    struct kda_error *err;
};

void kda_http_copy_value(const char *value, size_t size, char *out, size_t cap)
{
    while (size > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        size--;
    }
    while (size > 0 && (unsigned char)value[size - 1] <= ' ')
        size--;
    if (size >= cap || memchr(value, '\0', size))
        size = 0;
    memcpy(out, value, size);
    out[size] = '\0';
}

static enum kda_status too_big(const struct transfer *t)
{
    return kda_fail(t->err, KDA_LIMIT, "symbols", "the server's file is larger than %llu bytes",
                    (unsigned long long)t->fetcher->limits.max_bytes);
}

/* 206: the rest of the same file? Otherwise the part is worth nothing. */
static enum kda_status begin_rest(struct transfer *t)
{
    uint64_t first, total;
    if (t->from == 0 || !kda_remote_content_range(t->head.range, &first, &total) ||
        first != t->from || (total && t->part->origin.total && total != t->part->origin.total)) {
        t->changed = true;
        return kda_fail(t->err, KDA_BAD_DATA, "symbols",
                        "the server answers with another range than the one asked for");
    }
    t->total = total ? total : t->part->origin.total;
    return KDA_OK;
}

static enum kda_status begin_whole(struct transfer *t)
{
    struct kda_part_origin origin = {.total = 0};
    origin.total = t->head.length > 0 ? (uint64_t)t->head.length : 0;
    if (origin.total > t->fetcher->limits.max_bytes)
        return too_big(t);
    kda_remote_redact(t->url, origin.url, sizeof(origin.url)); /* no password into a cache */
    /* A weak tag may stand for different bytes; If-Range takes strong ones and dates. */
    bool strong = t->head.etag[0] == '"';
    (void)snprintf(origin.validator, sizeof(origin.validator), "%s",
                   strong ? t->head.etag : t->head.modified);
    t->from = 0;
    t->total = origin.total;
    t->pdb = t->cab = true;
    enum kda_status status = kda_part_begin(t->part, &origin, t->err);
    t->local = status != KDA_OK;
    return status;
}

static enum kda_status begin(struct transfer *t, long code)
{
    t->begun = true;
    if (!t->part)
        return KDA_OK;
    return code == 206 ? begin_rest(t) : begin_whole(t);
}

/* The first bytes decide: a login or error page sent as "200 OK" is the usual lie. */
static enum kda_status check_magic(struct transfer *t, const char *bytes, size_t size)
{
    uint64_t pos = kda_part_size(t->part);
    for (size_t i = 0; i < size && pos + i < MAGIC_SIZE; i++) {
        size_t at = (size_t)pos + i;
        t->pdb = t->pdb && bytes[i] == msf_magic[at];
        t->cab = t->cab && (at >= sizeof(cab_magic) - 1 || bytes[i] == cab_magic[at]);
    }
    if (t->from > 0 || t->pdb || t->cab)
        return KDA_OK;
    if (size >= 14 && memcmp(bytes, "Microsoft MSFZ", 14) == 0)
        return kda_fail(t->err, KDA_UNSUPPORTED, "symbols",
                        "the server has a compressed PDB (MSFZ), which is not read");
    bool page = size > 0 && memchr(bytes, '<', size < 64 ? size : 64);
    return kda_fail(t->err, KDA_BAD_DATA, "symbols", "the server answers with %s instead of a PDB",
                    page ? "a web page" : "something else");
}

static enum kda_status store(struct transfer *t, const char *bytes, size_t size)
{
    if (!t->part) {
        if (size > t->small_cap - t->small_size)
            return kda_fail(t->err, KDA_LIMIT, "symbols", "the server's answer is too long");
        memcpy(t->small + t->small_size, bytes, size);
        t->small_size += size;
        return KDA_OK;
    }
    if (size > t->fetcher->limits.max_bytes - kda_part_size(t->part))
        return too_big(t);
    enum kda_status status = check_magic(t, bytes, size);
    if (status != KDA_OK)
        return status;
    status = kda_part_write(t->part, bytes, size, t->err);
    t->local = status != KDA_OK;
    return status;
}

static bool on_body(void *context, const struct kda_http_head *head, const char *bytes, size_t size)
{
    struct transfer *t = context;
    t->head = *head;
    if (head->code != 200 && head->code != 206) {
        /* An error page is of no interest, and an endless one must end. */
        t->ignored += size;
        return t->ignored <= IGNORED_MAX;
    }
    if (!t->begun)
        t->stop = begin(t, head->code);
    if (t->stop == KDA_OK)
        t->stop = store(t, bytes, size);
    return t->stop == KDA_OK;
}

static bool report(struct transfer *t, bool last)
{
    struct kda_fetcher *fetcher = t->fetcher;
    int64_t now = kda_http_now_ms();
    int64_t gap = now - fetcher->last_ms;
    /* A clock set back must not silence the line for hours. */
    if (!fetcher->progress || (!last && gap >= 0 && gap < PROGRESS_GAP_MS))
        return true;
    fetcher->last_ms = now;
    bool file = t->part && t->begun;
    return fetcher->progress(fetcher->context, file ? kda_part_size(t->part) : 0,
                             file ? t->total : 0);
}

static bool on_alive(void *context)
{
    struct transfer *t = context;
    if (report(t, false))
        return true;
    t->stop = kda_fail(t->err, KDA_CANCELLED, "symbols", "the download was cancelled");
    return false;
}

/* Answers without a body never reach on_body. */
static enum kda_status finish(struct transfer *t, struct kda_fetch_result *result)
{
    long code = result->code;
    if (code == 416 && t->from > 0) {
        t->changed = true;
        return kda_fail(t->err, KDA_BAD_DATA, "symbols", "the server's file became shorter");
    }
    if (code == 200 || code == 206) {
        if (!t->part)
            return KDA_OK;
        if (!t->begun || kda_part_size(t->part) == 0)
            return kda_fail(t->err, KDA_BAD_DATA, "symbols", "the server answers with nothing");
        if (t->total && kda_part_size(t->part) != t->total) {
            result->broken = true;
            return kda_fail(
                t->err, KDA_IO, "symbols", "the transfer ended after %llu of %llu bytes",
                (unsigned long long)kda_part_size(t->part), (unsigned long long)t->total);
        }
        (void)report(t, true);
        return KDA_OK;
    }
    if (code >= 400 && code < 500 && code != 407 && code != 408 && code != 429)
        return kda_fail(t->err, KDA_ABSENT, "symbols", "HTTP %ld", code);
    result->dead = true;
    return kda_fail(t->err, KDA_IO, "symbols", "the server answers HTTP %ld", code);
}

static enum kda_status broke(const struct transfer *t, const char *how,
                             struct kda_fetch_result *result)
{
    result->broken = t->begun;
    result->dead = true;
    const char *said = kda_http_reason(t->fetcher->http);
    const char *reason = said[0] ? said : "no reason given";
    if (!t->begun)
        return kda_fail(t->err, KDA_IO, "symbols", "%s (%s)", how, reason);
    return kda_fail(t->err, KDA_IO, "symbols", "%s after %llu bytes (%s)", how,
                    (unsigned long long)(t->part ? kda_part_size(t->part) : 0), reason);
}

static enum kda_status explain(const struct transfer *t, enum kda_http_end end,
                               struct kda_fetch_result *result)
{
    switch (end) {
    case KDA_HTTP_NO_HOST:
        return broke(t, "host not found; is this machine offline?", result);
    case KDA_HTTP_NO_PROXY:
        return broke(t, "proxy not found; see the http_proxy and https_proxy variables", result);
    case KDA_HTTP_NO_CONNECTION:
        return broke(t, "cannot connect", result);
    case KDA_HTTP_NO_TRUST:
        return broke(t, "no trusted connection", result);
    case KDA_HTTP_STALLED:
        return broke(t, "the server stalled", result);
    case KDA_HTTP_BAD_URL:
        return broke(t, "not a usable address", result);
    case KDA_HTTP_TOO_MANY_REDIRECTS:
        return kda_fail(t->err, KDA_BAD_DATA, "symbols", "the server redirects more than %d times",
                        KDA_HTTP_REDIRECTS);
    case KDA_HTTP_BAD_REDIRECT:
        return kda_fail(t->err, KDA_BAD_DATA, "symbols",
                        "the server redirects to an address that may not be followed (%s)",
                        kda_http_reason(t->fetcher->http));
    case KDA_HTTP_TOO_LARGE:
        return too_big(t);
    case KDA_HTTP_NO_MEMORY:
        result->local = true;
        return kda_fail(t->err, KDA_NO_MEMORY, "symbols", "out of memory during the download");
    default:
        return broke(t, "the connection broke", result);
    }
}

static enum kda_status run(struct transfer *t, struct kda_fetch_result *result)
{
    memset(result, 0, sizeof(*result));
    const struct kda_http_request request = {
        .url = t->url,
        .from = t->from,
        .validator = t->part ? t->part->origin.validator : NULL,
        .body = on_body,
        .alive = on_alive,
        .context = t,
    };
    enum kda_http_end end = kda_http_get(t->fetcher->http, &request, &t->head);
    result->code = t->head.code;
    result->local = t->local;
    if (t->stop != KDA_OK) {
        result->broken = t->stop == KDA_CANCELLED;
        return t->stop;
    }
    if (end == KDA_HTTP_DONE || t->ignored > IGNORED_MAX)
        return finish(t, result);
    return explain(t, end, result);
}

enum kda_status kda_fetch_file(struct kda_fetcher *fetcher, const char *url, struct kda_part *part,
                               struct kda_fetch_result *result, struct kda_error *err)
{
    char origin[KDA_URL_MAX];
    kda_remote_redact(url, origin, sizeof(origin));
    enum kda_status status = KDA_IO;
    bool fresh = false; /* the part is not what the server has: ask for the whole file */
    for (unsigned attempt = 0; attempt < fetcher->limits.attempts; attempt++) {
        struct transfer t = {.fetcher = fetcher, .url = url, .part = part, .err = err};
        t.from = fresh ? 0 : kda_part_resume(part, origin);
        if (t.from >= fetcher->limits.max_bytes)
            t.from = 0;
        status = run(&t, result);
        fresh = t.changed;
        if (status == KDA_OK || status == KDA_CANCELLED || (!result->broken && !t.changed))
            break;
    }
    return status;
}

enum kda_status kda_fetch_small(struct kda_fetcher *fetcher, const char *url, char *out, size_t cap,
                                size_t *size, struct kda_fetch_result *result,
                                struct kda_error *err)
{
    struct transfer t = {
        .fetcher = fetcher, .url = url, .small = out, .small_cap = cap, .err = err};
    enum kda_status status = run(&t, result);
    if (status == KDA_OK)
        *size = t.small_size;
    return status;
}

bool kda_fetch_resolve(const char *base, const char *reference, char *out, size_t cap)
{
    return kda_http_resolve(base, reference, out, cap) && kda_remote_is_http(out);
}

enum kda_status kda_fetcher_create(const struct kda_download_limits *limits,
                                   kda_progress_fn progress, void *context,
                                   struct kda_fetcher **ret, struct kda_error *err)
{
    struct kda_fetcher *fetcher = kda_calloc(1, sizeof(*fetcher));
    if (fetcher)
        fetcher->http = kda_http_create(limits);
    if (!fetcher || !fetcher->http) {
        kda_free(fetcher);
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "downloads cannot be started");
    }
    fetcher->limits = *limits;
    fetcher->progress = progress;
    fetcher->context = context;
    *ret = fetcher;
    return KDA_OK;
}

void kda_fetcher_destroy(struct kda_fetcher *fetcher)
{
    if (!fetcher)
        return;
    kda_http_destroy(fetcher->http);
    kda_free(fetcher);
}

#endif
