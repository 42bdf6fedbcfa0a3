/*
 * rules_cm.c - registry callbacks: registration, names, the place they are called in.
 */
#include "rules_cm.h"

#include <pthread.h>

/* --- registration ---------------------------------------------------------------------------- */

static void watch_another(void)
{
    LARGE_INTEGER made;

    watch_at(u"99", &made);
}

LEVEL_VOID("CM-001", APC_LEVEL, watch_another());
LEVEL("CM-011", APC_LEVEL, CmUnRegisterCallback(fx.cookie));
LEVEL("CM-016", APC_LEVEL, CmCallbackGetKeyObjectIDEx(&fx.cookie, NULL, NULL, NULL, 0));
LEVEL("CM-027", APC_LEVEL, CmGetBoundTransaction(&fx.cookie, NULL));

VIOLATION("CM-002", altitude_in_words)
{
    watch_at(u"high", &cookie);
}

VIOLATION("CM-002", not_the_driver)
{
    UNICODE_STRING altitude = rules_string(u"1");

    CmRegisterCallbackEx(callback, &altitude, &altitude, NULL, &cookie, NULL);
}

OUTCOME("CM-003 CM-005 CM-010 CM-012", altitudes_and_cookies)
{
    LARGE_INTEGER second;

    watch();
    EXPECT(cookie.QuadPart != 0);
    EXPECT_STATUS(0xC01C0011, watch_at(u"385200", &second));
    sim_registry_altitude_taken(SIM_STR(u"385201.5"));
    EXPECT_STATUS(0xC01C0011, watch_at(u"385201.5", &second));
    EXPECT_STATUS(0, CmUnRegisterCallback(cookie));
    EXPECT_STATUS(0xC000000D, CmUnRegisterCallback(cookie));
    EXPECT_STATUS(0, watch_at(u"385200", &second));
}

static void change(void *unused)
{
    (void)unused;
    sim_registry_set_value(&plain);
}

OUTCOME("CM-006", callback_before_the_registration_returns)
{
    sim_meanwhile_after("CmRegisterCallbackEx", 1, change, NULL);
    EXPECT_STATUS(0, watch_at(u"385200", &cookie));
    EXPECT(told_count == 2);
}

VIOLATION("CM-007", callback_kept)
{
    watch();
    sim_driver_unload();
}

static void *context_seen[4];
static unsigned contexts;

static NTSTATUS ordered(PVOID context, PVOID class_, PVOID information)
{
    (void)information;
    if (is_post((int)(uintptr_t)class_))
        return STATUS_SUCCESS;
    context_seen[contexts++] = context;
    return answer[contexts - 1];
}

OUTCOME("CM-009 CM-051", from_high_to_low)
{
    static const uint16_t *const texts[] = {u"9", u"385200", u"385200.25"};
    LARGE_INTEGER made;

    for (uintptr_t i = 0; i < 3; i++) {
        UNICODE_STRING altitude = rules_string(texts[i]);
        EXPECT_STATUS(0,
                      CmRegisterCallbackEx(ordered, &altitude, fx.driver, (PVOID)i, &made, NULL));
    }
    sim_registry_set_value(&plain);
    EXPECT(contexts == 3 && context_seen[0] == (PVOID)2 && context_seen[1] == (PVOID)1 &&
           context_seen[2] == (PVOID)0);
    contexts = 0;
    answer[1] = STATUS_ACCESS_DENIED; /* of the second: the third sees nothing */
    EXPECT_STATUS(0xC0000022, sim_registry_set_value(&plain));
    EXPECT(contexts == 2);
}

static void unregister(struct told *now)
{
    (void)now;
    CmUnRegisterCallback(cookie);
}

VIOLATION("CM-013", callback_unregisters_itself)
{
    watch();
    inside = unregister;
    sim_registry_set_value(&plain);
}

static _Atomic bool entered;
static _Atomic bool left;

static void stay(struct told *now)
{
    (void)now;
    entered = true;
    usleep(50000);
    left = true;
}

static void *change_thread(void *unused)
{
    sim_registry_set_value(&plain);
    return unused;
}

OUTCOME("CM-014", unregistration_waits)
{
    pthread_t host;

    watch();
    inside = stay;
    pthread_create(&host, NULL, change_thread, NULL);
    while (!entered)
        usleep(1000);
    EXPECT_STATUS(0, CmUnRegisterCallback(cookie));
    EXPECT(left);
    pthread_join(host, NULL);
    EXPECT(told_count == 1);
}

/* --- names ----------------------------------------------------------------------------------- */

static void bad_calls(struct told *now)
{
    LARGE_INTEGER other = {.QuadPart = 0x1234};
    PCUNICODE_STRING name;

    EXPECT_STATUS(0xC000000D, CmCallbackGetKeyObjectIDEx(&other, now->object, NULL, &name, 0));
    EXPECT_STATUS(0xC000000D, CmCallbackGetKeyObjectIDEx(&cookie, NULL, NULL, &name, 0));
    EXPECT_STATUS(0, CmCallbackGetKeyObjectIDEx(&cookie, now->object, NULL, NULL, 0));
    sim_status_next("CmCallbackGetKeyObjectIDEx", STATUS(0xC000017C), 1);
    EXPECT_STATUS(0xC000017C, CmCallbackGetKeyObjectIDEx(&cookie, now->object, NULL, &name, 0));
}

OUTCOME("CM-017 CM-018 CM-023", names_that_cannot_be_had)
{
    watch();
    inside = bad_calls;
    sim_registry_set_value(&plain);
    EXPECT(told_count == 2);
}

static void with_flags(struct told *now)
{
    CmCallbackGetKeyObjectIDEx(&cookie, now->object, NULL, NULL, 1);
}

VIOLATION("CM-017", name_with_flags)
{
    watch();
    inside = with_flags;
    sim_registry_set_value(&plain);
}

static PCUNICODE_STRING kept_name;

static void keep_name(struct told *now)
{
    name_of(now->object, &kept_name, NULL);
}

VIOLATION("CM-019", name_kept)
{
    watch();
    inside = keep_name;
    sim_registry_set_value(&plain);
    CmUnRegisterCallback(cookie);
    sim_driver_unload();
}

VIOLATION("CM-026", name_released_twice)
{
    watch();
    inside = keep_name;
    sim_registry_set_value(&plain);
    CmCallbackReleaseKeyObjectIDEx(kept_name);
    CmCallbackReleaseKeyObjectIDEx(kept_name);
}

VIOLATION("CM-026", something_else_released)
{
    static PVOID room[32];

    CmCallbackReleaseKeyObjectIDEx((PCUNICODE_STRING)(void *)&room[16]);
}

static void release_high(struct told *now)
{
    KIRQL old;

    name_of(now->object, &kept_name, NULL);
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    CmCallbackReleaseKeyObjectIDEx(kept_name);
}

VIOLATION("CM-025", name_released_at_dispatch)
{
    watch();
    inside = release_high;
    sim_registry_set_value(&plain);
}

OUTCOME("CM-020 CM-084 CM-085", names_are_the_current_ones)
{
    struct sim_registry rename = plain;

    watch();
    sim_registry_preset(&plain);
    inside = take_name;
    sim_registry_set_value(&plain);
    rename.name = SIM_STR(u"Other");
    EXPECT_STATUS(0, sim_registry_rename_key(&rename));
    EXPECT(ends(names[2], "\\Rules") && ends(names[3], "\\Other"));
    EXPECT(ids[0] == ids[2] && ids[2] == ids[3]);
}

static void name_after_delete(struct told *now)
{
    if (is_post(now->class_))
        EXPECT_STATUS(0xC000017C, name_of(now->object, &kept_name, NULL));
}

OUTCOME("CM-078", no_name_after_the_delete)
{
    sim_registry_preset(&plain);
    watch();
    inside = name_after_delete;
    EXPECT_STATUS(0, sim_registry_delete_key(&plain));
    EXPECT(told_count == 2);
}

static PVOID bound;
static void take_transaction(struct told *now)
{
    bound = CmGetBoundTransaction(&cookie, now->object);
}

OUTCOME("CM-028 CM-029 CM-030", transactions)
{
    watch();
    inside = take_transaction;
    sim_registry_set_value(&plain);
    EXPECT(!bound);
    sim_set_transaction(true);
    sim_registry_set_value(&plain);
    EXPECT(bound);
    bound = NULL;
    sim_registry_do(SIM_REG_CLOSE, &plain); /* the object is going */
    EXPECT(bound);
    inside = NULL;
    CmUnRegisterCallback(cookie);
    EXPECT(sim_ledger_count() == 0); /* no reference came with it */
}

/* --- the callback's place -------------------------------------------------------------------- */

OUTCOME("CM-037 CM-044", levels_of_the_callback)
{
    watch();
    sim_registry_set_value(&plain);
    EXPECT(told[0].irql == PASSIVE_LEVEL);
    sim_set_irql(APC_LEVEL);
    sim_registry_query_value(&plain);
    EXPECT(told[2].irql == APC_LEVEL);
}

VIOLATION("CM-037", callback_at_dispatch)
{
    watch();
    sim_set_irql(DISPATCH_LEVEL);
    sim_registry_query_value(&plain);
}

static void open_key(struct told *now)
{
    UNICODE_STRING name = rules_string(u"\\REGISTRY\\MACHINE\\SYSTEM");
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);
    HANDLE key;

    (void)now;
    inside = NULL;
    EXPECT_STATUS(0, ZwOpenKey(&key, KEY_QUERY_VALUE, &attributes));
}

OUTCOME("CM-038", own_calls_come_back)
{
    const struct sim_process user = {.pid = 100};

    sim_process_existing(&user, NULL);
    EXPECT(sim_enter(100, 0));
    watch();
    inside = open_key;
    sim_registry_set_value(&plain);
    EXPECT(told_count == 4 && told[1].class_ == 28 && told[0].current_pid == PID(100));
}

VIOLATION("CM-039", unknown_class_refused)
{
    watch();
    answer[0] = STATUS_NOT_SUPPORTED;
    sim_registry_do(SIM_REG_NEWER, &plain);
}

OUTCOME("CM-039", unknown_class_passes)
{
    watch();
    EXPECT_STATUS(0, sim_registry_do(SIM_REG_NEWER, &plain));
    EXPECT(told[0].class_ == 60);
}

static void read_data(struct told *now)
{
    const REG_SET_VALUE_KEY_INFORMATION *set = now->information;

    if (!is_post(now->class_))
        told[0].disposition = *(volatile uint8_t *)set->Data;
}

VIOLATION("CM-040", data_of_a_user_without_a_guard)
{
    struct sim_registry op = plain;

    op.bad_data = true;
    op.size = 4;
    op.data = "data";
    watch();
    inside = read_data;
    sim_registry_set_value(&op);
}

static void read_disposition(struct told *now)
{
    const REG_CREATE_KEY_INFORMATION *create = now->post.PreInformation;

    if (is_post(now->class_))
        told[0].disposition = *create->Disposition;
}

VIOLATION("CM-041", output_of_a_user_without_a_guard)
{
    watch();
    inside = read_disposition;
    sim_registry_create_key(&plain);
}

static ULONG twice[2];

static void copy_disposition(struct told *now)
{
    const REG_CREATE_KEY_INFORMATION *create = now->post.PreInformation;

    if (!is_post(now->class_))
        return;
    EXPECT_STATUS(0, sim_guarded_copy(&twice[0], create->Disposition, 4));
    EXPECT_STATUS(0, sim_guarded_copy(&twice[1], create->Disposition, 4));
}

OUTCOME("CM-041 CM-071", a_user_changes_what_was_read)
{
    watch();
    inside = copy_disposition;
    EXPECT_STATUS(0, sim_registry_create_key(&plain));
    EXPECT(twice[0] == REG_CREATED_NEW_KEY && twice[1] != REG_CREATED_NEW_KEY);
}

struct v1 {
    REG_CREATE_KEY_INFORMATION base;
    PUNICODE_STRING RemainingName;
    ULONG Wow64Flags;
    ULONG Attributes;
    KPROCESSOR_MODE CheckAccessMode;
};
static struct v1 create_seen;
static ULONG granted;
static WCHAR root_name[64];
static WCHAR remaining[64];
static bool only_base;

static void look_at_create(struct told *now)
{
    const struct v1 *create = now->information;
    PCUNICODE_STRING name;

    if (is_post(now->class_)) {
        granted = ((REG_CREATE_KEY_INFORMATION *)now->post.PreInformation)->GrantedAccess;
        return;
    }
    create_seen.base = create->base;
    if (only_base)
        return;
    create_seen = *create;
    memset(remaining, 0, sizeof(remaining));
    memset(root_name, 0, sizeof(root_name));
    if (create->RemainingName->Length)
        memcpy(remaining, create->RemainingName->Buffer, create->RemainingName->Length);
    EXPECT_STATUS(0, name_of(create->base.RootObject, &name, NULL));
    memcpy(root_name, name->Buffer, name->Length);
    CmCallbackReleaseKeyObjectIDEx(name);
}

OUTCOME("CM-042 CM-068 CM-069 CM-070 CM-071 CM-072 CM-074 CM-075", what_a_create_carries)
{
    struct sim_registry op = plain;

    op.access = 0x2001F;
    op.wow64_flags = 0x200;
    watch();
    inside = look_at_create;
    sim_registry_create_key(&op);
    EXPECT(create_seen.base.Reserved == (PVOID)1); /* Version */
    EXPECT(ends(root_name, "\\REGISTRY") && ends(remaining, "MACHINE\\SOFTWARE\\Rules"));
    EXPECT(remaining[0] == 'M' && told[0].complete[0] == '\\');
    EXPECT(!create_seen.base.Class && !create_seen.base.Transaction);
    EXPECT(create_seen.base.DesiredAccess == 0x2001F && create_seen.Wow64Flags == 0x200);
    EXPECT(create_seen.base.GrantedAccess == 0xEEEEEEEE && granted == 0x2001F);
    EXPECT(create_seen.CheckAccessMode == UserMode && create_seen.Attributes);
    op.relative = true;
    sim_set_transaction(true);
    sim_registry_create_key(&op);
    EXPECT(ends(root_name, "\\SOFTWARE") && remaining[0] == 'R' && told[2].complete[0] == 'R');
    EXPECT(create_seen.base.Transaction);
    op.itself = true;
    op.kernel = true;
    sim_registry_open_key(&op);
    EXPECT(ends(root_name, "\\Rules") && told[4].complete_length == 0);
    EXPECT(create_seen.CheckAccessMode == KernelMode);
    op.version_0 = true;
    only_base = true;
    sim_registry_open_key(&op);
    EXPECT(create_seen.base.Reserved == NULL);
}

static void touch_type(struct told *now)
{
    const REG_CREATE_KEY_INFORMATION *create = now->information;

    told[0].disposition = *(volatile uint8_t *)create->ObjectType;
}

VIOLATION("CM-073", type_of_a_key_read)
{
    watch();
    inside = touch_type;
    sim_registry_create_key(&plain);
}

OUTCOME("CM-091", hive_with_an_open_key)
{
    const struct sim_registry hive = {.key = SIM_STR(u"\\REGISTRY\\USER\\S-1-5-21-1")};
    const struct sim_registry below = {.key = SIM_STR(u"\\REGISTRY\\USER\\S-1-5-21-1\\Software")};
    UNICODE_STRING name = rules_string(u"\\REGISTRY\\USER\\S-1-5-21-1\\Software");
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);
    HANDLE key;

    EXPECT_STATUS(0, sim_registry_create_key(&below));
    EXPECT_STATUS(0, ZwOpenKey(&key, KEY_QUERY_VALUE, &attributes));
    EXPECT(!NT_SUCCESS(sim_registry_do(SIM_REG_UNLOAD, &hive)));
    EXPECT_STATUS(0, ZwClose(key));
    EXPECT_STATUS(0, sim_registry_do(SIM_REG_UNLOAD, &hive));
}

static PVOID pre_slots[4]; /* how the structure of the pre call begins */
static int own_context;

static void note_pre(struct told *now)
{
    if (is_post(now->class_))
        return;
    memcpy(pre_slots, now->information, sizeof(pre_slots));
    if (now->class_ == RegNtPreSetValueKey)
        ((REG_SET_VALUE_KEY_INFORMATION *)now->information)->CallContext = &own_context;
}

OUTCOME("CM-043 CM-045 CM-046 CM-053 CM-054 CM-057 CM-059 CM-088 CM-089", classes_before_and_after)
{
    static const struct {
        enum sim_registry_kind kind;
        int pre;
        int post;
        bool no_object;
    } classes[] = {
        {SIM_REG_DELETE_KEY, 0, 15, false},    {SIM_REG_SET_VALUE, 1, 16, false},
        {SIM_REG_DELETE_VALUE, 2, 17, false},  {SIM_REG_RENAME, 4, 19, false},
        {SIM_REG_QUERY_VALUE, 8, 23, false},   {SIM_REG_CREATE, 26, 27, false},
        {SIM_REG_OPEN, 28, 29, false},         {SIM_REG_CLOSE, 14, 25, false},
        {SIM_REG_FLUSH, 30, 31, false},        {SIM_REG_LOAD, 32, 33, true},
        {SIM_REG_UNLOAD, 34, 35, false},       {SIM_REG_QUERY_SECURITY, 36, 37, false},
        {SIM_REG_SET_SECURITY, 38, 39, false}, {SIM_REG_RESTORE, 41, 42, false},
        {SIM_REG_SAVE, 43, 44, false},         {SIM_REG_REPLACE, 45, 46, false},
        {SIM_REG_QUERY_NAME, 47, 48, false},   {SIM_REG_SAVE_MERGED, 49, 50, true},
    };

    watch();
    inside = note_pre;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        void *context = classes[i].kind == SIM_REG_SET_VALUE ? &own_context : NULL;
        struct sim_registry op = plain;
        sim_registry_preset(&plain);
        op.name = classes[i].kind == SIM_REG_RENAME ? SIM_STR(u"Else") : op.name;
        told_count = 0;
        EXPECT_STATUS(0, sim_registry_do(classes[i].kind, &op));
        EXPECT(told_count == 2 && told[0].class_ == classes[i].pre &&
               told[1].class_ == classes[i].post);
        EXPECT(told[1].post.PreInformation == told[0].information);
        EXPECT(told[1].post.CallContext == context && told[1].post.ReturnStatus == 0);
        EXPECT(classes[i].no_object == (told[1].object == NULL));
        EXPECT(pre_slots[0] != NULL || opens(classes[i].pre));
        EXPECT(classes[i].kind != SIM_REG_SAVE_MERGED || (pre_slots[2] && pre_slots[3]));
    }
}
