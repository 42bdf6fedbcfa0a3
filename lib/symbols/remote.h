/*
 * remote.h - the text rules of HTTP symbol stores: names, URLs, pointer files, ranges. Pure
 * functions over text that an image or a server chose; no network, no files.
 */
#ifndef KDA_SYMBOLS_REMOTE_H
#define KDA_SYMBOLS_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KDA_URL_MAX 2048
#define KDA_VALIDATOR_MAX 256
#define KDA_POINTER_MAX 4096 /* bytes of a file.ptr that are read */

/* http:// or https://, any case, with a host. */
bool kda_remote_is_http(const char *url);
bool kda_remote_is_https(const char *url);

/* "root/part/part...": parts are percent-encoded, root is taken as it is without trailing slashes.
 * A NULL or empty part is left out. False when it does not fit. */
bool kda_remote_url(const char *root, const char *const *parts, size_t count, char *out,
                    size_t cap);

/* For messages and side files: user name and password cut out, control characters replaced. */
void kda_remote_redact(const char *url, char *out, size_t cap);

/* What a file.ptr says. Source: Microsoft symbol store documentation ("file.ptr" holds "PATH:"
 * and a place, or "MSG:" and a sentence). */
enum kda_pointer_kind {
    KDA_POINTER_NONE,     /* empty, a web page or not text at all */
    KDA_POINTER_URL,      /* out: http(s) URL */
    KDA_POINTER_RELATIVE, /* out: reference on the same server, percent-encoded */
    KDA_POINTER_FOREIGN,  /* out: a share, a drive or another scheme; never followed */
    KDA_POINTER_MESSAGE,  /* out: the sentence, safe to print */
};
enum kda_pointer_kind kda_remote_pointer(const char *text, size_t size, char *out, size_t cap);

/* Value of a Content-Range header, "bytes FIRST-LAST/TOTAL"; *total is 0 for "*". */
bool kda_remote_content_range(const char *value, uint64_t *first, uint64_t *total);

/* Where the bytes of a partial download came from: without a match on all three a resumed file
 * could be glued together from two different ones. */
struct kda_part_origin {
    char url[KDA_URL_MAX];
    char validator[KDA_VALIDATOR_MAX]; /* value for If-Range: strong ETag or Last-Modified */
    uint64_t total;                    /* bytes of the whole file, 0 = not told */
};
/* Text of the side file, "url\nvalidator\ntotal\n". */
bool kda_remote_origin_parse(const char *text, size_t size, struct kda_part_origin *ret);

#endif
