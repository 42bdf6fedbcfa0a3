/*
 * callback.c - notify arrays, the registry's callback list and the lists of object types.
 *
 * Source: none of the records below has a type in the kernel's public PDB. The offsets are those of
 * public research on them (the same since Windows 7 in all of it) and agree with every sample
 * image; no image of a real machine was at hand to confirm them, so each record has to prove
 * itself: a record whose links or back pointer do not fit is damage, not a callback.
 */
#include <string.h>

#include "callback_int.h"

/* Object callback: LIST_ENTRY, operations, enabled, its registration, the object type, the two
 * functions. The registration begins with version and count; context and altitude follow. */
#define OBJECT_OPERATIONS 0x10u
#define OBJECT_ENABLED 0x14u
#define OBJECT_BLOCK 0x18u
#define OBJECT_TYPE_OF 0x20u
#define OBJECT_PRE 0x28u
#define OBJECT_POST 0x30u
#define OBJECT_SIZE 0x38u
#define BLOCK_CONTEXT 0x08u
#define BLOCK_ALTITUDE 0x10u

#define MAX_ALTITUDE_BYTES 256u
#define MAX_ROWS ((size_t)KDA_CALLBACK_KINDS * KDA_MAX_LISTED_CALLBACKS)

struct reading {
    struct kda_kernel *kernel;
    struct kda_callbacks *out;
    size_t capacity;
    enum kda_callback_kind kind;
    uint64_t type; /* object type whose list is being walked */
    bool damaged, no_memory;
};

struct array_kind {
    enum kda_callback_kind kind;
    enum kda_symbol_id array;
    enum kda_symbol_id counts[2]; /* added up; the second may be absent in a build */
    size_t count_size;
};

static const struct array_kind array_kinds[] = {
    {KDA_CALLBACK_PROCESS,
     KDA_SYM_PspCreateProcessNotifyRoutine,
     {KDA_SYM_PspCreateProcessNotifyRoutineCount, KDA_SYM_PspCreateProcessNotifyRoutineExCount},
     2},
    {KDA_CALLBACK_THREAD,
     KDA_SYM_PspCreateThreadNotifyRoutine,
     {KDA_SYM_PspCreateThreadNotifyRoutineCount,
      KDA_SYM_PspCreateThreadNotifyRoutineNonSystemCount},
     2},
    {KDA_CALLBACK_IMAGE,
     KDA_SYM_PspLoadImageNotifyRoutine,
     {KDA_SYM_PspLoadImageNotifyRoutineCount, KDA_SYM_COUNT},
     1},
};

static const char *const kind_names[] = {"process",  "thread",         "image",
                                         "registry", "object_process", "object_thread"};

const char *kda_callback_kind_name(enum kda_callback_kind kind)
{
    return (size_t)kind < sizeof(kind_names) / sizeof(kind_names[0]) ? kind_names[kind] : "unknown";
}

static struct kda_callback *add_row(struct reading *reading, uint64_t va, uint64_t slot_va)
{
    void *items = reading->out->rows;
    if (!kda_grow(&items, &reading->capacity, reading->out->count + 1, sizeof(struct kda_callback),
                  MAX_ROWS)) {
        reading->no_memory = true;
        return NULL;
    }
    reading->out->rows = items;
    struct kda_callback *row = &reading->out->rows[reading->out->count++];
    memset(row, 0, sizeof(*row));
    row->kind = reading->kind;
    row->va = va;
    row->slot_va = slot_va;
    row->enabled = true;
    reading->out->sources[reading->kind].found++;
    return row;
}

static void missing(struct reading *reading, uint64_t va, enum kda_status status,
                    const struct kda_error *why)
{
    reading->damaged = true;
    kda_gaps_add(&reading->kernel->gaps, "callback", va, status, "%s callback: %s",
                 kda_callback_kind_name(reading->kind), why->text);
}

static void name_modules(struct reading *reading, struct kda_callback *row)
{
    row->readable = true;
    row->module = row->function ? kda_module_at(reading->kernel, row->function) : NULL;
    row->post_module = row->post ? kda_module_at(reading->kernel, row->post) : NULL;
}

static void read_altitude(struct reading *reading, struct kda_callback *row, uint64_t string_va)
{
    struct kda_error why;
    enum kda_status status =
        kda_read_string(reading->kernel, string_va, MAX_ALTITUDE_BYTES, &row->altitude, &why);
    if (status == KDA_NO_MEMORY)
        reading->no_memory = true;
    if (status == KDA_OK)
        return;
    row->altitude = NULL;
    row->altitude_missing = true;
    missing(reading, string_va, status, &why);
}

/* ---- notify arrays ---- */

static void read_slot(struct reading *reading, uint32_t slot, uint64_t slot_va, uint64_t reference)
{
    struct kda_kernel *kernel = reading->kernel;
    uint64_t va = reference & ~KDA_FAST_REF_BITS;
    struct kda_error why;
    uint8_t bytes[KDA_ROUTINE_SIZE];
    enum kda_status status = kda_is_kernel_va(kernel, va)
                                 ? kda_read(kernel, va, bytes, sizeof(bytes), &why)
                                 : KDA_UNMAPPED;
    if (status == KDA_UNMAPPED ||
        (status == KDA_OK && !kda_is_kernel_va(kernel, kda_le64(bytes + KDA_ROUTINE_FUNCTION)))) {
        (void)!kda_fail_at(&why, KDA_BAD_DATA, "kernel", slot_va,
                           "slot %u holds 0x%016llx, where no routine is registered", slot,
                           (unsigned long long)reference);
        missing(reading, slot_va, KDA_BAD_DATA, &why);
        return;
    }
    struct kda_callback *row = add_row(reading, va, slot_va);
    if (!row)
        return;
    row->has_slot = true;
    row->slot = slot;
    if (status != KDA_OK) {
        missing(reading, va, status, &why);
        return;
    }
    row->function = kda_le64(bytes + KDA_ROUTINE_FUNCTION);
    row->context = kda_le64(bytes + KDA_ROUTINE_CONTEXT);
    name_modules(reading, row);
}

/* The kernel adds up what it calls: routines of either form are counted apart. */
static void read_counts(struct reading *reading, const struct array_kind *kind,
                        struct kda_callback_source *source)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < kind->count_size; i++) {
        uint8_t bytes[4];
        struct kda_error why;
        uint64_t va = kda_symbol_va(reading->kernel, kind->counts[i]);
        if (va == 0)
            return;
        if (i == 0)
            source->count_va = va;
        enum kda_status status = kda_read(reading->kernel, va, bytes, sizeof(bytes), &why);
        if (status != KDA_OK) {
            missing(reading, va, status, &why);
            return;
        }
        sum += kda_le32(bytes);
    }
    source->has_count = true;
    source->count = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
}

/* By its symbol, else by the code that registers such callbacks. */
static bool locate(struct reading *reading, enum kda_callback_kind kind, enum kda_symbol_id symbol)
{
    struct kda_callback_source *source = &reading->out->sources[kind];
    source->va = kda_symbol_va(reading->kernel, symbol);
    if (source->va)
        return true;
    source->status = KDA_NO_SYMBOL;
    enum kda_status status = kda_callback_by_code(reading->kernel, kind, &source->va, &source->why);
    source->by_code = status == KDA_OK;
    reading->kind = kind;
    if (kda_status_is_gap(status))
        missing(reading, reading->kernel->info.base, status, &source->why);
    return source->by_code;
}

static void read_array(struct reading *reading, const struct array_kind *kind)
{
    struct kda_callback_source *source = &reading->out->sources[kind->kind];
    struct kda_error why;
    uint8_t slots[KDA_CALLBACK_SLOTS * 8];
    reading->kind = kind->kind;
    reading->damaged = false;
    if (!locate(reading, kind->kind, kind->array))
        return;
    source->status = kda_read(reading->kernel, source->va, slots, sizeof(slots), &why);
    if (source->status != KDA_OK) {
        missing(reading, source->va, source->status, &why);
        return;
    }
    for (uint32_t i = 0; i < KDA_CALLBACK_SLOTS && !reading->no_memory; i++) {
        uint64_t reference = kda_le64(slots + (size_t)i * 8);
        if (reference)
            read_slot(reading, i, source->va + i * 8ull, reference);
    }
    source->complete = true; /* a record that is missing is a row; no slot is unknown */
    read_counts(reading, kind, source);
    /* Zeros alone are also what acquisition leaves of a page that it could not read. */
    if (source->has_count && source->count > source->found &&
        kda_page_is_blank(reading->kernel, source->va)) {
        source->status = kda_fail_at(&why, KDA_ABSENT, "kernel", source->va,
                                     "the page of 0x%016llx holds nothing but zeros, and %u are "
                                     "counted",
                                     (unsigned long long)source->va, source->count);
        missing(reading, source->va, source->status, &why);
    }
}

/* ---- lists ---- */

/* Reads the record at a node; a record of which nothing can be read is a row with its address. */
static enum kda_status read_record(struct reading *reading, uint64_t link_va, enum kda_link how,
                                   uint8_t *bytes, size_t size)
{
    struct kda_error why;
    if (how == KDA_LINK_MISSING)
        return KDA_ABSENT; /* the walker has recorded the gap */
    enum kda_status status = kda_read(reading->kernel, link_va, bytes, size, &why);
    if (status != KDA_OK)
        missing(reading, link_va, status, &why);
    return status;
}

static enum kda_step on(const struct reading *reading)
{
    return reading->no_memory ? KDA_STEP_STOP : KDA_STEP_TAKE;
}

static enum kda_step on_registry(void *context, uint64_t link_va, enum kda_link how)
{
    struct reading *reading = context;
    struct kda_error why;
    uint8_t bytes[KDA_REGISTRY_SIZE];
    enum kda_status status = read_record(reading, link_va, how, bytes, sizeof(bytes));
    uint64_t function = status == KDA_OK ? kda_le64(bytes + KDA_REGISTRY_FUNCTION) : 0;
    if (status == KDA_OK && !kda_is_kernel_va(reading->kernel, function)) {
        (void)!kda_fail_at(&why, KDA_BAD_DATA, "kernel", link_va + KDA_REGISTRY_FUNCTION,
                           "no registry callback: its function would be 0x%016llx",
                           (unsigned long long)function);
        missing(reading, link_va, KDA_BAD_DATA, &why);
        return KDA_STEP_REFUSE;
    }
    struct kda_callback *row = add_row(reading, link_va, link_va);
    if (!row || status != KDA_OK)
        return row ? on(reading) : KDA_STEP_STOP;
    row->cookie = kda_le64(bytes + KDA_REGISTRY_COOKIE);
    row->context = kda_le64(bytes + KDA_REGISTRY_CONTEXT);
    row->function = function;
    name_modules(reading, row);
    read_altitude(reading, row, link_va + KDA_REGISTRY_ALTITUDE);
    return on(reading);
}

static enum kda_step on_object(void *context, uint64_t link_va, enum kda_link how)
{
    struct reading *reading = context;
    struct kda_error why;
    uint8_t bytes[OBJECT_SIZE], block[BLOCK_ALTITUDE];
    enum kda_status status = read_record(reading, link_va, how, bytes, sizeof(bytes));
    if (status == KDA_OK && kda_le64(bytes + OBJECT_TYPE_OF) != reading->type) {
        (void)!kda_fail_at(&why, KDA_BAD_DATA, "kernel", link_va + OBJECT_TYPE_OF,
                           "the record names the type 0x%016llx and stands on the list of another",
                           (unsigned long long)kda_le64(bytes + OBJECT_TYPE_OF));
        missing(reading, link_va, KDA_BAD_DATA, &why);
        return KDA_STEP_REFUSE;
    }
    struct kda_callback *row = add_row(reading, link_va, link_va);
    if (!row || status != KDA_OK)
        return row ? on(reading) : KDA_STEP_STOP;
    row->operations = kda_le32(bytes + OBJECT_OPERATIONS);
    row->enabled = kda_le32(bytes + OBJECT_ENABLED) != 0;
    row->function = kda_le64(bytes + OBJECT_PRE);
    row->post = kda_le64(bytes + OBJECT_POST);
    name_modules(reading, row);
    uint64_t block_va = kda_le64(bytes + OBJECT_BLOCK);
    status = kda_read(reading->kernel, block_va, block, sizeof(block), &why);
    if (status != KDA_OK) {
        row->altitude_missing = true;
        missing(reading, block_va, status, &why);
        return on(reading);
    }
    row->context = kda_le64(block + BLOCK_CONTEXT);
    read_altitude(reading, row, block_va + BLOCK_ALTITUDE);
    return on(reading);
}

static void read_list(struct reading *reading, enum kda_callback_kind kind, uint64_t head,
                      const char *what, kda_list_fn fn)
{
    struct kda_callback_source *source = &reading->out->sources[kind];
    struct kda_list_result result;
    reading->kind = kind;
    source->va = head;
    source->status = kda_list_walk(reading->kernel, head, KDA_MAX_LISTED_CALLBACKS, what, fn,
                                   reading, &result, NULL);
    if (source->status == KDA_NO_MEMORY)
        reading->no_memory = true;
    source->complete = source->status == KDA_OK && result.forward == KDA_LIST_CLOSED;
}

static void read_registry(struct reading *reading)
{
    struct kda_callback_source *source = &reading->out->sources[KDA_CALLBACK_REGISTRY];
    if (!locate(reading, KDA_CALLBACK_REGISTRY, KDA_SYM_CallbackListHead))
        return;
    read_list(reading, KDA_CALLBACK_REGISTRY, source->va, "registry_callbacks", on_registry);
    uint64_t count_va = kda_symbol_va(reading->kernel, KDA_SYM_CmpCallBackCount);
    struct kda_error why;
    uint8_t bytes[4];
    if (count_va == 0)
        return;
    source->count_va = count_va;
    enum kda_status status = kda_read(reading->kernel, count_va, bytes, sizeof(bytes), &why);
    if (status != KDA_OK) {
        missing(reading, count_va, status, &why);
        return;
    }
    source->has_count = true;
    source->count = kda_le32(bytes);
}

static void read_object(struct reading *reading, enum kda_callback_kind kind,
                        enum kda_symbol_id symbol)
{
    struct kda_callback_source *source = &reading->out->sources[kind];
    uint32_t at = kda_field_offset(reading->kernel, KDA_F_OBJECT_TYPE_CallbackList);
    uint64_t global = kda_symbol_va(reading->kernel, symbol);
    struct kda_error why;
    uint8_t bytes[8];
    source->status = KDA_NO_SYMBOL;
    if (global == 0 || at == KDA_NONE)
        return;
    reading->kind = kind;
    source->va = global;
    source->status = kda_read(reading->kernel, global, bytes, sizeof(bytes), &why);
    if (source->status != KDA_OK) {
        missing(reading, global, source->status, &why);
        return;
    }
    reading->type = kda_le64(bytes);
    read_list(reading, kind, reading->type + at, "object_callbacks", on_object);
}

enum kda_status kda_callbacks_read(struct kda_kernel *kernel, struct kda_callbacks **ret,
                                   struct kda_error *err)
{
    const struct kda_module *modules;
    size_t count;
    if (!kernel->layout)
        return kda_fail(err, KDA_NO_SYMBOL, "kernel", "symbols are not loaded");
    struct reading reading = {.kernel = kernel, .out = kda_calloc(1, sizeof(*reading.out))};
    if (!reading.out)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory for callbacks");
    /* Without the driver list rows carry addresses only; its gap says why. */
    if (kda_modules(kernel, &modules, &count, NULL) == KDA_NO_MEMORY)
        reading.no_memory = true;
    for (size_t i = 0; i < sizeof(array_kinds) / sizeof(array_kinds[0]) && !reading.no_memory; i++)
        read_array(&reading, &array_kinds[i]);
    if (!reading.no_memory)
        read_registry(&reading);
    if (!reading.no_memory)
        read_object(&reading, KDA_CALLBACK_OBJECT_PROCESS, KDA_SYM_PsProcessType);
    if (!reading.no_memory)
        read_object(&reading, KDA_CALLBACK_OBJECT_THREAD, KDA_SYM_PsThreadType);
    if (reading.no_memory) {
        kda_callbacks_free(reading.out);
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory for callbacks");
    }
    *ret = reading.out;
    return KDA_OK;
}

void kda_callbacks_free(struct kda_callbacks *callbacks)
{
    if (!callbacks)
        return;
    kda_free(callbacks->rows);
    kda_free(callbacks);
}
