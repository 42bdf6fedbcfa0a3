/*
 * io.c - device objects, symbolic links, shutdown notification.
 */
#include "io.h"

struct link {
    struct link *next;
    struct sim_item item;
    struct sim_wide name;
    struct sim_wide target;
};

static pthread_mutex_t io_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_device *devices;
static struct link *links;
static unsigned open_count;
static bool unload_waits;

void sim_io_lock(void)
{
    pthread_mutex_lock(&io_lock);
}

void sim_io_unlock(void)
{
    pthread_mutex_unlock(&io_lock);
}

void sim_io_boot(void)
{
    open_count = 0;
    unload_waits = false;
}

static void device_free(struct sim_device *device)
{
    for (struct sim_device **at = &devices; *at; at = &(*at)->next) {
        if (*at == device) {
            *at = device->next;
            break;
        }
    }
    sim_item_remove(&device->item);
    sim_wide_free(&device->name);
    free(device->object.DeviceExtension);
    device->object.DeviceExtension = NULL;
    if (!sim.ending)
        sim_object_unref(device);
}

static void link_free(struct link *link)
{
    for (struct link **at = &links; *at; at = &(*at)->next) {
        if (*at == link) {
            *at = link->next;
            break;
        }
    }
    sim_item_remove(&link->item);
    sim_wide_free(&link->name);
    sim_wide_free(&link->target);
    free(link);
}

void sim_io_end(void)
{
    while (links)
        link_free(links);
    while (devices)
        device_free(devices);
}

void sim_io_driver_loading(void)
{
    unload_waits = false;
}

/* After DriverEntry the I/O manager opens the devices that were made in it. */
void sim_io_driver_loaded(void)
{
    sim_io_lock();
    for (struct sim_device *d = devices; d; d = d->next) {
        if (d->loading)
            d->object.Flags &= ~DO_DEVICE_INITIALIZING;
    }
    sim_io_unlock();
}

bool sim_io_unload_must_wait(void)
{
    sim_io_lock();
    unload_waits = open_count > 0;
    sim_io_unlock();
    return unload_waits;
}

bool sim_io_unload_pending(void)
{
    return unload_waits;
}

/* --- devices --------------------------------------------------------------------------------- */

static struct sim_device *device_named(struct sim_str name)
{
    struct sim_device *d = devices;

    while (d &&
           (d->deleted || !sim_wide_equal(d->name.units, d->name.count, name.units, name.count)))
        d = d->next;
    return d;
}

static NTSTATUS create_device(const char *ddi, PDRIVER_OBJECT driver, ULONG extensionSize,
                              PUNICODE_STRING name, DEVICE_TYPE type, ULONG characteristics,
                              BOOLEAN exclusive, const struct sim_security *security,
                              PDEVICE_OBJECT *device)
{
    struct sim_device *made;
    NTSTATUS status;

    sim_ddi(ddi, "IO-008", APC_LEVEL);
    if (driver != sim_driver_object())
        sim_bugcheck(ddi, "%p is not the driver", (void *)driver);
    if (type == 0 || type == FILE_DEVICE_SECURE_OPEN || (characteristics & 0xFFu) == type)
        sim_violation("IO-011", ddi, "type 0x%X and characteristics 0x%X are confused", type,
                      characteristics);
    if (sim_fails(ddi, SIM_ANY_CLASS, STATUS_INSUFFICIENT_RESOURCES, &status))
        return status;
    made = sim_object_create(SIM_TYPE_DEVICE, sizeof(*made), NULL);
    sim_wide_set(&made->name, sim_str_of(name));
    made->object.Type = 3;
    made->object.Size = sizeof(made->object);
    made->object.DriverObject = driver;
    made->object.DeviceType = type;
    made->object.Characteristics = characteristics;
    made->object.Flags = DO_DEVICE_INITIALIZING;
    made->object.StackSize = 1;
    made->loading = sim.driver_state == SIM_LOADING;
    made->object.DeviceExtension = extensionSize ? sim_alloc(extensionSize) : NULL;
    made->exclusive = exclusive;
    if (security)
        made->security = *security;
    sim_io_lock();
    if (name && device_named(sim_str_of(name))) {
        sim_io_unlock();
        sim_wide_free(&made->name);
        free(made->object.DeviceExtension);
        sim_object_unref(made);
        return STATUS_OBJECT_NAME_COLLISION;
    }
    sim_item_add(&made->item, SIM_DEVICE, made, ddi, extensionSize, NULL);
    made->object.NextDevice = driver->DeviceObject;
    driver->DeviceObject = &made->object;
    made->next = devices;
    devices = made;
    sim_io_unlock();
    *device = &made->object;
    return STATUS_SUCCESS;
}

NTSTATUS IoCreateDevice(PDRIVER_OBJECT driver, ULONG extensionSize, PUNICODE_STRING name,
                        DEVICE_TYPE type, ULONG characteristics, BOOLEAN exclusive,
                        PDEVICE_OBJECT *device)
{
    return create_device(__func__, driver, extensionSize, name, type, characteristics, exclusive,
                         NULL, device);
}

NTSTATUS IoCreateDeviceSecure(PDRIVER_OBJECT driver, ULONG extensionSize, PUNICODE_STRING name,
                              DEVICE_TYPE type, ULONG characteristics, BOOLEAN exclusive,
                              PCUNICODE_STRING sddl, const GUID *classGuid, PDEVICE_OBJECT *device)
{
    struct sim_security security;

    SIM_DDI(PASSIVE_LEVEL, NULL);
    (void)classGuid;
    SIM_CHECK(name && sddl, "name and SDDL are needed");
    if (!sim_se_sddl(sim_str_of(sddl), &security))
        return STATUS_INVALID_PARAMETER;
    return create_device(__func__, driver, extensionSize, name, type, characteristics, exclusive,
                         &security, device);
}

static struct sim_device *device_of(const char *ddi, const char *rule, PDEVICE_OBJECT object)
{
    struct sim_device *d;

    sim_io_lock();
    d = devices;
    while (d && &d->object != object)
        d = d->next;
    sim_io_unlock();
    if (!d || d->deleted)
        sim_violation(rule, ddi, "%p is no device", (void *)object);
    return d;
}

bool sim_device_is(const void *object)
{
    bool found = false;

    sim_io_lock();
    for (const struct sim_device *d = devices; d && !found; d = d->next)
        found = &d->object == object && !d->deleted;
    sim_io_unlock();
    return found;
}

VOID IoDeleteDevice(PDEVICE_OBJECT object)
{
    struct sim_device *device;
    PDEVICE_OBJECT *at;

    SIM_DDI(APC_LEVEL, "IO-015");
    device = device_of(__func__, "IO-016", object);
    SIM_RULE("IO-007", !device->shutdown, "the device is still registered for the shutdown");
    SIM_RULE("WFP-054", !sim_fwp_device_in_use(object), "a callout of the device is registered");
    sim_io_lock();
    for (at = &object->DriverObject->DeviceObject; *at; at = &(*at)->NextDevice) {
        if (*at == object) {
            *at = object->NextDevice;
            break;
        }
    }
    device->deleted = true;
    if (device->opens == 0)
        device_free(device);
    sim_io_unlock();
}

struct sim_device *sim_device_find(struct sim_str name, struct sim_str *rest)
{
    struct sim_str wanted = name;
    struct sim_device *best = NULL;
    uint16_t *joined = NULL;

    for (const struct link *l = links; l; l = l->next) {
        size_t count = l->name.count;
        if (name.count < count || (name.count > count && name.units[count] != '\\') ||
            !sim_wide_equal(l->name.units, count, name.units, count))
            continue;
        wanted.count = l->target.count + name.count - count;
        joined = sim_alloc(wanted.count * 2);
        memcpy(joined, l->target.units, l->target.count * 2);
        memcpy(joined + l->target.count, name.units + count, (name.count - count) * 2);
        wanted.units = joined;
        break;
    }
    for (struct sim_device *d = devices; d; d = d->next) {
        size_t count = d->name.count;
        if (d->deleted || wanted.count < count ||
            (wanted.count > count && wanted.units[count] != '\\') ||
            !sim_wide_equal(d->name.units, count, wanted.units, count))
            continue;
        best = d;
        rest->count = wanted.count - count;
        rest->units = name.units + (name.count - rest->count);
        break;
    }
    free(joined);
    return best;
}

bool sim_device_hold(PDEVICE_OBJECT object, int change)
{
    struct sim_device *found = NULL;

    sim_io_lock();
    for (struct sim_device *d = devices; d && !found; d = d->next)
        found = &d->object == object ? d : NULL;
    if (found) {
        found->opens += (unsigned)change;
        if (found->opens == 0 && found->deleted)
            device_free(found);
    }
    sim_io_unlock();
    return found != NULL;
}

void sim_device_opened(struct sim_device *device)
{
    device->opens++;
    device->object.ReferenceCount++;
    open_count++;
}

/* The last handle is gone; an unload may have waited for it. */
void sim_device_release(struct sim_device *device)
{
    bool unload;

    sim_io_lock();
    device->object.ReferenceCount--;
    open_count--;
    unload = unload_waits && open_count == 0;
    if (unload)
        unload_waits = false;
    if (--device->opens == 0 && device->deleted)
        device_free(device);
    sim_io_unlock();
    if (unload)
        sim_unload_now();
}

/* --- links ----------------------------------------------------------------------------------- */

/* \DosDevices\X is the other name of \??\X. */
static struct sim_str link_name(struct sim_str name, uint16_t **made)
{
    static const uint16_t prefix[] = u"\\DosDevices\\";
    const size_t count = sizeof(prefix) / 2 - 1;
    struct sim_str plain = name;

    *made = NULL;
    if (name.count > count && sim_wide_equal(name.units, count, prefix, count)) {
        plain.count = name.count - count + 4;
        *made = sim_alloc(plain.count * 2);
        memcpy(*made, u"\\??\\", 8);
        memcpy(*made + 4, name.units + count, (name.count - count) * 2);
        plain.units = *made;
    }
    return plain;
}

static struct link *link_find(struct sim_str name)
{
    struct link *l = links;

    while (l && !sim_wide_equal(l->name.units, l->name.count, name.units, name.count))
        l = l->next;
    return l;
}

NTSTATUS IoCreateSymbolicLink(PUNICODE_STRING name, PUNICODE_STRING target)
{
    uint16_t *made_name;
    struct sim_str plain = link_name(sim_str_of(name), &made_name);
    struct link *made;
    NTSTATUS status;

    SIM_DDI(PASSIVE_LEVEL, "IO-018");
    if (sim_fails(__func__, SIM_ANY_CLASS, STATUS_INSUFFICIENT_RESOURCES, &status)) {
        free(made_name);
        return status;
    }
    sim_io_lock();
    if (link_find(plain)) {
        sim_io_unlock();
        free(made_name);
        return STATUS_OBJECT_NAME_COLLISION;
    }
    made = sim_alloc(sizeof(*made));
    sim_wide_set(&made->name, plain);
    sim_wide_set(&made->target, sim_str_of(target));
    made->next = links;
    links = made;
    sim_item_add(&made->item, SIM_LINK, made, "", 0, __builtin_return_address(0));
    sim_io_unlock();
    free(made_name);
    return STATUS_SUCCESS;
}

NTSTATUS IoDeleteSymbolicLink(PUNICODE_STRING name)
{
    uint16_t *made_name;
    struct sim_str plain = link_name(sim_str_of(name), &made_name);
    struct link *found;
    NTSTATUS status;

    SIM_DDI(PASSIVE_LEVEL, "IO-020");
    if (sim_planned(__func__, SIM_ANY_CLASS, &status)) {
        free(made_name);
        return status;
    }
    sim_io_lock();
    found = link_find(plain);
    if (found)
        link_free(found);
    sim_io_unlock();
    free(made_name);
    return found ? STATUS_SUCCESS : STATUS_OBJECT_NAME_NOT_FOUND;
}

/* --- shutdown -------------------------------------------------------------------------------- */

NTSTATUS IoRegisterShutdownNotification(PDEVICE_OBJECT object)
{
    struct sim_device *device;

    SIM_DDI(PASSIVE_LEVEL, "IO-022");
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    device = device_of(__func__, "IO-022", object);
    SIM_CHECK(!device->shutdown, "the device is already registered");
    SIM_CHECK(sim_driver_object()->MajorFunction[IRP_MJ_SHUTDOWN], "there is no routine for it");
    device->shutdown = true;
    return STATUS_SUCCESS;
}

VOID IoUnregisterShutdownNotification(PDEVICE_OBJECT object)
{
    struct sim_device *device;

    SIM_DDI(PASSIVE_LEVEL, "IO-025");
    device = device_of(__func__, "IO-025", object);
    SIM_RULE("IO-025", device->shutdown, "the device is not registered");
    device->shutdown = false;
}

void sim_system_shutdown(void)
{
    struct sim_device *device;

    sim_io_lock();
    device = devices;
    while (device && (!device->shutdown || device->deleted))
        device = device->next;
    sim_io_unlock();
    if (device)
        sim_irp_shutdown(device);
}

/* --- power ----------------------------------------------------------------------------------- */

static struct sim_notify_list power_routines =
    SIM_NOTIFY_LIST(STATUS_INSUFFICIENT_RESOURCES, "EX-041", "EX-042", true);

NTSTATUS ExCreateCallback(PCALLBACK_OBJECT *callback, POBJECT_ATTRIBUTES attributes, BOOLEAN create,
                          BOOLEAN allowMultiple)
{
    static const uint16_t wanted[] = u"\\Callback\\PowerState";
    struct sim_str name = sim_str_of(attributes ? attributes->ObjectName : NULL);
    void *made;

    SIM_DDI(APC_LEVEL, "EX-035");
    (void)allowMultiple;
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    if (name.count == 0)
        return STATUS_UNSUCCESSFUL;
    if (!sim_wide_equal(name.units, name.count, wanted, sizeof(wanted) / 2 - 1)) {
        SIM_CHECK(!create, "own callback objects are not simulated");
        return STATUS_OBJECT_NAME_NOT_FOUND;
    }
    made = sim_object_create(SIM_TYPE_CALLBACK, 16, NULL);
    sim_driver_ref(made);
    sim_object_unref(made);
    *callback = made;
    return STATUS_SUCCESS;
}

PVOID ExRegisterCallback(PCALLBACK_OBJECT callback, PCALLBACK_FUNCTION function, PVOID context)
{
    const struct sim_object *head;
    struct sim_notify *made = NULL;

    SIM_DDI(APC_LEVEL, "EX-038");
    head = sim_object_of(callback);
    SIM_CHECK(head && head->type == SIM_TYPE_CALLBACK, "%p is no callback object",
              (void *)callback);
    if (SIM_FAULT())
        return NULL;
    sim_notify_add(&power_routines, __func__, (void *)(uintptr_t)function, context, 0, 64, &made);
    return made;
}

VOID ExUnregisterCallback(PVOID registration)
{
    SIM_DDI(APC_LEVEL, "EX-041");
    SIM_RULE("EX-041", sim_notify_remove_node(&power_routines, __func__, registration),
             "%p is not registered", registration);
}

static void tell_power(bool awake)
{
    struct sim_notify *n = NULL;
    struct sim_call call;

    while ((n = sim_notify_next(&power_routines, n)) != NULL) {
        PCALLBACK_FUNCTION function = (PCALLBACK_FUNCTION)(uintptr_t)n->routine;
        sim_call_enter(&call, "power callback", n->routine, "EX-040", DISPATCH_LEVEL);
        function(n->context, (PVOID)(uintptr_t)PO_CB_SYSTEM_STATE_LOCK, (PVOID)(uintptr_t)awake);
        sim_call_leave(&call);
    }
}

void sim_power_suspend(void)
{
    tell_power(false);
}

void sim_power_resume(uint64_t asleep, bool counter_stops)
{
    if (counter_stops)
        sim_clock_correct((int64_t)asleep);
    else
        sim_clock_advance(asleep);
    tell_power(true);
}
