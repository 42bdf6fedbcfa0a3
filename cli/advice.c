#include "advice.h"

#include "cli.h"

enum { ANY = ADVICE_SERVICE | ADVICE_DEVICE | ADVICE_SETTINGS | ADVICE_DUMP };

struct row {
    unsigned about;
    uint32_t error;
    const char *text;
};

/* clang-format off */
static const struct row errors[] = {
    {ANY, HOST_ACCESS_DENIED,
     "this needs the rights of an administrator: start kda from an elevated command prompt"},
    {ADVICE_DUMP, 1300, /* ERROR_NOT_ALL_ASSIGNED */
     "a live dump needs the privilege SeDebugPrivilege: start kda from an elevated command prompt "
     "of a user who has it"},
    {ADVICE_INSTALL, HOST_NOT_FOUND,
     "name the driver's file: kda driver install PATH\\kdamonitor.sys"},
    {ADVICE_INSTALL, 336, /* ERROR_DIRECTORY_NOT_SUPPORTED */
     "name the driver's file, not its folder: kda driver install PATH\\kdamonitor.sys"},
    {ADVICE_INSTALL, 32, /* ERROR_SHARING_VIOLATION */
     "a driver of this name is loaded and its file is in use: kda driver stop, kda driver remove, "
     "then install again"},
    {ADVICE_INSTALL, 1073, /* ERROR_SERVICE_EXISTS */
     "another version is installed: kda driver remove, then install again"},
    {ADVICE_SERVICE, 1072, /* ERROR_SERVICE_MARKED_FOR_DELETE */
     "an old version is being removed, and someone still has its service open: close the services "
     "console and other tools that look at it, or restart Windows"},
    {ANY, HOST_NOT_INSTALLED,
     "the driver is not installed: kda driver install"},
    {ADVICE_START, HOST_NOT_FOUND,
     "the service is there and its file is not: kda driver remove, then install again"},
    {ADVICE_START, HOST_PATH_NOT_FOUND,
     "the service is there and its file is not: kda driver remove, then install again"},
    {ADVICE_START, 577, /* ERROR_INVALID_IMAGE_HASH */
     "Windows does not accept the signature of kdamonitor.sys. A driver that is signed with a "
     "certificate of your own loads in test mode only (bcdedit /set testsigning on, with Secure "
     "Boot off, then restart) or under an App Control policy that names the certificate"},
    {ADVICE_START, 1275, /* ERROR_DRIVER_BLOCKED */
     "Windows blocks this driver: by the list of blocked drivers, by memory integrity, or by a "
     "policy; the event log CodeIntegrity/Operational names which"},
    {ADVICE_START, 4551, /* ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION */
     "an App Control policy of this machine does not allow this driver; the event log "
     "CodeIntegrity/Operational names the policy"},
    {ADVICE_START, 654, /* ERROR_DRIVER_FAILED_PRIOR_UNLOAD */
     "an old version of the driver is still in memory: close what reads from it, or restart "
     "Windows"},
    {ADVICE_START, 127, /* ERROR_PROC_NOT_FOUND */
     "this Windows lacks something that the driver needs: it runs on Windows 10 1809 and later"},
    {ADVICE_START, 126, /* ERROR_MOD_NOT_FOUND */
     "this Windows lacks something that the driver needs: it runs on Windows 10 1809 and later"},
    {ADVICE_START, 193, /* ERROR_BAD_EXE_FORMAT */
     "the file is no driver for this processor"},
    {ADVICE_START, 216, /* ERROR_EXE_MACHINE_TYPE_MISMATCH */
     "the file is a driver for another processor"},
    {ADVICE_START, 1058, /* ERROR_SERVICE_DISABLED */
     "the service is disabled: kda driver remove, then install again"},
    {ADVICE_START, 1084, /* ERROR_NOT_SAFEBOOT_SERVICE */
     "Windows runs in safe mode, which loads no such driver"},
    {ADVICE_START, 1450, /* ERROR_NO_SYSTEM_RESOURCES */
     "the kernel has no memory left for the driver's queue: make RingShardBytes smaller"},
    {ADVICE_START, 183, /* ERROR_ALREADY_EXISTS */
     "the name of the driver's device is taken: another copy of the driver runs"},
    {ADVICE_STOP, 1061, /* ERROR_SERVICE_CANNOT_ACCEPT_CTRL */
     "it is about to start or to stop, or still in use by a program that reads from it"},
    {ADVICE_STOP, 1052, /* ERROR_INVALID_SERVICE_CONTROL */
     "this driver cannot be unloaded before Windows shuts down"},
    {ADVICE_DEVICE, HOST_NOT_FOUND,
     "the driver does not run: kda driver start"},
    {ADVICE_DEVICE, 21, /* ERROR_NOT_READY */
     "the driver is about to start or to stop"},
    {ADVICE_DEVICE, 4, /* ERROR_TOO_MANY_OPEN_FILES */
     "as many programs read from the driver as it allows (Readers, in docs/settings.md)"},
    {ADVICE_DEVICE, HOST_ABORTED,
     "the driver was stopped"},
    {ADVICE_DEVICE, 1306, /* ERROR_REVISION_MISMATCH */
     "driver and kda are of different versions: install the driver that came with this kda"},
    {ADVICE_DEVICE, 1784, /* ERROR_INVALID_USER_BUFFER */
     "driver and kda are of different versions: install the driver that came with this kda"},
    {ADVICE_DEVICE, 1, /* ERROR_INVALID_FUNCTION */
     "driver and kda are of different versions: install the driver that came with this kda"},
    {ADVICE_SETTINGS, HOST_NOT_FOUND,
     "the driver is not installed: kda driver install"},
    {ADVICE_SETTINGS, 111, /* ERROR_BUFFER_OVERFLOW */
     "the driver reads lists of up to 64 KiB: remove rules, or shorten them"},
    {ADVICE_SETTINGS, 1113, /* ERROR_NO_UNICODE_TRANSLATION */
     "a text of the list is none (half of a surrogate pair): change it with a registry editor"},
    {ADVICE_SETTINGS, 1804, /* ERROR_INVALID_DATATYPE */
     "the value is no list of texts (REG_MULTI_SZ): delete it with a registry editor"},
    {ADVICE_DUMP, HOST_FILE_EXISTS,
     "a partial dump of an earlier run: remove it first"},
    {ADVICE_DUMP, 112, /* ERROR_DISK_FULL */
     "name a file on a disk with more room"},
    {ADVICE_DUMP, 127, /* ERROR_PROC_NOT_FOUND */
     "this Windows has no live dumps: they came with Windows 8.1"},
};

/* Statuses of SysDbgGetLiveKernelDump. Source: NTSTATUS values of MS-ERREF; what they stand for
 * here is as tools that make live dumps report it. */
static const struct row statuses[] = {
    {0, 0xc0000061u, /* STATUS_PRIVILEGE_NOT_HELD */
     "the privilege SeDebugPrivilege is missing: start kda from an elevated command prompt"},
    {0, 0xc0000022u, /* STATUS_ACCESS_DENIED */
     "refused: start kda from an elevated command prompt; some security products forbid it too"},
    {0, 0xc0000354u, /* STATUS_DEBUGGER_INACTIVE */
     "user pages need Windows 11 22H2 or later, or a kernel debugger: leave --user-pages out"},
    {0, 0xc000007fu, /* STATUS_DISK_FULL */
     "the disk is full: name a file on one with more room"},
    {0, 0xc000009au, /* STATUS_INSUFFICIENT_RESOURCES */
     "the kernel has too little free memory for the copy that a live dump begins with: end some "
     "programs and try again"},
    {0, 0xc0000017u, /* STATUS_NO_MEMORY */
     "the kernel has too little free memory for the copy that a live dump begins with: end some "
     "programs and try again"},
    {0, 0xc0000120u, /* STATUS_CANCELLED */
     "cancelled"},
    {0, 0xc0000002u, /* STATUS_NOT_IMPLEMENTED */
     "this system has no live dumps: they came with Windows 8.1"},
    {0, 0xc0000003u, /* STATUS_INVALID_INFO_CLASS */
     "this system has no live dumps: they came with Windows 8.1"},
    {0, 0xc00000bbu, /* STATUS_NOT_SUPPORTED */
     "this system does not make live dumps of this kind: leave --hypervisor and --user-pages out"},
    {0, 0xc000000du, /* STATUS_INVALID_PARAMETER */
     "this system does not know what was asked for: leave --hypervisor and --user-pages out"},
};
/* clang-format on */

static const char *look(const struct row *rows, size_t count, unsigned about, uint32_t error)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].error == error && (rows[i].about & about) == (unsigned)about)
            return rows[i].text;
    return NULL;
}

const char *advice_for_error(enum advice_about about, uint32_t error)
{
    return look(errors, sizeof(errors) / sizeof(errors[0]), about, error);
}

const char *advice_for_dump(uint32_t ntstatus)
{
    return look(statuses, sizeof(statuses) / sizeof(statuses[0]), 0, ntstatus);
}

void advice_say(const struct host_ops *host, enum advice_about about, uint32_t error,
                const char *what)
{
    char text[300];
    const char *advice = advice_for_error(about, error);
    cli_error("cannot %s: %s", what, host->error_text(error, text, sizeof(text)));
    if (advice)
        cli_error("%s", advice);
}
