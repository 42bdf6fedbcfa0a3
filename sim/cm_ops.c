/*
 * cm_ops.c - registry operations: one row each, one way to carry them out.
 *
 * Before an operation its outputs are rubbish, and after one that did not end with STATUS_SUCCESS
 * so is the object: a pointer that looks good and leads nowhere.
 */
#include "cm.h"

#define CALLBACK_BYPASS NTSTATUS_OF(0xC0000503)
#define STATUS_REPARSED NTSTATUS_OF(0x00000104)

/* REG_CREATE_KEY_INFORMATION_V1: `base.Reserved` is its Version. */
struct create_v1 {
    REG_CREATE_KEY_INFORMATION base;
    PUNICODE_STRING RemainingName;
    ULONG Wow64Flags;
    ULONG Attributes;
    KPROCESSOR_MODE CheckAccessMode;
};
/* Of the classes that nt.h does not declare, from their pages: what differs is before CallContext.
 */
struct with_slots {
    PVOID Object;
    PVOID slot[10];
};

union information {
    REG_SET_VALUE_KEY_INFORMATION set;
    REG_DELETE_VALUE_KEY_INFORMATION delete_value;
    REG_RENAME_KEY_INFORMATION rename;
    REG_DELETE_KEY_INFORMATION delete_key;
    struct create_v1 create;
    struct with_slots other;
};

struct operation {
    const struct sim_registry *op;
    enum sim_registry_kind kind;
    struct sim_key *key;
    struct sim_key *root; /* of a create or open */
    union information *info;
    struct sim_wide name;
    UNICODE_STRING string;
    struct sim_wide rest;
    UNICODE_STRING remaining;
    ULONG disposition;
    PVOID disposition_at;
    PVOID result;
    PVOID data;
    ULONG flags;
};

/* --- carrying out ---------------------------------------------------------------------------- */

static struct sim_node *node_of(struct operation *o)
{
    if (!sim_key_node(o->key))
        o->key->node = sim_cm_make(o->op->key, NULL);
    return o->key->node;
}

static int32_t run_set(struct operation *o)
{
    sim_cm_set(node_of(o), o->op->name, o->op->type, o->op->data, o->op->size);
    return STATUS_SUCCESS;
}

static int32_t run_delete_value(struct operation *o)
{
    return sim_cm_remove(sim_key_node(o->key), o->op->name);
}

static int32_t run_query(struct operation *o)
{
    uint32_t type;
    size_t size;

    return sim_cm_get(sim_key_node(o->key), o->op->name, &type, NULL, 0, &size)
               ? STATUS_SUCCESS
               : STATUS_OBJECT_NAME_NOT_FOUND;
}

static int32_t run_delete_key(struct operation *o)
{
    /* A recording names keys that nothing ever made. */
    return sim_key_node(o->key) ? sim_cm_delete(o->key->node) : STATUS_SUCCESS;
}

/* The name is the current one from now on. */
static int32_t run_rename(struct operation *o)
{
    int32_t status = sim_cm_rename(node_of(o), o->op->name);
    struct sim_wide *path = &o->key->path;
    size_t parent = path->count;
    uint16_t *made;

    if (!NT_SUCCESS(status))
        return status;
    while (parent > 0 && path->units[parent - 1] != '\\')
        parent--;
    made = sim_alloc((parent + o->op->name.count) * 2);
    memcpy(made, path->units, parent * 2);
    if (o->op->name.count)
        memcpy(made + parent, o->op->name.units, o->op->name.count * 2);
    free(path->units);
    path->units = made;
    path->count = parent + o->op->name.count;
    return status;
}

static int32_t run_create(struct operation *o)
{
    REG_CREATE_KEY_INFORMATION *info = &o->info->create.base;
    bool is_new = false;

    if (o->kind == SIM_REG_OPEN) {
        o->key->node = sim_cm_find((struct sim_str){o->key->path.units, o->key->path.count});
        if (!o->key->node)
            return STATUS_OBJECT_NAME_NOT_FOUND;
    } else {
        o->key->node =
            sim_cm_make((struct sim_str){o->key->path.units, o->key->path.count}, &is_new);
    }
    o->disposition = is_new && !o->op->open_only ? REG_CREATED_NEW_KEY : REG_OPENED_EXISTING_KEY;
    info->GrantedAccess = info->DesiredAccess;
    o->result = o->key;
    return STATUS_SUCCESS;
}

static bool in_application_hive(struct sim_str path)
{
    static const uint16_t hive[] = u"\\REGISTRY\\A\\";
    const size_t count = sizeof(hive) / 2 - 1;

    return path.count > count && sim_wide_equal(path.units, count, hive, count);
}

static int32_t run_security(struct operation *o)
{
    return in_application_hive(o->op->key) ? STATUS_ACCESS_DENIED : STATUS_SUCCESS;
}

static int32_t run_unload(struct operation *o)
{
    return sim_handle_to_key_below(o->op->key) ? STATUS_ACCESS_DENIED : STATUS_SUCCESS;
}

static int32_t run_nothing(struct operation *o)
{
    (void)o;
    return STATUS_SUCCESS;
}

/* --- what callbacks get ---------------------------------------------------------------------- */

static void fill_set(struct operation *o)
{
    REG_SET_VALUE_KEY_INFORMATION *info = &o->info->set;

    info->Type = o->op->type;
    info->DataSize = (ULONG)o->op->size;
    if (o->op->bad_data) {
        o->data = sim_user_memory(NULL, o->op->size, "CM-040");
    } else if (o->op->size) {
        o->data = sim_alloc(o->op->size);
        memcpy(o->data, o->op->data, o->op->size);
    }
    info->Data = o->data;
}

/* Root and name as the caller gave them; the rest of the name is always relative to the root. */
static void fill_names(struct operation *o)
{
    struct create_v1 *info = &o->info->create;
    static const struct sim_str registry = SIM_STR(u"\\REGISTRY");
    struct sim_str path = o->op->key;
    struct sim_str told = path;
    struct sim_str rest = path;
    struct sim_str parent = o->op->relative ? path : registry;

    if (o->op->itself) {
        told = rest = SIM_NO_STR;
    } else if (o->op->relative) {
        while (parent.count > 0 && parent.units[parent.count - 1] != '\\')
            parent.count--;
        told.units += parent.count;
        told.count -= parent.count;
        rest = told;
        parent.count -= parent.count > 1;
    } else if (path.count > registry.count) {
        rest.units += registry.count + 1;
        rest.count -= registry.count + 1;
    }
    o->root = sim_key_object(o->op->itself ? path : parent, o->op->bad_name);
    sim_wide_set(&o->name, told);
    o->string = sim_unicode(&o->name);
    sim_wide_set(&o->rest, rest);
    o->remaining = sim_unicode(&o->rest);
    info->base.CompleteName = &o->string;
    info->base.RootObject = o->root;
    if (!o->op->version_0)
        info->RemainingName = &o->remaining;
}

static void fill_create(struct operation *o)
{
    struct create_v1 *info = &o->info->create;

    fill_names(o);
    info->base.ObjectType = sim_poison_object("CM-073", "the reserved type of a key");
    info->base.CreateOptions = 0;
    info->base.Class = NULL;
    info->base.SecurityDescriptor = NULL;
    info->base.SecurityQualityOfService = NULL;
    info->base.DesiredAccess = o->op->access ? o->op->access : 0x20019u;
    o->disposition = 0xEEEEEEEEu;
    o->disposition_at = o->op->kernel ? NULL : sim_user_memory(&o->disposition, 4, "CM-041");
    info->base.Disposition = o->op->kernel ? &o->disposition : o->disposition_at;
    info->base.ResultObject = &o->result;
    info->base.RootObjectContext = NULL;
    info->base.Transaction = sim_transaction_object(o->key->transaction);
    info->base.Reserved = (PVOID)(uintptr_t)(o->op->version_0 ? 0 : 1);
    if (o->op->version_0)
        return;
    info->Wow64Flags = o->op->wow64_flags;
    info->Attributes = OBJ_CASE_INSENSITIVE;
    info->CheckAccessMode = o->op->kernel ? KernelMode : UserMode;
}

static void fill_load(struct operation *o)
{
    PVOID *slot = o->info->other.slot;

    slot[0] = slot[1] = &o->string; /* name below the root, and the file of the hive */
    slot[2] = NULL;
    slot[6] = in_application_hive(o->op->key) ? (PVOID)&o->result : NULL; /* RootHandle */
}

static void fill_security(struct operation *o)
{
    o->flags = DACL_SECURITY_INFORMATION;
    o->info->other.slot[0] = &o->flags;
    o->info->other.slot[1] = o->data = sim_user_memory(NULL, 64, "CM-096");
}

static void fill_replace(struct operation *o)
{
    o->info->other.slot[0] = o->info->other.slot[1] = &o->string;
}

/* Handles of the caller, and numbers. */
static void fill_handle(struct operation *o)
{
    o->info->other.slot[0] = (PVOID)(uintptr_t)0x44;
    o->info->other.slot[1] = (PVOID)(uintptr_t)1;
}

static void fill_merged(struct operation *o)
{
    o->info->other.slot[0] = (PVOID)(uintptr_t)0x44;
    o->info->other.slot[1] = o->info->other.slot[2] = o->key;
}

#define SLOT(n) (offsetof(struct with_slots, slot) + (n) * sizeof(PVOID))
#define NONE 0xFFFFu

/* Where the name, if there is one, and CallContext are; ObjectContext follows CallContext. */
static const struct kind {
    int16_t pre;
    int16_t post;
    uint16_t name;
    uint16_t context;
    int32_t (*run)(struct operation *o);
    void (*fill)(struct operation *o);
    bool no_object; /* the post call has none, whatever happened */
} kinds[] = {
    [SIM_REG_DELETE_KEY] = {0, 15, NONE, offsetof(REG_DELETE_KEY_INFORMATION, CallContext),
                            run_delete_key, NULL, false},
    [SIM_REG_SET_VALUE] = {1, 16, offsetof(REG_SET_VALUE_KEY_INFORMATION, ValueName),
                           offsetof(REG_SET_VALUE_KEY_INFORMATION, CallContext), run_set, fill_set,
                           false},
    [SIM_REG_DELETE_VALUE] = {2, 17, offsetof(REG_DELETE_VALUE_KEY_INFORMATION, ValueName),
                              offsetof(REG_DELETE_VALUE_KEY_INFORMATION, CallContext),
                              run_delete_value, NULL, false},
    [SIM_REG_RENAME] = {4, 19, offsetof(REG_RENAME_KEY_INFORMATION, NewName),
                        offsetof(REG_RENAME_KEY_INFORMATION, CallContext), run_rename, NULL, false},
    [SIM_REG_QUERY_VALUE] = {8, 23, SLOT(0), SLOT(5), run_query, NULL, false},
    [SIM_REG_CREATE] = {26, 27, NONE, offsetof(REG_CREATE_KEY_INFORMATION, CallContext), run_create,
                        fill_create, false},
    [SIM_REG_OPEN] = {28, 29, NONE, offsetof(REG_CREATE_KEY_INFORMATION, CallContext), run_create,
                      fill_create, false},
    [SIM_REG_CLOSE] = {14, 25, NONE, SLOT(0), run_nothing, NULL, false},
    [SIM_REG_FLUSH] = {30, 31, NONE, SLOT(0), run_nothing, NULL, false},
    [SIM_REG_LOAD] = {32, 33, SLOT(0), SLOT(7), run_nothing, fill_load, true},
    [SIM_REG_UNLOAD] = {34, 35, NONE, SLOT(1), run_unload, NULL, false},
    [SIM_REG_QUERY_SECURITY] = {36, 37, NONE, SLOT(3), run_nothing, fill_security, false},
    [SIM_REG_SET_SECURITY] = {38, 39, NONE, SLOT(2), run_security, fill_security, false},
    [SIM_REG_RESTORE] = {41, 42, NONE, SLOT(2), run_nothing, fill_handle, false},
    [SIM_REG_SAVE] = {43, 44, NONE, SLOT(2), run_nothing, fill_handle, false},
    [SIM_REG_REPLACE] = {45, 46, SLOT(0), SLOT(2), run_nothing, fill_replace, false},
    [SIM_REG_QUERY_NAME] = {47, 48, NONE, SLOT(3), run_nothing, NULL, false},
    [SIM_REG_SAVE_MERGED] = {49, 50, NONE, SLOT(3), run_nothing, fill_merged, true},
    [SIM_REG_NEWER] = {60, 61, NONE, SLOT(0), run_nothing, NULL, false},
};

static void begin(struct operation *o)
{
    const struct kind *kind = &kinds[o->kind];
    PVOID *context;

    /* A block of just that size: what an old structure does not have must not be read. */
    o->info = sim_alloc(o->op->version_0 ? sizeof(REG_CREATE_KEY_INFORMATION) : sizeof(*o->info));
    memset(o->info, 0xEE, o->op->version_0 ? sizeof(REG_CREATE_KEY_INFORMATION) : sizeof(*o->info));
    if (o->kind != SIM_REG_CREATE && o->kind != SIM_REG_OPEN)
        o->info->other.Object = o->key;
    if (kind->name != NONE) {
        sim_wide_set(&o->name, o->op->name);
        o->string = sim_unicode(&o->name);
        *(PVOID *)((uint8_t *)o->info + kind->name) = &o->string;
    }
    if (kind->fill)
        kind->fill(o);
    context = (PVOID *)((uint8_t *)o->info + kind->context);
    context[0] = NULL;
    context[1] = NULL;
}

static void end(struct operation *o)
{
    sim_wide_free(&o->name);
    sim_wide_free(&o->rest);
    sim_poison_free(o->disposition_at);
    if (o->data && sim_is_poison(o->data))
        sim_poison_free(o->data);
    else
        free(o->data);
    if (o->root)
        sim_object_unref(o->root);
    free(o->info);
}

static int32_t refusal_status(const struct sim_registry *op)
{
    return op->status ? op->status : STATUS_ACCESS_DENIED;
}

/* The object of the post call. */
static void *object_after(const struct operation *o, int32_t status)
{
    bool opens = o->kind == SIM_REG_CREATE || o->kind == SIM_REG_OPEN;

    if (kinds[o->kind].no_object)
        return NULL;
    if (status == STATUS_SUCCESS)
        return o->key;
    return sim_poison_object(opens ? "CM-060" : "CM-056", "the object of an operation that failed");
}

static int32_t tell_post(struct operation *o, struct sim_cm_told *told, int32_t status)
{
    struct sim_ctx *self = sim_self();
    const void *opened = self->opened_key;
    bool closed = self->closed;
    bool opens = o->kind == SIM_REG_CREATE || o->kind == SIM_REG_OPEN;

    self->opened_key = opens && status == STATUS_SUCCESS ? o->key : NULL;
    self->closed = o->kind == SIM_REG_CLOSE;
    status = sim_cm_tell_post(told, kinds[o->kind].post, object_after(o, status), o->info, status);
    self->opened_key = opened;
    self->closed = closed;
    return status;
}

static int32_t carry_out(struct operation *o)
{
    const struct sim_registry *op = o->op;
    const struct kind *kind = &kinds[o->kind];
    struct sim_cm_told told;
    int32_t status;

    if (op->refusal == SIM_REFUSE_BEFORE)
        return refusal_status(op);
    status =
        sim_cm_tell_pre(&told, kind->pre, o->info, (PVOID *)((uint8_t *)o->info + kind->context));
    if (!NT_SUCCESS(status) && o->kind != SIM_REG_CLOSE) {
        /* Those that were told before hear how it ended. */
        int32_t result = status == CALLBACK_BYPASS ? STATUS_SUCCESS : status;
        tell_post(o, &told, status);
        return result;
    }
    if (op->refusal == SIM_REFUSE_AFTER)
        return refusal_status(op);
    if (op->refusal == SIM_REFUSE_AFTER_POST)
        status = refusal_status(op);
    else
        status = op->status ? op->status : kind->run(o);
    if (op->refusal != SIM_REFUSE_NO_POST)
        status = tell_post(o, &told, status);
    return status;
}

/* The way to a link: told with its name, and told to look elsewhere, where that name already is. */
static int32_t meet_link(struct operation *o, const struct sim_wide *target)
{
    struct sim_cm_told told;
    int32_t status = sim_cm_tell_pre(&told, kinds[o->kind].pre, o->info,
                                     (PVOID *)((uint8_t *)o->info + kinds[o->kind].context));

    if (!NT_SUCCESS(status))
        return status == CALLBACK_BYPASS ? STATUS_SUCCESS : status;
    sim_wide_free(&o->name);
    sim_wide_set(&o->name, (struct sim_str){target->units, target->count});
    o->string = sim_unicode(&o->name);
    return tell_post(o, &told, STATUS_REPARSED);
}

int32_t sim_cm_told_on(enum sim_registry_kind kind, const struct sim_registry *op,
                       struct sim_key *key)
{
    struct sim_ctx *self = sim_self();
    const void *dying = self->dying_key;
    struct operation o = {.op = op, .kind = kind, .key = key};
    struct sim_registry elsewhere = *op;
    struct sim_wide target = {NULL, 0};
    int32_t status = STATUS_REPARSED;

    key->transaction = self->transaction && !op->kernel;
    if (kind == SIM_REG_CLOSE)
        self->dying_key = key;
    begin(&o);
    if (op->link != SIM_LINK_NONE && sim_cm_resolve(op->key, &target)) {
        sim_wide_free(&key->path);
        sim_wide_set(&key->path, (struct sim_str){target.units, target.count});
        if (op->link == SIM_LINK_RESTART) {
            status = meet_link(&o, &target);
            end(&o);
            elsewhere.key = (struct sim_str){target.units, target.count};
            o = (struct operation){.op = &elsewhere, .kind = kind, .key = key};
            begin(&o);
        }
    }
    if (NT_SUCCESS(status))
        status = carry_out(&o);
    end(&o);
    sim_wide_free(&target);
    self->dying_key = dying;
    return status;
}

/* --- from outside ---------------------------------------------------------------------------- */

int32_t sim_registry_do(enum sim_registry_kind kind, const struct sim_registry *op)
{
    struct sim_key *key = sim_key_object(op->key, op->bad_name);
    int32_t status = sim_cm_told_on(kind, op, key);

    sim_object_unref(key);
    return status;
}

#define OPERATION(name, kind)                                                                      \
    int32_t sim_registry_##name(const struct sim_registry *op)                                     \
    {                                                                                              \
        return sim_registry_do(kind, op);                                                          \
    }
OPERATION(create_key, SIM_REG_CREATE)
OPERATION(open_key, SIM_REG_OPEN)
OPERATION(delete_key, SIM_REG_DELETE_KEY)
OPERATION(rename_key, SIM_REG_RENAME)
OPERATION(set_value, SIM_REG_SET_VALUE)
OPERATION(delete_value, SIM_REG_DELETE_VALUE)
OPERATION(query_value, SIM_REG_QUERY_VALUE)

void sim_registry_preset(const struct sim_registry *op)
{
    sim_cm_set(sim_cm_make(op->key, NULL), op->name, op->type, op->data, op->size);
}

void sim_cm_name_asked(void *key)
{
    static const struct sim_registry op;

    if (sim_cm_watched() && sim.options.build >= 10240)
        sim_cm_told_on(SIM_REG_QUERY_NAME, &op, key);
}
