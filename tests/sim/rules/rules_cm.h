/*
 * rules_cm.h - a registry callback that notes what it is told. Included by the tests of one area.
 */
#ifndef KDA_TESTS_RULES_CM_H
#define KDA_TESTS_RULES_CM_H

#include "rules.h"

#define BYPASS STATUS(0xC0000503)
#define KEY_PATH u"\\REGISTRY\\MACHINE\\SOFTWARE\\Rules"

static const struct sim_registry plain = {.key = SIM_STR(KEY_PATH), .name = SIM_STR(u"v")};

/* One call of the callback. */
struct told {
    int class_;
    void *information;
    PVOID object;
    NTSTATUS status;
    NTSTATUS pre_status; /* what the callback is to answer */
    KIRQL irql;
    REG_POST_OPERATION_INFORMATION post;
    WCHAR complete[64];
    USHORT complete_length;
    HANDLE current_pid;
    ULONG disposition;
};
#define TOLD_MAX 16
static struct told told[TOLD_MAX];
static unsigned told_count;
static NTSTATUS answer[TOLD_MAX]; /* of the n-th call */
static NTSTATUS return_status;    /* written into a post structure; 0: nothing */
static void (*inside)(struct told *now);
static LARGE_INTEGER cookie;

static inline bool is_post(int class_)
{
    return (class_ >= 15 && class_ <= 25) || (class_ >= 27 && class_ % 2 == 1 && class_ < 41) ||
           (class_ > 41 && class_ % 2 == 0 && class_ < 51);
}

static inline bool opens(int class_)
{
    return class_ >= 26 && class_ <= 29;
}

static inline NTSTATUS callback(PVOID context, PVOID class_, PVOID information)
{
    struct told *now = &told[told_count < TOLD_MAX ? told_count : TOLD_MAX - 1];
    const REG_CREATE_KEY_INFORMATION *create = information;

    (void)context;
    told_count++;
    now->class_ = (int)(uintptr_t)class_;
    now->information = information;
    now->irql = KeGetCurrentIrql();
    now->current_pid = PsGetCurrentProcessId();
    if (is_post(now->class_)) {
        now->post = *(REG_POST_OPERATION_INFORMATION *)information;
        now->object = now->post.Object;
        now->status = now->post.Status;
        create = now->post.PreInformation;
        if (return_status)
            ((REG_POST_OPERATION_INFORMATION *)information)->ReturnStatus = return_status;
    } else {
        now->object = *(PVOID *)information;
    }
    if (opens(now->class_)) {
        now->complete_length = create->CompleteName->Length;
        if (now->complete_length)
            memcpy(now->complete, create->CompleteName->Buffer,
                   now->complete_length < 128 ? now->complete_length : 128);
    }
    if (inside)
        inside(now);
    return answer[(told_count - 1) % TOLD_MAX];
}

static inline NTSTATUS watch_at(const uint16_t *text, LARGE_INTEGER *made)
{
    UNICODE_STRING altitude = rules_string(text);

    return CmRegisterCallbackEx(callback, &altitude, fx.driver, NULL, made, NULL);
}

static inline void watch(void)
{
    EXPECT_STATUS(0, watch_at(u"385200", &cookie));
    told_count = 0;
}

static inline NTSTATUS name_of(PVOID object, PCUNICODE_STRING *name, ULONG_PTR *id)
{
    return CmCallbackGetKeyObjectIDEx(&cookie, object, id, name, 0);
}

static ULONG_PTR ids[TOLD_MAX];
static WCHAR names[TOLD_MAX][64];

static inline void take_name(struct told *now)
{
    PCUNICODE_STRING name;
    unsigned at = told_count - 1;

    EXPECT_STATUS(0, name_of(now->object, &name, &ids[at]));
    memcpy(names[at], name->Buffer, name->Length);
    CmCallbackReleaseKeyObjectIDEx(name);
}

static inline bool ends(const WCHAR *text, const char *end)
{
    size_t count = 0;
    size_t tail = strlen(end);

    while (text[count])
        count++;
    for (size_t i = 0; i < tail; i++) {
        if (count < tail || text[count - tail + i] != (WCHAR)end[i])
            return false;
    }
    return true;
}

#endif
