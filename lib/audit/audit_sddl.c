/*
 * audit_sddl.c - whom a security descriptor gives rights to that only administrators should have.
 *
 * Reads the text that security.c writes: "O:…G:…D:flags(type;flags;0xmask;;;sid)…S:…".
 */
#include "audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Principals that anybody, or any program, has. Source: MS-DTYP 2.4.2.4, 2.5.1.1. */
static const struct {
    const char *sid, *name;
} everybody[] = {
    {"WD", "Everyone"},
    {"AN", "Anonymous"},
    {"AU", "every authenticated user"},
    {"BU", "every user"},
    {"BG", "guests"},
    {"IU", "every interactive user"},
    {"NU", "network logons"},
    {"AC", "every app package"},
};

static const char *name_of(const char *sid, size_t size)
{
    for (size_t i = 0; i < sizeof(everybody) / sizeof(everybody[0]); i++)
        if (strlen(everybody[i].sid) == size && memcmp(everybody[i].sid, sid, size) == 0)
            return everybody[i].name;
    return NULL;
}

/* The n-th field of the entry that starts behind its "("; *size without the ";". */
static const char *field_of(const char *entry, unsigned n, size_t *size)
{
    while (n-- > 0) {
        entry += strcspn(entry, ";)");
        if (*entry != ';')
            return NULL;
        entry++;
    }
    *size = strcspn(entry, ";)");
    return entry;
}

bool kda_audit_sddl_grants(const char *sddl, uint32_t rights, char *who, size_t cap)
{
    const char *dacl = strstr(sddl, "D:");
    const char *end = dacl ? strstr(dacl, ")S:") : NULL;
    for (const char *at = dacl ? strchr(dacl, '(') : NULL; at && (!end || at < end);
         at = strchr(at + 1, '(')) {
        size_t type_size = 0, flags_size = 0, mask_size = 0, sid_size = 0;
        const char *type = field_of(at + 1, 0, &type_size);
        const char *flags = field_of(at + 1, 1, &flags_size);
        const char *mask = field_of(at + 1, 2, &mask_size);
        const char *sid = field_of(at + 1, 5, &sid_size);
        if (!sid || type_size != 1 || type[0] != 'A')
            continue;
        bool inherit_only = false;
        for (size_t i = 0; i + 1 < flags_size; i += 2)
            inherit_only = inherit_only || memcmp(flags + i, "IO", 2) == 0;
        const char *name = name_of(sid, sid_size);
        uint32_t granted = (uint32_t)strtoul(mask, NULL, 16) & rights;
        if (inherit_only || !name || granted == 0)
            continue;
        (void)snprintf(who, cap, "%s", name);
        return true;
    }
    return false;
}
