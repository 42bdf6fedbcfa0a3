#include "forge_int.h"

/* Kernel callbacks: notify arrays with their counts, the registry's list, the lists of object
 * types. Source: docs/kernel.md; no public symbol describes the records. */

#define SLOTS 64u

struct array_row {
    const char *kind;
    enum kda_symbol_id array, count;
};

static const struct array_row arrays[] = {
    {"process", S(PspCreateProcessNotifyRoutine), S(PspCreateProcessNotifyRoutineCount)},
    {"thread", S(PspCreateThreadNotifyRoutine), S(PspCreateThreadNotifyRoutineCount)},
    {"image", S(PspLoadImageNotifyRoutine), S(PspLoadImageNotifyRoutineCount)},
};

static void add_one(struct forge *f, enum kda_symbol_id id)
{
    uint64_t va = symbol(f, id);
    if (va)
        put32(f, va, (uint32_t)get64(f, va) + 1);
}

static uint64_t code_of(struct forge *f, const struct forge_callback *c)
{
    if (c->outside)
        return pool_alloc(f, POOL_NONPAGED, 0x40, "Code", false);
    const struct forge_module *m = forge_module_by_name(f, c->driver);
    if (!m) {
        forge_fail(f, KDA_USAGE, "driver \"%s\" of a callback is not there", c->driver);
        return 0;
    }
    return module_code(f, m);
}

static void in_array(struct forge *f, struct forge_callback *c, const struct array_row *row,
                     bool alone)
{
    uint64_t array = symbol(f, row->array);
    if (!array) {
        forge_fail(f, KDA_NO_SYMBOL, "this build's row lacks %s", kda_symbol_name(row->array));
        return;
    }
    while (!c->has_slot && c->slot < SLOTS && get64(f, array + 8 * (uint64_t)c->slot))
        c->slot++;
    c->slot_va = array + 8 * (uint64_t)c->slot;
    if (c->slot >= SLOTS || get64(f, c->slot_va)) {
        forge_fail(f, KDA_USAGE, "the callback's slot is taken");
        return;
    }
    c->va = pool_alloc(f, POOL_NONPAGED, 24, "Cbrb", alone);
    put64(f, c->va, 0x20);
    put64(f, c->va + 8, c->function);
    put64(f, c->va + 16, c->context);
    if (!c->emptied)
        put64(f, c->slot_va, c->va | 0xf); /* a fast reference counts in the low bits */
    add_one(f, row->count);
}

static void put_altitude(struct forge *f, struct forge_callback *c, uint64_t va, bool alone)
{
    if (c->altitude)
        c->altitude_va = put_string(f, va, c->altitude, alone);
}

static void in_registry(struct forge *f, struct forge_callback *c, bool alone, bool text_alone)
{
    uint64_t head = symbol(f, S(CallbackListHead));
    if (!head) {
        forge_fail(f, KDA_NO_SYMBOL, "this build's row lacks CallbackListHead");
        return;
    }
    c->va = c->slot_va = pool_alloc(f, POOL_PAGED, 0x50, "CMcb", alone);
    c->cookie = 0x01d9000000000000u + c->line;
    list_init(f, c->va);
    put64(f, c->va + 0x18, c->cookie);
    put64(f, c->va + 0x20, c->context);
    put64(f, c->va + 0x28, c->function);
    put_altitude(f, c, c->va + 0x30, text_alone);
    if (!c->emptied)
        list_append(f, head, c->va);
    add_one(f, S(CmpCallBackCount));
}

/* The registration first: version, count, context, altitude; the entry behind it. */
static void on_type(struct forge *f, struct forge_callback *c, enum kda_symbol_id type, bool alone,
                    bool text_alone)
{
    uint64_t object = symbol(f, type) ? get64(f, symbol(f, type)) : 0;
    uint64_t head = at(f, object, F(OBJECT_TYPE, CallbackList));
    if (!head) {
        forge_fail(f, KDA_NO_SYMBOL, "this build's row lacks %s", kda_symbol_name(type));
        return;
    }
    uint64_t block = pool_alloc(f, POOL_PAGED, 0x60, "ObCb", alone);
    put16(f, block, 0x100);
    put16(f, block + 2, 1);
    put64(f, block + 8, c->context);
    put_altitude(f, c, block + 0x10, text_alone);
    c->va = c->slot_va = block + 0x20;
    list_init(f, c->va);
    put32(f, c->va + 0x10, 3); /* handles made and duplicated */
    put32(f, c->va + 0x14, 1);
    put64(f, c->va + 0x18, block);
    put64(f, c->va + 0x20, object);
    put64(f, c->va + 0x28, c->function);
    if (c->has_post)
        c->post = code_of(f, c);
    put64(f, c->va + 0x30, c->post);
    if (!c->emptied)
        list_append(f, head, c->va);
}

static void build(struct forge *f, struct forge_callback *c, size_t number)
{
    bool alone = forge_planned(f, "callback", number);
    bool text_alone = forge_planned(f, "altitude", number);
    c->function = code_of(f, c);
    if (strcmp(c->kind, "registry") == 0)
        in_registry(f, c, alone, text_alone);
    else if (strcmp(c->kind, "object_process") == 0)
        on_type(f, c, S(PsProcessType), alone, text_alone);
    else if (strcmp(c->kind, "object_thread") == 0)
        on_type(f, c, S(PsThreadType), alone, text_alone);
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        if (strcmp(arrays[i].kind, c->kind) == 0)
            in_array(f, c, &arrays[i], alone);
}

/* A sparse kernel has only the pages that something stands in: the arrays and counts are there
 * even when they are empty. */
static void prepare(struct forge *f)
{
    static const uint8_t nothing[SLOTS * 8];
    static const enum kda_symbol_id counts[] = {S(PspCreateProcessNotifyRoutineExCount),
                                                S(PspCreateThreadNotifyRoutineNonSystemCount),
                                                S(CmpCallBackCount)};
    list_init(f, symbol(f, S(CallbackListHead)));
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        if (symbol(f, arrays[i].array))
            put_bytes(f, symbol(f, arrays[i].array), nothing, sizeof(nothing));
        if (symbol(f, arrays[i].count))
            put_bytes(f, symbol(f, arrays[i].count), nothing, 8);
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (symbol(f, counts[i]))
            put_bytes(f, symbol(f, counts[i]), nothing, 8);
}

void callbacks_build(struct forge *f)
{
    prepare(f);
    for (size_t i = 0; i < f->truth.callback_count && forge_ok(f); i++) {
        f->line = f->truth.callbacks[i].line;
        build(f, &f->truth.callbacks[i], i);
    }
    f->line = 0;
}
