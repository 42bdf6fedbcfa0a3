/* http_posix.c - HTTP through libcurl. */
#include "http.h"

#ifdef KDA_HAVE_DOWNLOAD

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "alloc.h"
#include "remote.h"

#define BUFFER_SIZE (128L * 1024)

struct kda_http {
    CURL *curl;
    struct kda_download_limits limits;
    char reason[CURL_ERROR_SIZE];
};

struct call {
    struct kda_http *http;
    const struct kda_http_request *request;
    struct kda_http_head *head;
    bool stopped;
};

int64_t kda_http_now_ms(void)
{
    struct timespec ts;
    (void)timespec_get(&ts, TIME_UTC);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool header_is(const char *line, size_t size, const char *name)
{
    size_t length = strlen(name);
    return size > length && line[length] == ':' && curl_strnequal(line, name, length);
}

static size_t on_header(char *line, size_t one, size_t size, void *context)
{
    struct call *call = context;
    struct kda_http_head *head = call->head;
    (void)one;
    if (size >= 5 && memcmp(line, "HTTP/", 5) == 0)
        *head = (struct kda_http_head){.length = -1}; /* a redirect's headers are not the file's */
    else if (header_is(line, size, "ETag"))
        kda_http_copy_value(line + 5, size - 5, head->etag, sizeof(head->etag));
    else if (header_is(line, size, "Last-Modified"))
        kda_http_copy_value(line + 14, size - 14, head->modified, sizeof(head->modified));
    else if (header_is(line, size, "Content-Range"))
        kda_http_copy_value(line + 14, size - 14, head->range, sizeof(head->range));
    return size;
}

static void read_head(const struct call *call)
{
    curl_off_t length = -1;
    CURL *curl = call->http->curl;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &call->head->code);
    (void)curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    call->head->length = length;
}

static size_t on_body(char *bytes, size_t one, size_t size, void *context)
{
    struct call *call = context;
    (void)one;
    read_head(call);
    if (call->request->body(call->request->context, call->head, bytes, size))
        return size;
    call->stopped = true;
    return 0;
}

static int on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now)
{
    struct call *call = context;
    (void)total;
    (void)now;
    (void)up_total;
    (void)up_now;
    if (call->request->alive(call->request->context))
        return 0;
    call->stopped = true;
    return 1;
}

static CURLcode set_protocols(CURL *curl, bool tls_only)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    CURLcode rc = curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
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

static CURLcode set_options(CURL *curl, struct call *call)
{
    const struct kda_download_limits *limits = &call->http->limits;
    CURLcode rc = set_protocols(curl, kda_remote_is_https(call->request->url));
#define SET(option, value) rc = rc ? rc : curl_easy_setopt(curl, option, value)
    SET(CURLOPT_URL, call->request->url);
    SET(CURLOPT_USERAGENT, "kda/" KDA_VERSION);
    /* No signals: the caller's threads and handlers are not ours. */
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_BUFFERSIZE, BUFFER_SIZE);
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, (long)KDA_HTTP_REDIRECTS);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, limits->connect_ms);
    SET(CURLOPT_LOW_SPEED_LIMIT, limits->stall_bytes);
    SET(CURLOPT_LOW_SPEED_TIME, limits->stall_s);
    SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)limits->max_bytes);
    SET(CURLOPT_ERRORBUFFER, call->http->reason);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, call);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, call);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, call);
#undef SET
    return rc;
}

/* Range goes through CURLOPT_RANGE: with CURLOPT_RESUME_FROM libcurl gives up on a server that
 * sends the whole file, where we only start again. */
static CURLcode ask_for_rest(CURL *curl, const struct kda_http_request *request,
                             struct curl_slist **headers)
{
    char line[KDA_VALIDATOR_MAX + 16];
    (void)snprintf(line, sizeof(line), "If-Range: %s", request->validator);
    *headers = kda_fault() ? NULL : curl_slist_append(NULL, line);
    if (!*headers)
        return CURLE_OUT_OF_MEMORY;
    (void)snprintf(line, sizeof(line), "%llu-", (unsigned long long)request->from);
    CURLcode rc = curl_easy_setopt(curl, CURLOPT_RANGE, line);
    return rc ? rc : curl_easy_setopt(curl, CURLOPT_HTTPHEADER, *headers);
}

static enum kda_http_end end_of(CURLcode rc)
{
    switch (rc) {
    case CURLE_OK:
        return KDA_HTTP_DONE;
    case CURLE_COULDNT_RESOLVE_HOST:
        return KDA_HTTP_NO_HOST;
    case CURLE_COULDNT_RESOLVE_PROXY:
        return KDA_HTTP_NO_PROXY;
    case CURLE_COULDNT_CONNECT:
        return KDA_HTTP_NO_CONNECTION;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
        return KDA_HTTP_NO_TRUST;
    case CURLE_OPERATION_TIMEDOUT:
        return KDA_HTTP_STALLED;
    case CURLE_URL_MALFORMAT:
        return KDA_HTTP_BAD_URL;
    case CURLE_TOO_MANY_REDIRECTS:
        return KDA_HTTP_TOO_MANY_REDIRECTS;
    case CURLE_UNSUPPORTED_PROTOCOL:
        return KDA_HTTP_BAD_REDIRECT;
    case CURLE_FILESIZE_EXCEEDED:
        return KDA_HTTP_TOO_LARGE;
    case CURLE_OUT_OF_MEMORY:
        return KDA_HTTP_NO_MEMORY;
    default:
        return KDA_HTTP_BROKEN;
    }
}

enum kda_http_end kda_http_get(struct kda_http *http, const struct kda_http_request *request,
                               struct kda_http_head *head)
{
    struct call call = {.http = http, .request = request, .head = head};
    struct curl_slist *headers = NULL;
    *head = (struct kda_http_head){.length = -1};
    curl_easy_reset(http->curl); /* keeps the connection */
    http->reason[0] = '\0';
    CURLcode rc = set_options(http->curl, &call);
    if (rc == CURLE_OK && request->from > 0)
        rc = ask_for_rest(http->curl, request, &headers);
    if (rc == CURLE_OK)
        rc = kda_fault() ? CURLE_RECV_ERROR : curl_easy_perform(http->curl);
    curl_slist_free_all(headers);
    read_head(&call);
    return call.stopped ? KDA_HTTP_STOPPED : end_of(rc);
}

const char *kda_http_reason(const struct kda_http *http)
{
    return http->reason;
}

bool kda_http_resolve(const char *base, const char *reference, char *out, size_t cap)
{
    char *text = NULL;
    bool ok = false;
    CURLU *url = kda_fault() ? NULL : curl_url();
    if (url && curl_url_set(url, CURLUPART_URL, base, 0) == CURLUE_OK &&
        curl_url_set(url, CURLUPART_URL, reference, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_URL, &text, 0) == CURLUE_OK) {
        int size = snprintf(out, cap, "%s", text);
        ok = size > 0 && (size_t)size < cap;
    }
    curl_free(text);
    curl_url_cleanup(url);
    return ok;
}

struct kda_http *kda_http_create(const struct kda_download_limits *limits)
{
    struct kda_http *http = kda_calloc(1, sizeof(*http));
    /* Counted by libcurl: a pair around each download leaves nothing behind and does not disturb a
     * program that uses libcurl itself. */
    if (!http || kda_fault() || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        kda_free(http);
        return NULL;
    }
    http->limits = *limits;
    http->curl = kda_fault() ? NULL : curl_easy_init();
    if (!http->curl) {
        kda_http_destroy(http);
        return NULL;
    }
    return http;
}

void kda_http_destroy(struct kda_http *http)
{
    if (!http)
        return;
    if (http->curl)
        curl_easy_cleanup(http->curl);
    curl_global_cleanup();
    kda_free(http);
}

#endif
