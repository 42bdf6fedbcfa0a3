/*
 * kda/error.h - the one error idiom of the library.
 *
 * Every fallible function returns `enum kda_status` and takes, last, a nullable
 * `struct kda_error *` in the caller's storage. The sentence is written once, where the
 * fact is known; upper layers may prepend "while ...". Output parameters are untouched
 * on failure. Nothing here allocates. Safe to use from any thread on separate objects.
 */
#ifndef KDA_ERROR_H
#define KDA_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define KDA_MUST_CHECK __attribute__((warn_unused_result))
#ifdef __MINGW32__ /* its own printf is the one of C11, not that of msvcrt.dll */
#define KDA_PRINTF(fmt, args) __attribute__((format(gnu_printf, fmt, args)))
#else
#define KDA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#endif
#else
#define KDA_MUST_CHECK
#define KDA_PRINTF(fmt, args)
#endif

/* What a user must be able to tell apart. KDA_ABSENT, KDA_PAGED_OUT and KDA_UNMAPPED are the
 * three ways memory can be missing from an image; they never end a walk, they become gaps. */
enum kda_status {
    KDA_OK = 0,
    KDA_NOT_MINE,    /* probe only: the file is of another format */
    KDA_BAD_DATA,    /* the file or structure contradicts itself */
    KDA_UNSUPPORTED, /* recognised, by name, but not readable here */
    KDA_ABSENT,      /* the physical page is not in the image */
    KDA_PAGED_OUT,   /* the page table says: in a page file, or demand zero */
    KDA_UNMAPPED,    /* the page table maps nothing there, or the address is not canonical */
    KDA_NO_SYMBOL,   /* a symbol, field or whole layout is missing */
    KDA_LIMIT,       /* a count or size is over a named limit */
    KDA_IO,          /* the operating system refused a read or write */
    KDA_NO_MEMORY,
    KDA_CANCELLED,
    KDA_USAGE, /* the caller's arguments are wrong */
    KDA_STATUS_COUNT
};

/* One failure. `layer` is a string constant ("image", "symbols", ...). `where` is a file offset
 * or an address, as the sentence says; valid only if has_where. */
struct kda_error {
    enum kda_status status;
    const char *layer;
    uint64_t where;
    bool has_where;
    char text[480];
};

/* Stable lower-case word for a status ("paged_out"); used in rows, so it never changes. */
const char *kda_status_name(enum kda_status status);

/* True for the three statuses that mean "memory is not there" (gap, not failure). */
static inline bool kda_status_is_gap(enum kda_status status)
{
    return status == KDA_ABSENT || status == KDA_PAGED_OUT || status == KDA_UNMAPPED;
}

/* Fills *err (nullable) and returns `status`, so that `return kda_fail(...)` is one line. The text
 * is cut, never overrun. */
enum kda_status kda_fail(struct kda_error *err, enum kda_status status, const char *layer,
                         const char *fmt, ...) KDA_PRINTF(4, 5);

/* Same, with the file offset or address the sentence is about. */
enum kda_status kda_fail_at(struct kda_error *err, enum kda_status status, const char *layer,
                            uint64_t where, const char *fmt, ...) KDA_PRINTF(5, 6);

/* Puts a formatted phrase and ": " in front of an existing sentence ("while reading X: ..."). */
void kda_error_prepend(struct kda_error *err, const char *fmt, ...) KDA_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif

#endif
