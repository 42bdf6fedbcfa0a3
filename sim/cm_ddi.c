/*
 * cm_ddi.c - the registry as the driver calls it: names of keys in callbacks, and its own keys.
 */
#include "cm.h"

/* --- names in callbacks ---------------------------------------------------------------------- */

struct key_name {
    struct sim_item item;
    UNICODE_STRING string;
    struct sim_wide text;
};

NTSTATUS CmCallbackGetKeyObjectIDEx(PLARGE_INTEGER cookie, PVOID object, PULONG_PTR objectId,
                                    PCUNICODE_STRING *objectName, ULONG flags)
{
    const struct sim_object *head;
    const struct sim_key *key = object;
    struct key_name *made;

    SIM_DDI(APC_LEVEL, "CM-016");
    SIM_RULE("CM-017", flags == 0, "flags are reserved");
    SIM_RULE("CM-021", !sim_is_poison(object), "%p is an object that the call does not define",
             object);
    SIM_RULE("CM-065", !sim_self()->closed, "the name is asked for after the close of the handle");
    if (!sim_cm_cookie(cookie) || !object)
        return STATUS_INVALID_PARAMETER;
    head = sim_object_of(object);
    SIM_CHECK(head && head->type == SIM_TYPE_KEY, "%p is no key", object);
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    if (key->nameless)
        return STATUS_INVALID_PARAMETER;
    if (sim_node_deleted(key->node))
        return NTSTATUS_OF(0xC000017C); /* STATUS_KEY_DELETED */
    if (objectId) {
        struct sim_node *node = sim_key_node(object);
        *objectId = node ? (ULONG_PTR)node : (ULONG_PTR)key;
    }
    if (!objectName)
        return STATUS_SUCCESS;
    made = sim_alloc(sizeof(*made));
    sim_wide_set(&made->text, sim_key_name(key));
    made->string = sim_unicode(&made->text);
    sim_item_add(&made->item, SIM_KEY_NAME, &made->string, "", made->text.count * 2,
                 __builtin_return_address(0));
    *objectName = &made->string;
    return STATUS_SUCCESS;
}

VOID CmCallbackReleaseKeyObjectIDEx(PCUNICODE_STRING objectName)
{
    struct key_name *name;

    SIM_DDI(APC_LEVEL, "CM-025");
    SIM_RULE("CM-026", objectName, "releases NULL");
    name = CONTAINING_RECORD((uintptr_t)objectName, struct key_name, string);
    SIM_RULE("CM-026", name->item.kind == SIM_KEY_NAME && name->item.object == objectName,
             "%p is no name of a key, or was released before", (const void *)objectName);
    sim_item_remove(&name->item);
    sim_wide_free(&name->text);
    name->item.object = NULL;
    sim_rest(name, sizeof(name->item), sizeof(*name));
}

PVOID sim_transaction_object(bool bound)
{
    static int transaction;

    return bound ? &transaction : NULL;
}

PVOID CmGetBoundTransaction(PLARGE_INTEGER cookie, PVOID object)
{
    const struct sim_object *head;

    SIM_DDI(APC_LEVEL, "CM-027");
    SIM_RULE("CM-021", !sim_is_poison(object), "%p is an object that the call does not define",
             object);
    if (!sim_cm_cookie(cookie) || !object)
        return NULL;
    head = sim_object_of(object);
    SIM_CHECK(head && head->type == SIM_TYPE_KEY, "%p is no key", object);
    return sim_transaction_object(((const struct sim_key *)object)->transaction);
}

/* --- the driver's own operations ------------------------------------------------------------- */

NTSTATUS ZwOpenKey(PHANDLE key, ACCESS_MASK access, POBJECT_ATTRIBUTES attributes)
{
    struct sim_wide path = {NULL, 0};
    struct sim_str name = sim_str_of(attributes->ObjectName);
    struct sim_registry op = {.kernel = true, .access = access};
    static const uint16_t hive[] = u"\\REGISTRY\\A\\";
    struct sim_key *made;
    NTSTATUS status;

    sim_ddi_apcs(__func__, "ZW-021");
    sim_ddi_not_in_notification(__func__);
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    if (attributes->RootDirectory) {
        struct sim_key *root = sim_handle_body(attributes->RootDirectory, SIM_TYPE_KEY);
        if (!root)
            return STATUS_INVALID_HANDLE;
        path.count = root->path.count + 1 + name.count;
        path.units = sim_alloc(path.count * 2);
        memcpy(path.units, root->path.units, root->path.count * 2);
        path.units[root->path.count] = '\\';
        memcpy(path.units + root->path.count + 1, name.units, name.count * 2);
        sim_object_unref(root);
    } else {
        sim_wide_set(&path, name);
    }
    op.key = (struct sim_str){path.units, path.count};
    if (!attributes->RootDirectory && path.count > sizeof(hive) / 2 - 1 &&
        sim_wide_equal(path.units, sizeof(hive) / 2 - 1, hive, sizeof(hive) / 2 - 1)) {
        sim_wide_free(&path);
        return STATUS_ACCESS_DENIED; /* a hive of an application is its own */
    }
    made = sim_key_object(op.key, false);
    status = sim_cm_told_on(SIM_REG_OPEN, &op, made);
    if (NT_SUCCESS(status))
        status = sim_handle_open(__func__, made, access, attributes->Attributes, key);
    sim_object_unref(made);
    sim_wide_free(&path);
    return status;
}

NTSTATUS ZwQueryValueKey(HANDLE key, PUNICODE_STRING name, ULONG class_, PVOID information,
                         ULONG length, PULONG returned)
{
    const ULONG head = FIELD_OFFSET(KEY_VALUE_PARTIAL_INFORMATION, Data);
    KEY_VALUE_PARTIAL_INFORMATION *out = information;
    struct sim_registry op = {.name = sim_str_of(name), .kernel = true};
    struct sim_key *k;
    uint32_t type = 0;
    size_t size = 0;
    NTSTATUS status;

    sim_ddi_apcs(__func__, "ZW-021");
    sim_ddi_not_in_notification(__func__);
    SIM_CHECK(class_ == KeyValuePartialInformation, "class %u is not simulated", class_);
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    k = sim_handle_body_for(key, SIM_TYPE_KEY, KEY_QUERY_VALUE, &status);
    if (!k)
        return status;
    op.key = sim_key_name(k);
    status = sim_cm_told_on(SIM_REG_QUERY_VALUE, &op, k);
    if (NT_SUCCESS(status) && !sim_cm_get(sim_key_node(k), op.name, &type, out ? out->Data : NULL,
                                          length > head ? length - head : 0, &size))
        status = STATUS_OBJECT_NAME_NOT_FOUND;
    sim_object_unref(k);
    if (!NT_SUCCESS(status))
        return status;
    *returned = head + (ULONG)size;
    if (length < head)
        return STATUS_BUFFER_TOO_SMALL;
    out->TitleIndex = 0;
    out->Type = type;
    out->DataLength = (ULONG)size;
    return length < *returned ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
}

static bool ends_with_zero(const void *data, ULONG size)
{
    const uint8_t *bytes = data;

    return size >= 2 && size % 2 == 0 && bytes[size - 1] == 0 && bytes[size - 2] == 0;
}

NTSTATUS ZwSetValueKey(HANDLE key, PUNICODE_STRING name, ULONG titleIndex, ULONG type, PVOID data,
                       ULONG dataSize)
{
    struct sim_registry op = {
        .name = sim_str_of(name), .type = type, .data = data, .size = dataSize, .kernel = true};
    struct sim_key *k;
    NTSTATUS status;

    sim_ddi_apcs(__func__, "ZW-021");
    sim_ddi_not_in_notification(__func__);
    SIM_RULE("ZW-027", titleIndex == 0, "the title index is reserved");
    SIM_RULE("ZW-027", (type != REG_SZ && type != REG_EXPAND_SZ) || ends_with_zero(data, dataSize),
             "a string without its terminator");
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    k = sim_handle_body_for(key, SIM_TYPE_KEY, KEY_SET_VALUE, &status);
    if (!k)
        return status;
    op.key = sim_key_name(k);
    status = sim_cm_told_on(SIM_REG_SET_VALUE, &op, k);
    sim_object_unref(k);
    return status;
}
