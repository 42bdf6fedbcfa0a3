/*
 * cm_notify.c - registry callbacks: what is told before and after each operation.
 *
 * Operations of the driver itself are told too, as in a kernel: a driver that reads a value inside
 * its own callback sees that read arrive.
 */
#include "cm.h"
#include "thread_state.h"

/* Not in nt.h, because the driver does not look at them. */
enum { POST_QUERY_VALUE = 23, PRE_OPEN_KEY_EX = 28, POST_OPEN_KEY_EX = 29 };
struct query_value_information {
    PVOID Object;
    PUNICODE_STRING ValueName;
    ULONG KeyValueInformationClass;
    PVOID KeyValueInformation;
    ULONG Length;
    PULONG ResultLength;
    PVOID CallContext;
    PVOID ObjectContext;
    PVOID Reserved;
};

#define CALLBACKS_MAX 8u
#define CALLBACK_BYPASS NTSTATUS_OF(0xC0000503)

static struct sim_notify_list callbacks = SIM_NOTIFY_LIST;

void sim_cm_boot(void)
{
    struct sim_str host = sim.options.host.count ? sim.options.host : SIM_STR(u"SIM");
    uint16_t text[256] = {0};
    struct sim_registry op = {
        .key = SIM_STR(u"\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Control\\ComputerName\\"
                       u"ComputerName"),
        .name = SIM_STR(u"ComputerName"),
        .type = REG_SZ,
        .data = text};

    sim_cm_make(SIM_STR(u"\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services\\kdamonitor"), NULL);
    SIM_CHECK(host.count < 255, "a computer name of %zu units", host.count);
    memcpy(text, host.units, host.count * 2);
    op.size = host.count * 2 + 2;
    sim_registry_preset(&op);
}

void sim_cm_end(void)
{
    sim_notify_clear(&callbacks);
    sim_cm_clear();
}

NTSTATUS CmRegisterCallbackEx(PEX_CALLBACK_FUNCTION function, PCUNICODE_STRING altitude,
                              PVOID driver, PVOID context, PLARGE_INTEGER cookie, PVOID reserved)
{
    struct sim_str text = sim_str_of(altitude);
    struct sim_notify *made;
    NTSTATUS status;

    SIM_DDI(APC_LEVEL);
    SIM_CHECK(!reserved, "the last parameter is reserved");
    SIM_CHECK(driver == sim_driver_object(), "%p is not the driver", driver);
    SIM_CHECK(text.count > 0, "there is no altitude");
    if (SIM_FAULT())
        return STATUS_INSUFFICIENT_RESOURCES;
    if (sim_notify_has_text(&callbacks, text))
        return STATUS_FLT_INSTANCE_ALTITUDE_COLLISION;
    status = sim_notify_add(&callbacks, __func__, (void *)(uintptr_t)function, context, 0,
                            CALLBACKS_MAX, &made);
    if (!NT_SUCCESS(status))
        return STATUS_INSUFFICIENT_RESOURCES;
    sim_wide_set(&made->text, text);
    cookie->QuadPart = (LONGLONG)(uintptr_t)made;
    return STATUS_SUCCESS;
}

NTSTATUS CmUnRegisterCallback(LARGE_INTEGER cookie)
{
    int32_t refused;

    SIM_DDI(APC_LEVEL);
    if (sim_removal_refused(&refused))
        return refused;
    return sim_notify_remove_node(&callbacks, __func__,
                                  (struct sim_notify *)(uintptr_t)cookie.QuadPart)
               ? STATUS_SUCCESS
               : STATUS_INVALID_PARAMETER;
}

/* --- calls ----------------------------------------------------------------------------------- */

struct told {
    struct sim_notify *notify[CALLBACKS_MAX];
    PVOID context[CALLBACKS_MAX];
    unsigned count;
};

static NTSTATUS call(struct sim_notify *n, REG_NOTIFY_CLASS class_, void *information)
{
    PEX_CALLBACK_FUNCTION function = (PEX_CALLBACK_FUNCTION)(uintptr_t)n->routine;
    struct sim_call c;
    NTSTATUS status;

    sim_call_enter(&c, "registry callback", n->routine, APC_LEVEL);
    status = function(n->context, (PVOID)(uintptr_t)class_, information);
    sim_call_leave(&c);
    return status;
}

/* Tells all of them before the operation. `context` is the CallContext member of `information`. */
static NTSTATUS tell_pre(struct told *told, REG_NOTIFY_CLASS class_, void *information,
                         PVOID *context)
{
    struct sim_notify *n = NULL;
    NTSTATUS status = STATUS_SUCCESS;

    told->count = 0;
    while ((n = sim_notify_next(&callbacks, n)) != NULL) {
        *context = NULL;
        status = call(n, class_, information);
        if (!NT_SUCCESS(status)) {
            sim_notify_release(&callbacks, n);
            break;
        }
        /* In flight until its post call: an unregistration comes in between all the same, and then
         * there is no post call, so only the pointer is kept here. */
        told->notify[told->count] = n;
        told->context[told->count++] = *context;
    }
    return status;
}

static void tell_post(struct told *told, REG_NOTIFY_CLASS class_, void *object, void *pre,
                      NTSTATUS status)
{
    for (unsigned i = 0; i < told->count; i++) {
        REG_POST_OPERATION_INFORMATION post = {.Object = object,
                                               .Status = status,
                                               .PreInformation = pre,
                                               .ReturnStatus = status,
                                               .CallContext = told->context[i]};
        if (!sim_notify_hold(&callbacks, told->notify[i]))
            continue;
        call(told->notify[i], class_, &post);
        sim_notify_release(&callbacks, told->notify[i]);
    }
}

/* --- operations ------------------------------------------------------------------------------ */

struct operation {
    const struct sim_registry *op;
    REG_NOTIFY_CLASS pre;
    int post;
    void *information;
    PVOID *context;
    void *object;
    int32_t (*run)(struct operation *o);
    struct sim_key *key;
    bool is_new;
};

static int32_t refusal_status(const struct sim_registry *op)
{
    return op->status ? op->status : STATUS_ACCESS_DENIED;
}

static int32_t carry_out(struct operation *o)
{
    const struct sim_registry *op = o->op;
    struct told told;
    int32_t status;

    if (op->refusal == SIM_REFUSE_BEFORE)
        return refusal_status(op);
    status = tell_pre(&told, o->pre, o->information, o->context);
    if (!NT_SUCCESS(status))
        return status == CALLBACK_BYPASS ? STATUS_SUCCESS : status;
    if (op->refusal == SIM_REFUSE_AFTER)
        return refusal_status(op);
    /* A symbolic link: what the post call has as object is nothing. */
    if (op->status == STATUS_REPARSE) {
        tell_post(&told, (REG_NOTIFY_CLASS)o->post, (void *)(uintptr_t)0xBADC0DEBADC0DE00u,
                  o->information, STATUS_REPARSE);
        return STATUS_REPARSE;
    }
    if (op->refusal == SIM_REFUSE_AFTER_POST)
        status = refusal_status(op);
    else
        status = op->status < 0 ? op->status : o->run(o);
    if (op->refusal != SIM_REFUSE_NO_POST)
        tell_post(&told, (REG_NOTIFY_CLASS)o->post,
                  NT_SUCCESS(status) || o->pre < 26 ? o->object : NULL, o->information, status);
    return status;
}

static int32_t run_set(struct operation *o)
{
    if (!sim_key_node(o->key))
        o->key->node = sim_cm_make(o->op->key, NULL);
    sim_cm_set(o->key->node, o->op->name, o->op->type, o->op->data, o->op->size);
    return STATUS_SUCCESS;
}

int32_t sim_cm_set_told(const struct sim_registry *op, struct sim_key *key)
{
    struct sim_wide name = {NULL, 0};
    uint8_t *data = op->size ? sim_alloc(op->size) : NULL;
    UNICODE_STRING value;
    REG_SET_VALUE_KEY_INFORMATION info;
    struct operation o = {.op = op,
                          .pre = RegNtPreSetValueKey,
                          .post = RegNtPostSetValueKey,
                          .information = &info,
                          .context = &info.CallContext,
                          .object = key,
                          .key = key,
                          .run = run_set};
    int32_t status;

    sim_wide_set(&name, op->name);
    value = sim_unicode(&name);
    memset(&info, 0, sizeof(info));
    info.Object = key;
    info.ValueName = &value;
    info.Type = op->type;
    info.Data = data;
    info.DataSize = (ULONG)op->size;
    if (op->size)
        memcpy(data, op->data, op->size);
    if (op->bad_data)
        sim_bad_memory(data, op->size);
    status = carry_out(&o);
    sim_bad_memory(NULL, 0);
    sim_wide_free(&name);
    free(data);
    return status;
}

int32_t sim_registry_set_value(const struct sim_registry *op)
{
    struct sim_key *key = sim_key_object(op->key, op->bad_name);
    int32_t status = sim_cm_set_told(op, key);

    sim_object_unref(key);
    return status;
}

static int32_t run_delete_value(struct operation *o)
{
    return sim_cm_remove(sim_key_node(o->key), o->op->name);
}

int32_t sim_registry_delete_value(const struct sim_registry *op)
{
    struct sim_key *key = sim_key_object(op->key, op->bad_name);
    struct sim_wide name = {NULL, 0};
    UNICODE_STRING value;
    REG_DELETE_VALUE_KEY_INFORMATION info;
    struct operation o = {.op = op,
                          .pre = RegNtPreDeleteValueKey,
                          .post = RegNtPostDeleteValueKey,
                          .information = &info,
                          .context = &info.CallContext,
                          .object = key,
                          .key = key,
                          .run = run_delete_value};
    int32_t status;

    sim_wide_set(&name, op->name);
    value = sim_unicode(&name);
    memset(&info, 0, sizeof(info));
    info.Object = key;
    info.ValueName = &value;
    status = carry_out(&o);
    sim_wide_free(&name);
    sim_object_unref(key);
    return status;
}

static int32_t run_query(struct operation *o)
{
    uint32_t type;
    size_t size;

    return sim_cm_get(sim_key_node(o->key), o->op->name, &type, NULL, 0, &size)
               ? STATUS_SUCCESS
               : STATUS_OBJECT_NAME_NOT_FOUND;
}

int32_t sim_cm_query_told(const struct sim_registry *op, struct sim_key *key)
{
    struct sim_wide name = {NULL, 0};
    UNICODE_STRING value;
    struct query_value_information info;
    struct operation o = {.op = op,
                          .pre = RegNtPreQueryValueKey,
                          .post = POST_QUERY_VALUE,
                          .information = &info,
                          .context = &info.CallContext,
                          .object = key,
                          .key = key,
                          .run = run_query};
    int32_t status;

    sim_wide_set(&name, op->name);
    value = sim_unicode(&name);
    memset(&info, 0, sizeof(info));
    info.Object = key;
    info.ValueName = &value;
    status = carry_out(&o);
    sim_wide_free(&name);
    return status;
}

int32_t sim_registry_query_value(const struct sim_registry *op)
{
    struct sim_key *key = sim_key_object(op->key, op->bad_name);
    int32_t status = sim_cm_query_told(op, key);

    sim_object_unref(key);
    return status;
}

static int32_t run_delete_key(struct operation *o)
{
    /* A recording names keys that nothing ever made. */
    return sim_key_node(o->key) ? sim_cm_delete(o->key->node) : STATUS_SUCCESS;
}

int32_t sim_registry_delete_key(const struct sim_registry *op)
{
    struct sim_key *key = sim_key_object(op->key, op->bad_name);
    REG_DELETE_KEY_INFORMATION info = {.Object = key};
    struct operation o = {.op = op,
                          .pre = RegNtPreDeleteKey,
                          .post = RegNtPostDeleteKey,
                          .information = &info,
                          .context = &info.CallContext,
                          .object = key,
                          .key = key,
                          .run = run_delete_key};
    int32_t status = carry_out(&o);

    sim_object_unref(key);
    return status;
}

static int32_t run_rename(struct operation *o)
{
    if (!sim_key_node(o->key))
        o->key->node = sim_cm_make(o->op->key, NULL);
    return sim_cm_rename(o->key->node, o->op->name);
}

int32_t sim_registry_rename_key(const struct sim_registry *op)
{
    struct sim_key *key = sim_key_object(op->key, op->bad_name);
    struct sim_wide name = {NULL, 0};
    UNICODE_STRING value;
    REG_RENAME_KEY_INFORMATION info;
    struct operation o = {.op = op,
                          .pre = RegNtPreRenameKey,
                          .post = RegNtPostRenameKey,
                          .information = &info,
                          .context = &info.CallContext,
                          .object = key,
                          .key = key,
                          .run = run_rename};
    int32_t status;

    sim_wide_set(&name, op->name);
    value = sim_unicode(&name);
    memset(&info, 0, sizeof(info));
    info.Object = key;
    info.NewName = &value;
    status = carry_out(&o);
    sim_wide_free(&name);
    sim_object_unref(key);
    return status;
}

/* --- create and open ------------------------------------------------------------------------- */

static int32_t run_create(struct operation *o)
{
    REG_CREATE_KEY_INFORMATION *info = o->information;

    if (o->pre == (REG_NOTIFY_CLASS)PRE_OPEN_KEY_EX) {
        o->key->node = sim_cm_find(o->op->key);
        return o->key->node ? STATUS_SUCCESS : STATUS_OBJECT_NAME_NOT_FOUND;
    }
    o->key->node = sim_cm_make(o->op->key, &o->is_new);
    *info->Disposition =
        o->is_new && !o->op->open_only ? REG_CREATED_NEW_KEY : REG_OPENED_EXISTING_KEY;
    *info->ResultObject = o->key;
    return STATUS_SUCCESS;
}

int32_t sim_cm_create_told(const struct sim_registry *op, bool open, struct sim_key *key)
{
    struct sim_str parent = op->key;
    struct sim_str told = op->key;
    struct sim_key *root = NULL;
    struct sim_wide name = {NULL, 0};
    UNICODE_STRING complete;
    ULONG disposition = 0;
    PVOID result = NULL;
    REG_CREATE_KEY_INFORMATION info;
    struct operation o = {.op = op,
                          .pre = open ? (REG_NOTIFY_CLASS)PRE_OPEN_KEY_EX : RegNtPreCreateKeyEx,
                          .post = open ? POST_OPEN_KEY_EX : RegNtPostCreateKeyEx,
                          .information = &info,
                          .context = &info.CallContext,
                          .object = key,
                          .key = key,
                          .run = run_create};
    int32_t status;

    if (op->relative) {
        while (parent.count > 0 && parent.units[parent.count - 1] != '\\')
            parent.count--;
        told.units += parent.count;
        told.count -= parent.count;
        if (parent.count > 1)
            parent.count--;
        root = sim_key_object(parent, op->bad_name);
    }
    sim_wide_set(&name, told);
    complete = sim_unicode(&name);
    memset(&info, 0, sizeof(info));
    info.CompleteName = &complete;
    info.RootObject = root;
    info.Disposition = &disposition;
    info.ResultObject = &result;
    status = carry_out(&o);
    sim_wide_free(&name);
    if (root)
        sim_object_unref(root);
    return status;
}

int32_t sim_registry_create_key(const struct sim_registry *op)
{
    struct sim_key *key = sim_key_object(op->key, op->bad_name);
    int32_t status = sim_cm_create_told(op, false, key);

    sim_object_unref(key);
    return status;
}

int32_t sim_registry_open_key(const struct sim_registry *op)
{
    struct sim_key *key = sim_key_object(op->key, op->bad_name);
    int32_t status = sim_cm_create_told(op, true, key);

    sim_object_unref(key);
    return status;
}

void sim_registry_preset(const struct sim_registry *op)
{
    sim_cm_set(sim_cm_make(op->key, NULL), op->name, op->type, op->data, op->size);
}
