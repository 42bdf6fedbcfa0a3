#include "servers.h"

#include <string.h>

#include "alloc.h"
#include "remote.h"

#define MAX_TOKENS 24

struct caches {
    const char *item[KDA_MAX_CACHES];
    size_t count;
};

static enum kda_status too_many(const char *what, struct kda_error *err)
{
    return kda_fail(err, KDA_LIMIT, "symbols", "the symbol path has too many %s", what);
}

static bool word_is(const char *text, const char *word)
{
    for (; *word; text++, word++) {
        if ((*text | 0x20) != *word)
            return false;
    }
    return *text == '\0';
}

static bool add_cache(struct caches *caches, const char *dir)
{
    if (caches->count == KDA_MAX_CACHES)
        return false;
    caches->item[caches->count++] = dir;
    return true;
}

static enum kda_status add_server(struct kda_servers *servers, const struct caches *caches,
                                  const char *url, struct kda_error *err)
{
    void *items = servers->items;
    if (servers->count >= KDA_MAX_SERVERS)
        return too_many("servers", err);
    if (!kda_grow(&items, &servers->capacity, servers->count + 1, sizeof(*servers->items),
                  KDA_MAX_SERVERS))
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for the symbol path");
    servers->items = items;
    struct kda_server *server = &servers->items[servers->count++];
    memset(server, 0, sizeof(*server));
    memcpy(server->cache, caches->item, sizeof(server->cache));
    server->cache_count = caches->count;
    server->url = url;
    if (server->cache_count == 0)
        server->cache[server->cache_count++] = servers->folder;
    return KDA_OK;
}

/* The stores of one srv element, left to right: folders are caches of the server behind them. */
static enum kda_status add_stores(struct kda_servers *servers, struct caches caches,
                                  char *const *stores, size_t count, struct kda_error *err)
{
    bool pending = false;
    for (size_t i = 0; i < count; i++) {
        if (strstr(stores[i], "://")) {
            enum kda_status status = add_server(servers, &caches, stores[i], err);
            if (status != KDA_OK)
                return status;
            pending = false;
        } else {
            if (!add_cache(&caches, stores[i][0] ? stores[i] : servers->folder))
                return too_many("caches", err);
            pending = true;
        }
    }
    return pending ? add_server(servers, &caches, NULL, err) : KDA_OK;
}

static char *trim(char *text)
{
    while (*text == ' ')
        text++;
    size_t size = strlen(text);
    while (size > 0 && text[size - 1] == ' ')
        text[--size] = '\0';
    return text;
}

static enum kda_status add_element(struct kda_servers *servers, struct caches *running, char *text,
                                   struct kda_error *err)
{
    char *token[MAX_TOKENS];
    size_t count = 0;
    while (text) {
        if (count == MAX_TOKENS)
            return too_many("stores in one element", err);
        char *star = strchr(text, '*');
        if (star)
            *star++ = '\0';
        token[count++] = trim(text);
        text = star;
    }
    if (word_is(token[0], "srv"))
        return add_stores(servers, *running, token + 1, count - 1, err);
    if (word_is(token[0], "symsrv"))
        return count < 3 ? KDA_OK : add_stores(servers, *running, token + 2, count - 2, err);
    if (word_is(token[0], "cache")) {
        const char *dir = count > 1 && token[1][0] ? token[1] : servers->folder;
        return add_cache(running, dir) ? KDA_OK : too_many("caches", err);
    }
    return strstr(token[0], "://") ? add_stores(servers, *running, token, 1, err) : KDA_OK;
}

enum kda_status kda_servers_init(struct kda_servers *servers, const char *path, const char *folder,
                                 struct kda_error *err)
{
    memset(servers, 0, sizeof(*servers));
    servers->text = kda_strdup(path);
    servers->folder = kda_strdup(folder);
    if (!servers->text || !servers->folder)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for the symbol path");
    struct caches running = {.count = 0};
    char *text = servers->text;
    while (text) {
        char *next = strchr(text, ';');
        if (next)
            *next++ = '\0';
        enum kda_status status = add_element(servers, &running, text, err);
        if (status != KDA_OK)
            return status;
        text = next;
    }
    return KDA_OK;
}

void kda_servers_deinit(struct kda_servers *servers)
{
    kda_free(servers->items);
    kda_free(servers->text);
    kda_free(servers->folder);
    memset(servers, 0, sizeof(*servers));
}
