/*
 * kda/callbacks.h - what drivers asked the kernel to call: notify routines, registry and object
 * callbacks.
 *
 * Ownership: the result owns its rows and borrows module names and altitudes from the kernel; free
 * it before closing the kernel. Threads: immutable once returned.
 */
#ifndef KDA_CALLBACKS_H
#define KDA_CALLBACKS_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"
#include "kda/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Slots of a notify array. Source: 64 pointers before the next global in every surveyed kernel
 * (data behind lib/tables/profiles_data.c), also the limit the documentation of
 * PsSetCreateProcessNotifyRoutine gives. */
#define KDA_CALLBACK_SLOTS 64u
/* Nodes of a callback list; a machine has a dozen. */
#define KDA_MAX_LISTED_CALLBACKS 1024u

/* Numbers are places in tables: a new kind goes to the end. */
enum kda_callback_kind {
    KDA_CALLBACK_PROCESS,        /* PspCreateProcessNotifyRoutine */
    KDA_CALLBACK_THREAD,         /* PspCreateThreadNotifyRoutine */
    KDA_CALLBACK_IMAGE,          /* PspLoadImageNotifyRoutine */
    KDA_CALLBACK_REGISTRY,       /* CallbackListHead */
    KDA_CALLBACK_OBJECT_PROCESS, /* CallbackList of the Process type */
    KDA_CALLBACK_OBJECT_THREAD,  /* CallbackList of the Thread type */
    KDA_CALLBACK_KINDS,
};

struct kda_callback {
    enum kda_callback_kind kind;
    bool has_slot; /* arrays only */
    uint32_t slot;
    uint64_t slot_va; /* where the reference to it stands: the array's slot, or its list link */
    uint64_t va;      /* the kernel's record of it */
    bool readable;    /* false: only the places above are known */
    bool enabled;     /* object callbacks may be switched off; true for the others */
    uint64_t function;
    uint64_t post;                                 /* object callbacks: post-operation, 0 = none */
    const struct kda_module *module, *post_module; /* driver that holds the code, NULL = none */
    uint64_t context;     /* the driver's own; flags of the kernel for process routines */
    const char *altitude; /* NULL: this kind has none, or it cannot be read */
    bool altitude_missing;
    uint32_t operations; /* object callbacks: 1 handle create, 2 handle duplicate */
    uint64_t cookie;     /* registry callbacks */
};

/* What could be read of one kind, so that "no callback" is never said of an array that is not in
 * the image. */
struct kda_callback_source {
    enum kda_status status; /* KDA_OK, KDA_NO_SYMBOL, or why the array or list cannot be read */
    uint64_t va;            /* array or list head, 0 = unknown */
    bool complete;          /* every slot was read, or the list closes */
    size_t found;
    bool has_count;
    uint32_t count;    /* the kernel's own, as far as it keeps one */
    uint64_t count_va; /* known, even if the count cannot be read; 0 = unknown, or none is kept */
    bool by_code;      /* no symbol: found by the code of the functions that register them */
    struct kda_error why; /* KDA_NO_SYMBOL: why the code did not lead there either; else empty */
};

struct kda_callbacks {
    struct kda_callback *rows; /* by kind, then slot or order on the list */
    size_t count;
    struct kda_callback_source sources[KDA_CALLBACK_KINDS];
};

/* Reads them all. Missing memory becomes gaps of the kernel and shows in `sources`. Errors:
 * KDA_NO_SYMBOL (symbols not loaded), KDA_NO_MEMORY.
 * Source: EX_FAST_REF slots -> {rundown, function, context}; registry and object records as stated
 * in callback.c. */
KDA_MUST_CHECK enum kda_status kda_callbacks_read(struct kda_kernel *kernel,
                                                  struct kda_callbacks **ret,
                                                  struct kda_error *err);
void kda_callbacks_free(struct kda_callbacks *callbacks); /* NULL is allowed */

const char *kda_callback_kind_name(enum kda_callback_kind kind); /* "process", "object_thread" */

/* Called for each imported name; `module` is the file it comes from. Returns false to stop. */
typedef bool (*kda_import_fn)(void *context, const char *module, const char *name);

/* Names in the import table of a loaded driver, read from its image. Imports by number are left
 * out. Source: Microsoft PE/COFF specification, import directory. KDA_OK only if the whole table
 * was read (or `fn` stopped it); a gap status when a part of it is not in the image, KDA_BAD_DATA
 * when it is no table. */
KDA_MUST_CHECK enum kda_status kda_module_imports(struct kda_kernel *kernel,
                                                  const struct kda_module *module, kda_import_fn fn,
                                                  void *context, struct kda_error *err);

#ifdef __cplusplus
}
#endif

#endif
