#include "download.h"

#include "alloc.h"

static const struct kda_download_limits default_limits = {
    .connect_ms = 20000,
    .stall_s = 30,
    .stall_bytes = 64,
    .attempts = 3,
    .max_bytes = (uint64_t)512 << 20,
};

#ifdef KDA_HAVE_DOWNLOAD

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fetch.h"
#include "handle.h"
#include "keep.h"
#include "servers.h"
#include "text.h"

/* Source: Microsoft documentation, "Microsoft public symbol server". */
#define PUBLIC_SERVER "https://msdl.microsoft.com/download/symbols"

/* A store is asked for up to four spellings: file servers on Linux tell case apart. */
#define SPELLINGS 4

struct spelling {
    const char *name;
    const char *key;
};

struct job {
    const struct kda_kernel_id *id;
    const struct kda_download_limits *limits;
    struct kda_fetcher *fetcher;
    char key[KDA_KEY_TEXT], lower_key[KDA_KEY_TEXT];
    char lower_name[KDA_PDB_NAME_MAX];
    struct spelling spelling[SPELLINGS];
    size_t spellings;
    bool stop; /* the failure in hand is final: cancelled, or on this side */
    /* What each server said, for the final sentence. */
    enum kda_status worst;
    char said[400];
    size_t said_size;
};

/* One server while it is asked. */
struct asked {
    const char *root;
    struct kda_part part;
    const char *target;
    bool dead;
    unsigned requests;
    long code; /* of the last "no" */
    struct kda_error problem;
};

static bool format(char *out, size_t cap, const char *fmt, ...) KDA_PRINTF(3, 4);
static bool format(char *out, size_t cap, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(out, cap, fmt, args);
    va_end(args);
    return size >= 0 && (size_t)size < cap;
}

/* --- asking one server --- */

/* What was fetched -> verified and in place. */
static enum kda_status settle(const struct job *job, struct asked *asked, struct kda_error *err)
{
    struct kda_file *file = NULL;
    uint8_t magic[4];
    enum kda_status status = kda_file_open(asked->part.path, &file, err);
    if (status == KDA_OK)
        status = kda_file_read_at(file, 0, magic, sizeof(magic), err);
    if (status == KDA_OK && memcmp(magic, "MSCF", sizeof(magic)) == 0) {
        status = kda_keep_install(job->id, file, true, job->limits->max_bytes, asked->target, err);
    } else if (status == KDA_OK) {
        status = kda_keep_verify(asked->part.path, job->id, err);
        if (status == KDA_OK)
            status = kda_part_commit(&asked->part, asked->target, err);
    }
    kda_file_close(file);
    kda_part_forget(&asked->part);
    return status;
}

/* A refused pointer is kept as a reason too, but a lie or a breakdown says more. */
static bool is_problem(const struct asked *asked)
{
    return asked->problem.status != KDA_OK && asked->problem.status != KDA_ABSENT;
}

static enum kda_status keep_problem(struct job *job, struct asked *asked, enum kda_status status,
                                    const struct kda_fetch_result *result,
                                    const struct kda_error *why)
{
    asked->dead = asked->dead || result->dead;
    if (status == KDA_CANCELLED || status == KDA_NO_MEMORY || result->local)
        job->stop = true;
    if (status == KDA_ABSENT)
        asked->code = result->code;
    /* The first lie or breakdown explains more than what follows from it. */
    if (job->stop || (status != KDA_ABSENT && !is_problem(asked)))
        asked->problem = *why;
    return status;
}

static enum kda_status get_file(struct job *job, struct asked *asked, const char *url)
{
    struct kda_error why;
    struct kda_fetch_result result;
    asked->requests++;
    enum kda_status status = kda_fetch_file(job->fetcher, url, &asked->part, &result, &why);
    if (status != KDA_OK)
        return keep_problem(job, asked, status, &result, &why);
    status = settle(job, asked, &why);
    if (status == KDA_OK)
        return status;
    /* A whole wrong file: the next would be no better. What failed on this side stays here. */
    result.dead = true;
    result.local = status == KDA_IO;
    return keep_problem(job, asked, status, &result, &why);
}

static bool store_url(const struct asked *asked, const struct spelling *s, bool two_tier,
                      const char *file, char *out)
{
    char first[3] = {s->name[0], s->name[0] ? s->name[1] : '\0', '\0'};
    const char *parts[] = {two_tier ? first : NULL, s->name, s->key, file};
    return kda_remote_url(asked->root, parts, 4, out, KDA_URL_MAX);
}

static enum kda_status refuse_pointer(struct asked *asked, const char *place, const char *why)
{
    if (asked->problem.status != KDA_OK)
        return KDA_ABSENT;
    return kda_fail(&asked->problem, KDA_ABSENT, "symbols",
                    "the server points to \"%.200s\", which %s", place, why);
}

/* file.ptr: the server says where the file is. Only the web is followed: a path on this machine or
 * a share, named by a server, is none of its business. */
static enum kda_status follow_pointer(struct job *job, struct asked *asked, const char *url)
{
    char text[KDA_POINTER_MAX], place[KDA_URL_MAX], next[KDA_URL_MAX];
    size_t size = 0;
    struct kda_error why;
    struct kda_fetch_result result;
    asked->requests++;
    enum kda_status status =
        kda_fetch_small(job->fetcher, url, text, sizeof(text), &size, &result, &why);
    if (status == KDA_LIMIT)
        return KDA_ABSENT; /* a web page, not a pointer */
    if (status != KDA_OK)
        return keep_problem(job, asked, status, &result, &why);
    switch (kda_remote_pointer(text, size, place, sizeof(place))) {
    case KDA_POINTER_NONE:
        return KDA_ABSENT;
    case KDA_POINTER_MESSAGE:
        if (asked->problem.status == KDA_OK)
            (void)kda_fail(&asked->problem, KDA_ABSENT, "symbols", "the server says:%.200s", place);
        return KDA_ABSENT;
    case KDA_POINTER_FOREIGN:
        return refuse_pointer(asked, place, "is not followed");
    case KDA_POINTER_URL:
    case KDA_POINTER_RELATIVE:
        break;
    }
    if (!kda_fetch_resolve(url, place, next, sizeof(next)))
        return refuse_pointer(asked, place, "is no address");
    if (kda_remote_is_https(url) && !kda_remote_is_https(next))
        return refuse_pointer(asked, place, "is not a protected address");
    return get_file(job, asked, next);
}

enum kind { PLAIN, PACKED, POINTER, KINDS };

static enum kda_status get_kind(struct job *job, struct asked *asked, size_t spelling,
                                bool two_tier, enum kind kind)
{
    const struct spelling *s = &job->spelling[spelling];
    char file[KDA_PDB_NAME_MAX], url[KDA_URL_MAX];
    (void)format(file, sizeof(file), "%s", kind == POINTER ? "file.ptr" : s->name);
    if (kind == PACKED)
        file[strlen(file) - 1] = '_';
    if (!store_url(asked, s, two_tier, file, url)) {
        asked->dead = true;
        return kda_fail(&asked->problem, KDA_LIMIT, "symbols", "the server's address is too long");
    }
    return kind == POINTER ? follow_pointer(job, asked, url) : get_file(job, asked, url);
}

/* `skip`: this many of the first requests were made already. */
static enum kda_status get_all(struct job *job, struct asked *asked, bool two_tier, size_t skip)
{
    for (size_t i = skip; i < job->spellings * KINDS; i++) {
        enum kda_status status = get_kind(job, asked, i / KINDS, two_tier, (enum kind)(i % KINDS));
        if (status == KDA_OK || job->stop || asked->dead)
            return status;
    }
    return KDA_ABSENT;
}

static bool has_index2(struct job *job, struct asked *asked)
{
    char url[KDA_URL_MAX], text[KDA_POINTER_MAX];
    size_t size;
    struct kda_fetch_result result;
    struct kda_error why;
    static const char *const parts[] = {"index2.txt"};
    if (!kda_remote_url(asked->root, parts, 1, url, sizeof(url)))
        return false;
    asked->requests++;
    enum kda_status status =
        kda_fetch_small(job->fetcher, url, text, sizeof(text), &size, &result, &why);
    if (status != KDA_OK && status != KDA_ABSENT && status != KDA_LIMIT)
        (void)keep_problem(job, asked, status, &result, &why);
    return status == KDA_OK || status == KDA_LIMIT;
}

/* The plain place first: one request where the store is as usual. Only then the rest. */
static enum kda_status ask(struct job *job, struct asked *asked)
{
    enum kda_status status = get_kind(job, asked, 0, false, PLAIN);
    if (status == KDA_OK || job->stop || asked->dead)
        return status;
    bool two_tier = has_index2(job, asked);
    if (job->stop || asked->dead)
        return KDA_ABSENT;
    if (two_tier) {
        status = get_all(job, asked, true, 0);
        if (status == KDA_OK || job->stop || asked->dead)
            return status;
    }
    return get_all(job, asked, false, 1);
}

/* Cut where it does not fit: the first servers matter most. */
static void append(struct job *job, const char *fmt, ...) KDA_PRINTF(2, 3);
static void append(struct job *job, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(job->said + job->said_size, sizeof(job->said) - job->said_size, fmt, args);
    va_end(args);
    job->said_size = kda_utf8_valid_prefix(job->said, strlen(job->said));
    job->said[job->said_size] = '\0';
}

static void say(struct job *job, const struct asked *asked)
{
    char root[160];
    enum kda_status status = asked->problem.status != KDA_OK ? asked->problem.status : KDA_ABSENT;
    kda_remote_redact(asked->root, root, sizeof(root));
    append(job, "%s%s", job->said_size ? "; " : "", root);
    if (asked->problem.status != KDA_OK)
        append(job, ": %s", asked->problem.text);
    else
        append(job, " (%u requests, last answer HTTP %ld)", asked->requests, asked->code);
    /* A lie is worth more attention than a breakdown, that more than "not here". */
    if (job->worst != KDA_BAD_DATA && status != KDA_ABSENT)
        job->worst = status;
}

static enum kda_status open_fetcher(struct job *job, const struct kda_download_options *options,
                                    struct kda_error *err)
{
    if (job->fetcher)
        return KDA_OK;
    return kda_fetcher_create(job->limits, options->progress, options->context, &job->fetcher, err);
}

/* Into every cache nearer than the one that has it; a cache that cannot be written is no failure,
 * the file is there. *path follows to the nearest copy. */
static enum kda_status spread(const struct job *job, const struct kda_server *server, size_t have,
                              char *path, struct kda_error *err)
{
    struct kda_error ignored;
    for (size_t i = have; i-- > 0;) {
        char target[KDA_STORE_PATH_MAX];
        struct kda_file *file = NULL;
        enum kda_status status = kda_keep_prepare(job->id, server->cache[i], target, &ignored);
        if (status == KDA_OK)
            status = kda_file_open(path, &file, &ignored);
        if (status == KDA_OK)
            status = kda_keep_install(job->id, file, false, 0, target, &ignored);
        kda_file_close(file);
        if (status == KDA_NO_MEMORY)
            return kda_fail(err, status, "symbols", "out of memory copying a PDB");
        if (status == KDA_OK)
            (void)format(path, KDA_STORE_PATH_MAX, "%s", target);
        else
            kda_keep_tidy(target);
    }
    return KDA_OK;
}

/* The cache next to the server that can be written receives the file. */
static enum kda_status choose_cache(struct job *job, const struct kda_server *server,
                                    struct kda_part *part, size_t *chosen, char *target,
                                    struct kda_error *err)
{
    enum kda_status status = KDA_IO;
    for (size_t i = server->cache_count; i-- > 0;) {
        status = kda_keep_prepare(job->id, server->cache[i], target, err);
        if (status == KDA_OK)
            status = kda_part_init(part, target, err);
        if (status == KDA_OK) {
            *chosen = i;
            return status;
        }
        kda_part_deinit(part, true);
        if (status == KDA_NO_MEMORY)
            return status;
    }
    return status;
}

static enum kda_status fetch_from(struct job *job, const struct kda_server *server, char *path,
                                  struct kda_error *err)
{
    struct asked asked = {.root = server->url, .target = path};
    size_t chosen = 0;
    if (!kda_remote_is_http(server->url)) {
        (void)kda_fail(&asked.problem, KDA_USAGE, "symbols",
                       "only http and https servers are asked");
        say(job, &asked);
        return KDA_ABSENT;
    }
    enum kda_status status = choose_cache(job, server, &asked.part, &chosen, path, err);
    if (status != KDA_OK) {
        job->stop = true;
        return status;
    }
    status = ask(job, &asked);
    kda_part_deinit(&asked.part, true);
    if (status == KDA_OK)
        return spread(job, server, chosen, path, err);
    kda_keep_tidy(path);
    if (job->stop && err)
        *err = asked.problem;
    else
        say(job, &asked);
    return job->stop ? asked.problem.status : status;
}

/* --- the whole --- */

static enum kda_status from_caches(struct job *job, const struct kda_servers *servers, char *path,
                                   struct kda_error *err)
{
    for (size_t i = 0; i < servers->count; i++) {
        const struct kda_server *server = &servers->items[i];
        for (size_t c = 0; c < server->cache_count; c++) {
            enum kda_status status = kda_keep_find(job->id, server->cache[c], path, err);
            if (status == KDA_OK)
                return spread(job, server, c, path, err);
            if (status != KDA_ABSENT)
                return status;
        }
    }
    return KDA_ABSENT;
}

static enum kda_status summary(const struct job *job, const struct kda_servers *servers,
                               struct kda_error *err)
{
    const char *name = job->id->pdb_name;
    bool any = false;
    for (size_t i = 0; i < servers->count; i++)
        any = any || servers->items[i].url;
    if (!any)
        return kda_fail(err, KDA_USAGE, "symbols",
                        "the symbol path names no server to get \"%s\" from; write "
                        "srv*FOLDER*https://SERVER",
                        name);
    if (job->worst == KDA_OK)
        return kda_fail(err, KDA_ABSENT, "symbols",
                        "no server has %s/%s/%s; asked for it plain, compressed and as file.ptr, "
                        "upper and lower case: %s",
                        name, job->key, name, job->said);
    return kda_fail(err, job->worst, "symbols", "cannot get %s/%s: %s", name, job->key, job->said);
}

static enum kda_status from_servers(struct job *job, const struct kda_servers *servers,
                                    const struct kda_download_options *options, char *path,
                                    struct kda_error *err)
{
    for (size_t i = 0; i < servers->count; i++) {
        const struct kda_server *server = &servers->items[i];
        if (!server->url)
            continue;
        enum kda_status status = open_fetcher(job, options, err);
        if (status == KDA_OK)
            status = fetch_from(job, server, path, err);
        else
            job->stop = true;
        if (status == KDA_OK || job->stop)
            return status;
    }
    return summary(job, servers, err);
}

static void lower_text(const char *text, char *out, size_t cap)
{
    (void)format(out, cap, "%s", text);
    for (char *p = out; *p; p++) {
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    }
}

static void add_spelling(struct job *job, const char *name, const char *key)
{
    for (size_t i = 0; i < job->spellings; i++) {
        if (strcmp(job->spelling[i].name, name) == 0 && strcmp(job->spelling[i].key, key) == 0)
            return;
    }
    job->spelling[job->spellings++] = (struct spelling){name, key};
}

static enum kda_status init_job(struct job *job, const struct kda_kernel_id *id,
                                const struct kda_download_limits *limits, struct kda_error *err)
{
    memset(job, 0, sizeof(*job));
    job->id = id;
    job->limits = limits;
    if (!id->has_pdb)
        return kda_fail(err, KDA_USAGE, "symbols", "the PDB of this kernel is not known");
    if (!memchr(id->pdb_name, '\0', sizeof(id->pdb_name)) || !kda_store_name_ok(id->pdb_name) ||
        strstr(id->pdb_name, ".."))
        return kda_fail(err, KDA_BAD_DATA, "symbols",
                        "the PDB name in the image is not a file name; nothing was asked");
    kda_key_text(id->pdb_guid, id->pdb_age, job->key);
    lower_text(job->key, job->lower_key, sizeof(job->lower_key));
    lower_text(id->pdb_name, job->lower_name, sizeof(job->lower_name));
    add_spelling(job, id->pdb_name, job->key);
    add_spelling(job, id->pdb_name, job->lower_key);
    add_spelling(job, job->lower_name, job->key);
    add_spelling(job, job->lower_name, job->lower_key);
    return KDA_OK;
}

enum kda_status kda_symbols_download_limited(const struct kda_kernel_id *id,
                                             const struct kda_download_options *options,
                                             const struct kda_download_limits *limits, char **path,
                                             struct kda_error *err)
{
    struct job job;
    struct kda_servers servers;
    char place[KDA_STORE_PATH_MAX];
    char *own = NULL;
    enum kda_status status = init_job(&job, id, limits, err);
    if (status != KDA_OK)
        return status;
    const char *folder = options->cache;
    if (!folder || !folder[0])
        folder = own = kda_store_default_cache();
    if (!folder)
        return kda_fail(err, KDA_USAGE, "symbols",
                        "no folder to keep the file in: HOME is not set and none was given");
    bool given = options->symbol_path && options->symbol_path[0];
    status = kda_servers_init(&servers, given ? options->symbol_path : "srv**" PUBLIC_SERVER,
                              folder, err);
    if (status == KDA_OK)
        status = from_caches(&job, &servers, place, err);
    if (status == KDA_ABSENT)
        status = from_servers(&job, &servers, options, place, err);
    if (status == KDA_OK) {
        char *copy = kda_strdup(place);
        if (copy)
            *path = copy;
        else
            status = kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for a path");
    }
    kda_fetcher_destroy(job.fetcher);
    kda_servers_deinit(&servers);
    kda_free(own);
    return status;
}

bool kda_symbols_have_download(void)
{
    return true;
}

#else

enum kda_status kda_symbols_download_limited(const struct kda_kernel_id *id,
                                             const struct kda_download_options *options,
                                             const struct kda_download_limits *limits, char **path,
                                             struct kda_error *err)
{
    (void)id;
    (void)options;
    (void)limits;
    (void)path;
    return kda_fail(err, KDA_UNSUPPORTED, "symbols",
                    "built without libcurl: this kda cannot download; put the file into a symbol "
                    "folder yourself");
}

bool kda_symbols_have_download(void)
{
    return false;
}

#endif

enum kda_status kda_symbols_download(const struct kda_kernel_id *id,
                                     const struct kda_download_options *options, char **path,
                                     struct kda_error *err)
{
    return kda_symbols_download_limited(id, options, &default_limits, path, err);
}

void kda_symbols_free_path(char *path)
{
    kda_free(path);
}
