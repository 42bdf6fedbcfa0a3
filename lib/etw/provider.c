/*
 * provider.c - GUID entries: the hash table, the entries embedded in the silo state, and those that
 * only back pointers still name.
 */
#include <string.h>

#include "internal.h"

#define LISTS 3u        /* ETW_GUID_TYPE: trace, notification, group */
#define BUCKET_SIZE 56u /* where the PDB lacks _ETW_HASH_BUCKET: three heads and a lock */
#define LIST_ENTRY_SIZE 16u

static uint32_t bucket_size(struct kda_etw *etw)
{
    uint32_t size = kda_kernel_layout(etw->kernel)->size[KDA_STRUCT_ETW_HASH_BUCKET];
    return size == KDA_NONE ? BUCKET_SIZE : size;
}

bool kda_etw_is_allocated(struct kda_etw *etw, uint64_t va)
{
    const struct kda_kernel_info *kernel = kda_kernel_info(etw->kernel);
    uint64_t span = (uint64_t)bucket_size(etw) * KDA_ETW_BUCKETS;
    for (size_t i = 0; i < etw->silo_count; i++)
        if (etw->silos[i].table != 0 && va - etw->silos[i].table < span)
            return false;
    return (va & 7) == 0 && va - kernel->base >= kernel->id.pe_size;
}

static void read_enable(struct kda_etw *etw, uint64_t va, struct kda_etw_enable *ret)
{
    uint64_t enabled, level, logger, property, any, all;
    if (kda_etw_field(etw, "enable", va, KDA_F_TRACE_ENABLE_INFO_IsEnabled, &enabled) &&
        kda_etw_field(etw, "enable", va, KDA_F_TRACE_ENABLE_INFO_Level, &level) &&
        kda_etw_field(etw, "enable", va, KDA_F_TRACE_ENABLE_INFO_LoggerId, &logger) &&
        kda_etw_field(etw, "enable", va, KDA_F_TRACE_ENABLE_INFO_EnableProperty, &property) &&
        kda_etw_field(etw, "enable", va, KDA_F_TRACE_ENABLE_INFO_MatchAnyKeyword, &any) &&
        kda_etw_field(etw, "enable", va, KDA_F_TRACE_ENABLE_INFO_MatchAllKeyword, &all)) {
        ret->readable = true;
        ret->enabled = (uint32_t)enabled;
        ret->level = (uint8_t)level;
        ret->logger_id = (uint16_t)logger;
        ret->property = (uint32_t)property;
        ret->match_any = any;
        ret->match_all = all;
    }
}

static void read_slots(struct kda_etw *etw, struct kda_etw_provider *provider)
{
    uint64_t combined = kda_etw_member(etw, provider->va, KDA_F_ETW_GUID_ENTRY_ProviderEnableInfo);
    uint64_t slots = kda_etw_member(etw, provider->va, KDA_F_ETW_GUID_ENTRY_EnableInfo);
    uint32_t size = kda_kernel_layout(etw->kernel)->size[KDA_STRUCT_TRACE_ENABLE_INFO];
    if (combined)
        read_enable(etw, combined, &provider->combined);
    for (uint32_t i = 0; slots && size != KDA_NONE && i < KDA_ETW_ENABLE_SLOTS; i++)
        read_enable(etw, slots + (uint64_t)i * size, &provider->enables[i]);
}

static void read_provider(struct kda_etw *etw, struct kda_etw_provider *provider)
{
    uint64_t va = provider->va, value;
    struct kda_error why;
    uint64_t guid_at = kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_Guid);
    enum kda_status status =
        guid_at ? kda_read(etw->kernel, guid_at, provider->guid, 16, &why)
                : kda_fail(&why, KDA_NO_SYMBOL, "etw", "_ETW_GUID_ENTRY.Guid is not known");
    if (status != KDA_OK) {
        kda_etw_gap(etw, "provider", va, status, "%s", why.text);
        return;
    }
    provider->has_guid = true;
    provider->readable = true;
    read_slots(etw, provider);
    if (kda_etw_field(etw, "provider", va, KDA_F_ETW_GUID_ENTRY_SecurityDescriptor, &value))
        provider->security =
            kda_etw_security(etw, value, "provider_security", &provider->security_va);
    kda_etw_read_filters(etw, provider);
    if (kda_has_field(etw->kernel, KDA_F_ETW_GUID_ENTRY_SiloState) &&
        kda_etw_field(etw, "provider", va, KDA_F_ETW_GUID_ENTRY_SiloState, &value))
        provider->silo = kda_etw_silo_of(etw, value);
}

struct kda_etw_provider *kda_etw_provider(struct kda_etw *etw, uint64_t va, unsigned found_by)
{
    struct kda_etw_provider *provider = kda_etw_lookup(&etw->providers, &etw->provider_by_va, va);
    if (!provider) {
        if (kda_etw_refused(etw, va))
            return NULL;
        provider = kda_etw_add(etw, &etw->providers, &etw->provider_by_va, va, sizeof(*provider),
                               KDA_ETW_MAX_GUIDS, "providers");
        if (!provider)
            return NULL;
        provider->va = va;
        read_provider(etw, provider);
    }
    provider->found_by |= found_by;
    return provider;
}

struct bucket_walk {
    struct kda_etw *etw;
    struct kda_etw_silo *silo;
    enum kda_etw_guid_type type;
    uint32_t at, bucket;
    bool astray; /* this list led over a torn node */
};

/* An entry belongs to the bucket of its GUID. */
static bool belongs(struct kda_etw *etw, uint64_t va, uint32_t bucket)
{
    uint8_t guid[16];
    uint64_t guid_at = kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_Guid);
    return guid_at == 0 || kda_read(etw->kernel, guid_at, guid, sizeof(guid), NULL) != KDA_OK ||
           kda_etw_bucket_of(guid) == bucket;
}

/* Known by address alone it is a row all the same. */
static enum kda_step on_entry(void *context, uint64_t link_va, enum kda_link how)
{
    struct bucket_walk *walk = context;
    uint64_t va = link_va - walk->at;
    bool right = kda_etw_is_allocated(walk->etw, va) && belongs(walk->etw, va, walk->bucket);
    bool sure = how == KDA_LINK_SOUND || (how == KDA_LINK_MISSING && !walk->astray);
    walk->astray = walk->astray || how == KDA_LINK_TORN;
    bool named = sure && !right && kda_etw_is_allocated(walk->etw, va) &&
                 kda_etw_entry_is_named(walk->etw, va);
    enum kda_entry_way way = how == KDA_LINK_TORN ? KDA_ENTRY_TORN : KDA_ENTRY_LISTED;
    if ((!right && !named) ||
        (how != KDA_LINK_MISSING && kda_etw_check_entry(walk->etw, va, way) == KDA_BAD_DATA))
        return kda_etw_refuse(walk->etw, "provider", va,
                              "bucket %u of the table leads here, where no entry of that bucket is "
                              "(or its page was overwritten)",
                              walk->bucket);
    struct kda_etw_provider *provider = kda_etw_provider(walk->etw, va, KDA_PROVIDER_TABLE);
    if (provider && named && provider->has_guid) {
        provider->has_guid = false;
        kda_etw_gap(walk->etw, "provider_guid", va, KDA_BAD_DATA,
                    "its GUID does not belong into bucket %u, where the entry stands",
                    walk->bucket);
    }
    /* The list that holds it decides; one that was led astray leads along another. */
    if (provider && sure) {
        provider->silo = walk->silo;
        provider->type = provider->has_type ? provider->type : walk->type;
        provider->has_type = true;
    }
    return kda_etw_stop(walk->etw) ? KDA_STEP_STOP : KDA_STEP_TAKE;
}

/* Microsoft-Windows-Security-Auditing has its entry inside the silo state, or in a global of that
 * name on builds without silos. */
static void read_embedded(struct kda_etw *etw, struct kda_etw_silo *silo)
{
    static const uint8_t zero[16];
    static const uint8_t wanted[16] = {0x25, 0x96, 0x84, 0x54, 0x78, 0x54, 0x94, 0x49,
                                       0xa5, 0xba, 0x3e, 0x3b, 0x03, 0x28, 0xc3, 0x0d};
    uint64_t va = silo->state
                      ? kda_etw_member(etw, silo->state,
                                       KDA_F_ETW_SILODRIVERSTATE_EtwpSecurityProviderGuidEntry)
                      : kda_symbol_va(etw->kernel, KDA_SYM_EtwpSecurityProviderGuidEntry);
    uint64_t guid_at = va ? kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_Guid) : 0;
    uint8_t guid[16];
    struct kda_error why;
    if (guid_at == 0)
        return;
    enum kda_status status = kda_read(etw->kernel, guid_at, guid, sizeof(guid), &why);
    if (status == KDA_OK && memcmp(guid, zero, sizeof(guid)) == 0)
        return; /* not initialised: this silo has no security provider */
    if (status == KDA_OK && memcmp(guid, wanted, sizeof(guid)) != 0) {
        kda_etw_gap(etw, "provider", va, KDA_BAD_DATA,
                    "the place of Security-Auditing's entry holds another GUID");
        return;
    }
    if (status != KDA_OK && !silo->host) {
        kda_etw_gap(etw, "provider", va, status, "a container may have Security-Auditing here: %s",
                    why.text);
        return;
    }
    struct kda_etw_provider *provider = kda_etw_provider(etw, va, KDA_PROVIDER_EMBEDDED);
    if (!provider)
        return;
    provider->silo = silo;
    provider->has_type = true;
    provider->type = KDA_ETW_TRACE;
}

void kda_etw_read_providers(struct kda_etw *etw, struct kda_etw_silo *silo)
{
    struct bucket_walk walk = {
        etw, silo, KDA_ETW_TRACE, kda_field_offset(etw->kernel, KDA_F_ETW_GUID_ENTRY_GuidList),
        0,   false};
    uint32_t size = bucket_size(etw);
    if (silo->table == 0 || walk.at == KDA_NONE) {
        kda_gaps_add(kda_etw_gaps(etw), "providers", silo->state, KDA_NO_SYMBOL,
                     "the GUID table of this build is not known");
        return;
    }
    for (uint32_t bucket = 0; bucket < KDA_ETW_BUCKETS; bucket++) {
        walk.bucket = bucket;
        for (uint32_t list = 0; list < LISTS && !kda_etw_stop(etw); list++) {
            uint64_t head = silo->table + (uint64_t)bucket * size + list * LIST_ENTRY_SIZE;
            walk.type = (enum kda_etw_guid_type)list;
            walk.astray = false;
            kda_etw_walk(etw, head, KDA_ETW_MAX_GUIDS, "providers", on_entry, &walk);
        }
    }
    read_embedded(etw, silo);
}

/* ---- joins ---- */

/* An entry in use: the combined view or a slot says enabled. */
static bool ever_enabled(const struct kda_etw_provider *provider)
{
    bool enabled = provider->combined.enabled != 0;
    for (uint32_t i = 0; i < KDA_ETW_ENABLE_SLOTS; i++)
        enabled = enabled || provider->enables[i].enabled != 0;
    return enabled;
}

/* What one link of an entry says of the list that the entry is or was on: the head or a neighbour,
 * of the bucket that its GUID belongs to. */
struct claim {
    const struct kda_etw_silo *silo;
    bool has_type;
    enum kda_etw_guid_type type;
    bool returned; /* the other side names the entry too */
};

static struct claim head_claims(struct kda_etw *etw, uint64_t link, uint32_t bucket)
{
    uint32_t size = bucket_size(etw);
    for (size_t i = 0; i < etw->silo_count; i++) {
        uint64_t head = etw->silos[i].table + (uint64_t)bucket * size;
        if (etw->silos[i].table != 0 && link >= head && link - head < LISTS * LIST_ENTRY_SIZE)
            return (struct claim){.silo = &etw->silos[i],
                                  .has_type = true,
                                  .type =
                                      (enum kda_etw_guid_type)((link - head) / LIST_ENTRY_SIZE)};
    }
    return (struct claim){0};
}

/* `side`: 0 for the link forward, 8 for the one backward. */
static struct claim link_claims(struct kda_etw *etw, const struct kda_etw_provider *provider,
                                uint64_t at, uint64_t link, unsigned side)
{
    uint8_t back[8];
    struct claim claim = {0};
    uint32_t bucket = kda_etw_bucket_of(provider->guid);
    const struct kda_etw_provider *neighbour =
        kda_etw_lookup(&etw->providers, &etw->provider_by_va, link - (at - provider->va));
    if (!neighbour)
        claim = head_claims(etw, link, bucket);
    else if (neighbour != provider && neighbour->has_guid &&
             kda_etw_bucket_of(neighbour->guid) == bucket)
        claim = (struct claim){neighbour->silo, neighbour->has_type, neighbour->type, false};
    claim.returned = kda_read(etw->kernel, link + (8 - side), back, 8, NULL) == KDA_OK &&
                     kda_le64(back) == at && link != at;
    return claim;
}

/* An entry on a list is of the list that names it as well; of one that was taken off, both links
 * have to say the same. */
static void deduce_list(struct kda_etw *etw, struct kda_etw_provider *provider)
{
    uint64_t at = kda_etw_member(etw, provider->va, KDA_F_ETW_GUID_ENTRY_GuidList);
    uint8_t links[16];
    if ((provider->has_type && provider->silo) || !provider->has_guid || at == 0 ||
        kda_read(etw->kernel, at, links, sizeof(links), NULL) != KDA_OK)
        return;
    struct claim a = link_claims(etw, provider, at, kda_le64(links), 0);
    struct claim b = link_claims(etw, provider, at, kda_le64(links + 8), 8);
    if (a.returned != b.returned) {
        a = a.returned ? a : b;
        b = a;
    }
    if (!provider->silo && (!a.silo || !b.silo || a.silo == b.silo))
        provider->silo = a.silo ? a.silo : b.silo;
    if (provider->has_type || (a.has_type && b.has_type && a.type != b.type))
        return;
    provider->has_type = a.has_type || b.has_type;
    provider->type = a.has_type ? a.type : b.type;
}

/* From the first entry to the last and back, so that what is known of one reaches all behind it. */
static void deduce_lists(struct kda_etw *etw)
{
    for (size_t i = 0; i < etw->providers.count; i++)
        deduce_list(etw, etw->providers.items[i]);
    for (size_t i = etw->providers.count; i > 0; i--)
        deduce_list(etw, etw->providers.items[i - 1]);
}

/* Sessions enable trace entries only (groups, which can be enabled too, are named by GroupEntry and
 * have their type already). */
static void deduce_type(struct kda_etw_provider *provider)
{
    if (provider->has_type || !ever_enabled(provider))
        return;
    provider->has_type = true;
    provider->type = KDA_ETW_TRACE;
}

static const uint64_t *owner_of(const struct kda_registration_node *node, bool group)
{
    if (group)
        return node->group_list_of ? &node->group_list_of : &node->row.group_entry;
    return node->list_of ? &node->list_of : &node->row.guid_entry;
}

static void attach(struct kda_etw *etw, bool count_only)
{
    for (size_t i = 0; i < etw->registrations.count; i++) {
        struct kda_registration_node *node = etw->registrations.items[i];
        for (unsigned group = 0; group < 2; group++) {
            struct kda_etw_provider *provider =
                kda_etw_lookup(&etw->providers, &etw->provider_by_va, *owner_of(node, group != 0));
            if (!provider || (group && node->row.guid_entry == provider->va))
                continue; /* an entry that is its own group is listed once */
            if (!count_only)
                provider->registrations[provider->registration_count] = &node->row;
            provider->registration_count++;
        }
    }
}

static void name_provider(struct kda_etw *etw, struct kda_etw_provider *provider)
{
    for (size_t i = 0; i < provider->registration_count; i++) {
        const struct kda_etw_registration *reg = provider->registrations[i];
        if (provider->has_type && provider->type == KDA_ETW_GROUP)
            break; /* members' names are not the group's */
        const struct kda_etw_provider *group =
            kda_etw_lookup(&etw->providers, &etw->provider_by_va, reg->group_entry);
        if (!provider->name)
            provider->name = reg->traits_name;
        const uint8_t *guid = group && group->has_guid ? group->guid : reg->traits_group;
        if (!provider->has_group && guid) {
            memcpy(provider->group, guid, sizeof(provider->group));
            provider->has_group = true;
        }
    }
    /* The table names providers; a group GUID in it belongs to whoever listed it. */
    bool group = provider->has_type && provider->type == KDA_ETW_GROUP;
    if (!provider->name && provider->has_guid && !group)
        provider->name = kda_provider_name(provider->guid);
}

static void join_sessions(struct kda_etw *etw, struct kda_etw_provider *provider)
{
    for (uint32_t i = 0; i < KDA_ETW_ENABLE_SLOTS; i++) {
        struct kda_etw_enable *enable = &provider->enables[i];
        if (enable->readable && (enable->enabled || enable->logger_id))
            enable->session = kda_etw_session_at(etw, provider->silo, enable->logger_id);
        enable->unnamed = enable->session && !kda_etw_repeat(etw, enable->session->name);
    }
    if (provider->combined.readable && provider->combined.enabled)
        provider->combined.session =
            kda_etw_session_at(etw, provider->silo, provider->combined.logger_id);
}

void kda_etw_join_providers(struct kda_etw *etw)
{
    /* A registration's back pointer is a witness of its own. */
    for (size_t i = 0; i < etw->registrations.count; i++) {
        const struct kda_etw_registration *reg = etw->registrations.items[i];
        struct kda_etw_provider *entry =
            kda_etw_lookup(&etw->providers, &etw->provider_by_va, reg->guid_entry);
        struct kda_etw_provider *group =
            kda_etw_lookup(&etw->providers, &etw->provider_by_va, reg->group_entry);
        if (entry)
            entry->found_by |= KDA_PROVIDER_REGISTRATION;
        if (group) {
            group->found_by |= KDA_PROVIDER_REGISTRATION;
            if (!group->has_type) {
                group->has_type = true;
                group->type = KDA_ETW_GROUP;
            }
        }
    }
    attach(etw, true);
    deduce_lists(etw);
    for (size_t i = 0; i < etw->providers.count; i++) {
        struct kda_etw_provider *provider = etw->providers.items[i];
        provider->registrations = kda_arena_alloc(
            &etw->arena, provider->registration_count * sizeof(*provider->registrations));
        if (!provider->registrations)
            etw->out_of_memory = true;
        provider->registration_count = 0;
        if (!provider->silo)
            provider->silo =
                kda_etw_default_silo(etw, provider->readable, KDA_F_ETW_GUID_ENTRY_SiloState);
    }
    if (etw->out_of_memory)
        return;
    attach(etw, false);
    for (size_t i = 0; i < etw->providers.count; i++) {
        struct kda_etw_provider *provider = etw->providers.items[i];
        deduce_type(provider);
        name_provider(etw, provider);
        join_sessions(etw, provider);
    }
}
