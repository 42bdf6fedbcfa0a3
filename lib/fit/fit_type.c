/*
 * fit_type.c - object types and how a header stores its type, without symbols.
 *
 * Types stand in an array of nt and know their own index there, so none is taken for its neighbour.
 * The cookie is settled by objects whose type is known from elsewhere: the types themselves, which
 * have the type "Type", and the processes. Where the two differ, nothing is believed.
 */
#include <string.h>

#include "fit_int.h"

#define MAX_TYPES 256u
#define MIN_TYPES 16u /* Windows has 40 and more */
#define FIRST_TYPE 2u /* the type of types */
#define MIN_OBJECTS 3u
#define MAX_CHECKED 4096u /* handles */

/* The object type that stands at `at`, if its own index says so. */
static enum fit_answer is_type(struct kda_fit *fit, uint64_t type, unsigned index)
{
    const struct fit_votes *votes = &fit->votes[F(OBJECT_TYPE, Index)];
    uint8_t stored;
    if (votes->count == 0)
        return FIT_NO;
    enum fit_answer answer = kda_fit_read(fit, type + votes->place[0].offset, &stored, 1);
    return answer != FIT_YES ? answer : stored == index ? FIT_YES : FIT_NO;
}

/* ObTypeIndexTable: 0, one more value, then the types; 0 ends it. The type named "Type" is first.
 * `slot` is the place of that first type. */
static bool is_type_table(struct kda_fit *fit, uint64_t slot)
{
    unsigned yes = 0, no = 0;
    uint64_t first = 0;
    if (kda_fit_u64(fit, slot - 16, &first) != FIT_YES || first != 0)
        return false;
    unsigned i = 2;
    for (; i < MAX_TYPES; i++) {
        uint64_t type;
        if (kda_fit_u64(fit, slot + (i - 2) * 8u, &type) != FIT_YES || type == 0)
            break;
        if (!kda_fit_is_pool(fit, type))
            return false;
        enum fit_answer answer = is_type(fit, type, i);
        yes += answer == FIT_YES;
        no += answer == FIT_NO;
        if (i == 5 && yes == 0 && no > 0)
            return false;
    }
    if (i - 2 < MIN_TYPES || yes * 4 < i - 2 || no * 8 > yes)
        return false;
    fit->types = i;
    return true;
}

static void find_type_table(struct kda_fit *fit)
{
    for (size_t p = 0; p < fit->data.pages && fit->type_table == 0; p++) {
        const uint8_t *page = fit->data.bytes + p * KDA_PAGE_SIZE;
        for (size_t off = 16; off + 24 <= KDA_PAGE_SIZE && fit->type_table == 0; off += 8) {
            if (kda_le64(page + off - 16) == 0 && kda_fit_is_pool(fit, kda_le64(page + off)) &&
                kda_fit_is_pool(fit, kda_le64(page + off + 8)) &&
                kda_fit_is_pool(fit, kda_le64(page + off + 16)) &&
                is_type_table(fit, fit->base + fit->data.rva[p] + off))
                fit->type_table = fit->base + fit->data.rva[p] + off - 16;
        }
    }
}

static void vote_types(struct kda_fit *fit)
{
    struct fit_votes *index = &fit->votes[F(OBJECT_TYPE, Index)];
    struct fit_votes *name = &fit->votes[F(OBJECT_TYPE, Name)];
    struct fit_votes *list = &fit->votes[F(OBJECT_TYPE, CallbackList)];
    for (unsigned i = FIRST_TYPE; i < fit->types; i++) {
        uint64_t type;
        if (kda_fit_u64(fit, fit->type_table + i * 8u, &type) != FIT_YES)
            continue;
        for (size_t k = 0; k < index->count; k++) {
            uint8_t stored;
            if (kda_fit_read(fit, type + index->place[k].offset, &stored, 1) == FIT_YES)
                kda_fit_vote(&index->place[k], stored == i ? FIT_YES : FIT_NO);
        }
        for (size_t k = 0; k < name->count; k++)
            kda_fit_vote(&name->place[k], kda_fit_string(fit, type + name->place[k].offset, false));
        for (size_t k = 0; k < list->count; k++)
            kda_fit_vote(&list->place[k], kda_fit_ring(fit, type + list->place[k].offset));
    }
}

/* Does the type at `type` have this name? */
static enum fit_answer has_name(struct kda_fit *fit, uint64_t type, const char *name)
{
    const struct fit_votes *votes = &fit->votes[F(OBJECT_TYPE, Name)];
    uint8_t head[16], text[32];
    size_t size = strlen(name) * 2;
    if (votes->count != 1 || type == 0 ||
        kda_fit_read(fit, type + votes->place[0].offset, head, sizeof(head)) != FIT_YES)
        return FIT_UNKNOWN;
    if (kda_le16(head) != size || size > sizeof(text))
        return FIT_NO;
    if (kda_fit_read(fit, kda_le64(head + 8), text, size) != FIT_YES)
        return FIT_UNKNOWN;
    size_t k = 0;
    while (k < size && text[k] == (k % 2 ? 0 : (uint8_t)name[k / 2]))
        k++;
    return k == size ? FIT_YES : FIT_NO;
}

/* Index of the type that an exported global leads to; 0 = it is none, or another. Without the table
 * its own word counts once its name is right. */
static unsigned exported_type(struct kda_fit *fit, const char *symbol, const char *name)
{
    const struct fit_votes *index = &fit->votes[F(OBJECT_TYPE, Index)];
    uint64_t type = kda_fit_export_pointer(fit, symbol, NULL), slot;
    enum fit_answer named = has_name(fit, type, name);
    uint8_t stored;
    if (type == 0 || named == FIT_NO)
        return 0;
    for (unsigned i = FIRST_TYPE; i < fit->types; i++)
        if (kda_fit_u64(fit, fit->type_table + i * 8u, &slot) == FIT_YES && slot == type)
            return i;
    if (fit->types != 0 || named != FIT_YES || index->count != 1 ||
        kda_fit_read(fit, type + index->place[0].offset, &stored, 1) != FIT_YES)
        return 0;
    return stored;
}

/* Index of the type by its name in the table; 0 = unknown. */
static unsigned named_type(struct kda_fit *fit, const char *name)
{
    for (unsigned i = FIRST_TYPE; i < fit->types; i++) {
        uint64_t type;
        if (kda_fit_u64(fit, fit->type_table + i * 8u, &type) == FIT_YES &&
            has_name(fit, type, name) == FIT_YES)
            return i;
    }
    return 0;
}

bool kda_fit_exported_type(struct kda_fit *fit, const char *symbol, const char *name)
{
    return exported_type(fit, symbol, name) != 0;
}

uint64_t kda_fit_named_type(struct kda_fit *fit, const char *name)
{
    unsigned index = named_type(fit, name);
    uint64_t type = 0;
    if (index != 0 && kda_fit_u64(fit, fit->type_table + index * 8u, &type) != FIT_YES)
        return 0;
    return type;
}

/* What the first bytes of headers say under each value of the cookie, for objects of one type. */
struct sample {
    unsigned by_value[256], plain, total;
};

static void take(const struct kda_fit *fit, struct sample *sample, uint64_t body, uint32_t type_at,
                 unsigned type)
{
    uint64_t header = body - FIT_OBJECT_HEADER;
    uint8_t stored;
    if (kda_fit_read(fit, header + type_at, &stored, 1) != FIT_YES)
        return;
    sample->total++;
    sample->plain += stored == type;
    sample->by_value[(stored ^ (header >> 8) ^ type) & 0xff]++;
}

enum storing { STORED_UNKNOWN, STORED_PLAIN, STORED_MIXED };

/* One object cannot tell the two forms apart, several cannot agree by chance. */
static enum storing settle(const struct sample *sample, uint8_t *cookie)
{
    unsigned best = 0;
    for (unsigned i = 1; i < 256; i++)
        if (sample->by_value[i] > sample->by_value[best])
            best = i;
    if (sample->total < MIN_OBJECTS)
        return STORED_UNKNOWN;
    *cookie = (uint8_t)best;
    if (sample->plain * 8 >= sample->total * 7)
        return STORED_PLAIN;
    return sample->by_value[best] * 8 >= sample->total * 7 ? STORED_MIXED : STORED_UNKNOWN;
}

/* Types and processes, each where it can be read; false if they tell different things. */
static bool settle_both(struct kda_fit *fit, uint32_t type_at, uint32_t *seen)
{
    struct sample types = {{0}, 0, 0}, processes = {{0}, 0, 0};
    unsigned process_type = named_type(fit, "Process");
    uint8_t first = 0, second = 0;
    if (process_type == 0)
        process_type = exported_type(fit, "PsProcessType", "Process");
    for (unsigned i = FIRST_TYPE; i < fit->types; i++) {
        uint64_t type;
        if (kda_fit_u64(fit, fit->type_table + i * 8u, &type) == FIT_YES)
            take(fit, &types, type, type_at, FIRST_TYPE);
    }
    for (size_t i = 0; process_type != 0 && i < fit->process_count; i++)
        take(fit, &processes, fit->processes[i].va, type_at, process_type);
    enum storing a = settle(&types, &first), b = settle(&processes, &second);
    enum storing how = a != STORED_UNKNOWN ? a : b;
    uint8_t cookie = a != STORED_UNKNOWN ? first : second;
    if (how == STORED_UNKNOWN || (a != STORED_UNKNOWN && b != STORED_UNKNOWN &&
                                  (a != b || (a == STORED_MIXED && first != second))))
        return false;
    fit->has_cookie = how == STORED_MIXED;
    fit->cookie = cookie;
    *seen = types.total + processes.total;
    return true;
}

struct type_check {
    uint32_t type_at;
    unsigned yes, no;
    unsigned kinds[FIT_KINDS]; /* their types */
};

static void keep_body(struct kda_fit *fit, struct fit_met *met, uint64_t body)
{
    if (kda_map_get(&met->bodies, body, NULL))
        return;
    met->known++;
    if (!kda_map_put(&met->bodies, body, 1))
        fit->out_of_memory = true;
}

void kda_fit_meet(struct kda_fit *fit, enum fit_kind kind, uint64_t va)
{
    struct fit_met *met = &fit->met[kind];
    uint64_t times = 0;
    met->seen++;
    if (!kda_map_get(&met->bodies, va, &times) || times != 1)
        return;
    met->met++;
    if (!kda_map_put(&met->bodies, va, 2))
        fit->out_of_memory = true;
}

bool kda_fit_astray(const struct kda_fit *fit, enum fit_kind kind)
{
    const struct fit_met *met = &fit->met[kind];
    return met->known >= MIN_OBJECTS && met->seen >= MIN_OBJECTS && met->met == 0;
}

static unsigned type_of(const struct kda_fit *fit, uint64_t header, uint8_t stored)
{
    return fit->has_cookie ? (unsigned)(stored ^ (header >> 8) ^ fit->cookie) & 0xff : stored;
}

/* Every object behind a handle must have a type of the table. */
static void on_handle(struct kda_fit *fit, void *context, uint64_t header, uint64_t body)
{
    struct type_check *check = context;
    uint8_t stored;
    if (kda_fit_read(fit, header + check->type_at, &stored, 1) != FIT_YES)
        return;
    unsigned type = type_of(fit, header, stored);
    check->yes += type >= FIRST_TYPE && (fit->types == 0 || type < fit->types);
    check->no += !(type >= FIRST_TYPE && (fit->types == 0 || type < fit->types));
    for (unsigned k = 0; k < FIT_KINDS; k++)
        if (type == check->kinds[k] && type != 0)
            keep_body(fit, &fit->met[k], body);
}

/* Under the cookie all other handles must have some type as well. */
static void find_cookie(struct kda_fit *fit)
{
    struct fit_votes *at = &fit->votes[F(OBJECT_HEADER, TypeIndex)];
    struct fit_votes *packed = &fit->votes[F(HANDLE_TABLE_ENTRY, ObjectPointerBits)];
    uint32_t seen;
    if (at->count == 0 || !settle_both(fit, at->place[0].offset, &seen))
        return;
    struct type_check check = {
        at->place[0].offset,
        0,
        0,
        {named_type(fit, "EtwRegistration"), named_type(fit, "EtwConsumer")}};
    for (size_t i = 0; i < fit->process_count && check.yes + check.no < MAX_CHECKED; i++)
        if (fit->processes[i].table != 0)
            kda_fit_handles(fit, fit->processes[i].table, false, on_handle, &check);
    if (check.no * 8 > check.yes) {
        fit->has_cookie = false;
        return;
    }
    fit->types_known = true;
    at->place[0].yes += seen + check.yes;
    at->place[0].no += check.no;
    for (size_t i = 0; i < packed->count; i++)
        packed->place[i].yes += check.yes;
}

enum fit_answer kda_fit_has_type(struct kda_fit *fit, uint64_t body, const char *name)
{
    const struct fit_votes *at = &fit->votes[F(OBJECT_HEADER, TypeIndex)];
    uint64_t header = body - FIT_OBJECT_HEADER;
    unsigned type = fit->types_known ? named_type(fit, name) : 0;
    uint8_t stored;
    if (type == 0 || at->count == 0 ||
        kda_fit_read(fit, header + at->place[0].offset, &stored, 1) != FIT_YES)
        return FIT_UNKNOWN;
    return type_of(fit, header, stored) == type ? FIT_YES : FIT_NO;
}

void kda_fit_objects(struct kda_fit *fit)
{
    find_type_table(fit);
    if (fit->type_table != 0)
        vote_types(fit);
    find_cookie(fit);
}
