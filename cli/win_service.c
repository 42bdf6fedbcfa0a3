/*
 * win_service.c - the driver's service, through the service control manager.
 */
#include "win_host.h"

#include <stdlib.h>

#include "base/text_win.h"

#define SERVICE_NAME L"kdamonitor"
/* As drivers are registered: the kernel has no drive letters when it looks for them. */
#define SERVICE_IMAGE L"\\SystemRoot\\System32\\drivers\\kdamonitor.sys"
/* Those of its kind; what is in one group starts in one place of the order. As in the .inf. */
#define SERVICE_GROUP L"FSFilter Activity Monitor"

struct opened {
    SC_HANDLE manager, service;
};

static void close_service(struct opened *opened)
{
    if (opened->service)
        (void)CloseServiceHandle(opened->service);
    if (opened->manager)
        (void)CloseServiceHandle(opened->manager);
}

static uint32_t open_manager(struct opened *opened, DWORD access)
{
    opened->service = NULL;
    opened->manager = OpenSCManagerW(NULL, NULL, access);
    return opened->manager ? HOST_OK : GetLastError();
}

static uint32_t open_service(struct opened *opened, DWORD access)
{
    uint32_t error = open_manager(opened, SC_MANAGER_CONNECT);
    if (error != HOST_OK)
        return error;
    opened->service = OpenServiceW(opened->manager, SERVICE_NAME, access);
    return opened->service ? HOST_OK : GetLastError();
}

static enum host_state state_of(DWORD state)
{
    switch (state) {
    case SERVICE_START_PENDING:
    case SERVICE_CONTINUE_PENDING:
        return HOST_STARTING;
    case SERVICE_STOP_PENDING:
        return HOST_STOPPING;
    case SERVICE_STOPPED:
        return HOST_STOPPED;
    default:
        return HOST_RUNNING;
    }
}

static uint32_t query_config(SC_HANDLE handle, struct host_service *service)
{
    DWORD size = 0;
    (void)QueryServiceConfigW(handle, NULL, 0, &size);
    if (size == 0)
        return GetLastError();
    QUERY_SERVICE_CONFIGW *config = malloc(size);
    uint32_t error = HOST_NO_MEMORY;
    if (config)
        error = QueryServiceConfigW(handle, config, size, &size) ? HOST_OK : GetLastError();
    if (error == HOST_OK) {
        service->kernel_driver = config->dwServiceType == SERVICE_KERNEL_DRIVER;
        service->start = config->dwStartType;
        service->image = kda_win_utf8(config->lpBinaryPathName);
    }
    free(config);
    return error;
}

uint32_t win_service_query(void *context, struct host_service *service)
{
    struct opened opened;
    SERVICE_STATUS status;
    (void)context;
    uint32_t error = open_service(&opened, SERVICE_QUERY_STATUS | SERVICE_QUERY_CONFIG);
    if (error == HOST_OK && !QueryServiceStatus(opened.service, &status))
        error = GetLastError();
    if (error == HOST_OK) {
        service->state = state_of(status.dwCurrentState);
        error = query_config(opened.service, service);
    }
    close_service(&opened);
    return error;
}

uint32_t win_service_create(void *context, const char *image)
{
    struct opened opened;
    (void)context;
    (void)image; /* it is the one place where drivers are */
    uint32_t error = open_manager(&opened, SC_MANAGER_CONNECT | SC_MANAGER_CREATE_SERVICE);
    if (error == HOST_OK) {
        opened.service =
            CreateServiceW(opened.manager, SERVICE_NAME, L"KDAMonitor", SERVICE_QUERY_STATUS,
                           SERVICE_KERNEL_DRIVER, SERVICE_DEMAND_START, SERVICE_ERROR_NORMAL,
                           SERVICE_IMAGE, SERVICE_GROUP, NULL, NULL, NULL, NULL);
        error = opened.service ? HOST_OK : GetLastError();
    }
    close_service(&opened);
    return error;
}

uint32_t win_service_start(void *context)
{
    struct opened opened;
    (void)context;
    uint32_t error = open_service(&opened, SERVICE_START);
    if (error == HOST_OK && !StartServiceW(opened.service, 0, NULL))
        error = GetLastError();
    close_service(&opened);
    return error;
}

uint32_t win_service_stop(void *context)
{
    struct opened opened;
    SERVICE_STATUS status;
    (void)context;
    uint32_t error = open_service(&opened, SERVICE_STOP);
    if (error == HOST_OK && !ControlService(opened.service, SERVICE_CONTROL_STOP, &status))
        error = GetLastError();
    close_service(&opened);
    return error;
}

uint32_t win_service_delete(void *context)
{
    struct opened opened;
    (void)context;
    uint32_t error = open_service(&opened, DELETE);
    if (error == HOST_OK && !DeleteService(opened.service))
        error = GetLastError();
    close_service(&opened);
    return error;
}
