/*
 * registration.c - provider registrations (ETW_REG_ENTRY) of user processes and drivers.
 */
#include <string.h>

#include "internal.h"

#include "base/text.h"

#define MAX_TRAITS 4096u
#define TRAIT_GROUP 1u /* EtwProviderTraitTypeGroup, evntprov.h */

/* Fields whose bit says what a registration is; the kernel and user bit decide the kind. */
static bool read_flags(struct kda_etw *etw, struct kda_etw_registration *reg)
{
    uint64_t flags;
    if (!kda_etw_field(etw, "registration", reg->va, KDA_F_ETW_REG_ENTRY_Flags, &flags))
        return false;
    /* 7601 has flags but its PDB names no bit; there the pointer decides (read_kind). */
    if (!kda_has_field(etw->kernel, KDA_F_ETW_REG_ENTRY_DbgUserRegistration))
        return false;
    reg->flags = (uint32_t)flags;
    reg->has_flags = true;
    uint64_t user = 0, kernel = 0;
    if (kda_etw_field(etw, "registration", reg->va, KDA_F_ETW_REG_ENTRY_DbgUserRegistration,
                      &user) &&
        kda_etw_field(etw, "registration", reg->va, KDA_F_ETW_REG_ENTRY_DbgKernelRegistration,
                      &kernel) &&
        user != kernel) {
        reg->has_kind = true;
        reg->kernel = kernel != 0;
    }
    return reg->has_kind;
}

/* Process and CallbackContext (or Callback) share one place: what is stored there tells, where the
 * flags do not. */
static void read_kind(struct kda_etw *etw, struct kda_etw_registration *reg)
{
    uint64_t process = 0, callback = 0;
    (void)kda_etw_field(etw, "registration", reg->va, KDA_F_ETW_REG_ENTRY_Process, &process);
    (void)kda_etw_field(etw, "registration", reg->va, KDA_F_ETW_REG_ENTRY_Callback, &callback);
    if (!read_flags(etw, reg)) {
        if (kda_process_at(etw->kernel, process) ||
            kda_process_check(etw->kernel, process) == KDA_OK) {
            reg->has_kind = true;
        } else if (kda_module_at(etw->kernel, callback)) {
            reg->has_kind = true;
            reg->kernel = true;
        }
    }
    if (!reg->has_kind)
        return;
    /* A callback is no process: then the bit was changed, or the pointer. */
    if (reg->kernel && ((callback != 0 && kda_process_at(etw->kernel, callback)) ||
                        (process != 0 && kda_process_at(etw->kernel, process)))) {
        kda_etw_gap(etw, "registration", reg->va, KDA_BAD_DATA,
                    "says that it is the kernel's, and names a process");
        reg->has_kind = reg->has_flags = false;
        return;
    }
    if (!reg->kernel && reg->has_flags && kda_process_check(etw->kernel, process) == KDA_BAD_DATA) {
        kda_etw_gap(etw, "registration", reg->va, KDA_BAD_DATA,
                    "says that it is a process's, and names 0x%016llx, which is none",
                    (unsigned long long)process);
        reg->has_kind = reg->has_flags = false;
        return;
    }
    if (!reg->kernel) {
        reg->process_va = process;
        return;
    }
    reg->callback = callback;
    const struct kda_module *module = kda_module_at(etw->kernel, callback);
    if (module && kda_etw_repeat(etw, module->name))
        reg->module = module->name;
}

/* ETW_PROVIDER_TRAITS.Traits: u16 size of all, name, then chunks of u16 size, u8 type, data.
 * Source: "Provider Traits", Microsoft ETW documentation; evntprov.h. */
static void read_traits(struct kda_etw *etw, struct kda_etw_registration *reg)
{
    uint64_t traits;
    struct kda_error why;
    if (!kda_etw_field(etw, "registration", reg->va, KDA_F_ETW_REG_ENTRY_Traits, &traits) ||
        traits == 0)
        return;
    uint64_t at = kda_etw_member(etw, traits, KDA_F_ETW_PROVIDER_TRAITS_Traits);
    uint8_t size_bytes[2];
    uint8_t stack[MAX_TRAITS];
    if (at == 0 || !kda_is_kernel_va(etw->kernel, traits))
        return;
    enum kda_status status = kda_read(etw->kernel, at, size_bytes, 2, &why);
    uint16_t size = status == KDA_OK ? kda_le16(size_bytes) : (uint16_t)0;
    if (status == KDA_OK && (size < 3 || size > MAX_TRAITS))
        status = kda_fail_at(&why, KDA_BAD_DATA, "etw", at, "traits say %u bytes", size);
    if (status == KDA_OK)
        status = kda_read(etw->kernel, at, stack, size, &why);
    if (status != KDA_OK) {
        kda_etw_gap(etw, "traits", traits, status, "%s", why.text);
        return;
    }
    struct kda_cursor c = kda_cursor_make(stack, size);
    (void)kda_take16(&c);
    const char *name = kda_take_cstr(&c);
    size_t length = name ? strlen(name) : 0;
    if (!name || kda_utf8_valid_prefix(name, length) != length) {
        kda_etw_gap(etw, "traits", traits, KDA_BAD_DATA, "the name in the traits is no text");
        return;
    }
    if (length > 0)
        reg->traits_name = kda_etw_keep(etw, name, length + 1);
    while (kda_cursor_left(&c) >= 3) {
        uint16_t chunk = kda_take16(&c);
        uint8_t type = kda_take8(&c);
        const uint8_t *data = chunk >= 3 ? kda_take(&c, chunk - 3u) : NULL;
        if (!data)
            break;
        if (type == TRAIT_GROUP && chunk == 3 + 16)
            reg->traits_group = kda_etw_keep(etw, data, 16);
    }
}

static void read_registration(struct kda_etw *etw, struct kda_etw_registration *reg)
{
    uint64_t value;
    struct kda_error why;
    enum kda_status status =
        kda_read_field(etw->kernel, reg->va, KDA_F_ETW_REG_ENTRY_GuidEntry, &reg->guid_entry, &why);
    if (status != KDA_OK) {
        kda_etw_gap(etw, "registration", reg->va, status, "%s", why.text);
        return;
    }
    reg->readable = true;
    if (kda_etw_field(etw, "registration", reg->va, KDA_F_ETW_REG_ENTRY_GroupEntry, &value))
        reg->group_entry = value;
    read_kind(etw, reg);
    reg->has_enable_mask =
        kda_etw_field(etw, "registration", reg->va, KDA_F_ETW_REG_ENTRY_EnableMask, &value);
    reg->enable_mask = reg->has_enable_mask ? (uint8_t)value : 0;
    reg->has_group_enable_mask =
        kda_etw_field(etw, "registration", reg->va, KDA_F_ETW_REG_ENTRY_GroupEnableMask, &value);
    reg->group_enable_mask = reg->has_group_enable_mask ? (uint8_t)value : 0;
    read_traits(etw, reg);
}

void kda_etw_join_registrations(struct kda_etw *etw)
{
    for (size_t i = 0; i < etw->registrations.count; i++) {
        struct kda_etw_registration *reg = etw->registrations.items[i];
        if (!reg->has_kind || reg->kernel)
            continue;
        reg->has_pid = kda_etw_process(etw, reg->process_va, &reg->pid, &reg->process, NULL);
        if (reg->has_pid && reg->has_handle &&
            !kda_etw_handle_agrees(etw, "registration_process", reg->va, reg->pid,
                                   reg->handle_pid)) {
            reg->has_pid = false;
            reg->process = NULL;
        } else if (!reg->has_pid)
            kda_gaps_add(kda_etw_gaps(etw), "registration_process", reg->process_va, KDA_BAD_DATA,
                         "registration 0x%016llx belongs to a process that no process list names",
                         (unsigned long long)reg->va);
    }
}

/* The registration at the end of an entry's list links to the head in the entry. */
static bool links_to(struct kda_etw *etw, uint64_t reg, enum kda_field_id link, uint64_t entry)
{
    uint64_t head = kda_etw_member(etw, entry, KDA_F_ETW_GUID_ENTRY_RegListHead);
    uint64_t at = kda_etw_member(etw, reg, link);
    uint8_t links[16];
    return head != 0 && at != 0 &&
           kda_read(etw->kernel, at, links, sizeof(links), NULL) == KDA_OK &&
           (kda_le64(links) == head || kda_le64(links + 8) == head);
}

/* Rings stand in many places: the entry's list has to hold the registration, and the entry to
 * belong to a silo. */
static bool denied(struct kda_etw *etw, uint64_t reg, uint64_t entry, enum kda_field_id link)
{
    uint64_t state;
    return kda_etw_list_denies(etw, kda_etw_member(etw, reg, link),
                               kda_etw_member(etw, entry, KDA_F_ETW_GUID_ENTRY_RegListHead)) ||
           (kda_has_field(etw->kernel, KDA_F_ETW_GUID_ENTRY_SiloState) &&
            kda_read_field(etw->kernel, entry, KDA_F_ETW_GUID_ENTRY_SiloState, &state, NULL) ==
                KDA_OK &&
            !kda_etw_known_state(etw, state) && kda_etw_check_state(etw, state) == KDA_BAD_DATA);
}

/* True when `entry` is known or looks like a GUID entry. Of one whose memory is missing two
 * pointers have to speak: one may have been overwritten. */
static bool back_pointer(struct kda_etw *etw, const struct kda_etw_registration *reg,
                         uint64_t entry, enum kda_field_id link)
{
    if (entry == 0 || kda_map_get(&etw->provider_by_va, entry, NULL))
        return entry != 0;
    enum kda_status status = kda_etw_check_entry(etw, entry, KDA_ENTRY_NAMED);
    if (status == KDA_OK && denied(etw, reg->va, entry, link))
        status = KDA_BAD_DATA;
    if (status == KDA_OK || (status == KDA_ABSENT && (links_to(etw, reg->va, link, entry) ||
                                                      kda_etw_named_twice(etw, entry))))
        return true;
    kda_gaps_add(kda_etw_gaps(etw), "registration", reg->va, status,
                 "names 0x%016llx, where no GUID entry %s", (unsigned long long)entry,
                 status == KDA_ABSENT ? "can be read" : "is");
    return false;
}

/* An entry that was taken off its bucket is still named here. What is named as a group has its
 * registrations on the group list; to walk the other one would invent objects. */
static void read_back_pointers(struct kda_etw *etw, const struct kda_etw_registration *reg)
{
    if (back_pointer(etw, reg, reg->guid_entry, KDA_F_ETW_REG_ENTRY_RegList))
        (void)kda_etw_provider(etw, reg->guid_entry, 0);
    if (!back_pointer(etw, reg, reg->group_entry, KDA_F_ETW_REG_ENTRY_GroupRegList))
        return;
    struct kda_etw_provider *group = kda_etw_provider(etw, reg->group_entry, 0);
    if (group && !group->has_type) {
        group->has_type = true;
        group->type = KDA_ETW_GROUP;
    }
}

struct kda_etw_registration *kda_etw_registration(struct kda_etw *etw, uint64_t va,
                                                  unsigned found_by)
{
    struct kda_etw_registration *reg =
        kda_etw_lookup(&etw->registrations, &etw->registration_by_va, va);
    if (!reg) {
        if (kda_etw_refused(etw, va))
            return NULL;
        if (!kda_etw_plausible_registration(etw, va)) {
            kda_etw_gap(etw, "registration", va, KDA_BAD_DATA,
                        "%s leads here, where no registration is (or its page was overwritten)",
                        found_by & KDA_REG_HANDLE   ? "a handle"
                        : found_by & KDA_REG_SYMBOL ? "a global of the kernel"
                                                    : "a provider's list");
            return NULL;
        }
        reg = kda_etw_add(etw, &etw->registrations, &etw->registration_by_va, va,
                          sizeof(struct kda_registration_node), KDA_ETW_MAX_REGS, "registrations");
        if (!reg)
            return NULL;
        reg->va = va;
        reg->process = "";
        read_registration(etw, reg);
        read_back_pointers(etw, reg);
    }
    reg->found_by |= found_by;
    return reg;
}

struct reg_walk {
    struct kda_etw *etw;
    struct kda_etw_provider *provider;
    uint32_t at;
    unsigned found_by;
};

/* A registration names the entry back on whose list it stands. */
static bool names_entry(struct reg_walk *walk, uint64_t va)
{
    enum kda_field_id field = walk->found_by == KDA_REG_LIST ? KDA_F_ETW_REG_ENTRY_GuidEntry
                                                             : KDA_F_ETW_REG_ENTRY_GroupEntry;
    uint64_t entry;
    return (va & 7) == 0 && (!kda_has_field(walk->etw->kernel, field) ||
                             kda_read_field(walk->etw->kernel, va, field, &entry, NULL) != KDA_OK ||
                             entry == walk->provider->va);
}

/* A node that cannot be read is still known to hang on this entry. */
static enum kda_step on_reg(void *context, uint64_t link_va, enum kda_link how)
{
    struct reg_walk *walk = context;
    uint64_t va = link_va - walk->at;
    (void)how;
    if (!names_entry(walk, va))
        return kda_etw_refuse(
            walk->etw, "registration", va,
            "the list of the entry at 0x%016llx leads here, where no registration names it",
            (unsigned long long)walk->provider->va);
    struct kda_registration_node *node =
        (struct kda_registration_node *)kda_etw_registration(walk->etw, va, walk->found_by);
    if (!node)
        return kda_etw_stop(walk->etw) ? KDA_STEP_STOP : KDA_STEP_REFUSE;
    if (walk->found_by == KDA_REG_LIST)
        node->list_of = walk->provider->va;
    else
        node->group_list_of = walk->provider->va;
    return kda_etw_stop(walk->etw) ? KDA_STEP_STOP : KDA_STEP_TAKE;
}

void kda_etw_read_registration_list(struct kda_etw *etw, struct kda_etw_provider *provider)
{
    bool group = provider->has_type && provider->type == KDA_ETW_GROUP;
    enum kda_field_id link = group ? KDA_F_ETW_REG_ENTRY_GroupRegList : KDA_F_ETW_REG_ENTRY_RegList;
    uint64_t head = kda_etw_member(etw, provider->va, KDA_F_ETW_GUID_ENTRY_RegListHead);
    if (head == 0 || !kda_has_field(etw->kernel, link) || !provider->readable)
        return;
    struct reg_walk walk = {etw, provider, kda_field_offset(etw->kernel, link),
                            group ? KDA_REG_GROUP_LIST : KDA_REG_LIST};
    kda_etw_walk(etw, head, KDA_ETW_MAX_REGS, "registrations", on_reg, &walk);
}

/* Globals that hold a registration handle of the kernel itself: a way to their providers that
 * survives unlinking. The GUID proves that the pointer leads where its name says.
 * Source: symbols of every table from 17763 on; provider GUIDs as registered by Windows. */
static const struct {
    enum kda_symbol_id symbol;
    uint8_t guid[16];
} handle_symbols[] = {
    {KDA_SYM_EtwThreatIntProvRegHandle, /* Microsoft-Windows-Threat-Intelligence */
     {0x7c, 0x89, 0xe1, 0xf4, 0x5d, 0xbb, 0x68, 0x56, 0xf1, 0xd8, 0x04, 0x0f, 0x4d, 0x8d, 0xd3,
      0x44}},
    {KDA_SYM_EtwpPsProvRegHandle, /* Microsoft-Windows-Kernel-Process */
     {0xd6, 0x2c, 0xfb, 0x22, 0x7b, 0x0e, 0x2b, 0x42, 0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7,
      0x16}},
};

static enum kda_status follow_symbol(struct kda_etw *etw, uint64_t at, const uint8_t *wanted,
                                     uint64_t *reg_va, struct kda_error *err)
{
    uint8_t bytes[8], guid[16];
    uint64_t entry;
    enum kda_status status = kda_read(etw->kernel, at, bytes, sizeof(bytes), err);
    uint64_t va = status == KDA_OK ? kda_le64(bytes) : 0;
    *reg_va = 0;
    if (status != KDA_OK || va == 0) /* 0: not registered */
        return status;
    status = kda_read_field(etw->kernel, va, KDA_F_ETW_REG_ENTRY_GuidEntry, &entry, err);
    uint64_t guid_at = status == KDA_OK ? kda_etw_member(etw, entry, KDA_F_ETW_GUID_ENTRY_Guid) : 0;
    if (guid_at != 0)
        status = kda_read(etw->kernel, guid_at, guid, sizeof(guid), err);
    if (status != KDA_OK)
        return status;
    if (guid_at == 0 || memcmp(guid, wanted, sizeof(guid)) != 0)
        return kda_fail_at(err, KDA_BAD_DATA, "etw", va,
                           "0x%016llx does not lead to the provider of that name",
                           (unsigned long long)va);
    *reg_va = va;
    return KDA_OK;
}

void kda_etw_read_handle_symbols(struct kda_etw *etw)
{
    for (size_t i = 0; i < sizeof(handle_symbols) / sizeof(handle_symbols[0]); i++) {
        uint64_t at = kda_symbol_va(etw->kernel, handle_symbols[i].symbol), va = 0;
        struct kda_error why;
        if (at == 0)
            continue;
        enum kda_status status = follow_symbol(etw, at, handle_symbols[i].guid, &va, &why);
        if (status != KDA_OK)
            kda_etw_gap(etw, "registration", at, status, "%s: %s",
                        kda_symbol_name(handle_symbols[i].symbol), why.text);
        if (status != KDA_OK || va == 0)
            continue;
        struct kda_etw_registration *reg = kda_etw_registration(etw, va, KDA_REG_SYMBOL);
        struct kda_etw_provider *provider =
            reg ? kda_etw_lookup(&etw->providers, &etw->provider_by_va, reg->guid_entry) : NULL;
        if (provider)
            provider->found_by |= KDA_PROVIDER_SYMBOL;
    }
}
