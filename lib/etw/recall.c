/*
 * recall.c - what is whole, what is broken, and the kernel's own counts beside what was found.
 *
 * A list of the model is walked once more, without gaps, because the model keeps objects and not
 * how the walk ended. A count that is 0 while objects were found says nothing: it is told as not
 * known.
 */
#include "recall_int.h"

#include <string.h>

#define MAX_ITEMS 4096u

static const char *const state_names[KDA_RECALL_STATES] = {"complete", "broken", "missing",
                                                           "unknown"};

const char *kda_recall_state_name(enum kda_recall_state state)
{
    return (unsigned)state < KDA_RECALL_STATES ? state_names[state] : "unknown";
}

struct kda_recall_item *kda_recall_add(struct kda_recall *recall, const char *name,
                                       const char *object, uint64_t va)
{
    void *items = recall->items;
    if (!kda_grow(&items, &recall->capacity, recall->count + 1, sizeof(*recall->items),
                  MAX_ITEMS)) {
        recall->no_memory = recall->count < MAX_ITEMS;
        return &recall->scratch;
    }
    recall->items = items;
    struct kda_recall_item *item = &recall->items[recall->count++];
    memset(item, 0, sizeof(*item));
    item->name = name;
    item->object = object;
    item->va = va;
    item->state = va ? KDA_RECALL_COMPLETE : KDA_RECALL_UNKNOWN;
    return item;
}

void kda_recall_found(struct kda_recall_item *item, size_t found)
{
    item->has_found = true;
    item->found = found;
}

void kda_recall_witnessed(struct kda_recall_item *item, size_t found, size_t by_others)
{
    kda_recall_found(item, found);
    item->has_others = true;
    item->by_others = by_others;
}

void kda_recall_group(struct kda_recall_item *item)
{
    item->state = item->whole == item->lists ? KDA_RECALL_COMPLETE
                  : item->whole > 0          ? KDA_RECALL_BROKEN
                                             : KDA_RECALL_MISSING;
}

void kda_recall_count(struct kda_recall *recall, struct kda_recall_item *item, uint64_t va,
                      size_t size)
{
    uint8_t bytes[8] = {0};
    item->count_va = va;
    if (va == 0) {
        item->uncounted = "where the count stands is not known for this build";
        return;
    }
    if (kda_read(recall->kernel, va, bytes, size, NULL) != KDA_OK) {
        item->uncounted = "the count is not in the image";
        return;
    }
    item->counted = kda_le64(bytes);
    item->has_count = item->counted != 0 || item->found + item->by_others == 0;
    if (!item->has_count)
        item->uncounted = "the count is 0, and there are some";
}

/* ---- lists ---- */

/* A torn node is where the list is not whole, whatever it leads to. */
static enum kda_step on_node(void *context, uint64_t link_va, enum kda_link how)
{
    size_t *nodes = context;
    (void)link_va;
    if (how == KDA_LINK_TORN)
        return KDA_STEP_REFUSE;
    *nodes += how == KDA_LINK_SOUND || how == KDA_LINK_BEHIND;
    return KDA_STEP_TAKE;
}

bool kda_recall_list(struct kda_recall *recall, struct kda_recall_item *item, uint64_t head,
                     size_t max, size_t *nodes)
{
    struct kda_list_result result;
    enum kda_status status =
        kda_list_walk(recall->kernel, head, max, NULL, on_node, nodes, &result, NULL);
    recall->no_memory = recall->no_memory || status == KDA_NO_MEMORY;
    if (status == KDA_OK && result.forward == KDA_LIST_CLOSED)
        return true;
    if (item->state != KDA_RECALL_COMPLETE)
        return false; /* the first one is told */
    item->state = status == KDA_OK ? KDA_RECALL_BROKEN : KDA_RECALL_MISSING;
    item->reason = status == KDA_OK ? result.reason[0] : status;
    item->broken_va[0] = status == KDA_OK ? result.broken_va[0] : head;
    if (status == KDA_OK && result.backward != KDA_LIST_CLOSED)
        item->broken_va[1] = result.broken_va[1];
    return false;
}

/* ---- anchors ---- */

static void anchor(struct kda_recall *recall, enum kda_symbol_id symbol, const char *object)
{
    struct kda_recall_item *item = kda_recall_add(recall, kda_symbol_name(symbol), object,
                                                  kda_symbol_va(recall->kernel, symbol));
    uint8_t bytes[8];
    if (item->va == 0)
        return;
    item->reason = kda_read(recall->kernel, item->va, bytes, sizeof(bytes), NULL);
    if (item->reason == KDA_OK)
        return;
    item->state = KDA_RECALL_MISSING;
    item->broken_va[0] = item->va;
}

static void anchors(struct kda_recall *recall)
{
    static const struct {
        enum kda_symbol_id symbol;
        const char *object;
        bool optional; /* builds have one of these, or none */
    } rows[] = {
        {KDA_SYM_PsInitialSystemProcess, "process", false},
        {KDA_SYM_ObTypeIndexTable, "object type", false},
        {KDA_SYM_PspHostSiloGlobals, "silo", true},
        {KDA_SYM_EtwpHostSiloState, "silo", true},
        {KDA_SYM_WmipLoggerContext, "session", true},
        {KDA_SYM_EtwpGuidHashTable, "provider", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!rows[i].optional || kda_has_symbol(recall->kernel, rows[i].symbol))
            anchor(recall, rows[i].symbol, rows[i].object);
}

/* ---- processes and drivers ---- */

static void global_list(struct kda_recall *recall, enum kda_symbol_id symbol, const char *object,
                        size_t max, unsigned witness)
{
    const struct kda_process *processes = NULL;
    size_t count = 0, nodes = 0, found = 0;
    uint64_t head = kda_symbol_va(recall->kernel, symbol);
    struct kda_recall_item *item = kda_recall_add(recall, kda_symbol_name(symbol), object, head);
    if (head == 0)
        return;
    (void)kda_recall_list(recall, item, head, max, &nodes);
    if (witness == 0) {
        const struct kda_module *modules;
        bool drivers = symbol == KDA_SYM_PsLoadedModuleList &&
                       kda_modules(recall->kernel, &modules, &count, NULL) == KDA_OK;
        kda_recall_found(item, drivers ? count : nodes);
        return;
    }
    if (kda_processes(recall->kernel, &processes, &count, NULL) != KDA_OK)
        count = 0;
    for (size_t i = 0; i < count; i++)
        found += (processes[i].found_by & witness) != 0;
    kda_recall_witnessed(item, found, count - found);
}

/* ---- the kernel's counts of objects ---- */

void kda_recall_objects(struct kda_recall *recall, const char *type, const char *object,
                        size_t found)
{
    struct kda_kernel *kernel = recall->kernel;
    uint64_t table = kda_symbol_va(kernel, KDA_SYM_ObTypeIndexTable), where = 0;
    uint32_t at = kda_field_offset(kernel, KDA_F_OBJECT_TYPE_TotalNumberOfObjects);
    uint8_t index, bytes[8];
    struct kda_recall_item *item =
        kda_recall_add(recall, "OBJECT_TYPE.TotalNumberOfObjects", object, 0);
    item->of = type;
    item->only_count = true;
    kda_recall_found(item, found);
    if (table && at != KDA_NONE && kda_object_type_index(kernel, type, &index, NULL) == KDA_OK &&
        kda_read(kernel, table + index * (uint64_t)8, bytes, sizeof(bytes), NULL) == KDA_OK) {
        item->va = kda_le64(bytes);
        where = item->va + at;
    }
    kda_recall_count(recall, item, where, 4);
    if (!where)
        item->uncounted = "the object type cannot be read";
}

static void processes_and_drivers(struct kda_recall *recall)
{
    const struct kda_process *processes;
    size_t count;
    global_list(recall, KDA_SYM_PsActiveProcessHead, "process", KDA_MAX_PROCESSES, KDA_FOUND_LIST);
    global_list(recall, KDA_SYM_HandleTableListHead, "process", KDA_MAX_PROCESSES,
                KDA_FOUND_HANDLE_TABLE);
    global_list(recall, KDA_SYM_PsLoadedModuleList, "driver", KDA_MAX_MODULES, 0);
    if (kda_has_field(recall->kernel, KDA_F_EJOB_ServerSiloGlobals)) /* else no silo hangs on it */
        global_list(recall, KDA_SYM_PspJobList, "job", KDA_MAX_PROCESSES, 0);
    kda_recall_tables(recall);
    if (kda_processes(recall->kernel, &processes, &count, NULL) == KDA_OK)
        kda_recall_objects(recall, "Process", "process", count);
}

/* ---- callbacks ---- */

static void callbacks(struct kda_recall *recall, struct kda_error *err)
{
    static const char *const names[KDA_CALLBACK_KINDS] = {
        "PspCreateProcessNotifyRoutine", "PspCreateThreadNotifyRoutine",
        "PspLoadImageNotifyRoutine",     "CallbackListHead",
        "OBJECT_TYPE.CallbackList",      "OBJECT_TYPE.CallbackList"};
    struct kda_callbacks *all;
    if (kda_callbacks_read(recall->kernel, &all, err) != KDA_OK) {
        recall->no_memory = true;
        return;
    }
    for (unsigned i = 0; i < KDA_CALLBACK_KINDS; i++) {
        const struct kda_callback_source *source = &all->sources[i];
        struct kda_recall_item *item = kda_recall_add(recall, names[i], "callback", source->va);
        item->of = kda_callback_kind_name((enum kda_callback_kind)i);
        if (source->va && !source->complete) {
            item->state = source->status == KDA_OK ? KDA_RECALL_BROKEN : KDA_RECALL_MISSING;
            item->reason = source->status == KDA_OK ? KDA_BAD_DATA : source->status;
        }
        if (source->status == KDA_OK)
            kda_recall_found(item, source->found);
        item->has_count = source->has_count;
        item->counted = source->count;
        item->count_va = source->count_va;
        if (!source->has_count && i < KDA_CALLBACK_OBJECT_PROCESS)
            item->uncounted = source->count_va
                                  ? "the count is not in the image"
                                  : "where the count stands is not known for this build";
    }
    kda_callbacks_free(all);
}

/* ---- the run ---- */

enum kda_status kda_recall_read(struct kda_kernel *kernel, const struct kda_etw *etw,
                                struct kda_recall **ret, struct kda_error *err)
{
    if (!kda_kernel_layout(kernel))
        return kda_fail(err, KDA_NO_SYMBOL, "recall", "symbols are not loaded");
    struct kda_recall *recall = kda_calloc(1, sizeof(*recall));
    if (!recall)
        return kda_fail(err, KDA_NO_MEMORY, "recall", "out of memory");
    recall->kernel = kernel;
    recall->etw = etw;
    anchors(recall);
    processes_and_drivers(recall);
    if (etw)
        kda_recall_etw(recall);
    callbacks(recall, err);
    if (recall->no_memory) {
        kda_recall_free(recall);
        return kda_fail(err, KDA_NO_MEMORY, "recall", "out of memory");
    }
    *ret = recall;
    return KDA_OK;
}

void kda_recall_free(struct kda_recall *recall)
{
    if (!recall)
        return;
    kda_free(recall->items);
    kda_free(recall);
}

const struct kda_recall_item *kda_recall_items(const struct kda_recall *recall, size_t *count)
{
    *count = recall->count;
    return recall->items;
}
