/*
 * audit_provider.c - checks of provider entries: the combined view against the slots, slots against
 * sessions, filters that leave nothing, entries off their list, providers that nobody listens to.
 */
#include "audit.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/text.h"

#define BUCKET_SIZE 0x38u /* three list heads and a lock; docs/etw.md */
#define BUCKET_LISTS 3u
#define LIST_ENTRY_SIZE 16u

static uint64_t slot_va(struct kda_audit *audit, const struct kda_etw_provider *provider,
                        unsigned slot, enum kda_field_id field)
{
    uint32_t size = kda_kernel_layout(audit->kernel)->size[KDA_STRUCT_TRACE_ENABLE_INFO];
    uint64_t base = kda_audit_member(audit, provider->va, KDA_F_ETW_GUID_ENTRY_EnableInfo);
    return base && size != KDA_NONE ? kda_audit_member(audit, base + (uint64_t)slot * size, field)
                                    : 0;
}

/* ---- combined view ---- */

/* What the kernel makes of the slots. Source: the highest level, the OR of the any-masks where 0
 * counts as all ones, the AND of the all-masks; holds for every provider of every sample image. */
static void combine(const struct kda_etw_provider *provider, struct kda_etw_enable *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < KDA_ETW_ENABLE_SLOTS; i++) {
        const struct kda_etw_enable *slot = &provider->enables[i];
        if (!slot->enabled)
            continue;
        ret->match_all = ret->enabled ? ret->match_all & slot->match_all : slot->match_all;
        ret->match_any |= slot->match_any ? slot->match_any : UINT64_MAX;
        ret->level = slot->level > ret->level ? slot->level : ret->level;
        ret->enabled = 1;
    }
}

static void compare(struct kda_audit *audit, const struct kda_etw_provider *provider,
                    const char *name, enum kda_field_id field, uint64_t found, uint64_t expected)
{
    char text[24];
    uint64_t at = kda_audit_member(audit, provider->va, KDA_F_ETW_GUID_ENTRY_ProviderEnableInfo);
    if (found == expected)
        return;
    (void)snprintf(text, sizeof(text), "0x%llx", (unsigned long long)expected);
    kda_audit_hex(audit, name, at ? kda_audit_member(audit, at, field) : 0, found, text);
}

static void combined(struct kda_audit *audit, const struct kda_etw_provider *provider,
                     const struct kda_subject *subject)
{
    struct kda_etw_enable sum;
    const struct kda_etw_enable *said = &provider->combined;
    if (!kda_audit_slots_readable(audit, provider, subject))
        return;
    combine(provider, &sum);
    bool said_on = said->enabled != 0, on = sum.enabled != 0;
    if (said_on == on && (!on || (said->level == sum.level && said->match_any == sum.match_any &&
                                  said->match_all == sum.match_all)))
        return;
    if (said_on && !on)
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                          "the provider thinks that it is enabled, and no slot is: its events go "
                          "nowhere");
    else if (on && !said_on)
        kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, subject,
                          "sessions have enabled the provider, and its combined view says that "
                          "none has: it writes nothing");
    else
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                          "the provider's combined view is not what its slots add up to");
    compare(audit, provider, "IsEnabled", KDA_F_TRACE_ENABLE_INFO_IsEnabled, said_on, on);
    compare(audit, provider, "Level", KDA_F_TRACE_ENABLE_INFO_Level, said->level, sum.level);
    compare(audit, provider, "MatchAnyKeyword", KDA_F_TRACE_ENABLE_INFO_MatchAnyKeyword,
            said->match_any, sum.match_any);
    compare(audit, provider, "MatchAllKeyword", KDA_F_TRACE_ENABLE_INFO_MatchAllKeyword,
            said->match_all, sum.match_all);
}

static void check_combined(struct kda_audit *audit)
{
    kda_audit_each_provider(audit, combined);
}

/* ---- slots that name no session ---- */

static void dead_session(struct kda_audit *audit, const struct kda_etw_provider *provider,
                         const struct kda_subject *subject)
{
    if (!kda_audit_slots_readable(audit, provider, subject))
        return;
    for (unsigned i = 0; i < KDA_ETW_ENABLE_SLOTS; i++) {
        const struct kda_etw_enable *slot = &provider->enables[i];
        if (!slot->enabled || slot->session)
            continue;
        if (kda_audit_has_gap(audit, "sessions") || kda_audit_has_gap(audit, "session_slot")) {
            kda_audit_open(audit, subject, "slot %u: the logger array is not whole", i);
            continue;
        }
        kda_audit_finding(audit, KDA_SEVERITY_MEDIUM, subject,
                          "slot %u has the provider enabled for session %u, which does not exist",
                          i, slot->logger_id);
        kda_audit_number(audit, "LoggerId",
                         slot_va(audit, provider, i, KDA_F_TRACE_ENABLE_INFO_LoggerId),
                         slot->logger_id, "a session that exists");
        kda_audit_about_slot(audit, provider->silo, slot->logger_id);
    }
}

static void check_dead_session(struct kda_audit *audit)
{
    kda_audit_each_provider(audit, dead_session);
}

/* ---- entries off their list ---- */

static void unlinked(struct kda_audit *audit, const struct kda_etw_provider *provider,
                     const struct kda_subject *subject)
{
    bool found = false;
    if (provider->found_by & (KDA_PROVIDER_TABLE | KDA_PROVIDER_EMBEDDED | KDA_PROVIDER_POOL) ||
        !provider->has_guid)
        return; /* pool.provider tells of the last */
    if (!provider->silo || provider->silo->table == 0) {
        kda_audit_open(audit, subject, "which list it should be on is not known");
        return;
    }
    uint64_t head =
        provider->silo->table + (uint64_t)kda_etw_bucket_of(provider->guid) * BUCKET_SIZE;
    uint64_t link = kda_audit_member(audit, provider->va, KDA_F_ETW_GUID_ENTRY_GuidList);
    for (unsigned type = 0; type < BUCKET_LISTS; type++) {
        if (provider->has_type && type != (unsigned)provider->type)
            continue; /* of unknown type: it has to be on one of them */
        enum kda_status status = kda_audit_on_list(audit, head + (uint64_t)type * LIST_ENTRY_SIZE,
                                                   KDA_ETW_MAX_GUIDS, link, &found);
        if (status != KDA_OK || found) {
            kda_audit_open(audit, subject, "its hash bucket cannot be read to its end");
            return;
        }
    }
    if (provider->has_type)
        head += (uint64_t)provider->type * LIST_ENTRY_SIZE;
    kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, subject,
                      "the entry was taken off its hash bucket: no session can find it any more");
    kda_audit_hex(audit, "bucket", head, kda_etw_bucket_of(provider->guid),
                  "a list that holds the entry");
    if (provider->registration_count > 0)
        kda_audit_hex(
            audit, "GuidEntry",
            kda_audit_member(audit, provider->registrations[0]->va, KDA_F_ETW_REG_ENTRY_GuidEntry),
            provider->va, NULL);
}

static void check_unlinked(struct kda_audit *audit)
{
    kda_audit_each_provider(audit, unlinked);
}

/* ---- providers that nobody listens to ---- */

/* What detection products live on. Source: names and GUIDs of the provider table. */
static const struct {
    const char *guid, *name;
    enum kda_severity severity;
} relevant[] = {
    {"f4e1897c-bb5d-5668-f1d8-040f4d8dd344", "Microsoft-Windows-Threat-Intelligence",
     KDA_SEVERITY_MEDIUM},
    {"54849625-5478-4994-a5ba-3e3b0328c30d", "Microsoft-Windows-Security-Auditing",
     KDA_SEVERITY_INFO},
    {"22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716", "Microsoft-Windows-Kernel-Process", KDA_SEVERITY_INFO},
    {"2a576b87-09a7-520e-c21a-4942f0271d67", "Microsoft-Antimalware-Scan-Interface",
     KDA_SEVERITY_INFO},
    {"a0c1853b-5c40-4b15-8766-3cf1c58f985a", "Microsoft-Windows-PowerShell", KDA_SEVERITY_INFO},
    {"1418ef04-b0b4-4623-bf7e-d74ab47bbdaa", "Microsoft-Windows-WMI-Activity", KDA_SEVERITY_INFO},
    {"1c95126e-7eea-49a9-a3fe-a378b03ddb4d", "Microsoft-Windows-DNS-Client", KDA_SEVERITY_INFO},
};

static bool any_slot(const struct kda_etw_provider *provider)
{
    for (unsigned i = 0; i < KDA_ETW_ENABLE_SLOTS; i++)
        if (provider->enables[i].readable && provider->enables[i].enabled)
            return true;
    return false;
}

/* Through the group of one of its registrations? */
static bool group_enabled(const struct kda_audit *audit, const struct kda_etw_provider *provider)
{
    for (size_t r = 0; r < provider->registration_count; r++) {
        const struct kda_etw_provider *group =
            kda_audit_provider_at(audit, provider->registrations[r]->group_entry);
        if (group && any_slot(group))
            return true;
    }
    return false;
}

static void silent(struct kda_audit *audit, const struct kda_etw_provider *provider,
                   const struct kda_subject *subject)
{
    for (size_t i = 0; i < sizeof(relevant) / sizeof(relevant[0]); i++) {
        uint8_t guid[16];
        if (!provider->has_guid || !kda_guid_parse(relevant[i].guid, guid) ||
            memcmp(guid, provider->guid, sizeof(guid)) != 0)
            continue;
        if (!provider->silo || !provider->silo->host || provider->type != KDA_ETW_TRACE ||
            !kda_audit_slots_readable(audit, provider, subject) || any_slot(provider) ||
            group_enabled(audit, provider))
            continue;
        kda_audit_finding(audit, relevant[i].severity, subject, "no session has enabled %s",
                          relevant[i].name);
        kda_audit_number(audit, "IsEnabled",
                         slot_va(audit, provider, 0, KDA_F_TRACE_ENABLE_INFO_IsEnabled), 0,
                         "a slot that a security product enabled");
        for (size_t r = 0; r < provider->registration_count && r < 2; r++)
            kda_audit_hex(audit, "EnableMask",
                          kda_audit_member(audit, provider->registrations[r]->va,
                                           KDA_F_ETW_REG_ENTRY_EnableMask),
                          provider->registrations[r]->enable_mask, NULL);
    }
}

/* The kernel writes Threat-Intelligence events through a handle of its own: the registration it
 * names has to be this provider's. (EtwpPsProvRegHandle is empty in images that are healthy.) */
#define TI_NAME "Microsoft-Windows-Threat-Intelligence"

static void own_handle(struct kda_audit *audit)
{
    uint8_t bytes[8], guid[16], wanted[16];
    uint64_t entry;
    uint64_t va = kda_symbol_va(audit->kernel, KDA_SYM_EtwThreatIntProvRegHandle);
    struct kda_subject subject = kda_subject_of("provider", TI_NAME, va, "host");
    struct kda_error why;
    if (va == 0)
        return; /* builds before 17763 have none: the entry above speaks */
    enum kda_status status = kda_read(audit->kernel, va, bytes, sizeof(bytes), &why);
    uint64_t reg = status == KDA_OK ? kda_le64(bytes) : 0;
    if (status == KDA_OK && reg != 0)
        status = kda_read_field(audit->kernel, reg, KDA_F_ETW_REG_ENTRY_GuidEntry, &entry, &why);
    if (status == KDA_OK && reg != 0)
        status = kda_read(audit->kernel, kda_audit_member(audit, entry, KDA_F_ETW_GUID_ENTRY_Guid),
                          guid, sizeof(guid), &why);
    if (status != KDA_OK && status != KDA_UNMAPPED) {
        kda_audit_open(audit, &subject, "EtwThreatIntProvRegHandle: %s", why.text);
        return;
    }
    if (status == KDA_OK && reg != 0 && kda_guid_parse(relevant[0].guid, wanted) &&
        memcmp(guid, wanted, sizeof(guid)) == 0)
        return;
    kda_audit_finding(audit, KDA_SEVERITY_HIGH, &subject,
                      reg ? "the kernel's own handle is no registration of " TI_NAME
                          : "the kernel's own handle is empty: it writes no event of " TI_NAME);
    kda_audit_hex(audit, "EtwThreatIntProvRegHandle", va, reg, "a registration of this provider");
}

static void check_silent(struct kda_audit *audit)
{
    kda_audit_each_provider(audit, silent);
    if (audit->etw)
        own_handle(audit);
}

/* clang-format off */
const struct kda_check kda_checks_provider[] = {
    {"provider.combined", KDA_SEVERITY_CRITICAL,
     "a provider's combined view differs from its slots",
     "A provider asks its combined view whether to write; sessions are in the slots. Clearing "
     "either silences the provider while the other still looks enabled.",
     "GUID entries with all slots",
     "a provider that was being enabled or disabled when the image was taken",
     "T1562.006", check_combined},
    {"provider.dead_session", KDA_SEVERITY_MEDIUM,
     "a provider is enabled for a session that does not exist",
     "The session was ended without the kernel taking back what it had enabled, as when its "
     "pointer is taken out of the array.",
     "GUID entries, the logger array",
     "a session that was being stopped when the image was taken",
     "T1562.006", check_dead_session},
    {"provider.filtered", KDA_SEVERITY_MEDIUM,
     "a provider is enabled and filtered into silence",
     "A filter for a process or program that does not run, or for events that do not exist, keeps "
     "a provider enabled without letting an event through.",
     "GUID entries, filters, process list",
     "a filter for a program that has ended since, or starts later",
     "T1562.006", kda_check_filtered},
    {"provider.unlinked", KDA_SEVERITY_CRITICAL,
     "a provider entry was taken off its hash bucket",
     "Sessions that want to enable the provider make a second entry, to which nobody registers.",
     "GUID table, registrations, handles", "none known",
     "T1014", check_unlinked},
    {"provider.silent", KDA_SEVERITY_HIGH,
     "a provider that security products live on has no session, or the kernel no handle to it",
     "Threat-Intelligence is enabled wherever Defender or another product is at work; clearing its "
     "entry, or the handle through which the kernel writes, blinds them without stopping anything.",
     "GUID entries of these providers, EtwThreatIntProvRegHandle",
     "machines without a security product; the others are not enabled everywhere",
     "T1562.006", check_silent},
    {0},
};
/* clang-format on */
