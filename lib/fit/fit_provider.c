/*
 * fit_provider.c - votes from the entries of the GUID table and their registrations.
 */
#include <string.h>

#include "fit_int.h"

#define BUCKET_SIZE 56u
#define LISTS 3u
#define GROUP_LIST 2u
#define ENABLE_SLOTS 8u
#define ENABLE_SIZE 0x20u

/* Microsoft-Windows-Security-Auditing, whose entry is a part of the state. */
static const uint8_t security_guid[16] = {0x25, 0x96, 0x84, 0x54, 0x78, 0x54, 0x94, 0x49,
                                          0xa5, 0xba, 0x3e, 0x3b, 0x03, 0x28, 0xc3, 0x0d};

struct collect {
    uint32_t bucket;
    uint32_t list;
};

static void on_entry(struct kda_fit *fit, void *context, uint64_t link)
{
    const struct collect *where = context;
    void *items = fit->entries;
    if (where->list == GROUP_LIST || fit->entry_count == FIT_MAX_ENTRIES || fit->out_of_memory)
        return; /* members of a group hang on another link: they are tested as registrations */
    if (!kda_grow(&items, &fit->entry_capacity, fit->entry_count + 1, sizeof(*fit->entries),
                  FIT_MAX_ENTRIES)) {
        fit->out_of_memory = true;
        return;
    }
    fit->entries = items;
    fit->entries[fit->entry_count++] = (struct fit_entry){link, where->bucket};
}

enum fit_answer kda_fit_check_guid(const struct kda_fit *fit, uint64_t at, uint32_t bucket)
{
    static const uint8_t zero[16];
    uint8_t guid[16];
    if (bucket == FIT_NO_BUCKET || kda_fit_read(fit, at, guid, sizeof(guid)) != FIT_YES)
        return FIT_UNKNOWN;
    return kda_etw_bucket_of(guid) == bucket && memcmp(guid, zero, 16) != 0 ? FIT_YES : FIT_NO;
}

/* An enable slot: on or off, and what is on names a logger. */
static enum fit_answer check_enable(const struct kda_fit *fit, uint64_t at, bool slot)
{
    uint8_t info[ENABLE_SIZE];
    if (kda_fit_read(fit, at, info, sizeof(info)) != FIT_YES)
        return FIT_UNKNOWN;
    uint32_t on = kda_le32(info);
    uint16_t logger = kda_le16(info + 6);
    if (on > 1)
        return FIT_NO;
    if (on == 0 || !slot)
        return FIT_UNKNOWN;
    for (size_t i = 0; i < fit->logger_count; i++)
        if (fit->loggers[i].slot == logger)
            return FIT_YES;
    /* A session that has just ended may still be named. */
    return logger >= fit->slots ? FIT_NO : FIT_UNKNOWN;
}

static enum fit_answer check_slots(const struct kda_fit *fit, uint64_t at)
{
    enum fit_answer answer = FIT_UNKNOWN;
    for (unsigned i = 0; i < ENABLE_SLOTS; i++) {
        enum fit_answer one = check_enable(fit, at + i * ENABLE_SIZE, true);
        if (one == FIT_NO)
            return FIT_NO;
        answer = one == FIT_YES ? FIT_YES : answer;
    }
    return answer;
}

static enum fit_answer check_place(const struct kda_fit *fit, const struct fit_entry *entry,
                                   enum kda_field_id field, uint64_t at)
{
    uint64_t value;
    switch (field) {
    case F(ETW_GUID_ENTRY, GuidList):
    case F(ETW_GUID_ENTRY, RegListHead):
        return kda_fit_ring(fit, at);
    case F(ETW_GUID_ENTRY, Guid):
        return kda_fit_check_guid(fit, at, entry->bucket);
    case F(ETW_GUID_ENTRY, SecurityDescriptor):
        return kda_fit_security(fit, at);
    case F(ETW_GUID_ENTRY, EnableInfo):
        return check_slots(fit, at);
    case F(ETW_GUID_ENTRY, ProviderEnableInfo):
        return check_enable(fit, at, false);
    case F(ETW_GUID_ENTRY, SiloState):
        if (kda_fit_u64(fit, at, &value) != FIT_YES)
            return FIT_UNKNOWN;
        return value == fit->info.state ? FIT_YES : FIT_NO;
    default: /* FilterData: a pointer or nothing */
        if (kda_fit_u64(fit, at, &value) != FIT_YES || value == 0)
            return FIT_UNKNOWN;
        return kda_is_kernel_va(fit->kernel, value) ? FIT_UNKNOWN : FIT_NO;
    }
}

static void vote_entry(struct kda_fit *fit, const struct fit_entry *entry)
{
    static const enum kda_field_id fields[] = {
        F(ETW_GUID_ENTRY, GuidList),   F(ETW_GUID_ENTRY, RegListHead),
        F(ETW_GUID_ENTRY, Guid),       F(ETW_GUID_ENTRY, SecurityDescriptor),
        F(ETW_GUID_ENTRY, EnableInfo), F(ETW_GUID_ENTRY, ProviderEnableInfo),
        F(ETW_GUID_ENTRY, SiloState),  F(ETW_GUID_ENTRY, FilterData),
    };
    for (size_t f = 0; f < sizeof(fields) / sizeof(fields[0]); f++) {
        struct fit_votes *votes = &fit->votes[fields[f]];
        for (size_t i = 0; i < votes->count; i++)
            kda_fit_vote(&votes->place[i],
                         check_place(fit, entry, fields[f], entry->va + votes->place[i].offset));
    }
}

static void vote_embedded(struct kda_fit *fit)
{
    struct fit_votes *security = &fit->votes[F(ETW_SILODRIVERSTATE, EtwpSecurityProviderGuidEntry)];
    uint32_t guid_at = kda_fit_best(fit, F(ETW_GUID_ENTRY, Guid));
    for (size_t i = 0; guid_at != KDA_NONE && i < security->count; i++) {
        uint8_t guid[16];
        if (kda_fit_read(fit, fit->info.state + security->place[i].offset + guid_at, guid,
                         sizeof(guid)) == FIT_YES)
            kda_fit_vote(&security->place[i],
                         memcmp(guid, security_guid, sizeof(guid)) == 0 ? FIT_YES : FIT_NO);
    }
}

/* ---- registrations ---- */

struct reg_walk {
    uint64_t entry;
    uint8_t enabled; /* slots of the entry that are on */
    bool slots_known;
    uint32_t left;
};

/* The process of a user registration and the callback of a kernel one; which it is, bits 0 and 1
 * of the flags say on every build with silos. */
static void vote_kind(struct kda_fit *fit, uint64_t va, uint16_t flags)
{
    bool user = (flags & 3) == 2, kernel = (flags & 3) == 1;
    struct fit_votes *process = &fit->votes[F(ETW_REG_ENTRY, Process)];
    struct fit_votes *callback = &fit->votes[F(ETW_REG_ENTRY, Callback)];
    uint64_t value;
    for (size_t i = 0; user && i < process->count; i++)
        if (kda_fit_u64(fit, va + process->place[i].offset, &value) == FIT_YES)
            kda_fit_vote(&process->place[i], kda_fit_is_process(fit, value) ? FIT_YES
                                             : kda_fit_is_pool(fit, value)  ? FIT_UNKNOWN
                                                                            : FIT_NO);
    for (size_t i = 0; kernel && i < callback->count; i++)
        if (kda_fit_u64(fit, va + callback->place[i].offset, &value) == FIT_YES && value != 0)
            kda_fit_vote(&callback->place[i],
                         kda_fit_in_nt(fit, value) || kda_fit_module_at(fit, value) ? FIT_YES
                         : kda_is_kernel_va(fit->kernel, value)                     ? FIT_UNKNOWN
                                                                                    : FIT_NO);
}

/* A registration's mask has the bits of the entry's slots that apply to it: filters may take some
 * away, nothing adds one. */
static void vote_mask(struct kda_fit *fit, uint64_t va, const struct reg_walk *walk)
{
    struct fit_votes *mask = &fit->votes[F(ETW_REG_ENTRY, EnableMask)];
    for (size_t i = 0; walk->slots_known && i < mask->count; i++) {
        uint8_t value;
        if (kda_fit_read(fit, va + mask->place[i].offset, &value, 1) != FIT_YES)
            continue;
        if (value & ~walk->enabled)
            mask->place[i].no++;
        else
            mask->place[i].yes += value != 0;
    }
}

static void on_reg(struct kda_fit *fit, void *context, uint64_t link)
{
    struct reg_walk *walk = context;
    struct fit_votes *links = &fit->votes[F(ETW_REG_ENTRY, RegList)];
    struct fit_votes *entry = &fit->votes[F(ETW_REG_ENTRY, GuidEntry)];
    struct fit_votes *group = &fit->votes[F(ETW_REG_ENTRY, GroupEntry)];
    struct fit_votes *flags_at = &fit->votes[F(ETW_REG_ENTRY, Flags)];
    uint32_t head_at = kda_fit_best(fit, F(ETW_GUID_ENTRY, RegListHead));
    uint64_t value;
    if (walk->left == 0)
        return;
    walk->left--;
    for (size_t l = 0; l < links->count; l++) {
        uint64_t va = link - links->place[l].offset;
        kda_fit_meet(fit, FIT_KIND_REGISTRATION, va);
        for (size_t i = 0; i < entry->count; i++)
            if (kda_fit_u64(fit, va + entry->place[i].offset, &value) == FIT_YES) {
                kda_fit_vote(&entry->place[i], value == walk->entry ? FIT_YES : FIT_NO);
                links->place[l].yes += value == walk->entry;
            }
        for (size_t i = 0; i < group->count; i++)
            if (kda_fit_u64(fit, va + group->place[i].offset, &value) == FIT_YES && value != 0)
                kda_fit_vote(&group->place[i], !kda_fit_is_pool(fit, value) ? FIT_NO
                                               : head_at == KDA_NONE
                                                   ? FIT_UNKNOWN
                                                   : kda_fit_ring(fit, value + head_at));
        for (size_t i = 0; i < flags_at->count; i++) {
            uint8_t flags[2];
            uint32_t guess = flags_at->place[i].offset;
            /* Only the form of the builds with silos: u16 at 0x62, next to the masks. */
            if (guess == 0x62 && kda_fit_read(fit, va + guess, flags, sizeof(flags)) == FIT_YES)
                vote_kind(fit, va, kda_le16(flags));
        }
        vote_mask(fit, va, walk);
    }
}

static void read_slots(struct kda_fit *fit, const struct fit_entry *entry, struct reg_walk *walk)
{
    uint32_t at = kda_fit_beside(fit, F(ETW_GUID_ENTRY, Guid), F(ETW_GUID_ENTRY, EnableInfo));
    for (unsigned i = 0; at != KDA_NONE && i < ENABLE_SLOTS; i++) {
        uint32_t on;
        if (kda_fit_u32(fit, entry->va + at + i * ENABLE_SIZE, &on) != FIT_YES)
            return;
        walk->enabled |= (uint8_t)(on != 0 ? 1u << i : 0u);
        walk->slots_known = i + 1 == ENABLE_SLOTS;
    }
}

/* Entries that registrations behind handles name and that name the state, for a table that cannot
 * be read. */
static void entries_of_handles(struct kda_fit *fit)
{
    const struct fit_votes *at = &fit->votes[F(ETW_GUID_ENTRY, SiloState)];
    const struct kda_map *voices = &fit->voices;
    struct collect where = {FIT_NO_BUCKET, 0};
    (void)kda_fit_named_states(fit);
    for (size_t v = 0; v < voices->capacity; v++)
        for (size_t i = 0; voices->keys[v] != 0 && i < at->count; i++) {
            uint64_t state, entry = voices->values[v];
            if (voices->keys[v] == entry + at->place[i].offset &&
                kda_fit_u64(fit, voices->keys[v], &state) == FIT_YES && state == fit->info.state)
                on_entry(fit, &where, entry);
        }
    kda_fit_place_table(fit);
}

/* Registrations name their entries by where they begin. Where all that were met through entries
 * name something else, the entries do not begin where their links are. */
static bool entries_astray(const struct kda_fit *fit)
{
    const struct fit_votes *at = &fit->votes[F(ETW_REG_ENTRY, GuidEntry)];
    for (size_t i = 0; i < at->count; i++)
        if (!kda_fit_broken(&at->place[i]))
            return false;
    return at->count > 0;
}

static void walk_registrations(struct kda_fit *fit)
{
    uint32_t head_at = kda_fit_best(fit, F(ETW_GUID_ENTRY, RegListHead));
    uint32_t left = FIT_MAX_REGS;
    for (size_t i = 0; head_at != KDA_NONE && left > 0 && i < fit->entry_count; i++) {
        struct reg_walk walk = {fit->entries[i].va, 0, false, left};
        read_slots(fit, &fit->entries[i], &walk);
        if (kda_fit_ring(fit, fit->entries[i].va + head_at) == FIT_YES)
            (void)kda_fit_walk(fit, fit->entries[i].va + head_at, FIT_MAX_REGS, on_reg, &walk);
        left = walk.left;
    }
}

/* A registration behind a handle whose neighbour on the list is the head in the entry that it names
 * begins where its handle says, whether or not a walk comes by. */
static void meet_linked(struct kda_fit *fit)
{
    const struct fit_votes *links = &fit->votes[F(ETW_REG_ENTRY, RegList)];
    const struct fit_votes *entry_at = &fit->votes[F(ETW_REG_ENTRY, GuidEntry)];
    struct fit_met *met = &fit->met[FIT_KIND_REGISTRATION];
    uint32_t head_at = kda_fit_best(fit, F(ETW_GUID_ENTRY, RegListHead));
    for (size_t b = 0; head_at != KDA_NONE && b < met->bodies.capacity; b++)
        for (size_t i = 0; met->bodies.keys[b] != 0 && i < entry_at->count * links->count; i++) {
            uint64_t body = met->bodies.keys[b], entry, next, back;
            uint64_t link = body + links->place[i % links->count].offset;
            if (kda_fit_u64(fit, body + entry_at->place[i / links->count].offset, &entry) !=
                    FIT_YES ||
                kda_fit_u64(fit, link, &next) != FIT_YES ||
                kda_fit_u64(fit, link + 8, &back) != FIT_YES || !kda_fit_is_pool(fit, entry))
                continue;
            if ((next == entry + head_at || back == entry + head_at) &&
                met->bodies.values[b] == 1) {
                met->bodies.values[b] = 2;
                met->met++;
            }
        }
}

void kda_fit_providers(struct kda_fit *fit)
{
    uint64_t table = fit->info.state + fit->form.table;
    for (uint32_t b = 0; b < KDA_ETW_BUCKETS; b++)
        for (uint32_t l = 0; l < LISTS; l++) {
            struct collect where = {b, l};
            uint64_t head = table + b * BUCKET_SIZE + l * 16u;
            if (kda_fit_ring(fit, head) == FIT_YES)
                (void)kda_fit_walk(fit, head, FIT_MAX_ENTRIES, on_entry, &where);
        }
    if (fit->entry_count == 0)
        entries_of_handles(fit);
    for (size_t i = 0; i < fit->entry_count; i++)
        vote_entry(fit, &fit->entries[i]);
    vote_embedded(fit);
    walk_registrations(fit);
    meet_linked(fit);
    fit->left_out[FIT_GUID] = entries_astray(fit);
    fit->left_out[FIT_REG] = fit->left_out[FIT_GUID] || kda_fit_astray(fit, FIT_KIND_REGISTRATION);
}
