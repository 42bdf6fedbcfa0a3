/*
 * cm_notify.c - registry callbacks: who is registered, and how they are told before and after an
 * operation.
 *
 * The page's order: from the highest altitude to the lowest, and who answers with an error ends the
 * walk. Operations of the driver itself are told too, as in a kernel.
 */
#include "cm.h"

#define CALLBACK_BYPASS NTSTATUS_OF(0xC0000503)

static struct sim_notify_list callbacks =
    SIM_NOTIFY_LIST(STATUS_INSUFFICIENT_RESOURCES, "CM-007", "CM-013", true);
static struct sim_wide foreign_altitude;

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
    sim_wide_free(&foreign_altitude);
    sim_cm_clear();
}

void sim_registry_altitude_taken(struct sim_str altitude)
{
    sim_wide_free(&foreign_altitude);
    sim_wide_set(&foreign_altitude, altitude);
}

/* Digits with at most one point in them. */
static bool is_decimal(struct sim_str text)
{
    unsigned points = 0;

    for (size_t i = 0; i < text.count; i++) {
        points += text.units[i] == '.';
        if ((text.units[i] < '0' || text.units[i] > '9') && text.units[i] != '.')
            return false;
    }
    return text.count > 0 && points <= 1 && text.units[0] != '.';
}

NTSTATUS CmRegisterCallbackEx(PEX_CALLBACK_FUNCTION function, PCUNICODE_STRING altitude,
                              PVOID driver, PVOID context, PLARGE_INTEGER cookie, PVOID reserved)
{
    struct sim_str text = sim_str_of(altitude);
    struct sim_notify *made;

    SIM_DDI(APC_LEVEL, "CM-001");
    SIM_RULE("CM-002", !reserved, "the last parameter is reserved");
    SIM_RULE("CM-002", driver == sim_driver_object(), "%p is not the driver", driver);
    SIM_RULE("CM-002", is_decimal(text), "the altitude is no decimal number");
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    if (sim_notify_has_text(&callbacks, text) ||
        sim_wide_equal(foreign_altitude.units, foreign_altitude.count, text.units, text.count))
        return STATUS_FLT_INSTANCE_ALTITUDE_COLLISION;
    if (!NT_SUCCESS(sim_notify_add(&callbacks, __func__, (void *)(uintptr_t)function, context, 0,
                                   SIM_CALLBACKS_MAX, &made)))
        return STATUS_INSUFFICIENT_RESOURCES;
    sim_notify_place(&callbacks, made, text);
    cookie->QuadPart = (LONGLONG)(uintptr_t)made;
    sim_ddi_leaves(__func__);
    return STATUS_SUCCESS;
}

NTSTATUS CmUnRegisterCallback(LARGE_INTEGER cookie)
{
    NTSTATUS status;

    SIM_DDI(APC_LEVEL, "CM-011");
    if (sim_removal_refused(&status))
        return status;
    SIM_MAY_FAIL_PLANNED();
    return sim_notify_remove_node(&callbacks, __func__,
                                  (struct sim_notify *)(uintptr_t)cookie.QuadPart)
               ? STATUS_SUCCESS
               : STATUS_INVALID_PARAMETER;
}

bool sim_cm_cookie(PLARGE_INTEGER cookie)
{
    struct sim_notify *n = cookie ? (struct sim_notify *)(uintptr_t)cookie->QuadPart : NULL;

    if (!n || !sim_notify_hold(&callbacks, n))
        return false;
    sim_notify_release(&callbacks, n);
    return true;
}

bool sim_cm_watched(void)
{
    return callbacks.first != NULL;
}

/* --- calls ----------------------------------------------------------------------------------- */

static NTSTATUS call(struct sim_notify *n, int class_, void *information)
{
    PEX_CALLBACK_FUNCTION function = (PEX_CALLBACK_FUNCTION)(uintptr_t)n->routine;
    struct sim_call c;
    NTSTATUS status;

    sim_call_enter(&c, "registry callback", n->routine, "CM-037", APC_LEVEL);
    status = function(n->context, (PVOID)(uintptr_t)class_, information);
    sim_call_leave(&c);
    return status;
}

NTSTATUS sim_cm_tell_pre(struct sim_cm_told *told, int class_, void *information, PVOID *context)
{
    struct sim_notify *n = NULL;
    NTSTATUS status = STATUS_SUCCESS;

    told->count = 0;
    while ((n = sim_notify_next(&callbacks, n)) != NULL) {
        *context = NULL;
        status = call(n, class_, information);
        SIM_RULE("CM-039", class_ < SIM_CM_CLASSES || status == STATUS_SUCCESS,
                 "an operation that the driver does not know is answered with 0x%08X",
                 (unsigned)status);
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

NTSTATUS sim_cm_tell_post(struct sim_cm_told *told, int class_, void *object, void *pre,
                          NTSTATUS status)
{
    NTSTATUS result = status;

    for (unsigned i = 0; i < told->count; i++) {
        REG_POST_OPERATION_INFORMATION post = {.Object = object,
                                               .Status = status,
                                               .PreInformation = pre,
                                               .ReturnStatus = status,
                                               .CallContext = told->context[i]};
        if (!sim_notify_hold(&callbacks, told->notify[i]))
            continue;
        /* What it returns counts only with this answer. */
        if (call(told->notify[i], class_, &post) == CALLBACK_BYPASS)
            result = post.ReturnStatus;
        sim_notify_release(&callbacks, told->notify[i]);
    }
    return result;
}
