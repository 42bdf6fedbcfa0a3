/*
 * neighbours.c - objects that nothing names but the links of another one. Where a list head or two
 * nodes are missing, what stands between them is reached from an object that a handle or a
 * registration led to.
 *
 * Missing memory behind such a link is no row: it may as well be the head of the list.
 */
#include <string.h>

#include "internal.h"

struct around {
    struct kda_etw *etw;
    uint32_t at; /* of the link in the object */
    const struct kda_etw_provider *provider;
    enum kda_field_id back; /* of a registration: to the entry whose list this is */
    uint64_t entry;
    bool found;
};

static enum kda_step taken(struct around *around, const void *row)
{
    around->found = around->found || row;
    if (kda_etw_stop(around->etw))
        return KDA_STEP_STOP;
    return row ? KDA_STEP_TAKE : KDA_STEP_REFUSE;
}

static enum kda_step on_consumer(void *context, uint64_t link_va, enum kda_link how)
{
    struct around *around = context;
    struct kda_etw *etw = around->etw;
    uint64_t va = link_va - around->at;
    if (how == KDA_LINK_MISSING || kda_map_get(&etw->consumer_by_va, va, NULL) ||
        !kda_etw_plausible_consumer(etw, va))
        return KDA_STEP_REFUSE;
    return taken(around, kda_etw_consumer(etw, va, KDA_CONSUMER_LINK, NULL));
}

static enum kda_step on_registration(void *context, uint64_t link_va, enum kda_link how)
{
    struct around *around = context;
    struct kda_etw *etw = around->etw;
    uint64_t va = link_va - around->at, entry;
    if (how == KDA_LINK_MISSING || kda_map_get(&etw->registration_by_va, va, NULL) ||
        kda_read_field(etw->kernel, va, around->back, &entry, NULL) != KDA_OK ||
        entry != around->entry || !kda_etw_plausible_registration(etw, va))
        return KDA_STEP_REFUSE;
    return taken(around, kda_etw_registration(etw, va, KDA_REG_LINK));
}

static enum kda_step on_entry(void *context, uint64_t link_va, enum kda_link how)
{
    struct around *around = context;
    struct kda_etw *etw = around->etw;
    uint64_t va = link_va - around->at;
    uint64_t guid_at = kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_Guid);
    uint8_t guid[16];
    if (how == KDA_LINK_MISSING || kda_map_get(&etw->provider_by_va, va, NULL) || guid_at == 0 ||
        kda_read(etw->kernel, guid_at, guid, sizeof(guid), NULL) != KDA_OK ||
        kda_etw_bucket_of(guid) != kda_etw_bucket_of(around->provider->guid) ||
        kda_etw_check_entry(etw, va, how == KDA_LINK_TORN ? KDA_ENTRY_TORN : KDA_ENTRY_LISTED) !=
            KDA_OK)
        return KDA_STEP_REFUSE;
    return taken(around, kda_etw_provider(etw, va, KDA_PROVIDER_LINK));
}

static void look(struct around *around, uint64_t va, enum kda_field_id link, size_t max,
                 kda_list_fn fn)
{
    around->at = kda_field_offset(around->etw->kernel, link);
    if (around->at != KDA_NONE && kda_list_around(around->etw->kernel, va + around->at, 0, max, fn,
                                                  around, NULL) == KDA_NO_MEMORY)
        around->etw->out_of_memory = true;
}

static void look_around_registration(struct around *around, const struct kda_etw_registration *row)
{
    if (!row->readable)
        return;
    around->entry = row->guid_entry;
    around->back = KDA_F_ETW_REG_ENTRY_GuidEntry;
    if (!(row->found_by & KDA_REG_LIST))
        look(around, row->va, KDA_F_ETW_REG_ENTRY_RegList, KDA_ETW_MAX_REGS, on_registration);
    around->entry = row->group_entry;
    around->back = KDA_F_ETW_REG_ENTRY_GroupEntry;
    if (row->group_entry && !(row->found_by & KDA_REG_GROUP_LIST))
        look(around, row->va, KDA_F_ETW_REG_ENTRY_GroupRegList, KDA_ETW_MAX_REGS, on_registration);
}

bool kda_etw_read_neighbours(struct kda_etw *etw)
{
    struct around around = {.etw = etw};
    for (size_t *i = &etw->around_consumers; *i < etw->consumers.count && !kda_etw_stop(etw);
         (*i)++) {
        const struct kda_etw_consumer *row = etw->consumers.items[*i];
        if (row->readable && !(row->found_by & KDA_CONSUMER_LIST))
            look(&around, row->va, KDA_F_ETW_REALTIME_CONSUMER_Links, KDA_ETW_MAX_CONSUMERS,
                 on_consumer);
    }
    for (size_t *i = &etw->around_registrations;
         *i < etw->registrations.count && !kda_etw_stop(etw); (*i)++)
        look_around_registration(&around, etw->registrations.items[*i]);

    for (size_t *i = &etw->around_providers; *i < etw->providers.count && !kda_etw_stop(etw);
         (*i)++) {
        around.provider = etw->providers.items[*i];
        if (around.provider->has_guid && !(around.provider->found_by & KDA_PROVIDER_TABLE) &&
            !(around.provider->found_by & KDA_PROVIDER_EMBEDDED))
            look(&around, around.provider->va, KDA_F_ETW_GUID_ENTRY_GuidList, KDA_ETW_MAX_GUIDS,
                 on_entry);
    }
    return around.found && !kda_etw_stop(etw);
}
