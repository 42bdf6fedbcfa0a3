/*
 * damage.c - what could not be read, or had to be repaired.
 */
#include "internal.h"

#include "alloc.h"

void kda_etl_damage_add(struct kda_etl *etl, enum kda_etl_damage_kind kind, bool lost, uint64_t off,
                        uint64_t bytes, const char *why)
{
    struct kda_etl_damage *last = etl->damage_kept > 0 ? &etl->damage[etl->damage_kept - 1] : NULL;
    /* Once records are read, what was found may have been told: it no longer changes. */
    if (last && !etl->started && etl->damage_kept == etl->damage_count && last->kind == kind &&
        last->lost == lost && last->why == why && last->off + last->bytes == off) {
        last->bytes += bytes; /* one hole, met in pieces */
        return;
    }
    etl->damage_count++;
    if (etl->damage_kept == KDA_ETL_MAX_DAMAGE || etl->damage_failed)
        return;
    void *items = etl->damage;
    /* Never a reason to end the walk: what cannot be kept is counted. */
    etl->damage_failed = !kda_grow(&items, &etl->damage_capacity, etl->damage_kept + 1,
                                   sizeof(*etl->damage), KDA_ETL_MAX_DAMAGE);
    if (etl->damage_failed)
        return;
    etl->damage = items;
    etl->damage[etl->damage_kept++] =
        (struct kda_etl_damage){.kind = kind, .lost = lost, .off = off, .bytes = bytes, .why = why};
}

size_t kda_etl_damage_count(const struct kda_etl *etl)
{
    return etl->damage_count;
}

const struct kda_etl_damage *kda_etl_damage_at(const struct kda_etl *etl, size_t index)
{
    return index < etl->damage_kept ? &etl->damage[index] : NULL;
}

const char *kda_etl_damage_name(enum kda_etl_damage_kind kind)
{
    static const char *const names[] = {
        [KDA_ETL_DAMAGE_FILE] = "file",
        [KDA_ETL_DAMAGE_BUFFER] = "buffer",
        [KDA_ETL_DAMAGE_RECORD] = "record",
        [KDA_ETL_DAMAGE_UNWRITTEN] = "unwritten",
        [KDA_ETL_DAMAGE_UNSUPPORTED] = "unsupported",
    };
    return (size_t)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}
