/*
 * audit_registration.c - checks of registrations: their lists, masks, callbacks and flags.
 */
#include "audit.h"

#include <stdio.h>

/* Bits of ETW_REG_ENTRY.Flags. Source: bit names of the PDBs from 14393 on. */
#define FLAG_CLOSED 0x40u
#define FLAG_INSERTED 0x80u

typedef void (*registration_fn)(struct kda_audit *audit, const struct kda_etw_provider *provider,
                                const struct kda_etw_registration *reg,
                                const struct kda_subject *subject);

static void each_registration(struct kda_audit *audit, registration_fn fn)
{
    size_t count;
    if (kda_audit_no_model(audit))
        return;
    static const char *const kinds[] = {"registrations", "providers", "handle_table",
                                        "handle_tables", "object",    NULL};
    kda_audit_open_gaps(audit, "registrations", kinds);
    const struct kda_etw_provider *const *providers = kda_etw_providers(audit->etw, &count);
    for (size_t i = 0; i < count; i++) {
        if (providers[i]->type == KDA_ETW_GROUP && providers[i]->has_type)
            continue; /* members of a group are registrations of their own provider */
        for (size_t r = 0; r < providers[i]->registration_count; r++) {
            const struct kda_etw_registration *reg = providers[i]->registrations[r];
            struct kda_subject subject = kda_subject_registration(providers[i], reg);
            kda_audit_examined(audit);
            if (!reg->readable)
                kda_audit_open(audit, &subject, "the registration's memory is not in the image");
            else
                fn(audit, providers[i], reg, &subject);
        }
    }
}

static uint64_t member(struct kda_audit *audit, const struct kda_etw_registration *reg,
                       enum kda_field_id field)
{
    return kda_audit_member(audit, reg->va, field);
}

/* ---- off the list ---- */

static void unlinked(struct kda_audit *audit, const struct kda_etw_provider *provider,
                     const struct kda_etw_registration *reg, const struct kda_subject *subject)
{
    bool found = false;
    if ((reg->found_by & KDA_REG_LIST) || reg->found_by == KDA_REG_POOL ||
        (reg->has_flags && reg->flags & FLAG_CLOSED))
        return;
    uint64_t head = kda_audit_member(audit, provider->va, KDA_F_ETW_GUID_ENTRY_RegListHead);
    uint64_t link = member(audit, reg, KDA_F_ETW_REG_ENTRY_RegList);
    enum kda_status status =
        head ? kda_audit_on_list(audit, head, KDA_ETW_MAX_REGS, link, &found) : KDA_NO_SYMBOL;
    if (status != KDA_OK || found) {
        kda_audit_open(audit, subject,
                       "the provider's list of registrations cannot be read to its end");
        return;
    }
    kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, subject,
                      "the registration was taken off its provider's list: it is not told when a "
                      "session enables the provider");
    kda_audit_hex(audit, "RegListHead", head, head, "a list that holds it");
    if (reg->has_handle)
        kda_audit_hex(audit, "handle", reg->handle_va, reg->handle, NULL);
    kda_audit_about(audit, provider->va);
}

static void check_unlinked(struct kda_audit *audit)
{
    each_registration(audit, unlinked);
}

/* ---- masks ---- */

/* Slots whose filter may rightly leave a registration out. Source: process, executable, package and
 * container filters choose registrations ("EVENT_FILTER_DESCRIPTOR"). */
static uint8_t choosing_slots(const struct kda_etw_provider *provider)
{
    uint8_t slots = 0;
    for (size_t i = 0; i < provider->filter_count; i++) {
        const struct kda_etw_filter *filter = &provider->filters[i];
        if (filter->slot < KDA_ETW_ENABLE_SLOTS &&
            (filter->has_pids || filter->executables ||
             filter->others &
                 (KDA_FILTER_PACKAGE_ID | KDA_FILTER_PACKAGE_APP | KDA_FILTER_CONTAINER)))
            slots = (uint8_t)(slots | 1u << filter->slot);
    }
    return slots;
}

static bool enabled_slots(const struct kda_etw_provider *provider, uint8_t *ret)
{
    uint8_t slots = 0;
    for (unsigned i = 0; i < KDA_ETW_ENABLE_SLOTS; i++) {
        if (!provider->enables[i].readable)
            return false;
        if (provider->enables[i].enabled)
            slots = (uint8_t)(slots | 1u << i);
    }
    *ret = slots;
    return true;
}

static void compare_mask(struct kda_audit *audit, const struct kda_etw_provider *slots_of,
                         const struct kda_etw_registration *reg, const struct kda_subject *subject,
                         uint8_t mask, const char *name, enum kda_field_id field)
{
    uint8_t slots;
    char expected[48];
    if (!enabled_slots(slots_of, &slots)) {
        kda_audit_open(audit, subject, "not every enable slot of its provider is in the image");
        return;
    }
    uint8_t deaf = (uint8_t)(slots & ~mask & ~choosing_slots(slots_of));
    uint8_t stale = (uint8_t)(mask & ~slots);
    if (deaf == 0 && stale == 0)
        return;
    if (deaf)
        kda_audit_finding(
            audit, KDA_SEVERITY_HIGH, subject,
            "sessions have enabled the provider, and this registration writes to none "
            "of slots 0x%x",
            deaf);
    else
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                          "the registration is enabled for slots 0x%x, which no session uses",
                          stale);
    (void)snprintf(expected, sizeof(expected), "0x%x, the slots in use", slots);
    kda_audit_hex(audit, name, member(audit, reg, field), mask, expected);
    kda_audit_hex(audit, "EnableInfo",
                  kda_audit_member(audit, slots_of->va, KDA_F_ETW_GUID_ENTRY_EnableInfo), slots,
                  NULL);
    kda_audit_about(audit, slots_of->va);
}

static void mask(struct kda_audit *audit, const struct kda_etw_provider *provider,
                 const struct kda_etw_registration *reg, const struct kda_subject *subject)
{
    if (!provider->readable) {
        kda_audit_open(audit, subject, "its provider's memory is not in the image");
        return;
    }
    if (!reg->has_enable_mask)
        kda_audit_open(audit, subject, "its EnableMask cannot be read");
    else
        compare_mask(audit, provider, reg, subject, reg->enable_mask, "EnableMask",
                     KDA_F_ETW_REG_ENTRY_EnableMask);
    if (reg->group_entry == 0)
        return;
    if (!reg->has_group_enable_mask) {
        kda_audit_open(audit, subject, "its GroupEnableMask cannot be read");
        return;
    }
    const struct kda_etw_provider *group = kda_audit_provider_at(audit, reg->group_entry);
    if (!group || !group->readable)
        kda_audit_open(audit, subject, "its provider group's entry is not in the image");
    else
        compare_mask(audit, group, reg, subject, reg->group_enable_mask, "GroupEnableMask",
                     KDA_F_ETW_REG_ENTRY_GroupEnableMask);
}

static void check_mask(struct kda_audit *audit)
{
    each_registration(audit, mask);
}

/* ---- code ---- */

static void callback(struct kda_audit *audit, const struct kda_etw_provider *provider,
                     const struct kda_etw_registration *reg, const struct kda_subject *subject)
{
    (void)provider;
    if (!reg->has_kind) {
        kda_audit_open(audit, subject, "whether a driver or a process registered is not known");
        return;
    }
    if (!reg->kernel || reg->callback == 0 || kda_module_at(audit->kernel, reg->callback))
        return;
    if (!kda_audit_modules_whole(audit)) {
        kda_audit_open(audit, subject, "the driver list cannot be read to its end");
        return;
    }
    kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                      "the provider's enable callback is code in no loaded driver");
    kda_audit_hex(audit, "Callback", member(audit, reg, KDA_F_ETW_REG_ENTRY_Callback),
                  reg->callback, "an address in a loaded driver");
}

static void check_callback(struct kda_audit *audit)
{
    each_registration(audit, callback);
}

/* ---- flags ---- */

static void flags(struct kda_audit *audit, const struct kda_etw_provider *provider,
                  const struct kda_etw_registration *reg, const struct kda_subject *subject)
{
    const char *text;
    (void)provider;
    if (!reg->has_flags) {
        kda_audit_open(audit, subject, "its flags cannot be read");
        return;
    }
    bool closed = reg->flags & FLAG_CLOSED, inserted = reg->flags & FLAG_INSERTED;
    bool listed = reg->found_by & KDA_REG_LIST;
    if (closed && listed && inserted)
        text = "the registration is marked closed and still stands on its provider's list";
    else if (closed && reg->has_handle)
        text = "the registration is marked closed and a process still holds its handle";
    else if (!inserted && listed)
        text = "the registration stands on its provider's list and is marked as not inserted";
    else
        return;
    kda_audit_finding(audit, KDA_SEVERITY_MEDIUM, subject, "%s", text);
    kda_audit_hex(audit, "Flags", member(audit, reg, KDA_F_ETW_REG_ENTRY_Flags), reg->flags,
                  closed ? "bit 6 (closed) clear" : "bit 7 (inserted) set");
}

static void check_flags(struct kda_audit *audit)
{
    if (!kda_has_field(audit->kernel, KDA_F_ETW_REG_ENTRY_DbgInserted)) {
        kda_audit_open(audit, NULL, "this build's layout does not name the flag bits");
        return;
    }
    each_registration(audit, flags);
}

/* clang-format off */
const struct kda_check kda_checks_registration[] = {
    {"registration.unlinked", KDA_SEVERITY_CRITICAL,
     "a registration was taken off its provider's list",
     "The kernel tells the registrations on the list about sessions; one that only its handle "
     "names never learns that it should write.",
     "registrations, handle tables, the provider's list",
     "a registration that was being closed when the image was taken",
     "T1562.006", check_unlinked},
    {"registration.mask", KDA_SEVERITY_HIGH,
     "a registration's enable mask differs from its provider's slots",
     "A registration writes to the sessions in its mask: an empty one silences one process.",
     "registrations, GUID entries",
     "a session that was enabling the provider when the image was taken",
     "T1562.006", check_mask},
    {"registration.callback", KDA_SEVERITY_HIGH,
     "a provider's enable callback lies outside every loaded driver",
     "Code without a driver: injected, or left behind by a driver that was hidden.",
     "registrations, driver list",
     "drivers that were unloaded when the image was taken",
     "T1014", check_callback},
    {"registration.flags", KDA_SEVERITY_MEDIUM,
     "a registration's flags contradict its place",
     "A registration marked closed is passed over, whatever its handle says.",
     "registrations, handle tables",
     "a registration that was being closed when the image was taken",
     "T1562.006", check_flags},
    {0},
};
/* clang-format on */
