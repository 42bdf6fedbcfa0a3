/*
 * servers.h - what a symbol path means for a download: servers and the caches before them.
 */
#ifndef KDA_SYMBOLS_SERVERS_H
#define KDA_SYMBOLS_SERVERS_H

#include <stddef.h>

#include "kda/error.h"

#define KDA_MAX_CACHES 16
#define KDA_MAX_SERVERS 64

/* One server with its caches, nearest first; url NULL = caches alone. */
struct kda_server {
    const char *cache[KDA_MAX_CACHES];
    size_t cache_count;
    const char *url;
};

struct kda_servers {
    char *text;   /* pieces point into it */
    char *folder; /* for elements that name no cache */
    struct kda_server *items;
    size_t count, capacity;
};

/* `path` as _NT_SYMBOL_PATH; elements without a server (plain folders) are left out. `folder`:
 * cache where an element names none. Errors: KDA_LIMIT, KDA_NO_MEMORY.
 * Source: Microsoft "Advanced SymSrv Use" (srv*, symsrv*dll*, cache*). */
KDA_MUST_CHECK enum kda_status kda_servers_init(struct kda_servers *servers, const char *path,
                                                const char *folder, struct kda_error *err);
void kda_servers_deinit(struct kda_servers *servers);

#endif
