/*
 * security.c - self-relative security descriptors as SDDL.
 *
 * Source: MS-DTYP 2.4 (SID, ACE, ACL, SECURITY_DESCRIPTOR) and 2.5.1 (SDDL). Access masks are
 * printed in hex, which SDDL allows and which loses nothing.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#include "base/text.h"

#define SD_HEADER 20u
#define SD_MAX 65536u
#define SDDL_MAX 16384u
#define MAX_SUBAUTHORITIES 15u
#define SDDL_TOTAL ((size_t)4 << 20) /* over the whole map, each descriptor once */

#define CONTROL_DACL_PRESENT 0x0004u
#define CONTROL_SACL_PRESENT 0x0010u
#define CONTROL_SELF_RELATIVE 0x8000u

struct sddl {
    char *text;
    size_t used, cap;
    bool overflow;
};

static void put(struct sddl *out, const char *fmt, ...) KDA_PRINTF(2, 3);
static void put(struct sddl *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out->text + out->used, out->cap - out->used, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= out->cap - out->used)
        out->overflow = true;
    else
        out->used += (size_t)n;
}

/* Two-letter forms of well-known SIDs. Source: MS-DTYP 2.5.1.1. */
static const struct {
    const char *sid, *alias;
} aliases[] = {
    {"S-1-1-0", "WD"},      {"S-1-3-0", "CO"},      {"S-1-3-1", "CG"},      {"S-1-3-4", "OW"},
    {"S-1-5-2", "NU"},      {"S-1-5-4", "IU"},      {"S-1-5-6", "SU"},      {"S-1-5-7", "AN"},
    {"S-1-5-9", "ED"},      {"S-1-5-10", "PS"},     {"S-1-5-11", "AU"},     {"S-1-5-12", "RC"},
    {"S-1-5-18", "SY"},     {"S-1-5-19", "LS"},     {"S-1-5-20", "NS"},     {"S-1-5-32-544", "BA"},
    {"S-1-5-32-545", "BU"}, {"S-1-5-32-546", "BG"}, {"S-1-5-32-547", "PU"}, {"S-1-5-32-548", "AO"},
    {"S-1-5-32-549", "SO"}, {"S-1-5-32-550", "PO"}, {"S-1-5-32-551", "BO"}, {"S-1-5-32-552", "RE"},
    {"S-1-5-32-554", "RU"}, {"S-1-5-32-555", "RD"}, {"S-1-5-32-556", "NO"}, {"S-1-5-32-558", "MU"},
    {"S-1-5-32-559", "LU"}, {"S-1-15-2-1", "AC"},   {"S-1-16-4096", "LW"},  {"S-1-16-8192", "ME"},
    {"S-1-16-8448", "MP"},  {"S-1-16-12288", "HI"}, {"S-1-16-16384", "SI"},
};

/* Bytes of the SID at `at`, or 0 when it does not fit. */
static size_t put_sid(struct sddl *out, const uint8_t *sd, size_t size, size_t at)
{
    if (at > size || size - at < 8)
        return 0;
    unsigned subs = sd[at + 1];
    size_t length = 8 + 4 * (size_t)subs;
    if (sd[at] != 1 || subs > MAX_SUBAUTHORITIES || size - at < length)
        return 0;
    char text[64 + 11 * MAX_SUBAUTHORITIES];
    struct sddl sid = {text, 0, sizeof(text), false};
    uint64_t authority = kda_be64(sd + at) & 0xffffffffffffu;
    put(&sid, authority > UINT32_MAX ? "S-1-0x%llx" : "S-1-%llu", (unsigned long long)authority);
    for (unsigned i = 0; i < subs; i++)
        put(&sid, "-%u", (unsigned)kda_le32(sd + at + 8 + 4 * (size_t)i));
    const char *shown = text;
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcmp(aliases[i].sid, text) == 0)
            shown = aliases[i].alias;
    put(out, "%s", shown);
    return length;
}

static const char *ace_type(uint8_t type)
{
    static const char *const names[] = {
        [0] = "A",   [1] = "D",   [2] = "AU",    [3] = "AL",    [5] = "OA",
        [6] = "OD",  [7] = "OU",  [8] = "OL",    [9] = "XA",    [10] = "XD",
        [11] = "ZA", [13] = "XU", [0x11] = "ML", [0x12] = "RA", [0x13] = "SP"};
    return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}

static void put_ace_flags(struct sddl *out, uint8_t flags)
{
    static const char *const names[] = {"OI", "CI", "NP", "IO", "ID", "", "SA", "FA"};
    for (unsigned i = 0; i < 8; i++)
        if (flags & (1u << i))
            put(out, "%s", names[i]);
}

static bool put_ace(struct sddl *out, const uint8_t *sd, size_t at, size_t ace_size)
{
    uint8_t type = sd[at];
    const char *name = ace_type(type);
    size_t sid_at = at + 8;
    char guids[2][KDA_GUID_TEXT] = {"", ""};
    if (ace_size < 16)
        return false;
    if (type >= 5 && type <= 8) { /* object ACE: flags, then up to two GUIDs */
        uint32_t present = kda_le32(sd + at + 8);
        sid_at = at + 12;
        for (unsigned i = 0; i < 2; i++) {
            if (!(present & (1u << i)))
                continue;
            if (sid_at + 16 > at + ace_size)
                return false;
            kda_guid_text(sd + sid_at, guids[i]);
            sid_at += 16;
        }
    }
    if (name)
        put(out, "(%s;", name);
    else
        put(out, "(0x%x;", type);
    put_ace_flags(out, sd[at + 1]);
    put(out, ";0x%x;", (unsigned)kda_le32(sd + at + 4));
    for (unsigned i = 0; i < 2; i++) {
        size_t length = strlen(guids[i]); /* SDDL writes them without braces */
        put(out, "%.*s;", length ? (int)length - 2 : 0, length ? guids[i] + 1 : "");
    }
    bool ok = put_sid(out, sd, at + ace_size, sid_at) != 0;
    put(out, ")");
    return ok;
}

static bool put_acl(struct sddl *out, const uint8_t *sd, size_t size, size_t at)
{
    if (at < SD_HEADER || at > size || size - at < 8)
        return false;
    size_t acl_size = kda_le16(sd + at + 2);
    unsigned count = kda_le16(sd + at + 4);
    if (acl_size < 8 || acl_size > size - at)
        return false;
    size_t end = at + acl_size, ace = at + 8;
    for (unsigned i = 0; i < count; i++) {
        if (end - ace < 8)
            return false;
        size_t ace_size = kda_le16(sd + ace + 2);
        if (ace_size < 8 || ace_size > end - ace || !put_ace(out, sd, ace, ace_size))
            return false;
        if (out->overflow)
            return true; /* the caller refuses it: no use in writing the rest */
        ace += ace_size;
    }
    return true;
}

static bool put_descriptor(struct sddl *out, const uint8_t *sd, size_t size)
{
    uint16_t control = kda_le16(sd + 2);
    uint32_t owner = kda_le32(sd + 4), group = kda_le32(sd + 8);
    uint32_t sacl = kda_le32(sd + 12), dacl = kda_le32(sd + 16);
    if (owner) {
        put(out, "O:");
        if (!put_sid(out, sd, size, owner))
            return false;
    }
    if (group) {
        put(out, "G:");
        if (!put_sid(out, sd, size, group))
            return false;
    }
    for (unsigned i = 0; i < 2; i++) {
        bool is_dacl = i == 0;
        uint32_t at = is_dacl ? dacl : sacl;
        if (!(control & (is_dacl ? CONTROL_DACL_PRESENT : CONTROL_SACL_PRESENT)))
            continue;
        put(out, is_dacl ? "D:" : "S:");
        if (control & (is_dacl ? 0x1000u : 0x2000u))
            put(out, "P");
        if (control & (is_dacl ? 0x0100u : 0x0200u))
            put(out, "AR");
        if (control & (is_dacl ? 0x0400u : 0x0800u))
            put(out, "AI");
        if (at == 0)
            put(out, "NO_ACCESS_CONTROL");
        else if (!put_acl(out, sd, size, at))
            return false;
    }
    return true;
}

/* Bytes that the parts reach to, from their own headers. */
static enum kda_status measure(struct kda_etw *etw, uint64_t va, const uint8_t *head, size_t *size,
                               struct kda_error *err)
{
    size_t end = SD_HEADER;
    for (unsigned i = 0; i < 4; i++) {
        uint32_t at = kda_le32(head + 4 + 4 * (size_t)i);
        uint8_t part[4];
        if (at == 0)
            continue;
        if (at < SD_HEADER || at > SD_MAX)
            return kda_fail_at(err, KDA_BAD_DATA, "etw", va, "offset 0x%x in the descriptor",
                               (unsigned)at);
        enum kda_status status = kda_read(etw->kernel, va + at, part, sizeof(part), err);
        if (status != KDA_OK)
            return status;
        size_t length = i < 2 ? 8 + 4 * (size_t)part[1] : kda_le16(part + 2);
        if (at + length > end)
            end = at + length;
    }
    if (end > SD_MAX)
        return kda_fail_at(err, KDA_LIMIT, "etw", va, "the descriptor has %zu bytes", end);
    *size = end;
    return KDA_OK;
}

static enum kda_status render(struct kda_etw *etw, uint64_t va, const uint8_t *sd, size_t size,
                              const char **ret, struct kda_error *err)
{
    if (etw->sddl_bytes >= SDDL_TOTAL)
        return kda_fail_at(err, KDA_LIMIT, "etw", va, "more than %zu MiB of security descriptors",
                           SDDL_TOTAL >> 20);
    char *text = kda_calloc(SDDL_MAX, 1);
    if (!text)
        return kda_fail(err, KDA_NO_MEMORY, "etw", "out of memory for a security descriptor");
    struct sddl out = {text, 0, SDDL_MAX, false};
    enum kda_status status = KDA_OK;
    bool whole = put_descriptor(&out, sd, size);
    etw->sddl_bytes += out.used;
    if (!whole)
        status = kda_fail_at(err, KDA_BAD_DATA, "etw", va, "the security descriptor is damaged");
    else if (out.overflow)
        status = kda_fail_at(err, KDA_LIMIT, "etw", va, "the security descriptor is too long");
    if (status == KDA_OK) {
        *ret = kda_etw_keep(etw, text, out.used + 1); /* says itself why it could not */
    }
    kda_free(text);
    return status;
}

static enum kda_status read_descriptor(struct kda_etw *etw, uint64_t va, const char **ret,
                                       struct kda_error *err)
{
    uint8_t head[SD_HEADER];
    size_t size = 0;
    enum kda_status status = kda_read(etw->kernel, va, head, sizeof(head), err);
    if (status != KDA_OK)
        return status;
    if (head[0] != 1 || !(kda_le16(head + 2) & CONTROL_SELF_RELATIVE))
        return kda_fail_at(err, KDA_BAD_DATA, "etw", va, "no self-relative security descriptor");
    status = measure(etw, va, head, &size, err);
    if (status != KDA_OK)
        return status;
    uint8_t *sd = kda_calloc(size, 1);
    if (!sd)
        return kda_fail(err, KDA_NO_MEMORY, "etw", "out of memory for a security descriptor");
    status = kda_read(etw->kernel, va, sd, size, err);
    if (status == KDA_OK)
        status = render(etw, va, sd, size, ret, err);
    kda_free(sd);
    return status;
}

const char *kda_etw_security(struct kda_etw *etw, uint64_t fast_ref, const char *what, uint64_t *va)
{
    /* EX_FAST_REF: the low four bits count references. */
    uint64_t at = fast_ref & ~(uint64_t)15;
    const char *text = NULL;
    struct kda_error why;
    if (at == 0)
        return NULL;
    *va = at;
    uint64_t known;
    if (kda_map_get(&etw->sddl_by_va, at, &known)) {
        text = (const char *)(uintptr_t)known;
        return kda_etw_repeat(etw, text) ? text : NULL;
    }
    enum kda_status status = kda_is_kernel_va(etw->kernel, at)
                                 ? read_descriptor(etw, at, &text, &why)
                                 : kda_fail_at(&why, KDA_BAD_DATA, "etw", at, "no kernel address");
    if (status != KDA_OK)
        kda_etw_gap(etw, what, at, status, "%s", why.text);
    else if (text && !kda_map_put(&etw->sddl_by_va, at, (uint64_t)(uintptr_t)text))
        etw->out_of_memory = true;
    return text;
}
