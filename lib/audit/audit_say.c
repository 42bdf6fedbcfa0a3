/*
 * audit_say.c - what checks say: texts, findings with their evidence, what could not be checked.
 */
#include "audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define TEXT_MAX 1024

/* ---- texts ---- */

static const char *keep_text(struct kda_audit *audit, const char *fmt, va_list args)
{
    char text[TEXT_MAX];
    int size = vsnprintf(text, sizeof(text), fmt, args);
    size_t used = size < 0 ? 0 : (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1;
    char *kept = kda_arena_strndup(&audit->arena, text, kda_utf8_valid_prefix(text, used));
    if (!kept)
        audit->no_memory = true;
    return kept ? kept : "";
}

const char *kda_audit_text(struct kda_audit *audit, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = keep_text(audit, fmt, args);
    va_end(args);
    return text;
}

const char *kda_audit_place(struct kda_audit *audit, uint64_t va)
{
    const struct kda_module *module = kda_module_at(audit->kernel, va);
    return module && module->name[0] ? kda_audit_text(audit, "in %s", module->name)
           : module                  ? "in a driver without a name"
                                     : "in no loaded driver";
}

/* ---- what checks say ---- */

static const char *name_of(struct kda_audit *audit, const struct kda_subject *subject)
{
    return subject->name_row ? subject->name_row(audit, subject->row, subject->of) : subject->name;
}

void kda_audit_finding(struct kda_audit *audit, enum kda_severity severity,
                       const struct kda_subject *subject, const char *fmt, ...)
{
    audit->now->findings++;
    audit->open = NULL;
    void *items = audit->findings;
    if (audit->now->findings > KDA_AUDIT_MAX_FINDINGS) {
        audit->dropped++;
        return;
    }
    struct kda_audit_finding *finding = kda_arena_alloc(&audit->arena, sizeof(*finding));
    if (!finding || !kda_grow(&items, &audit->finding_capacity, audit->finding_count + 1,
                              sizeof(*audit->findings), SIZE_MAX)) {
        audit->no_memory = true;
        return;
    }
    audit->findings = items;
    finding->order = audit->finding_count;
    audit->findings[audit->finding_count++] = finding;
    va_list args;
    va_start(args, fmt);
    finding->text = keep_text(audit, fmt, args);
    va_end(args);
    finding->check = audit->now->check;
    finding->severity = severity;
    finding->object = subject->object;
    finding->name = name_of(audit, subject);
    finding->va = subject->va;
    finding->silo = subject->silo;
    audit->open = finding;
    audit->open_evidence = NULL;
}

void kda_audit_evidence(struct kda_audit *audit, const char *name, uint64_t va, const char *found,
                        const char *expected)
{
    struct kda_audit_finding *finding = audit->open;
    if (!finding || finding->evidence_count >= KDA_AUDIT_EVIDENCE)
        return;
    if (!audit->open_evidence) {
        audit->open_evidence =
            kda_arena_alloc(&audit->arena, KDA_AUDIT_EVIDENCE * sizeof(*audit->open_evidence));
        if (!audit->open_evidence) {
            audit->no_memory = true;
            return;
        }
        finding->evidence = audit->open_evidence;
    }
    struct kda_evidence *evidence = &audit->open_evidence[finding->evidence_count++];
    evidence->name = name;
    evidence->va = va;
    evidence->found = kda_audit_text(audit, "%s", found);
    evidence->expected = expected ? kda_audit_text(audit, "%s", expected) : NULL;
}

void kda_audit_about(struct kda_audit *audit, uint64_t va)
{
    struct kda_audit_finding *finding = audit->open;
    for (size_t i = 0; finding && va && i < KDA_AUDIT_RELATED; i++)
        if (finding->related[i] == 0) {
            finding->related[i] = va;
            return;
        }
}

void kda_audit_about_slot(struct kda_audit *audit, const struct kda_etw_silo *silo, uint32_t slot)
{
    if (silo && silo->array && slot < silo->slots)
        kda_audit_about(audit, silo->array + slot * (uint64_t)8);
}

void kda_audit_number(struct kda_audit *audit, const char *name, uint64_t va, uint64_t found,
                      const char *expected)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)found);
    kda_audit_evidence(audit, name, va, text, expected);
}

void kda_audit_hex(struct kda_audit *audit, const char *name, uint64_t va, uint64_t found,
                   const char *expected)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "0x%llx", (unsigned long long)found);
    kda_audit_evidence(audit, name, va, text, expected);
}

void kda_audit_open(struct kda_audit *audit, const struct kda_subject *subject, const char *fmt,
                    ...)
{
    audit->now->unchecked++;
    audit->open = NULL;
    void *items = audit->unchecked;
    if (audit->now->unchecked > KDA_AUDIT_MAX_UNCHECKED) {
        audit->dropped++;
        return;
    }
    if (!kda_grow(&items, &audit->unchecked_capacity, audit->unchecked_count + 1,
                  sizeof(*audit->unchecked), SIZE_MAX)) {
        audit->no_memory = true;
        return;
    }
    audit->unchecked = items;
    struct kda_unchecked *item = &audit->unchecked[audit->unchecked_count++];
    memset(item, 0, sizeof(*item));
    item->check = audit->now->check;
    if (subject) {
        item->object = subject->object;
        item->name = name_of(audit, subject);
        item->va = subject->va;
    }
    va_list args;
    va_start(args, fmt);
    item->reason = keep_text(audit, fmt, args);
    va_end(args);
}
