/*
 * compare_key.c - what identifies an event for a second witness.
 *
 * Two witnesses write the same thing in different words: a path by drive letter or by device, an
 * image by its whole path or its first 15 letters, a key by its whole path or from where it was
 * opened. What both always agree on goes into the hash; the rest must not contradict.
 */
#include "compare.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

#define FIELD_MAX 4096u

/* What identifies a kind: members that go into the hash as they stand, and the one with the path.
 */
struct identity {
    const char *kind;
    const char *about; /* the process it is about; NULL = pid */
    const char *exact[5];
    const char *path;  /* compared as a path; NULL = none */
    bool path_in_hash; /* its last part */
};

static const struct identity identities[] = {
    {"process.create", NULL, {NULL}, "image", false},
    {"process.exit", NULL, {NULL}, "image", false},
    {"thread.create", "target_pid", {"new_tid"}, NULL, false},
    {"thread.exit", NULL, {"tid"}, NULL, false},
    {"image.load", "target_pid", {"base"}, "module", true},
    {"image.unload", "target_pid", {"base"}, "module", true},
    {"network.connect", NULL, {"protocol", "local_port", "remote_port", "remote_ip"}, NULL, false},
    {"network.accept", NULL, {"protocol", "local_port", "remote_port", "remote_ip"}, NULL, false},
    {"network.disconnect",
     NULL,
     {"protocol", "local_port", "remote_port", "remote_ip"},
     NULL,
     false},
    {"registry.key_create", NULL, {NULL}, "key", true},
    {"registry.key_delete", NULL, {NULL}, "key", true},
    {"registry.key_rename", NULL, {"new_name"}, "key", true},
    {"registry.value_set", NULL, {"value"}, "key", true},
    {"registry.value_delete", NULL, {"value"}, "key", true},
};

static const struct identity *identity_of(unsigned kind)
{
    const char *name = kda_log_kind_name(kind);
    for (size_t i = 0; name && i < sizeof(identities) / sizeof(identities[0]); i++)
        if (strcmp(identities[i].kind, name) == 0)
            return &identities[i];
    return NULL;
}

bool kda_compare_kind(unsigned kind)
{
    return identity_of(kind) != NULL;
}

/* ---- hashing: FNV-1a ---- */

static void mix(uint64_t *hash, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        *hash = (*hash ^ (c >= 'A' && c <= 'Z' ? c + 32u : c)) * 0x100000001b3u;
    }
    *hash = (*hash ^ 0xffu) * 0x100000001b3u; /* "ab","c" is not "a","bc" */
}

static void mix_number(uint64_t *hash, uint64_t number)
{
    char text[24];
    int size = snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    mix(hash, text, size > 0 ? (size_t)size : 0);
}

/* ---- paths ---- */

static size_t device_prefix(const char *path)
{
    static const char device[] = "\\Device\\HarddiskVolume";
    size_t size = sizeof(device) - 1;
    if (!kda_starts_nocase(path, device))
        return 0;
    while (path[size] >= '0' && path[size] <= '9')
        size++;
    return path[size] == '\\' ? size : 0;
}

static bool drive_at(const char *path)
{
    char c = path[0];
    return ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && path[1] == ':' && path[2] == '\\';
}

/* Without what names the volume: "\Windows\System32\ntdll.dll". In place. */
static const char *volume_relative(char *path)
{
    static const char root[] = "\\SystemRoot\\";
    size_t prefix = device_prefix(path);
    if (prefix)
        return path + prefix;
    if (strncmp(path, "\\??\\", 4) == 0 && drive_at(path + 4))
        return path + 6;
    if (drive_at(path))
        return path + 2;
    if (kda_starts_nocase(path, root)) {
        memcpy(path + 3, "\\Windows", 8); /* "\SystemRoot" is 11 long, "\Windows" 8 */
        return path + 3;
    }
    return path;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '\\');
    return slash && slash[1] ? slash + 1 : path;
}

/* ---- lines ---- */

static const char *text_of(struct kda_arena *arena, const struct kda_log_line *line,
                           const char *key, bool *no_memory)
{
    char text[FIELD_MAX];
    const struct kda_log_member *member = kda_log_find(line, key);
    if (!member || member->type != '"')
        return "";
    (void)kda_log_text(member, text, sizeof(text));
    const char *kept = kda_arena_strdup(arena, text);
    *no_memory = *no_memory || !kept;
    return kept ? kept : "";
}

static void mix_member(uint64_t *hash, const struct kda_log_line *line, const char *key)
{
    char text[FIELD_MAX] = "";
    uint64_t number;
    const struct kda_log_member *member = kda_log_find(line, key);
    if (!member) {
        mix(hash, "", 0);
        return;
    }
    if (kda_log_number(member, &number)) {
        mix_number(hash, number);
        return;
    }
    (void)kda_log_text(member, text, sizeof(text));
    mix(hash, text, strlen(text));
}

/* For people: the path and the members that identify the event. */
static const char *words_of(struct kda_arena *arena, const struct kda_log_line *line,
                            const struct identity *identity, const char *path, bool *no_memory)
{
    char text[FIELD_MAX + 256];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", path);
    for (size_t i = 0; i < 5 && identity->exact[i] && used + 1 < sizeof(text); i++) {
        char value[160] = "";
        const struct kda_log_member *member = kda_log_find(line, identity->exact[i]);
        if (!member)
            continue;
        if (member->type == '"')
            (void)kda_log_text(member, value, sizeof(value));
        else
            (void)snprintf(value, sizeof(value), "%.*s",
                           (int)(member->size < 100 ? member->size : 100), member->value);
        int more = snprintf(text + used, sizeof(text) - used, "%s%s=%s", used ? " " : "",
                            identity->exact[i], value);
        if (more < 0 || (size_t)more >= sizeof(text) - used)
            break;
        used += (size_t)more;
    }
    used = used < sizeof(text) ? used : sizeof(text) - 1;
    const char *kept = kda_arena_strndup(arena, text, kda_utf8_valid_prefix(text, used));
    *no_memory = *no_memory || !kept;
    return kept ? kept : "";
}

static uint64_t number_of(const struct kda_log_line *line, const char *key)
{
    uint64_t number = 0;
    const struct kda_log_member *member = kda_log_find(line, key);
    return member && kda_log_number(member, &number) ? number : 0;
}

static uint64_t time_of(const struct kda_log_line *line, const char *key)
{
    uint64_t time = 0;
    const struct kda_log_member *member = kda_log_find(line, key);
    return member && kda_log_time_parse(member->value, member->size, &time) ? time : 0;
}

enum kda_status kda_compare_observe(struct kda_arena *arena, const struct kda_log_line *line,
                                    struct kda_observed *ret, bool *usable)
{
    const struct identity *identity = identity_of(line->kind);
    uint64_t hash = 0xcbf29ce484222325u, about;
    bool no_memory = false;
    memset(ret, 0, sizeof(*ret));
    const struct kda_log_member *whom =
        identity && identity->about ? kda_log_find(line, identity->about) : NULL;
    *usable = identity && line->has_time;
    if (!*usable)
        return KDA_OK;
    if (!whom || !kda_log_number(whom, &about)) {
        *usable = line->has_pid;
        about = line->pid;
    }
    if (!*usable)
        return KDA_OK;
    ret->event.kind = line->kind;
    ret->event.has_id = line->has_id;
    ret->event.id = line->id;
    ret->event.time = line->time;
    ret->event.pid = about;
    ret->event.image = text_of(arena, line, "image", &no_memory);
    ret->process_key = number_of(line, "process_key");
    ret->create_time = time_of(line, "create_time");
    const char *path = identity->path ? text_of(arena, line, identity->path, &no_memory) : "";
    ret->event.what = words_of(arena, line, identity, path, &no_memory);
    /* The path was copied for this event alone: it may be changed in place. */
    char *own = kda_arena_strdup(arena, path);
    no_memory = no_memory || !own;
    ret->path = own ? volume_relative(own) : "";
    mix_number(&hash, line->kind);
    mix_number(&hash, about);
    for (size_t i = 0; i < 5 && identity->exact[i]; i++)
        mix_member(&hash, line, identity->exact[i]);
    if (identity->path_in_hash)
        mix(&hash, last_part(ret->path), strlen(last_part(ret->path)));
    ret->identity = hash;
    const struct kda_log_member *protocol = kda_log_find(line, "protocol");
    uint64_t number;
    ret->network = protocol && kda_log_number(protocol, &number) && number < 256;
    ret->protocol = ret->network ? (uint8_t)number : 0;
    return no_memory ? KDA_NO_MEMORY : KDA_OK;
}

/* One path ends with the other, at a separator: a relative key or a bare file name; or one is the
 * first 14 or 15 letters of the other's file name, which is all that some sources keep. */
static bool paths_agree(const char *a, const char *b)
{
    size_t left = strlen(a), right = strlen(b);
    const char *longer = left >= right ? a : b, *shorter = left >= right ? b : a;
    size_t more = left >= right ? left - right : right - left;
    size_t size = strlen(shorter);
    if (size == 0 || kda_same_nocase(longer + more, shorter))
        return size == 0 || more == 0 || shorter[0] == '\\' || longer[more - 1] == '\\';
    return size >= 14 && size <= 15 && !strchr(shorter, '\\') &&
           kda_starts_nocase(last_part(longer), shorter);
}

bool kda_compare_same(const struct kda_observed *a, const struct kda_observed *b)
{
    if (a->process_key && b->process_key && a->process_key != b->process_key)
        return false;
    if (a->create_time && b->create_time && a->create_time != b->create_time)
        return false;
    return paths_agree(a->path, b->path);
}
