#include "forge_int.h"

#include <ctype.h>
#include <stdlib.h>

/* SDDL to a self-relative security descriptor. Understands what traces use: owner, group, and a
 * DACL of plain allow and deny entries with hexadecimal rights. "D:NO_ACCESS_CONTROL" is the null
 * DACL. Source: [MS-DTYP] 2.4 and 2.5.1. */

#define SD_ROOM 1024u
#define CACHE_HEADER 32u
#define SE_DACL_PRESENT 0x0004u
#define SE_SELF_RELATIVE 0x8000u

struct encoder {
    const char *p;
    uint8_t *out;
    size_t used;
    bool bad;
};

static void byte(struct encoder *e, unsigned v)
{
    if (e->used >= SD_ROOM)
        e->bad = true;
    else
        e->out[e->used++] = (uint8_t)v;
}

static void dword(struct encoder *e, uint32_t v)
{
    for (unsigned i = 0; i < 32; i += 8)
        byte(e, v >> i);
}

static void sid(struct encoder *e, uint64_t authority, const uint32_t *parts, unsigned count)
{
    byte(e, 1);
    byte(e, count);
    for (unsigned i = 0; i < 6; i++)
        byte(e, (unsigned)(authority >> (40 - 8 * i)));
    for (unsigned i = 0; i < count; i++)
        dword(e, parts[i]);
}

static void numeric_sid(struct encoder *e)
{
    uint32_t parts[15];
    unsigned count = 0;
    char *end = NULL;
    uint64_t authority = strtoull(e->p + 4, &end, 10);
    while (*end == '-' && count < 15)
        parts[count++] = (uint32_t)strtoul(end + 1, &end, 10);
    e->p = end;
    sid(e, authority, parts, count);
}

static void any_sid(struct encoder *e)
{
    static const struct {
        char name[3];
        uint8_t authority, count;
        uint32_t parts[2];
    } known[] = {
        {"SY", 5, 1, {18}},      {"BA", 5, 2, {32, 544}}, {"LS", 5, 1, {19}},
        {"NS", 5, 1, {20}},      {"WD", 1, 1, {0}},       {"AU", 5, 1, {11}},
        {"BU", 5, 2, {32, 545}}, {"LU", 5, 2, {32, 559}}, {"MU", 5, 2, {32, 558}},
    };
    if (strncmp(e->p, "S-1-", 4) == 0) {
        numeric_sid(e);
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strncmp(e->p, known[i].name, 2) != 0)
            continue;
        e->p += 2;
        sid(e, known[i].authority, known[i].parts, known[i].count);
        return;
    }
    e->bad = true;
}

static bool eat(struct encoder *e, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(e->p, text, length) != 0)
        return false;
    e->p += length;
    return true;
}

/* "(A;;0x120fff;;;SY)" */
static void ace(struct encoder *e)
{
    size_t start = e->used;
    bool deny = eat(e, "D;;");
    char *end = NULL;
    if (!deny && !eat(e, "A;;")) {
        e->bad = true;
        return;
    }
    uint32_t rights = (uint32_t)strtoul(e->p, &end, 16);
    if (end == e->p) {
        e->bad = true;
        return;
    }
    e->p = end;
    byte(e, deny);
    byte(e, 0);
    byte(e, 0);
    byte(e, 0);
    dword(e, rights);
    if (!eat(e, ";;;")) {
        e->bad = true;
        return;
    }
    any_sid(e);
    if (!eat(e, ")"))
        e->bad = true;
    if (!e->bad)
        kda_put_le16(e->out + start + 2, (uint16_t)(e->used - start));
}

static void dacl(struct encoder *e)
{
    size_t start = e->used;
    uint16_t count = 0;
    dword(e, 2);
    dword(e, 0);
    while (!e->bad && eat(e, "(")) {
        ace(e);
        count++;
    }
    if (e->bad)
        return;
    kda_put_le16(e->out + start + 2, (uint16_t)(e->used - start));
    kda_put_le16(e->out + start + 4, count);
}

static size_t encode(const char *sddl, uint8_t out[SD_ROOM])
{
    uint8_t owner[SD_ROOM], group[SD_ROOM];
    struct encoder e = {sddl, out, 20, false};
    struct encoder o = {sddl, owner, 0, false}, g = {sddl, group, 0, false};
    uint16_t control = SE_SELF_RELATIVE;
    memset(out, 0, 20);
    out[0] = 1;
    if (eat(&e, "O:")) {
        o.p = e.p;
        any_sid(&o);
        e.p = o.p;
    }
    if (eat(&e, "G:")) {
        g.p = e.p;
        any_sid(&g);
        e.p = g.p;
    }
    if (eat(&e, "D:")) {
        control |= SE_DACL_PRESENT;
        if (!eat(&e, "NO_ACCESS_CONTROL")) {
            kda_put_le32(out + 16, (uint32_t)e.used);
            dacl(&e);
        }
    }
    if (e.bad || o.bad || g.bad || *e.p != '\0' || e.used + o.used + g.used > SD_ROOM)
        return 0;
    kda_put_le16(out + 2, control);
    if (o.used)
        kda_put_le32(out + 4, (uint32_t)e.used);
    memcpy(out + e.used, owner, o.used);
    e.used += o.used;
    if (g.used)
        kda_put_le32(out + 8, (uint32_t)e.used);
    memcpy(out + e.used, group, g.used);
    return e.used + g.used;
}

/* The descriptor cache keeps a list entry and two counters in front of each descriptor. */
uint64_t security_build(struct forge *f, const char *sddl, bool alone)
{
    uint8_t bytes[SD_ROOM];
    size_t size = encode(sddl, bytes);
    if (size == 0) {
        forge_fail(f, KDA_USAGE, "security descriptor \"%s\" is not understood", sddl);
        return 0;
    }
    uint64_t block = pool_alloc(f, POOL_PAGED, CACHE_HEADER + size, "ObSq", alone);
    list_init(f, block);
    if (forge_ok(f)) {
        put64(f, block + 16, 1);
        put_bytes(f, block + CACHE_HEADER, bytes, size);
    }
    return block ? block + CACHE_HEADER : 0;
}
