/*
 * ob.c - objects with reference counts, the driver's handles, and the ledger of what it holds.
 *
 * An object counts all references and, apart from them, those the driver took itself. The second
 * number has to be 0 after an unload and never falls below 0.
 */
#include "cm.h"
#include "machine.h"

#define MAGIC 0x5153494d4f424a31u
#define DEAD_MAGIC 0x5153494d44454144u
#define SHARDS 16u

/* --- ledger ---------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    struct sim_item *first;
} shards[SHARDS] = {
    [0 ... SHARDS - 1] = {PTHREAD_MUTEX_INITIALIZER, NULL},
};
static _Atomic uint32_t next_shard;
static _Thread_local uint32_t own_shard;

static const char *const kind_names[SIM_KINDS] = {
    [SIM_POOL] = "pool",
    [SIM_HANDLE] = "handle",
    [SIM_REFERENCE] = "reference",
    [SIM_THREAD] = "thread",
    [SIM_CALLBACK] = "callback",
    [SIM_CALLOUT] = "callout",
    [SIM_ENGINE] = "filter engine handle",
    [SIM_FILTER] = "filter object",
    [SIM_FLOW_CONTEXT] = "flow context",
    [SIM_IRP] = "IRP",
    [SIM_DEVICE] = "device",
    [SIM_LINK] = "symbolic link",
    [SIM_WORK_ITEM] = "work item",
    [SIM_LIST] = "lookaside list",
    [SIM_KEY_NAME] = "key name",
};

/* What a page says about giving it back; the unload's own rule for the others. */
static const char *const kind_rules[SIM_KINDS] = {
    [SIM_THREAD] = "PS-112",   [SIM_CALLOUT] = "WFP-054",  [SIM_ENGINE] = "WFP-013",
    [SIM_DEVICE] = "IO-013",   [SIM_WORK_ITEM] = "IO-070", [SIM_LIST] = "EX-030",
    [SIM_KEY_NAME] = "CM-019", [SIM_IRP] = "IO-028",
};
static const struct {
    const char *ddi;
    const char *rule;
} taken_by[] = {
    {"PsCreateSystemThread", "PS-110"},
    {"ObOpenObjectByPointer", "OB-013"},
    {"ZwOpenProcessTokenEx", "ZW-031"},
    {"SeLocateProcessImageName", "PS-104"},
};

static const char *rule_of(const struct sim_item *item)
{
    if (item->rule)
        return item->rule;
    for (size_t i = 0; i < sizeof(taken_by) / sizeof(taken_by[0]); i++) {
        if (item->what && strcmp(item->what, taken_by[i].ddi) == 0)
            return taken_by[i].rule;
    }
    return kind_rules[item->kind] ? kind_rules[item->kind] : "IO-007";
}

void sim_item_add(struct sim_item *item, enum sim_kind kind, const void *object, const char *what,
                  size_t size, const void *caller)
{
    if (own_shard == 0)
        own_shard = atomic_fetch_add(&next_shard, 1) % SHARDS + 1;
    item->object = object;
    item->what = what;
    item->caller = caller;
    item->size = size;
    item->kind = (uint16_t)kind;
    item->shard = (uint16_t)(own_shard - 1);
    pthread_mutex_lock(&shards[item->shard].lock);
    item->previous = NULL;
    item->next = shards[item->shard].first;
    if (item->next)
        item->next->previous = item;
    shards[item->shard].first = item;
    pthread_mutex_unlock(&shards[item->shard].lock);
}

void sim_item_remove(struct sim_item *item)
{
    pthread_mutex_lock(&shards[item->shard].lock);
    if (item->previous)
        item->previous->next = item->next;
    else
        shards[item->shard].first = item->next;
    if (item->next)
        item->next->previous = item->previous;
    pthread_mutex_unlock(&shards[item->shard].lock);
}

/* Things in the driver's own memory are few and have a list of their own. */
struct held {
    struct sim_item item;
    struct held *next;
};
static struct held *held_first;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

static struct held **held_find(enum sim_kind kind, const void *object)
{
    struct held **at = &held_first;

    while (*at && ((*at)->item.kind != kind || (*at)->item.object != object))
        at = &(*at)->next;
    return at;
}

bool sim_held_add(enum sim_kind kind, const void *object, const char *what, const void *caller)
{
    struct held *made = sim_alloc(sizeof(*made));

    pthread_mutex_lock(&held_lock);
    if (*held_find(kind, object)) {
        pthread_mutex_unlock(&held_lock);
        free(made);
        return false;
    }
    sim_item_add(&made->item, kind, object, what, 0, caller);
    made->next = held_first;
    held_first = made;
    pthread_mutex_unlock(&held_lock);
    return true;
}

bool sim_held_remove(enum sim_kind kind, const void *object)
{
    struct held **at;
    struct held *found;

    pthread_mutex_lock(&held_lock);
    at = held_find(kind, object);
    found = *at;
    if (found) {
        *at = found->next;
        sim_item_remove(&found->item);
    }
    pthread_mutex_unlock(&held_lock);
    free(found);
    return found != NULL;
}

bool sim_held(enum sim_kind kind, const void *object)
{
    bool found;

    pthread_mutex_lock(&held_lock);
    found = *held_find(kind, object) != NULL;
    pthread_mutex_unlock(&held_lock);
    return found;
}

const char *sim_held_within(const void *block, size_t size)
{
    const char *name = NULL;

    pthread_mutex_lock(&held_lock);
    for (struct held *h = held_first; h && !name; h = h->next) {
        uintptr_t at = (uintptr_t)h->item.object;
        if (at >= (uintptr_t)block && at - (uintptr_t)block < size)
            name = kind_names[h->item.kind];
    }
    pthread_mutex_unlock(&held_lock);
    return name;
}

static size_t ledger_walk(bool print)
{
    size_t count = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&shards[i].lock);
        for (const struct sim_item *item = shards[i].first; item; item = item->next) {
            count++;
            if (print)
                fprintf(stderr, "sim: %s: left: %s %p %s %.4s %zu bytes, taken near %p\n",
                        rule_of(item), kind_names[item->kind], item->object,
                        item->what ? item->what : "", item->tag ? (const char *)&item->tag : "",
                        item->size, item->caller);
        }
        pthread_mutex_unlock(&shards[i].lock);
    }
    return count + sim_object_ledger(print);
}

size_t sim_ledger_count(void)
{
    return ledger_walk(false);
}

size_t sim_ledger_check(void)
{
    return ledger_walk(true);
}

size_t sim_pool_bytes(void)
{
    size_t bytes = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&shards[i].lock);
        for (const struct sim_item *item = shards[i].first; item; item = item->next)
            bytes += item->kind == SIM_POOL ? item->size : 0;
        pthread_mutex_unlock(&shards[i].lock);
    }
    return bytes;
}

void sim_ledger_clear(void)
{
    while (held_first) {
        struct held *next = held_first->next;
        sim_item_remove(&held_first->item);
        free(held_first);
        held_first = next;
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        struct sim_item *item = shards[i].first;
        while (item) {
            struct sim_item *next = item->next;
            if (item->kind == SIM_POOL)
                sim_pool_forget(item->object);
            item = next;
        }
    }
}

/* --- objects --------------------------------------------------------------------------------- */

_Static_assert(sizeof(struct sim_object) % 16 == 0, "the body is aligned like any object");

static pthread_mutex_t objects_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_object *objects;

void *sim_object_create(enum sim_type type, size_t bytes, void (*destroy)(void *body))
{
    struct sim_object *object = sim_alloc(sizeof(*object) + bytes);

    object->magic = MAGIC;
    object->bytes = (uint32_t)bytes;
    object->type = type;
    object->destroy = destroy;
    atomic_store(&object->references, 1);
    pthread_mutex_lock(&objects_lock);
    object->next = objects;
    if (objects)
        objects->previous = object;
    objects = object;
    pthread_mutex_unlock(&objects_lock);
    return object + 1;
}

struct sim_object *sim_object_of(const void *body)
{
    struct sim_object *object = (struct sim_object *)(uintptr_t)body - 1;

    return body && object->magic == MAGIC ? object : NULL;
}

/* Of a body that is known to be one. */
static struct sim_object *head_of(const void *body)
{
    struct sim_object *object = (struct sim_object *)(uintptr_t)body - 1;

    SIM_RULE("OB-006", object->magic != DEAD_MAGIC, "%p is an object that has gone", body);
    SIM_CHECK(object->magic == MAGIC, "%p is no object", body);
    return object;
}

void sim_object_ref(void *body)
{
    atomic_fetch_add(&head_of(body)->references, 1);
}

static void object_free(struct sim_object *object)
{
    pthread_mutex_lock(&objects_lock);
    if (object->previous)
        object->previous->next = object->next;
    else
        objects = object->next;
    if (object->next)
        object->next->previous = object->previous;
    pthread_mutex_unlock(&objects_lock);
    if (object->destroy)
        object->destroy(object + 1);
    /* Who kept a pointer is told apart from who has a wild one. */
    object->magic = DEAD_MAGIC;
    sim_rest(object, sizeof(*object), sizeof(*object) + object->bytes);
}

void sim_object_unref(void *body)
{
    struct sim_object *object = head_of(body);

    if (atomic_fetch_sub(&object->references, 1) == 1)
        object_free(object);
}

void sim_driver_ref(void *body)
{
    struct sim_object *object = head_of(body);

    atomic_fetch_add(&object->references, 1);
    atomic_fetch_add(&object->driver_references, 1);
}

size_t sim_object_ledger(bool print)
{
    static const struct {
        const char *name;
        const char *rule;
    } types[] = {{"", ""},
                 {"process", "PS-081"},
                 {"thread", "PS-085"},
                 {"file", "OB-004"},
                 {"key", "OB-004"},
                 {"token", "OB-004"},
                 {"callback", "EX-037"},
                 {"driver", "OB-004"},
                 {"device", "OB-004"}};
    size_t count = 0;

    pthread_mutex_lock(&objects_lock);
    for (const struct sim_object *o = objects; o; o = o->next) {
        int64_t held = atomic_load(&o->driver_references);
        if (held == 0)
            continue;
        count++;
        if (print)
            fprintf(stderr, "sim: %s: left: %lld references to %s %p\n", types[o->type].rule,
                    (long long)held, types[o->type].name, (const void *)(o + 1));
    }
    pthread_mutex_unlock(&objects_lock);
    return count;
}

void sim_objects_clear(void)
{
    while (objects)
        object_free(objects);
}

/* An object whose last reference is going: Windows tells of it, and no general routine takes it. */
static void check_alive(const char *ddi, const void *object)
{
    const struct sim_ctx *self = sim_self();

    if (object && object == self->dying_key)
        sim_violation("CM-063", ddi, "the key object of a handle close has no reference any more");
}

LONG64 ObfReferenceObject(PVOID object)
{
    SIM_DDI(DISPATCH_LEVEL, "OB-005");
    check_alive(__func__, object);
    sim_driver_ref(object);
    return atomic_load(&head_of(object)->references);
}

LONG64 ObfDereferenceObject(PVOID object)
{
    struct sim_object *head;
    int64_t left;

    SIM_DDI(DISPATCH_LEVEL, "OB-005");
    head = head_of(object);
    SIM_CHECK(atomic_fetch_sub(&head->driver_references, 1) > 0,
              "more references given back than were taken");
    left = atomic_load(&head->references) - 1;
    sim_object_unref(object);
    return left;
}

/* --- handles --------------------------------------------------------------------------------- */

struct handle {
    struct sim_item item;
    void *body;
    uint32_t access;
};
static struct handle **handles;
static size_t handles_size;
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;

/* Kernel handles have the sign bit, so that nobody takes them for a process's. */
#define HANDLE_BASE UINT64_C(0xFFFFFFFF80000000)

static HANDLE handle_value(size_t index)
{
    return (HANDLE)(uintptr_t)(HANDLE_BASE + (index + 1) * 4);
}

static struct handle *handle_find(HANDLE value)
{
    uint64_t number = (uint64_t)(uintptr_t)value;

    if (number <= HANDLE_BASE || number % 4 != 0)
        return NULL;
    number = (number - HANDLE_BASE) / 4 - 1;
    return number < handles_size ? handles[number] : NULL;
}

static const char *handle_rule(const char *ddi)
{
    return strcmp(ddi, "ZwOpenKey") == 0              ? "ZW-023"
           : strcmp(ddi, "ZwCreateFile") == 0         ? "ZW-004"
           : strcmp(ddi, "ZwOpenProcessTokenEx") == 0 ? "ZW-029"
                                                      : "OB-009";
}

NTSTATUS sim_handle_open(const char *ddi, void *body, uint32_t access, ULONG attributes,
                         HANDLE *value)
{
    struct handle *made = sim_alloc(sizeof(*made));
    size_t index = 0;

    if (!(attributes & OBJ_KERNEL_HANDLE))
        sim_violation(handle_rule(ddi), ddi,
                      "the handle would be in the reach of the current process");
    pthread_mutex_lock(&handles_lock);
    while (index < handles_size && handles[index])
        index++;
    if (index == handles_size) {
        size_t bigger = handles_size ? handles_size * 2 : 64;
        handles = realloc(handles, bigger * sizeof(struct handle *));
        SIM_CHECK(handles, "the host has no memory");
        memset(handles + handles_size, 0, (bigger - handles_size) * sizeof(struct handle *));
        handles_size = bigger;
    }
    handles[index] = made;
    made->body = body;
    made->access = access;
    sim_object_ref(body);
    *value = handle_value(index);
    sim_item_add(&made->item, SIM_HANDLE, *value, ddi, 0, NULL);
    pthread_mutex_unlock(&handles_lock);
    return STATUS_SUCCESS;
}

/* The pseudo handle of the current process. */
static void *current_process(HANDLE value, enum sim_type type)
{
    void *body = NULL;

    if ((intptr_t)value == -1 && (type == SIM_TYPE_ANY || type == SIM_TYPE_PROCESS)) {
        body = sim_current_process();
        sim_object_ref(body);
    }
    return body;
}

void *sim_handle_body_for(HANDLE value, enum sim_type type, uint32_t access, NTSTATUS *status)
{
    struct handle *found;
    void *body = current_process(value, type);

    *status = STATUS_SUCCESS;
    if (body)
        return body;
    pthread_mutex_lock(&handles_lock);
    found = handle_find(value);
    if (!found)
        *status = STATUS_INVALID_HANDLE;
    else if (type != SIM_TYPE_ANY && head_of(found->body)->type != type)
        *status = STATUS_OBJECT_TYPE_MISMATCH;
    else if (access & ~found->access)
        *status = STATUS_ACCESS_DENIED;
    if (NT_SUCCESS(*status)) {
        body = found->body;
        sim_object_ref(body);
    }
    pthread_mutex_unlock(&handles_lock);
    return body;
}

void *sim_handle_body(HANDLE value, enum sim_type type)
{
    NTSTATUS status;

    return sim_handle_body_for(value, type, 0, &status);
}

NTSTATUS ZwClose(HANDLE value)
{
    struct handle *found;
    uint64_t number = (uint64_t)(uintptr_t)value;

    SIM_DDI(PASSIVE_LEVEL, "ZW-019");
    SIM_MAY_FAIL_PLANNED();
    pthread_mutex_lock(&handles_lock);
    found = handle_find(value);
    SIM_RULE("ZW-020", found, "%p is no open handle", value);
    handles[(number - HANDLE_BASE) / 4 - 1] = NULL;
    sim_item_remove(&found->item);
    pthread_mutex_unlock(&handles_lock);
    sim_object_unref(found->body);
    free(found);
    return STATUS_SUCCESS;
}

bool sim_handle_to_key_below(struct sim_str path)
{
    bool found = false;

    pthread_mutex_lock(&handles_lock);
    for (size_t i = 0; i < handles_size && !found; i++) {
        const struct sim_key *key = handles[i] ? handles[i]->body : NULL;
        if (key && sim_object_of(key)->type == SIM_TYPE_KEY)
            found = key->path.count >= path.count &&
                    sim_wide_equal(key->path.units, path.count, path.units, path.count);
    }
    pthread_mutex_unlock(&handles_lock);
    return found;
}

void sim_handles_clear(void)
{
    for (size_t i = 0; i < handles_size; i++) {
        if (handles[i]) {
            sim_item_remove(&handles[i]->item);
            sim_object_unref(handles[i]->body);
            free(handles[i]);
        }
    }
    free(handles);
    handles = NULL;
    handles_size = 0;
}

NTSTATUS ObReferenceObjectByHandle(HANDLE handle, ACCESS_MASK access, POBJECT_TYPE type,
                                   KPROCESSOR_MODE mode, PVOID *object, PVOID handleInformation)
{
    void *body;
    NTSTATUS status;

    SIM_DDI(PASSIVE_LEVEL, "OB-001");
    SIM_RULE("OB-003", !(access & 0xF0000000u), "generic rights 0x%08X", access);
    SIM_RULE("OB-003", mode != KernelMode || (intptr_t)handle < 0,
             "%p is a handle of a user and is looked up for kernel mode", handle);
    SIM_CHECK(mode == KernelMode, "the driver's handles are for kernel mode");
    SIM_CHECK(!type && !handleInformation, "types and handle information are not simulated");
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    body = sim_handle_body_for(handle, SIM_TYPE_ANY, 0, &status);
    if (!body)
        return status;
    sim_driver_ref(body);
    sim_object_unref(body);
    *object = body;
    return STATUS_SUCCESS;
}

NTSTATUS ObOpenObjectByPointer(PVOID object, ULONG attributes, PACCESS_STATE state,
                               ACCESS_MASK access, POBJECT_TYPE type, KPROCESSOR_MODE mode,
                               PHANDLE handle)
{
    SIM_DDI(APC_LEVEL, "OB-008");
    check_alive(__func__, object);
    SIM_RULE("CM-052", !object || object != sim_self()->opened_key,
             "the object of a create or open cannot be opened by its pointer");
    SIM_CHECK(!state, "access states are not simulated");
    SIM_RULE("OB-010", type || mode == KernelMode, "a user's open needs a type");
    SIM_CHECK(!type && mode == KernelMode, "the driver's handles are for kernel mode");
    head_of(object);
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    if (sim_object_is_going(object))
        return STATUS_PROCESS_IS_TERMINATING;
    return sim_handle_open(__func__, object, access, attributes, handle);
}

NTSTATUS ObQueryNameString(PVOID object, POBJECT_NAME_INFORMATION name, ULONG length,
                           PULONG returned)
{
    const struct sim_object *head;
    struct sim_str text = SIM_NO_STR;
    ULONG bytes;

    SIM_DDI(APC_LEVEL, "OB-014");
    check_alive(__func__, object);
    head = head_of(object);
    /* The file system is asked, and may need what this thread holds or cannot get. */
    SIM_RULE("OB-017",
             head->type != SIM_TYPE_FILE || (sim_self()->irql == PASSIVE_LEVEL &&
                                             !sim_self()->guarded && !sim_self()->top_level_irp),
             "would hang: no APCs are delivered, or a file system waits for this thread");
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    if (head->type == SIM_TYPE_FILE)
        text = sim_str_of(&((PFILE_OBJECT)object)->FileName);
    else if (head->type == SIM_TYPE_KEY)
        text = sim_key_name(object);
    if (head->type == SIM_TYPE_KEY)
        sim_cm_name_asked(object);
    bytes = (ULONG)(sizeof(UNICODE_STRING) + (text.count ? text.count * 2 + 2 : 0));
    *returned = bytes;
    if (length < bytes)
        return STATUS_INFO_LENGTH_MISMATCH;
    memset(name, 0, sizeof(*name));
    if (text.count) {
        name->Name.Buffer = (PWSTR)(name + 1);
        name->Name.Length = (USHORT)(text.count * 2);
        name->Name.MaximumLength = (USHORT)(text.count * 2 + 2);
        memcpy(name->Name.Buffer, text.units, text.count * 2);
        name->Name.Buffer[text.count] = 0;
    }
    return STATUS_SUCCESS;
}
