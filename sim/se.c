/*
 * se.c - security descriptors: just enough to say whether ordinary users are kept out.
 */
#include "io.h"

static const uint8_t system_sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
static const uint8_t administrators_sid[] = {1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0};

#define DACL_PRESENT 0x0004u
#define DACL_PROTECTED 0x1000u
#define SELF_RELATIVE 0x8000u

static bool trusted(const uint8_t *sid)
{
    return memcmp(sid, system_sid, sizeof(system_sid)) == 0 ||
           memcmp(sid, administrators_sid, sizeof(administrators_sid)) == 0;
}

bool sim_se_read(const void *descriptor, struct sim_security *security)
{
    const uint8_t *at = descriptor;
    const uint8_t *acl = NULL;
    const uint8_t *ace;
    uint16_t control;
    uint16_t size;
    uint16_t count;

    memset(security, 0, sizeof(*security));
    if (!at || at[0] != 1)
        return false;
    memcpy(&control, at + 2, 2);
    if (control & SELF_RELATIVE) {
        uint32_t offset;
        memcpy(&offset, at + 16, 4);
        acl = offset ? at + offset : NULL;
    } else {
        memcpy(&acl, at + 32, 8);
    }
    security->set = true;
    security->protected = (control & DACL_PROTECTED) != 0;
    if (!(control & DACL_PRESENT) || !acl)
        return true;
    memcpy(&size, acl + 2, 2);
    memcpy(&count, acl + 4, 2);
    ace = acl + 8;
    security->restricted = true;
    for (unsigned i = 0; i < count; i++) {
        uint16_t bytes;
        memcpy(&bytes, ace + 2, 2);
        if (bytes < 16 || ace + bytes > acl + size)
            return false;
        if (ace[0] == 0 && !trusted(ace + 8))
            security->restricted = false;
        ace += bytes;
    }
    return true;
}

/* D:flags(A;;rights;;;who)...: the subset that drivers use for devices. */
bool sim_se_sddl(struct sim_str sddl, struct sim_security *security)
{
    char *text = sim_utf8(sddl.units, sddl.count);
    const char *at = strstr(text, "D:");
    bool ok = at != NULL;

    memset(security, 0, sizeof(*security));
    security->set = true;
    security->restricted = true;
    if (at) {
        security->protected = at[2] == 'P';
        at = strchr(at, '(');
    }
    while (ok && at && *at == '(') {
        const char *end = strchr(at, ')');
        if (!end || end - at < 4) {
            ok = false;
            break;
        }
        if (at[1] == 'A' && strncmp(end - 2, "SY", 2) != 0 && strncmp(end - 2, "BA", 2) != 0)
            security->restricted = false;
        at = end + 1;
    }
    free(text);
    return ok;
}

bool sim_se_allows(const struct sim_security *security, enum sim_caller caller)
{
    return caller != SIM_CALLER_USER || !security->set || !security->restricted;
}

NTSTATUS ZwSetSecurityObject(HANDLE handle, ULONG information, PVOID descriptor)
{
    struct sim_security security;
    struct sim_device *device;
    NTSTATUS status;

    sim_ddi_io(__func__, "ZW-001");
    SIM_CHECK(information & DACL_SECURITY_INFORMATION, "only access lists are simulated");
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    if (!descriptor)
        return STATUS_ACCESS_VIOLATION;
    if (!sim_se_read(descriptor, &security))
        return NTSTATUS_OF(0xC0000079); /* STATUS_INVALID_SECURITY_DESCR */
    device = sim_handle_body_for(handle, SIM_TYPE_ANY, WRITE_DAC, &status);
    if (!device)
        return status;
    sim_object_unref(device);
    device = sim_handle_body(handle, SIM_TYPE_DEVICE);
    if (device) {
        sim_io_lock();
        device->security = security;
        sim_io_unlock();
        sim_object_unref(device);
        return STATUS_SUCCESS;
    }
    return sim_file_secure(handle, &security);
}
