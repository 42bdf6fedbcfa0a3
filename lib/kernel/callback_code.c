/*
 * callback_code.c - where callbacks are kept, from the code that registers them, for a kernel whose
 * globals are not known.
 *
 * The exported function, or a function that it calls, loads the address of the array or list head.
 * Code gives candidates only: the one that is taken has to hold callbacks whose functions lie in
 * loaded drivers, and has to be the only one that does.
 *
 * Source: documentation of the functions (what each registers). That each loads the address with a
 * RIP-relative LEA is public research; docs/kernel.md.
 */
#include <stdio.h>
#include <string.h>

#include "base/insn.h"
#include "callback_int.h"

#define WAYS 4u
#define FUNCTION_BYTES 1024u
#define FUNCTIONS 32u /* looked at for one kind */
#define CANDIDATES 64u
#define INT3 0xccu /* fills the room between functions */
#define ALTITUDE_BYTES 64u

struct way {
    const char *exports[WAYS];
    unsigned depth; /* of calls that are followed */
};

static const struct way ways[KDA_CALLBACK_KINDS] = {
    [KDA_CALLBACK_PROCESS] = {{"PsSetCreateProcessNotifyRoutine",
                               "PsSetCreateProcessNotifyRoutineEx",
                               "PsSetCreateProcessNotifyRoutineEx2"},
                              1},
    [KDA_CALLBACK_THREAD] = {{"PsSetCreateThreadNotifyRoutine", "PsRemoveCreateThreadNotifyRoutine",
                              "PsSetCreateThreadNotifyRoutineEx"},
                             1},
    [KDA_CALLBACK_IMAGE] = {{"PsSetLoadImageNotifyRoutine", "PsRemoveLoadImageNotifyRoutine",
                             "PsSetLoadImageNotifyRoutineEx"},
                            1},
    [KDA_CALLBACK_REGISTRY] = {{"CmUnRegisterCallback", "CmRegisterCallbackEx",
                                "CmRegisterCallback"},
                               2},
};

struct search {
    struct kda_kernel *kernel;
    enum kda_callback_kind kind;
    struct kda_section sections[KDA_MAX_SECTIONS];
    size_t section_count;
    uint64_t functions[FUNCTIONS]; /* those of one depth after those of the depth before */
    size_t function_count;
    uint64_t seen[CANDIDATES];
    size_t seen_count;
    uint64_t found;
    size_t proven;
    enum kda_status unread; /* why a function could not be read; KDA_OK = all could */
};

static bool in_section(const struct search *search, uint64_t va, bool executable)
{
    uint64_t rva = va - search->kernel->info.base;
    for (size_t i = 0; i < search->section_count; i++) {
        const struct kda_section *s = &search->sections[i];
        if (rva >= s->rva && rva - s->rva < s->size)
            return executable ? s->executable : s->writable;
    }
    return false;
}

/* ---- does it hold callbacks? ---- */

static bool in_driver(struct kda_kernel *kernel, uint64_t va)
{
    return kda_module_at(kernel, va) != NULL;
}

static bool in_nt(struct kda_kernel *kernel, uint64_t va)
{
    const struct kda_module *module = kda_module_at(kernel, va);
    return module && module->base == kernel->info.base;
}

/* In code of a driver: data of drivers is pointed at by all sorts of structures. */
static bool in_code(struct kda_kernel *kernel, uint64_t va)
{
    const struct kda_module *module = kda_module_at(kernel, va);
    struct kda_section sections[KDA_MAX_SECTIONS];
    struct kda_pe pe;
    size_t count = 0;
    if (!module)
        return false;
    if (kda_pe_read(kernel, module->base, &pe, NULL) != KDA_OK ||
        kda_pe_sections(kernel, module->base, &pe, sections, &count, NULL) != KDA_OK || count == 0)
        return !in_nt(kernel, va); /* a driver's header may be gone */
    for (size_t i = 0; i < count; i++) {
        uint64_t start = module->base + sections[i].rva;
        if (sections[i].executable && va >= start && va - start < sections[i].size)
            return true;
    }
    return false;
}

/* Every used slot leads to kernel memory, every record that can be read names a function of the
 * kernel half that is no data of nt, and one at least is code of one. */
static bool is_array(struct kda_kernel *kernel, uint64_t va)
{
    uint8_t slots[KDA_CALLBACK_SLOTS * 8], record[KDA_ROUTINE_SIZE];
    size_t known = 0;
    if (kda_read(kernel, va, slots, sizeof(slots), NULL) != KDA_OK)
        return false;
    for (size_t i = 0; i < KDA_CALLBACK_SLOTS; i++) {
        uint64_t reference = kda_le64(slots + i * 8), block = reference & ~KDA_FAST_REF_BITS;
        if (reference == 0)
            continue;
        if (!kda_is_kernel_va(kernel, block) || in_driver(kernel, block))
            return false;
        enum kda_status status = kda_read(kernel, block, record, sizeof(record), NULL);
        if (status == KDA_UNMAPPED)
            return false;
        if (status != KDA_OK)
            continue;
        uint64_t function = kda_le64(record + KDA_ROUTINE_FUNCTION);
        bool code = in_code(kernel, function);
        if (!kda_is_kernel_va(kernel, function) || (in_nt(kernel, function) && !code))
            return false;
        known += code;
    }
    return known > 0;
}

/* Altitudes are decimal numbers. Source: documentation of CmRegisterCallbackEx. */
static bool is_altitude(struct kda_kernel *kernel, uint64_t string_va)
{
    uint8_t string[16], text[ALTITUDE_BYTES];
    if (kda_read(kernel, string_va, string, sizeof(string), NULL) != KDA_OK)
        return false;
    size_t size = kda_le16(string);
    if (size == 0 || size > sizeof(text) || size % 2 != 0 ||
        kda_read(kernel, kda_le64(string + 8), text, size, NULL) != KDA_OK)
        return false;
    for (size_t i = 0; i < size; i += 2) {
        uint16_t c = kda_le16(text + i);
        if (c != '.' && (c < '0' || c > '9'))
            return false;
    }
    return true;
}

struct ring_proof {
    struct kda_kernel *kernel;
    size_t known, wrong;
};

static enum kda_step on_record(void *context, uint64_t link_va, enum kda_link how)
{
    struct ring_proof *proof = context;
    uint8_t record[KDA_REGISTRY_SIZE];
    if (how == KDA_LINK_MISSING ||
        kda_read(proof->kernel, link_va, record, sizeof(record), NULL) != KDA_OK)
        return KDA_STEP_TAKE;
    uint64_t function = kda_le64(record + KDA_REGISTRY_FUNCTION);
    if (!kda_is_kernel_va(proof->kernel, function) || in_driver(proof->kernel, link_va))
        proof->wrong++;
    else if (in_code(proof->kernel, function) &&
             is_altitude(proof->kernel, link_va + KDA_REGISTRY_ALTITUDE))
        proof->known++;
    return proof->wrong == 0 ? KDA_STEP_TAKE : KDA_STEP_STOP;
}

static bool is_ring(struct kda_kernel *kernel, uint64_t va)
{
    struct ring_proof proof = {kernel, 0, 0};
    struct kda_list_result result;
    return kda_list_walk(kernel, va, KDA_MAX_LISTED_CALLBACKS, NULL, on_record, &proof, &result,
                         NULL) == KDA_OK &&
           proof.known > 0 && proof.wrong == 0;
}

/* ---- what the code names ---- */

static void offer(struct search *search, uint64_t va)
{
    if ((va & 7) != 0 || !in_section(search, va, false) || search->seen_count == CANDIDATES)
        return;
    for (size_t i = 0; i < search->seen_count; i++)
        if (search->seen[i] == va)
            return;
    search->seen[search->seen_count++] = va;
    if (search->kind == KDA_CALLBACK_REGISTRY ? !is_ring(search->kernel, va)
                                              : !is_array(search->kernel, va))
        return;
    search->found = va;
    search->proven++;
}

static void follow(struct search *search, uint64_t va)
{
    if (!in_section(search, va, true) || search->function_count == FUNCTIONS)
        return;
    for (size_t i = 0; i < search->function_count; i++)
        if (search->functions[i] == va)
            return;
    search->functions[search->function_count++] = va;
}

/* As much of the function as is there: it may end a page before a missing one. */
static size_t read_code(struct search *search, uint64_t va, uint8_t code[FUNCTION_BYTES])
{
    size_t size = FUNCTION_BYTES, first = 4096 - (size_t)(va & 4095);
    enum kda_status status = kda_read(search->kernel, va, code, size, NULL);
    if (status != KDA_OK && first < size) {
        size = first;
        status = kda_read(search->kernel, va, code, size, NULL);
    }
    if (status != KDA_OK)
        search->unread = status;
    return status == KDA_OK ? size : 0;
}

static void look_at(struct search *search, uint64_t va, bool calls)
{
    uint8_t code[FUNCTION_BYTES];
    size_t size = read_code(search, va, code), at = 0;
    while (at < size && code[at] != INT3) {
        struct kda_insn insn = kda_insn_decode(code + at, size - at);
        if (insn.size == 0)
            return;
        at += insn.size;
        uint64_t target = va + at + (uint64_t)(int64_t)insn.displacement;
        if (insn.lea)
            offer(search, target);
        else if (insn.branch && calls)
            follow(search, target);
    }
}

/* The name of the first function, for the reason; NULL when the kernel exports none of them. */
static const char *start(struct search *search, const struct way *way)
{
    const char *first = NULL;
    for (size_t i = 0; i < WAYS && way->exports[i]; i++) {
        uint64_t va;
        struct kda_error why = {0};
        enum kda_status status = kda_kernel_export(search->kernel, way->exports[i], &va, &why);
        /* What is not exported is told of the kernel's base, what is not there of its own place. */
        if (kda_status_is_gap(status) && why.where != search->kernel->info.base)
            search->unread = status;
        if (status != KDA_OK)
            continue;
        follow(search, va);
        first = first ? first : way->exports[i];
    }
    return first;
}

static enum kda_status not_found(const struct search *search, const char *first,
                                 struct kda_error *err)
{
    if (search->proven > 1)
        return kda_fail(err, KDA_BAD_DATA, "kernel",
                        "the code of %s names %zu places that could "
                        "be it",
                        first, search->proven);
    if (search->unread != KDA_OK)
        return kda_fail(err, search->unread, "kernel",
                        "the code that would name it is not in the image");
    if (!first) /* nothing to add to what the caller knows */
        return kda_fail(err, KDA_NO_SYMBOL, "kernel", "%s", "");
    return kda_fail(err, KDA_NO_SYMBOL, "kernel",
                    "the code of %s names no place that holds callbacks", first);
}

enum kda_status kda_callback_by_code(struct kda_kernel *kernel, enum kda_callback_kind kind,
                                     uint64_t *va, struct kda_error *err)
{
    struct search search = {.kernel = kernel, .kind = kind};
    const struct way *way = &ways[kind];
    enum kda_status status =
        kda_kernel_sections(kernel, search.sections, &search.section_count, err);
    if (status != KDA_OK)
        return status;
    const char *first = start(&search, way);
    size_t begin = 0;
    for (unsigned depth = 0; depth <= way->depth && search.proven == 0; depth++) {
        size_t end = search.function_count;
        for (; begin < end; begin++)
            look_at(&search, search.functions[begin], depth < way->depth);
    }
    if (search.proven != 1)
        return not_found(&search, first, err);
    *va = search.found;
    return KDA_OK;
}
