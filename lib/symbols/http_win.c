/*
 * http_win.c - HTTP through WinHTTP, in the calling thread.
 *
 * Proxies are those of the system. Credentials go out only where a URL holds them, and only to a
 * server that asks; the user's own are never used.
 */
#include <windows.h>
#include <shlwapi.h>
#include <winhttp.h>

#include "http.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "alloc.h"
#include "dll_win.h"

#define BUFFER_SIZE ((DWORD)128 * 1024)
#define URL_UNITS 2200
#define AGENT_UNITS 64

/* Everything of winhttp.dll that is used. */
#define FUNCTIONS(F)                                                                               \
    F(WinHttpOpen)                                                                                 \
    F(WinHttpCloseHandle)                                                                          \
    F(WinHttpSetTimeouts)                                                                          \
    F(WinHttpSetOption)                                                                            \
    F(WinHttpCrackUrl)                                                                             \
    F(WinHttpConnect)                                                                              \
    F(WinHttpOpenRequest)                                                                          \
    F(WinHttpAddRequestHeaders)                                                                    \
    F(WinHttpSetCredentials)                                                                       \
    F(WinHttpSendRequest)                                                                          \
    F(WinHttpReceiveResponse)                                                                      \
    F(WinHttpQueryHeaders)                                                                         \
    F(WinHttpReadData)

struct winhttp {
#define F(name) __typeof__(&name) name;
    FUNCTIONS(F)
#undef F
};

static bool load(struct winhttp *api)
{
#define F(name) #name,
    static const char *const names[] = {FUNCTIONS(F)};
#undef F
    _Static_assert(sizeof(*api) == sizeof(names), "one pointer for each name");
    return kda_dll_functions(L"winhttp.dll", names, sizeof(names) / sizeof(names[0]), api);
}

struct kda_http {
    struct winhttp api;
    HINTERNET session;
    struct kda_download_limits limits;
    uint8_t *buffer;
    char reason[64];
};

/* One request, and what of it is open. */
struct call {
    struct kda_http *http;
    const struct kda_http_request *request;
    struct kda_http_head *head;
    HINTERNET connection, handle;
    WCHAR url[URL_UNITS];
    URL_COMPONENTS parts;
};

int64_t kda_http_now_ms(void)
{
    return (int64_t)GetTickCount64();
}

static bool widen(const char *text, WCHAR *wide, int units)
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, units) > 0;
}

static enum kda_http_end end_of(struct kda_http *http, DWORD error)
{
    (void)snprintf(http->reason, sizeof(http->reason), "WinHTTP error %lu", (unsigned long)error);
    switch (error) {
    case ERROR_WINHTTP_NAME_NOT_RESOLVED:
        return KDA_HTTP_NO_HOST;
    case ERROR_WINHTTP_CANNOT_CONNECT:
        return KDA_HTTP_NO_CONNECTION;
    case ERROR_WINHTTP_SECURE_FAILURE:
    case ERROR_WINHTTP_CLIENT_AUTH_CERT_NEEDED:
        return KDA_HTTP_NO_TRUST;
    case ERROR_WINHTTP_TIMEOUT:
        return KDA_HTTP_STALLED;
    case ERROR_WINHTTP_INVALID_URL:
    case ERROR_WINHTTP_UNRECOGNIZED_SCHEME:
        return KDA_HTTP_BAD_URL;
    case ERROR_WINHTTP_REDIRECT_FAILED:
        return KDA_HTTP_TOO_MANY_REDIRECTS;
    case ERROR_NOT_ENOUGH_MEMORY:
        return KDA_HTTP_NO_MEMORY;
    default:
        return KDA_HTTP_BROKEN;
    }
}

static enum kda_http_end last_end(struct kda_http *http)
{
    return end_of(http, GetLastError());
}

/* ---- the request ---- */

static bool set_number(const struct call *call, DWORD option, DWORD value)
{
    return call->http->api.WinHttpSetOption(call->handle, option, &value, sizeof(value)) != 0;
}

/* A part of the URL with an end of its own. */
static bool part_of(const WCHAR *from, DWORD length, WCHAR *out, size_t units)
{
    if (length >= units)
        return false;
    memcpy(out, from, length * sizeof(*out));
    out[length] = L'\0';
    return true;
}

static bool crack(struct call *call)
{
    call->parts = (URL_COMPONENTS){.dwStructSize = sizeof(call->parts)};
    URL_COMPONENTS *parts = &call->parts;
    parts->dwSchemeLength = parts->dwHostNameLength = parts->dwUrlPathLength = (DWORD)-1;
    parts->dwUserNameLength = parts->dwPasswordLength = parts->dwExtraInfoLength = (DWORD)-1;
    return widen(call->request->url, call->url, URL_UNITS) &&
           call->http->api.WinHttpCrackUrl(call->url, 0, 0, parts);
}

static enum kda_http_end open_request(struct call *call)
{
    const struct winhttp *api = &call->http->api;
    WCHAR host[URL_UNITS];
    if (!crack(call) ||
        !part_of(call->parts.lpszHostName, call->parts.dwHostNameLength, host, URL_UNITS))
        return KDA_HTTP_BAD_URL;
    /* The path stands last in the buffer, with the query behind it. */
    const WCHAR *path = call->parts.dwUrlPathLength ? call->parts.lpszUrlPath : L"/";
    const bool secure = call->parts.nScheme == INTERNET_SCHEME_HTTPS;
    call->connection = api->WinHttpConnect(call->http->session, host, call->parts.nPort, 0);
    if (!call->connection)
        return last_end(call->http);
    call->handle = api->WinHttpOpenRequest(
        call->connection, L"GET", path, NULL, WINHTTP_NO_REFERER, WINHTTP_DEFAULT_ACCEPT_TYPES,
        WINHTTP_FLAG_ESCAPE_DISABLE | (secure ? WINHTTP_FLAG_SECURE : 0u));
    if (!call->handle)
        return last_end(call->http);
    /* Where this system does not know an option, its default is the same or stricter. */
    (void)set_number(call, WINHTTP_OPTION_REDIRECT_POLICY,
                     WINHTTP_OPTION_REDIRECT_POLICY_DISALLOW_HTTPS_TO_HTTP);
    (void)set_number(call, WINHTTP_OPTION_MAX_HTTP_AUTOMATIC_REDIRECTS, KDA_HTTP_REDIRECTS);
    (void)set_number(call, WINHTTP_OPTION_AUTOLOGON_POLICY, WINHTTP_AUTOLOGON_SECURITY_LEVEL_HIGH);
    (void)set_number(call, WINHTTP_OPTION_DISABLE_FEATURE, WINHTTP_DISABLE_COOKIES);
    return KDA_HTTP_DONE;
}

static bool add_range(const struct call *call)
{
    char text[KDA_VALIDATOR_MAX + 64];
    WCHAR wide[KDA_VALIDATOR_MAX + 64];
    int size = snprintf(text, sizeof(text), "Range: bytes=%llu-\r\nIf-Range: %s\r\n",
                        (unsigned long long)call->request->from, call->request->validator);
    return size > 0 && (size_t)size < sizeof(text) && widen(text, wide, KDA_VALIDATOR_MAX + 64) &&
           call->http->api.WinHttpAddRequestHeaders(call->handle, wide, (DWORD)-1,
                                                    WINHTTP_ADDREQ_FLAG_ADD);
}

/* ---- the answer ---- */

static void read_text(const struct call *call, DWORD which, char *out, size_t cap)
{
    WCHAR wide[KDA_VALIDATOR_MAX];
    char text[KDA_VALIDATOR_MAX * 3];
    DWORD size = sizeof(wide);
    out[0] = '\0';
    if (call->http->api.WinHttpQueryHeaders(call->handle, which, WINHTTP_HEADER_NAME_BY_INDEX, wide,
                                            &size, WINHTTP_NO_HEADER_INDEX) &&
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, sizeof(text), NULL, NULL) > 0)
        kda_http_copy_value(text, strlen(text), out, cap);
}

static int64_t parse_length(const char *text)
{
    int64_t value = 0;
    if (!*text)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || value > INT64_MAX / 10 - 1)
            return -1;
        value = value * 10 + (*text - '0');
    }
    return value;
}

static void read_head(const struct call *call)
{
    struct kda_http_head *head = call->head;
    DWORD code = 0, size = sizeof(code);
    char length[32];
    if (!call->http->api.WinHttpQueryHeaders(
            call->handle, WINHTTP_QUERY_STATUS_CODE | WINHTTP_QUERY_FLAG_NUMBER,
            WINHTTP_HEADER_NAME_BY_INDEX, &code, &size, WINHTTP_NO_HEADER_INDEX))
        code = 0;
    head->code = (long)code;
    read_text(call, WINHTTP_QUERY_CONTENT_LENGTH, length, sizeof(length));
    head->length = parse_length(length);
    read_text(call, WINHTTP_QUERY_ETAG, head->etag, sizeof(head->etag));
    read_text(call, WINHTTP_QUERY_LAST_MODIFIED, head->modified, sizeof(head->modified));
    read_text(call, WINHTTP_QUERY_CONTENT_RANGE, head->range, sizeof(head->range));
}

static enum kda_http_end exchange(struct call *call)
{
    const struct winhttp *api = &call->http->api;
    if (call->request->from > 0 && (kda_fault() || !add_range(call)))
        return KDA_HTTP_NO_MEMORY;
    if (kda_fault() ||
        !api->WinHttpSendRequest(call->handle, WINHTTP_NO_ADDITIONAL_HEADERS, 0,
                                 WINHTTP_NO_REQUEST_DATA, 0, 0, 0) ||
        !api->WinHttpReceiveResponse(call->handle, NULL))
        return last_end(call->http);
    read_head(call);
    return KDA_HTTP_DONE;
}

/* "user:password@" of the URL, once the server has asked for it. */
static bool give_credentials(const struct call *call)
{
    WCHAR user[128], password[256];
    const URL_COMPONENTS *parts = &call->parts;
    return parts->dwUserNameLength > 0 &&
           part_of(parts->lpszUserName, parts->dwUserNameLength, user, 128) &&
           part_of(parts->lpszPassword, parts->dwPasswordLength, password, 256) &&
           call->http->api.WinHttpSetCredentials(call->handle, WINHTTP_AUTH_TARGET_SERVER,
                                                 WINHTTP_AUTH_SCHEME_BASIC, user, password, NULL);
}

/* The body, and whether it comes fast enough. */
static enum kda_http_end read_body(const struct call *call)
{
    struct kda_http *http = call->http;
    const struct kda_http_request *request = call->request;
    const int64_t window_ms = (int64_t)http->limits.stall_s * 1000;
    int64_t since = kda_http_now_ms();
    uint64_t came = 0;
    for (;;) {
        DWORD size = 0;
        if (!request->alive(request->context))
            return KDA_HTTP_STOPPED;
        if (kda_fault() ||
            !http->api.WinHttpReadData(call->handle, http->buffer, BUFFER_SIZE, &size))
            return last_end(http);
        if (size == 0)
            return KDA_HTTP_DONE;
        if (!request->body(request->context, call->head, (const char *)http->buffer, size))
            return KDA_HTTP_STOPPED;
        came += size;
        if (kda_http_now_ms() - since < window_ms)
            continue;
        if (came < (uint64_t)http->limits.stall_bytes * (uint64_t)http->limits.stall_s)
            return KDA_HTTP_STALLED;
        since = kda_http_now_ms();
        came = 0;
    }
}

static enum kda_http_end run(struct call *call)
{
    enum kda_http_end end = open_request(call);
    if (end == KDA_HTTP_DONE)
        end = exchange(call);
    if (end == KDA_HTTP_DONE && call->head->code == 401 && give_credentials(call))
        end = exchange(call);
    if (end != KDA_HTTP_DONE)
        return end;
    /* A redirect that was not followed: to http, or to nowhere. */
    if (call->head->code >= 300 && call->head->code < 400)
        return KDA_HTTP_BAD_REDIRECT;
    if (call->head->length > 0 && (uint64_t)call->head->length > call->http->limits.max_bytes)
        return KDA_HTTP_TOO_LARGE;
    return read_body(call);
}

enum kda_http_end kda_http_get(struct kda_http *http, const struct kda_http_request *request,
                               struct kda_http_head *head)
{
    *head = (struct kda_http_head){.length = -1};
    http->reason[0] = '\0';
    struct call *call = kda_calloc(1, sizeof(*call));
    if (!call)
        return KDA_HTTP_NO_MEMORY;
    call->http = http;
    call->request = request;
    call->head = head;
    enum kda_http_end end = run(call);
    if (call->handle)
        (void)http->api.WinHttpCloseHandle(call->handle);
    if (call->connection)
        (void)http->api.WinHttpCloseHandle(call->connection);
    kda_free(call);
    return end;
}

const char *kda_http_reason(const struct kda_http *http)
{
    return http->reason;
}

bool kda_http_resolve(const char *base, const char *reference, char *out, size_t cap)
{
    WCHAR from[URL_UNITS], to[URL_UNITS], url[URL_UNITS];
    DWORD units = URL_UNITS;
    return cap <= INT_MAX && widen(base, from, URL_UNITS) && widen(reference, to, URL_UNITS) &&
           UrlCombineW(from, to, url, &units, 0) == S_OK &&
           WideCharToMultiByte(CP_UTF8, 0, url, -1, out, (int)cap, NULL, NULL) > 0;
}

struct kda_http *kda_http_create(const struct kda_download_limits *limits)
{
    WCHAR agent[AGENT_UNITS];
    struct kda_http *http = kda_calloc(1, sizeof(*http));
    if (!http)
        return NULL;
    http->limits = *limits;
    http->buffer = kda_calloc(BUFFER_SIZE, 1);
    if (http->buffer && !kda_fault() && load(&http->api) &&
        widen("kda/" KDA_VERSION, agent, AGENT_UNITS))
        http->session = http->api.WinHttpOpen(agent, WINHTTP_ACCESS_TYPE_AUTOMATIC_PROXY,
                                              WINHTTP_NO_PROXY_NAME, WINHTTP_NO_PROXY_BYPASS, 0);
    const int stall_ms = (int)limits->stall_s * 1000;
    if (!http->session ||
        !http->api.WinHttpSetTimeouts(http->session, (int)limits->connect_ms,
                                      (int)limits->connect_ms, stall_ms, stall_ms)) {
        kda_http_destroy(http);
        return NULL;
    }
    return http;
}

void kda_http_destroy(struct kda_http *http)
{
    if (!http)
        return;
    if (http->session)
        (void)http->api.WinHttpCloseHandle(http->session);
    kda_free(http->buffer);
    kda_free(http);
}
