/*
 * rules_cm_ops.c - registry callbacks: answers, objects that mean nothing, single operations.
 */
#include "rules_cm.h"

/* --- answers --------------------------------------------------------------------------------- */

OUTCOME("CM-047 CM-048", an_error_ends_the_operation)
{
    watch();
    answer[0] = STATUS_ACCESS_DENIED;
    EXPECT_STATUS(0xC0000022, sim_registry_create_key(&plain));
    EXPECT(told_count == 1);
    EXPECT_STATUS(0, sim_registry_create_key(&plain));
    EXPECT(told_count == 3);
}

OUTCOME("CM-049", a_bypass_does_nothing_and_succeeds)
{
    watch();
    answer[0] = BYPASS;
    EXPECT_STATUS(0, sim_registry_set_value(&plain));
    EXPECT(told_count == 1);
    EXPECT_STATUS(0xC0000034, sim_registry_query_value(&plain));
}

OUTCOME("CM-050 CM-058", a_bypass_afterwards_changes_the_status)
{
    watch();
    return_status = STATUS_ACCESS_DENIED;
    EXPECT_STATUS(0, sim_registry_set_value(&plain)); /* ignored without the answer */
    answer[3] = BYPASS;
    EXPECT_STATUS(0xC0000022, sim_registry_set_value(&plain));
}

OUTCOME("CM-051", blocked_by_a_lower_driver)
{
    struct sim_registry op = plain;

    op.refusal = SIM_REFUSE_AFTER_POST;
    watch();
    EXPECT_STATUS(0xC0000022, sim_registry_set_value(&op));
    EXPECT_STATUS(0xC0000022, told[1].status);
}

static void open_by_pointer(struct told *now)
{
    if (is_post(now->class_))
        ObOpenObjectByPointer(now->object, OBJ_KERNEL_HANDLE, NULL, 0, NULL, KernelMode, &fx.key);
}

VIOLATION("CM-052", created_key_opened_by_its_pointer)
{
    watch();
    inside = open_by_pointer;
    sim_registry_create_key(&plain);
}

OUTCOME("CM-055", a_close_cannot_be_refused)
{
    watch();
    answer[0] = STATUS_ACCESS_DENIED;
    EXPECT_STATUS(0, sim_registry_do(SIM_REG_CLOSE, &plain));
}

/* --- objects that mean nothing --------------------------------------------------------------- */

static void touch_object(struct told *now)
{
    if (is_post(now->class_))
        told[0].disposition = *(volatile uint8_t *)now->object;
}

VIOLATION("CM-056", object_of_a_failed_operation)
{
    struct sim_registry op = plain;

    op.status = STATUS_ACCESS_DENIED;
    watch();
    inside = touch_object;
    sim_registry_set_value(&op);
}

VIOLATION("CM-060", object_of_a_create_that_ended_otherwise)
{
    struct sim_registry op = plain;

    op.status = STATUS(0x00000104);
    watch();
    inside = touch_object;
    sim_registry_create_key(&op);
}

static void name_object(struct told *now)
{
    PCUNICODE_STRING name;

    if (is_post(now->class_))
        name_of(now->object, &name, NULL);
}

VIOLATION("CM-021", name_of_an_undefined_object)
{
    struct sim_registry op = plain;

    op.status = STATUS(0x00000104);
    watch();
    inside = name_object;
    sim_registry_create_key(&op);
}

static const struct sim_registry linked = {
    .key = SIM_STR(u"\\REGISTRY\\MACHINE\\SYSTEM\\CurrentControlSet\\Services"),
    .link = SIM_LINK_RESTART};

static bool holds(const struct told *call, const char *part)
{
    for (size_t i = 0; i + strlen(part) <= call->complete_length / 2u; i++) {
        size_t n = 0;
        while (part[n] && call->complete[i + n] == (WCHAR)part[n])
            n++;
        if (!part[n])
            return true;
    }
    return false;
}

OUTCOME("CM-061 CM-062 CM-103", open_through_a_link)
{
    watch();
    EXPECT_STATUS(0, sim_registry_open_key(&linked));
    EXPECT(told_count == 4);
    EXPECT(told[0].class_ == 28 && holds(&told[0], "CurrentControlSet"));
    EXPECT(told[1].class_ == 29 && told[1].status == STATUS(0x104) && told[1].object);
    EXPECT(holds(&told[1], "ControlSet001")); /* the target's already */
    EXPECT(told[2].class_ == 28 && holds(&told[2], "ControlSet001"));
    EXPECT(told[3].class_ == 29 && told[3].status == 0 && told[3].object);
    told_count = 0;
    EXPECT_STATUS(0, sim_registry_create_key(&linked));
    EXPECT(told_count == 4 && told[1].class_ == 27 && told[1].status == STATUS(0x104));
}

static void name_of_success(struct told *now)
{
    if (is_post(now->class_))
        take_name(now);
}

OUTCOME("CM-104", link_that_is_known)
{
    struct sim_registry op = linked;

    op.link = SIM_LINK_CACHED;
    watch();
    inside = name_of_success;
    EXPECT_STATUS(0, sim_registry_open_key(&op));
    EXPECT(told_count == 2 && holds(&told[0], "CurrentControlSet") && told[1].status == 0);
    EXPECT(ends(names[1], "\\ControlSet001\\Services"));
}

static void reference(struct told *now)
{
    ObReferenceObject(now->object);
}

VIOLATION("CM-063", closing_key_referenced)
{
    watch();
    inside = reference;
    sim_registry_do(SIM_REG_CLOSE, &plain);
}

VIOLATION("CM-065", name_after_the_close)
{
    watch();
    inside = name_object;
    sim_registry_do(SIM_REG_CLOSE, &plain);
}

static void name_before(struct told *now)
{
    if (!is_post(now->class_))
        take_name(now);
}

OUTCOME("CM-064 CM-065", name_before_the_close)
{
    watch();
    inside = name_before;
    EXPECT_STATUS(0, sim_registry_do(SIM_REG_CLOSE, &plain));
    EXPECT(ends(names[0], "\\Rules"));
}

/* --- what single operations carry ------------------------------------------------------------ */

OUTCOME("CM-076 CM-077", hives_of_applications)
{
    UNICODE_STRING name = rules_string(u"\\REGISTRY\\A\\{1}\\x");
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);
    struct sim_registry op = {.key = SIM_STR(u"\\REGISTRY\\A\\{1}\\x")};
    HANDLE key;

    EXPECT_STATUS(0xC0000022, ZwOpenKey(&key, KEY_QUERY_VALUE, &attributes));
    EXPECT_STATUS(0xC0000022, sim_registry_do(SIM_REG_SET_SECURITY, &op));
}

static REG_SET_VALUE_KEY_INFORMATION set_seen;
static PVOID slots_seen[12];
static USHORT name_length;
static ULONG security_seen;

static void look_at_value(struct told *now)
{
    if (is_post(now->class_))
        return;
    set_seen = *(REG_SET_VALUE_KEY_INFORMATION *)now->information;
    memcpy(slots_seen, now->information, sizeof(PVOID) * 9);
    if (now->class_ == 38)
        security_seen = *(ULONG *)slots_seen[1];
    name_length = now->class_ == 1 || now->class_ == 2 || now->class_ == 4
                      ? (*(PUNICODE_STRING *)&slots_seen[1])->Length
                      : 0;
}

OUTCOME("CM-079 CM-080 CM-081 CM-082 CM-083", values)
{
    static uint8_t large[2000000];
    struct sim_registry op = {.key = SIM_STR(KEY_PATH), .type = 0xDEADBEEF};

    watch();
    inside = look_at_value;
    sim_registry_set_value(&op);
    EXPECT(name_length == 0 && !set_seen.Data && set_seen.DataSize == 0);
    EXPECT(set_seen.Type == 0xDEADBEEF && set_seen.TitleIndex == 0xEEEEEEEE);
    op.data = large;
    op.size = sizeof(large);
    sim_registry_set_value(&op);
    EXPECT(set_seen.DataSize == sizeof(large));
    name_length = 9;
    sim_registry_delete_value(&op);
    EXPECT(name_length == 0);
}

OUTCOME("CM-086 CM-087 CM-092 CM-093 CM-095 CM-097", hives_and_security)
{
    struct sim_registry op = {.key = SIM_STR(u"\\REGISTRY\\USER"), .name = SIM_STR(u"S-1")};
    struct sim_registry application = {.key = SIM_STR(u"\\REGISTRY\\A\\{1}"),
                                       .name = SIM_STR(u"x")};

    watch();
    inside = look_at_value;
    sim_registry_do(SIM_REG_LOAD, &op);
    EXPECT((*(PUNICODE_STRING *)&slots_seen[1])->Length == 6 || slots_seen[1]);
    EXPECT(!slots_seen[7]); /* RootHandle */
    sim_registry_do(SIM_REG_LOAD, &application);
    EXPECT(slots_seen[7]);
    sim_registry_do(SIM_REG_RESTORE, &op);
    EXPECT((intptr_t)slots_seen[1] > 0 && slots_seen[2]); /* a handle of the caller, flags */
    sim_registry_do(SIM_REG_SAVE, &op);
    EXPECT((intptr_t)slots_seen[1] > 0 && slots_seen[2]);
    sim_registry_do(SIM_REG_SET_SECURITY, &op);
    EXPECT(security_seen == DACL_SECURITY_INFORMATION && slots_seen[2]);
    sim_registry_do(SIM_REG_REPLACE, &op);
    EXPECT(slots_seen[1] && slots_seen[2]);
}

static void read_descriptor(struct told *now)
{
    told[0].disposition = *(volatile uint8_t *)((PVOID *)now->information)[2];
}

VIOLATION("CM-096", descriptor_of_a_user_without_a_guard)
{
    watch();
    inside = read_descriptor;
    sim_registry_do(SIM_REG_QUERY_SECURITY, &plain);
}

static void ask_name(struct told *now)
{
    uint8_t buffer[512];
    ULONG returned;

    if (now->class_ == 1)
        ObQueryNameString(now->object, (void *)buffer, sizeof(buffer), &returned);
}

OUTCOME("CM-101 CM-102", a_name_query_comes_back)
{
    watch();
    inside = ask_name;
    sim_registry_set_value(&plain);
    EXPECT(told_count == 4 && told[1].class_ == 47 && told[2].class_ == 48);
}
