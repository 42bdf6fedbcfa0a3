/*
 * servers.h - what a symbol path means for a download: servers and the caches before them.
 */
#ifndef KDA_SYMBOLS_SERVERS_H
#define KDA_SYMBOLS_SERVERS_H

#include "store.h"

#define KDA_MAX_CACHES 16u /* before one server */

/* One server with its caches, nearest first; url NULL = caches alone. */
struct kda_server {
    const char *cache[KDA_MAX_CACHES];
    size_t cache_count;
    const char *url;
};

struct kda_servers {
    struct kda_symbol_path path; /* owns the strings */
    struct kda_server items[KDA_STORE_MAX_PLACES];
    size_t count;
};

/* `text` as _NT_SYMBOL_PATH; plain folders are left out. `folder`: cache where the path names none,
 * borrowed as long as *servers lives. *servers is to be deinitialised even after a failure. Errors:
 * KDA_USAGE (too many parts), KDA_NO_MEMORY.
 * Source: Microsoft "Advanced SymSrv Use": cache* holds for every element to its right. */
KDA_MUST_CHECK enum kda_status kda_servers_init(struct kda_servers *servers, const char *text,
                                                const char *folder, struct kda_error *err);
void kda_servers_deinit(struct kda_servers *servers);

#endif
