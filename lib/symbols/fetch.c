#include "fetch.h"

#ifdef KDA_HAVE_DOWNLOAD

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "alloc.h"

#define MAX_REDIRECTS 10L
#define BUFFER_SIZE (128L * 1024)
#define PROGRESS_GAP_MS 100
#define MAGIC_SIZE 27
#define IGNORED_MAX ((uint64_t)1 << 20)

static const char msf_magic[MAGIC_SIZE + 1] = "Microsoft C/C++ MSF 7.00\r\n\x1a";
static const char cab_magic[] = "MSCF";

struct kda_fetcher {
    CURL *curl;
    struct kda_download_limits limits;
    kda_progress_fn progress;
    void *context;
    int64_t last_ms; /* of the last progress call */
    char reason[CURL_ERROR_SIZE];
};

struct answer {
    char etag[KDA_VALIDATOR_MAX];
    char modified[KDA_VALIDATOR_MAX];
    char range[128];
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
    struct answer answer;
    uint64_t ignored; /* bytes of an error page */
    bool begun;       /* body of a good answer has begun */
    bool changed;     /* the server's file is not the one of the part: start again */
    bool local;
    bool pdb, cab; /* what the bytes so far can be */
    enum kda_status stop;
    struct kda_error *err;
};

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)timespec_get(&ts, TIME_UTC);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static long answer_code(const struct transfer *t)
{
    long code = 0;
    (void)curl_easy_getinfo(t->fetcher->curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

static void copy_header(const char *value, size_t size, char *out, size_t cap)
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

static bool header_is(const char *line, size_t size, const char *name)
{
    size_t length = strlen(name);
    return size > length && line[length] == ':' && curl_strnequal(line, name, length);
}

static size_t on_header(char *line, size_t one, size_t size, void *context)
{
    struct transfer *t = context;
    (void)one;
    if (size >= 5 && memcmp(line, "HTTP/", 5) == 0)
        memset(&t->answer, 0, sizeof(t->answer)); /* a redirect's headers are not the file's */
    else if (header_is(line, size, "ETag"))
        copy_header(line + 5, size - 5, t->answer.etag, sizeof(t->answer.etag));
    else if (header_is(line, size, "Last-Modified"))
        copy_header(line + 14, size - 14, t->answer.modified, sizeof(t->answer.modified));
    else if (header_is(line, size, "Content-Range"))
        copy_header(line + 14, size - 14, t->answer.range, sizeof(t->answer.range));
    return size;
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
    if (t->from == 0 || !kda_remote_content_range(t->answer.range, &first, &total) ||
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
    curl_off_t length = -1;
    (void)curl_easy_getinfo(t->fetcher->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    origin.total = length > 0 ? (uint64_t)length : 0;
    if (origin.total > t->fetcher->limits.max_bytes)
        return too_big(t);
    kda_remote_redact(t->url, origin.url, sizeof(origin.url)); /* no password into a cache */
    /* A weak tag may stand for different bytes; If-Range takes strong ones and dates. */
    bool strong = t->answer.etag[0] == '"';
    (void)snprintf(origin.validator, sizeof(origin.validator), "%s",
                   strong ? t->answer.etag : t->answer.modified);
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

static size_t on_body(char *bytes, size_t one, size_t size, void *context)
{
    struct transfer *t = context;
    (void)one;
    long code = answer_code(t);
    if (code != 200 && code != 206) {
        /* An error page is of no interest, and an endless one must end. */
        t->ignored += size;
        return t->ignored <= IGNORED_MAX ? size : 0;
    }
    if (!t->begun)
        t->stop = begin(t, code);
    if (t->stop == KDA_OK)
        t->stop = store(t, bytes, size);
    return t->stop == KDA_OK ? size : 0;
}

static bool report(struct transfer *t, bool last)
{
    struct kda_fetcher *fetcher = t->fetcher;
    int64_t now = now_ms();
    int64_t gap = now - fetcher->last_ms;
    /* A clock set back must not silence the line for hours. */
    if (!fetcher->progress || (!last && gap >= 0 && gap < PROGRESS_GAP_MS))
        return true;
    fetcher->last_ms = now;
    bool file = t->part && t->begun;
    return fetcher->progress(fetcher->context, file ? kda_part_size(t->part) : 0,
                             file ? t->total : 0);
}

static int on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now)
{
    struct transfer *t = context;
    (void)total;
    (void)now;
    (void)up_total;
    (void)up_now;
    if (report(t, false))
        return 0;
    t->stop = kda_fail(t->err, KDA_CANCELLED, "symbols", "the download was cancelled");
    return 1;
}

static CURLcode set_protocols(CURL *curl, bool tls_only)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    CURLcode rc = curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    /* Who asked for a protected connection does not silently get an open one. */
    return rc ? rc
              : curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR,
                                 tls_only ? "https" : "http,https");
#else
    CURLcode rc =
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    return rc ? rc
              : curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS,
                                 tls_only ? (long)CURLPROTO_HTTPS
                                          : (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static CURLcode set_options(CURL *curl, struct transfer *t)
{
    const struct kda_download_limits *limits = &t->fetcher->limits;
    CURLcode rc = set_protocols(curl, kda_remote_is_https(t->url));
#define SET(option, value) rc = rc ? rc : curl_easy_setopt(curl, option, value)
    SET(CURLOPT_URL, t->url);
    SET(CURLOPT_USERAGENT, "kda/" KDA_VERSION);
    /* No signals: the caller's threads and handlers are not ours. */
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_BUFFERSIZE, BUFFER_SIZE);
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, MAX_REDIRECTS);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, limits->connect_ms);
    SET(CURLOPT_LOW_SPEED_LIMIT, limits->stall_bytes);
    SET(CURLOPT_LOW_SPEED_TIME, limits->stall_s);
    SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)limits->max_bytes);
    SET(CURLOPT_ERRORBUFFER, t->fetcher->reason);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, t);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, t);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, t);
#undef SET
    return rc;
}

/* Range goes through CURLOPT_RANGE: with CURLOPT_RESUME_FROM libcurl gives up on a server that
 * sends the whole file, where we only start again. */
static CURLcode ask_for_rest(CURL *curl, const struct transfer *t, struct curl_slist **headers)
{
    char line[KDA_VALIDATOR_MAX + 16];
    (void)snprintf(line, sizeof(line), "If-Range: %s", t->part->origin.validator);
    *headers = kda_fault() ? NULL : curl_slist_append(NULL, line);
    if (!*headers)
        return CURLE_OUT_OF_MEMORY;
    (void)snprintf(line, sizeof(line), "%llu-", (unsigned long long)t->from);
    CURLcode rc = curl_easy_setopt(curl, CURLOPT_RANGE, line);
    return rc ? rc : curl_easy_setopt(curl, CURLOPT_HTTPHEADER, *headers);
}

static CURLcode perform(struct transfer *t)
{
    CURL *curl = t->fetcher->curl;
    struct curl_slist *headers = NULL;
    curl_easy_reset(curl); /* keeps the connection */
    t->fetcher->reason[0] = '\0';
    CURLcode rc = set_options(curl, t);
    if (rc == CURLE_OK && t->from > 0)
        rc = ask_for_rest(curl, t, &headers);
    if (rc == CURLE_OK)
        rc = kda_fault() ? CURLE_RECV_ERROR : curl_easy_perform(curl);
    curl_slist_free_all(headers);
    return rc;
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
    const char *reason = t->fetcher->reason[0] ? t->fetcher->reason : "no reason given";
    if (!t->begun)
        return kda_fail(t->err, KDA_IO, "symbols", "%s (%s)", how, reason);
    return kda_fail(t->err, KDA_IO, "symbols", "%s after %llu bytes (%s)", how,
                    (unsigned long long)(t->part ? kda_part_size(t->part) : 0), reason);
}

static enum kda_status explain(const struct transfer *t, CURLcode rc,
                               struct kda_fetch_result *result)
{
    switch (rc) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return broke(t, "host not found; is this machine offline?", result);
    case CURLE_COULDNT_RESOLVE_PROXY:
        return broke(t, "proxy not found; see the http_proxy and https_proxy variables", result);
    case CURLE_COULDNT_CONNECT:
        return broke(t, "cannot connect", result);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
        return broke(t, "no trusted connection", result);
    case CURLE_OPERATION_TIMEDOUT:
        return broke(t, "the server stalled", result);
    case CURLE_URL_MALFORMAT:
        return broke(t, "not a usable address", result);
    case CURLE_TOO_MANY_REDIRECTS:
        return kda_fail(t->err, KDA_BAD_DATA, "symbols", "the server redirects more than %ld times",
                        MAX_REDIRECTS);
    case CURLE_UNSUPPORTED_PROTOCOL:
        return kda_fail(t->err, KDA_BAD_DATA, "symbols",
                        "the server redirects to an address that may not be followed (%s)",
                        t->fetcher->reason);
    case CURLE_FILESIZE_EXCEEDED:
        return too_big(t);
    case CURLE_OUT_OF_MEMORY:
        result->local = true;
        return kda_fail(t->err, KDA_NO_MEMORY, "symbols", "out of memory during the download");
    default:
        return broke(t, "the connection broke", result);
    }
}

static enum kda_status run(struct transfer *t, struct kda_fetch_result *result)
{
    memset(result, 0, sizeof(*result));
    CURLcode rc = perform(t);
    result->code = answer_code(t);
    result->local = t->local;
    if (t->stop != KDA_OK) {
        result->broken = t->stop == KDA_CANCELLED;
        return t->stop;
    }
    if (rc == CURLE_OK || t->ignored > IGNORED_MAX)
        return finish(t, result);
    return explain(t, rc, result);
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
    char *text = NULL;
    bool ok = false;
    CURLU *url = kda_fault() ? NULL : curl_url();
    if (url && curl_url_set(url, CURLUPART_URL, base, 0) == CURLUE_OK &&
        curl_url_set(url, CURLUPART_URL, reference, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_URL, &text, 0) == CURLUE_OK) {
        int size = snprintf(out, cap, "%s", text);
        ok = size > 0 && (size_t)size < cap && kda_remote_is_http(out);
    }
    curl_free(text);
    curl_url_cleanup(url);
    return ok;
}

enum kda_status kda_fetcher_create(const struct kda_download_limits *limits,
                                   kda_progress_fn progress, void *context,
                                   struct kda_fetcher **ret, struct kda_error *err)
{
    struct kda_fetcher *fetcher = kda_calloc(1, sizeof(*fetcher));
    /* Counted by libcurl: a pair around each download leaves nothing behind and does not disturb a
     * program that uses libcurl itself. */
    if (!fetcher || kda_fault() || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        kda_free(fetcher);
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "libcurl cannot be started");
    }
    fetcher->limits = *limits;
    fetcher->progress = progress;
    fetcher->context = context;
    fetcher->curl = kda_fault() ? NULL : curl_easy_init();
    if (!fetcher->curl) {
        kda_fetcher_destroy(fetcher);
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "libcurl cannot be started");
    }
    *ret = fetcher;
    return KDA_OK;
}

void kda_fetcher_destroy(struct kda_fetcher *fetcher)
{
    if (!fetcher)
        return;
    if (fetcher->curl)
        curl_easy_cleanup(fetcher->curl);
    curl_global_cleanup();
    kda_free(fetcher);
}

#endif
