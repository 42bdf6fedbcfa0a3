/*
 * download.h - limits of a download, apart from the public call so that tests can be short.
 */
#ifndef KDA_SYMBOLS_DOWNLOAD_H
#define KDA_SYMBOLS_DOWNLOAD_H

#include "kda/symbols.h"

struct kda_download_limits {
    long connect_ms;    /* until a connection stands */
    long stall_s;       /* a transfer slower than stall_bytes a second for so long is broken off */
    long stall_bytes;   /* bytes a second */
    unsigned attempts;  /* for one URL whose transfer breaks */
    uint64_t max_bytes; /* of a download, and of an unpacked CAB */
};

/* As kda_symbols_download, with the limits given. */
KDA_MUST_CHECK enum kda_status kda_symbols_download_limited(
    const struct kda_kernel_id *id, const struct kda_download_options *options,
    const struct kda_download_limits *limits, char **path, struct kda_error *err);

#endif
