#include "servers.h"

#include <string.h>

#include "file.h"

static enum kda_status add_caches(struct kda_server *server, const struct kda_place *place,
                                  const char *folder, struct kda_error *err)
{
    for (size_t i = 0; i < place->folder_count; i++) {
        if (server->cache_count == KDA_MAX_CACHES)
            return kda_fail(err, KDA_USAGE, "symbols", "more than %u caches in a symbol path",
                            KDA_MAX_CACHES);
        const char *name = place->folders[i];
        /* It would become a strange folder in the current one. */
        if (kda_path_is_foreign(name))
            return kda_fail(err, KDA_USAGE, "symbols",
                            "the symbol path names \"%s\", a folder of Windows; name one of this "
                            "machine",
                            name);
        server->cache[server->cache_count++] = name[0] ? name : folder;
    }
    return KDA_OK;
}

enum kda_status kda_servers_init(struct kda_servers *servers, const char *text, const char *folder,
                                 struct kda_error *err)
{
    memset(servers, 0, sizeof(*servers));
    enum kda_status status = kda_symbol_path_parse(text, &servers->path, err);
    if (status != KDA_OK)
        return status;
    struct kda_server running = {.cache_count = 0};
    for (size_t i = 0; i < servers->path.count; i++) {
        const struct kda_place *place = &servers->path.places[i];
        if (place->kind == KDA_PLACE_FOLDER)
            continue;
        struct kda_server server = running;
        status = add_caches(&server, place, folder, err);
        if (status != KDA_OK)
            return status;
        if (place->kind == KDA_PLACE_CACHE) {
            running = server;
            continue;
        }
        if (server.cache_count == 0)
            server.cache[server.cache_count++] = folder;
        server.url = place->url;
        servers->items[servers->count++] = server;
    }
    return KDA_OK;
}

void kda_servers_deinit(struct kda_servers *servers)
{
    kda_symbol_path_deinit(&servers->path);
}
