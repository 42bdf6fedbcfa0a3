/*
 * fit_witness.c - what objects behind handles know of the ETW state: which one they belong to, and,
 * by the links of GUID entries, where in it its hash table is. With the state's own pages missing
 * they are what is left.
 */
#include <string.h>

#include "fit_int.h"

#define BUCKET_SIZE 56u
#define LIST_SIZE 16u
#define MIN_LINKS 3u

size_t kda_fit_ranked(const struct kda_map *votes, uint64_t *ret, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < votes->capacity; i++) {
        size_t at = count;
        uint64_t theirs = 0;
        if (votes->keys[i] == 0)
            continue;
        while (at > 0 && kda_map_get(votes, ret[at - 1], &theirs) && theirs < votes->values[i])
            at--;
        if (at == max)
            continue;
        count += count < max;
        memmove(ret + at + 1, ret + at, (count - at - 1) * sizeof(*ret));
        ret[at] = votes->keys[i];
    }
    return count;
}

/* Each object has one voice for what stands at one place in it, however many handles lead to it. */
static void cast(struct kda_fit *fit, uint64_t object, uint64_t at)
{
    uint64_t state, count = 0;
    if (kda_fit_u64(fit, at, &state) != FIT_YES || !kda_fit_is_pool(fit, state) ||
        kda_fit_is_process(fit, state) || kda_map_get(&fit->voices, at, NULL))
        return;
    (void)kda_map_get(&fit->named, state, &count);
    if (!kda_map_put(&fit->named, state, count + 1) || !kda_map_put(&fit->voices, at, object))
        fit->out_of_memory = true;
}

static bool has_registrations(const struct kda_fit *fit, uint64_t entry)
{
    const struct fit_votes *at = &fit->votes[F(ETW_GUID_ENTRY, RegListHead)];
    for (size_t i = 0; i < at->count; i++)
        if (kda_fit_ring(fit, entry + at->place[i].offset) == FIT_YES)
            return true;
    return false;
}

static void cast_member(struct kda_fit *fit, uint64_t object, enum kda_field_id field)
{
    const struct fit_votes *at = &fit->votes[field];
    for (size_t i = 0; i < at->count; i++)
        cast(fit, object, object + at->place[i].offset);
}

/* An object that looks like a consumer or a registration. */
static void on_object(struct kda_fit *fit, void *context, uint64_t header, uint64_t body)
{
    const struct fit_votes *owner_at = &fit->votes[F(ETW_REALTIME_CONSUMER, ProcessObject)];
    const struct fit_votes *entry_at = &fit->votes[F(ETW_REG_ENTRY, GuidEntry)];
    uint64_t process, entry;
    (void)context;
    (void)header;
    for (size_t i = 0; i < owner_at->count; i++)
        if (kda_fit_u64(fit, body + owner_at->place[i].offset, &process) == FIT_YES &&
            kda_fit_is_process(fit, process)) {
            cast_member(fit, body, F(ETW_REALTIME_CONSUMER, SiloState));
            return;
        }
    for (size_t i = 0; i < entry_at->count; i++)
        if (kda_fit_u64(fit, body + entry_at->place[i].offset, &entry) == FIT_YES &&
            kda_fit_is_pool(fit, entry) && has_registrations(fit, entry))
            cast_member(fit, entry, F(ETW_GUID_ENTRY, SiloState));
}

const struct kda_map *kda_fit_named_states(struct kda_fit *fit)
{
    for (size_t i = 0; !fit->asked && i < fit->process_count && !fit->out_of_memory; i++)
        if (fit->processes[i].table != 0)
            kda_fit_handles(fit, fit->processes[i].table, false, on_object, NULL);
    fit->asked = true;
    return &fit->named;
}

unsigned kda_fit_namers(struct kda_fit *fit, uint64_t state)
{
    uint64_t count = 0;
    (void)kda_map_get(kda_fit_named_states(fit), state, &count);
    return (unsigned)count;
}

/* ---- the hash table, by the links of entries whose neighbour on the list is its head ---- */

/* Is one of the entry's links inside a table at `table`, and at a head there? Only groups are on
 * the third list of a bucket, and no registration's entry is one: a table taken a list too early
 * would have everything there. */
static enum fit_answer linked_bucket(const struct kda_fit *fit, uint64_t entry, uint64_t table,
                                     uint32_t *bucket)
{
    enum fit_answer answer = FIT_UNKNOWN;
    *bucket = FIT_NO_BUCKET;
    for (unsigned side = 0; side < 16 && answer != FIT_YES; side += 8) {
        uint64_t link;
        if (kda_fit_u64(fit, entry + side, &link) != FIT_YES ||
            link - table >= KDA_ETW_BUCKETS * BUCKET_SIZE)
            continue;
        uint64_t list = (link - table) % BUCKET_SIZE;
        answer = list == 0 || list == LIST_SIZE ? FIT_YES : FIT_NO;
        if (answer == FIT_YES)
            *bucket = (uint32_t)((link - table) / BUCKET_SIZE);
    }
    return answer;
}

/* Entries that are linked to the bucket that their GUID belongs in, and those that are not, with
 * the GUID where most of them have it. */
static struct fit_place count_links(const struct kda_fit *fit, uint64_t table)
{
    const struct fit_votes *guid_at = &fit->votes[F(ETW_GUID_ENTRY, Guid)];
    struct fit_place best = {0, 0, 0};
    for (size_t g = 0; g < guid_at->count; g++) {
        struct fit_place tally = {0, 0, 0};
        for (size_t i = 0; i < fit->entry_count; i++) {
            uint64_t entry = fit->entries[i].va;
            uint32_t bucket;
            enum fit_answer answer = linked_bucket(fit, entry, table, &bucket);
            if (answer == FIT_YES)
                answer = kda_fit_check_guid(fit, entry + guid_at->place[g].offset, bucket);
            kda_fit_vote(&tally, answer);
        }
        best = tally.yes > best.yes ? tally : best;
    }
    return best;
}

void kda_fit_place_table(struct kda_fit *fit)
{
    struct fit_votes *tables = &fit->votes[F(ETW_SILODRIVERSTATE, EtwpGuidHashTable)];
    uint64_t found = 0;
    for (size_t t = 0; t < tables->count; t++) {
        uint64_t table = fit->info.state + tables->place[t].offset;
        struct fit_place tally = count_links(fit, table);
        if (tally.yes + tally.no < MIN_LINKS)
            continue;
        tables->place[t].yes += tally.yes;
        tables->place[t].no += tally.no;
        if (tally.yes >= MIN_LINKS && kda_fit_holds(&tally))
            found = table;
    }
    for (size_t i = 0; found != 0 && i < fit->entry_count; i++)
        (void)linked_bucket(fit, fit->entries[i].va, found, &fit->entries[i].bucket);
}
