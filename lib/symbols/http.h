/*
 * http.h - one HTTP(S) GET. http_posix.c does it with libcurl, http_win.c with WinHTTP; what an
 * answer means is fetch.c's to say.
 *
 * Redirects are followed, at most KDA_HTTP_REDIRECTS, and never from https to http: who asked for a
 * protected connection does not silently get an open one.
 */
#ifndef KDA_SYMBOLS_HTTP_H
#define KDA_SYMBOLS_HTTP_H

#include "download.h"
#include "part.h"

#define KDA_HTTP_REDIRECTS 10

/* Of the last answer, that is, not of a redirect; texts are "" where there is none. */
struct kda_http_head {
    long code;      /* HTTP status, 0 = none came */
    int64_t length; /* of the body, bytes; -1 = not told */
    char etag[KDA_VALIDATOR_MAX];
    char modified[KDA_VALIDATOR_MAX];
    char range[128]; /* Content-Range */
};

struct kda_http_request {
    const char *url;
    uint64_t from;         /* not 0: only the bytes from here on, … */
    const char *validator; /* … if the server still has this version */
    /* Gets the body piece by piece; false ends the request. */
    bool (*body)(void *context, const struct kda_http_head *head, const char *bytes, size_t size);
    /* Called now and then; false ends the request. */
    bool (*alive)(void *context);
    void *context;
};

enum kda_http_end {
    KDA_HTTP_DONE,
    KDA_HTTP_STOPPED, /* by a callback */
    KDA_HTTP_NO_HOST,
    KDA_HTTP_NO_PROXY,
    KDA_HTTP_NO_CONNECTION,
    KDA_HTTP_NO_TRUST,
    KDA_HTTP_STALLED,
    KDA_HTTP_BAD_URL,
    KDA_HTTP_TOO_MANY_REDIRECTS,
    KDA_HTTP_BAD_REDIRECT, /* to an address that may not be followed */
    KDA_HTTP_TOO_LARGE,
    KDA_HTTP_NO_MEMORY,
    KDA_HTTP_BROKEN
};

struct kda_http;

/* NULL: it cannot be started. */
struct kda_http *kda_http_create(const struct kda_download_limits *limits);
void kda_http_destroy(struct kda_http *http); /* NULL is allowed */

/* One request; *head is what was answered, also where it then failed. */
enum kda_http_end kda_http_get(struct kda_http *http, const struct kda_http_request *request,
                               struct kda_http_head *head);
/* The system's words for the end of the last request; "" if it has none. */
const char *kda_http_reason(const struct kda_http *http);

/* Resolves a reference against a URL as RFC 3986 says; false where it does not fit. */
bool kda_http_resolve(const char *base, const char *reference, char *out, size_t cap);

/* A clock for the distance of progress calls. */
int64_t kda_http_now_ms(void);

/* What both make of a header's value: without blanks at its ends, "" if it does not fit. */
void kda_http_copy_value(const char *value, size_t size, char *out, size_t cap);

#endif
