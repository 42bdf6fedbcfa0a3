/* Two maps, object by object: what is told, what is not, and text that means harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc.h"
#include "kda/baseline.h"

#define SESSION                                                                                    \
    "{\"row\":\"session\",\"silo\":\"host\",\"slot\":3,\"va\":\"0xffff800000001000\","             \
    "\"name\":\"Edr\",\"mode\":[\"real_time\",\"buffering\"],\"collecting\":1,"                    \
    "\"accept_new_events\":0}\n"
#define CONSUMER                                                                                   \
    "{\"row\":\"consumer\",\"silo\":\"host\",\"va\":\"0xffff800000002000\","                       \
    "\"session\":\"Edr\",\"process\":\"edr.exe\",\"found_by\":[\"list\",\"handle\"]}\n"
#define PROVIDER                                                                                   \
    "{\"row\":\"provider\",\"silo\":\"host\",\"va\":\"0xffff800000003000\",\"type\":\"trace\","    \
    "\"guid\":\"{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}\",\"provider_enable\":{\"enabled\":1,"      \
    "\"level\":5},\"enables\":[{\"slot\":0,\"session\":\"Edr\",\"enabled\":1,\"level\":5}],"       \
    "\"filters\":[{\"slot\":0,\"pids\":[412,900]}],\"registrations\":[{\"va\":"                    \
    "\"0xffff800000004000\",\"module\":\"ntoskrnl.exe\",\"found_by\":[\"list\"]}]}\n"
#define CALLBACK                                                                                   \
    "{\"row\":\"callback\",\"kind\":\"registry\",\"va\":\"0xffff800000005000\","                   \
    "\"module\":\"edr.sys\",\"altitude\":\"328010\",\"enabled\":true}\n"
#define MACHINE SESSION CONSUMER PROVIDER

struct told {
    char text[4096];
    size_t count;
};

static void tell(void *context, const struct kda_change *change)
{
    struct told *told = context;
    size_t used = strlen(told->text);
    told->count++;
    (void)snprintf(told->text + used, sizeof(told->text) - used, "%s %s [%s] %s %s>%s;",
                   change->change, change->object, change->name,
                   change->field ? change->field : "-", change->before ? change->before : "-",
                   change->after ? change->after : "-");
}

static struct kda_baseline *map_of(const char *text)
{
    struct kda_baseline *map;
    struct kda_error err;
    if (kda_baseline_create(&map, &err) != KDA_OK ||
        kda_baseline_read(map, text, strlen(text), &err) != KDA_OK)
        fail_msg("%s", err.text);
    return map;
}

static void difference(const char *before, const char *after, struct told *told)
{
    struct kda_baseline *was = map_of(before), *is = map_of(after);
    memset(told, 0, sizeof(*told));
    kda_baseline_compare(was, is, tell, told);
    kda_baseline_destroy(was);
    kda_baseline_destroy(is);
}

/* `text` with the first `old` made `new`. */
static char *with(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    size_t size = strlen(text) + strlen(new) + 1;
    char *out = calloc(1, size);
    assert_non_null(at);
    assert_non_null(out);
    (void)snprintf(out, size, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return out;
}

static void test_equal_maps(void **state)
{
    struct told told;
    (void)state;
    difference(MACHINE CALLBACK, MACHINE CALLBACK, &told);
    assert_int_equal(told.count, 0);
    /* other addresses, other order: the same machine after a restart */
    char *moved = with(PROVIDER SESSION CONSUMER, "0xffff800000003000", "0xffff900000003000");
    difference(MACHINE, moved, &told);
    free(moved);
    assert_string_equal(told.text, "");
}

static void test_changes(void **state)
{
    static const struct {
        const char *old, *new, *told;
    } rows[] = {
        {"\"collecting\":1", "\"collecting\":0", "changed session [host Edr] collecting 1>0;"},
        {"\"accept_new_events\":0", "\"accept_new_events\":-1",
         "changed session [host Edr] accept_new_events 0>-1;"},
        {"[\"real_time\",\"buffering\"]", "[\"real_time\"]",
         "changed session [host Edr] mode real_time buffering>real_time;"},
        {"[\"list\",\"handle\"]", "[\"handle\"]",
         "changed consumer [host Edr edr.exe] found_by list handle>handle;"},
        {"\"level\":5},", "\"level\":4},",
         "changed provider [host trace {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}] "
         "provider_enable.level 5>4;"},
        {"\"level\":5}],", "\"level\":1}],",
         "changed slot [host trace {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} Edr] level 5>1;"},
        {"[412,900]", "[412]",
         "changed filter [host trace {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} 0] pids 412 900>412;"},
        {"\"found_by\":[\"list\"]", "\"found_by\":[\"back_pointer\"]",
         "changed registration [host trace {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} ntoskrnl.exe] "
         "found_by list>back_pointer;"},
        {"\"enabled\":1,\"level\":5}]", "\"level\":5}]",
         "changed slot [host trace {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} Edr] enabled 1>-;"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct told told;
        char *after = with(MACHINE, rows[i].old, rows[i].new);
        difference(MACHINE, after, &told);
        free(after);
        assert_string_equal(told.text, rows[i].told);
    }
}

static void test_appeared_and_vanished(void **state)
{
    struct told told;
    (void)state;
    difference(SESSION, SESSION CONSUMER, &told);
    assert_string_equal(told.text, "appeared consumer [host Edr edr.exe] - ->-;");
    difference(SESSION CONSUMER, CONSUMER, &told);
    assert_string_equal(told.text, "vanished session [host Edr] - ->-;");
    difference(MACHINE, SESSION CONSUMER, &told);
    assert_int_equal(told.count, 4); /* the provider, its slot, filter and registration */
    difference("", MACHINE, &told);
    assert_int_equal(told.count, 6);
}

static void test_objects_of_one_name_are_counted(void **state)
{
    struct told told;
    (void)state;
    difference(CONSUMER CONSUMER, CONSUMER, &told);
    assert_string_equal(told.text, "changed consumer [host Edr edr.exe] count 2>1;");
    difference(CONSUMER CONSUMER, CONSUMER CONSUMER, &told);
    assert_int_equal(told.count, 0);
}

/* A map without callbacks says nothing about them, unless its maker looked. */
static void test_callbacks_are_compared_if_both_sides_know(void **state)
{
    struct told told = {{0}, 0};
    (void)state;
    difference(SESSION, SESSION CALLBACK, &told);
    assert_int_equal(told.count, 0);
    struct kda_baseline *was = map_of(SESSION CALLBACK), *is = map_of(SESSION);
    assert_true(kda_baseline_covers(was, "registry"));
    assert_false(kda_baseline_covers(was, "process"));
    assert_false(kda_baseline_covers(is, "registry"));
    kda_baseline_cover_callbacks(is);
    assert_true(kda_baseline_covers(is, "registry") && kda_baseline_covers(is, "process"));
    kda_baseline_compare(was, is, tell, &told);
    assert_string_equal(told.text, "vanished callback [registry edr.sys 328010] - ->-;");
    kda_baseline_destroy(was);
    kda_baseline_destroy(is);
}

/* Of a kind that one side has none of, nothing is said. */
static void test_callbacks_of_other_kinds(void **state)
{
    static const char process[] = "{\"row\":\"callback\",\"kind\":\"process\","
                                  "\"va\":\"0xffff800000006000\",\"module\":\"edr.sys\"}\n";
    static const char moved[] = "{\"row\":\"callback\",\"kind\":\"registry\","
                                "\"va\":\"0xffff800000005000\",\"module\":\"edr.sys\","
                                "\"altitude\":\"1\",\"enabled\":true}\n";
    char both[1024];
    struct told told;
    (void)state;
    (void)snprintf(both, sizeof(both), "%s%s", process, CALLBACK);
    difference(both, CALLBACK, &told);
    assert_int_equal(told.count, 0);
    difference(CALLBACK, moved, &told);
    assert_string_equal(told.text, "appeared callback [registry edr.sys 1] - ->-;"
                                   "vanished callback [registry edr.sys 328010] - ->-;");
}

/* Silos have addresses only; providers that nobody uses are in a map by an option. */
static void test_what_is_no_difference(void **state)
{
    static const char silo_a[] = "{\"row\":\"session\",\"silo\":\"0xffff800000001000\","
                                 "\"name\":\"Edr\"}\n",
                      silo_b[] = "{\"row\":\"session\",\"silo\":\"0xffffa00000001000\","
                                 "\"name\":\"Edr\"}\n";
    static const char idle[] = "{\"row\":\"provider\",\"silo\":\"host\",\"type\":\"trace\","
                               "\"guid\":\"{1}\",\"enables\":[],\"registrations\":[]}\n";
    struct told told;
    (void)state;
    difference(silo_a, silo_b, &told);
    assert_int_equal(told.count, 0);
    difference(SESSION, silo_a, &told);
    assert_int_equal(told.count, 2);
    difference(MACHINE,
               MACHINE "\n"
                       "{\"row\":\"gap\",\"what\":\"x\"}\n",
               &told);
    assert_int_equal(told.count, 0);
    difference("", idle, &told);
    assert_int_equal(told.count, 0);
}

/* `-f json` wraps the rows: one a line, with commas. */
static void test_json_document(void **state)
{
    char text[4096];
    struct told told;
    (void)state;
    (void)snprintf(text, sizeof(text), "{\"tool\":\"kda\",\"rows\":[\n%.*s,\r\n%.*s\n]}\n",
                   (int)strlen(SESSION) - 1, SESSION, (int)strlen(CONSUMER) - 1, CONSUMER);
    difference(SESSION CONSUMER, text, &told);
    assert_string_equal(told.text, "");
    struct kda_baseline *map = map_of(text);
    assert_int_equal(kda_baseline_count(map), 2);
    kda_baseline_destroy(map);
}

static void test_text_that_is_no_map(void **state)
{
    static const char *const wrong[] = {
        "{\"row\":\"session\",\"name\":\"Edr\"\n",
        "{\"row\":\"session\",\"name\":Edr}\n",
        "{\"row\":\"session\"}}\n",
        "{\"row\":\"session\",\"name\":\"\x80\"}\n",
        "{\"row\":\"session\",\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kda_baseline *map;
        struct kda_error err = {0};
        assert_int_equal(kda_baseline_create(&map, &err), KDA_OK);
        assert_int_equal(kda_baseline_read(map, wrong[i], strlen(wrong[i]), &err), KDA_BAD_DATA);
        assert_true(err.text[0] != '\0');
        kda_baseline_destroy(map);
    }
}

/* Rows made to take long: a quarter of a million elements without what names them, and keys that
 * add up to long paths. */
static void test_rows_that_mean_harm(void **state)
{
    size_t elements = 200000, used;
    char *text = malloc(elements * 12 + 1024);
    struct told told;
    (void)state;
    assert_non_null(text);
    used = (size_t)snprintf(text, 1024, "{\"row\":\"provider\",\"registrations\":[");
    for (size_t i = 0; i < elements; i++)
        used += (size_t)snprintf(text + used, 1024, "%s{\"a\":1}", i ? "," : "");
    (void)snprintf(text + used, 1024, "]}\n");
    difference("", text, &told);
    assert_int_equal(told.count, 2); /* the provider, and that many registrations of one name */
    free(text);
}

static enum kda_status load(const char *bytes, size_t size, struct kda_error *err)
{
    const char *path = KDA_BUILD_DIR "/baseline.jsonl";
    struct kda_baseline *map;
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
    if (kda_baseline_create(&map, err) != KDA_OK)
        return KDA_NO_MEMORY;
    enum kda_status status = kda_baseline_load(map, path, err);
    kda_baseline_destroy(map);
    return status;
}

static void test_files(void **state)
{
    struct kda_error err;
    struct kda_baseline *map;
    (void)state;
    assert_int_equal(load(MACHINE, strlen(MACHINE), &err), KDA_OK);
    assert_int_equal(load("PAGEDU64", 8, &err), KDA_NOT_MINE);
    assert_int_equal(load("", 0, &err), KDA_NOT_MINE);
    assert_int_equal(load("{\"x\":1}\n", 8, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "kda map"));
    assert_int_equal(load("{\"row\":\"session\",\n", 18, &err), KDA_BAD_DATA);
    assert_int_equal(kda_baseline_create(&map, &err), KDA_OK);
    assert_int_equal(kda_baseline_load(map, KDA_BUILD_DIR "/no such map", &err), KDA_IO);
    kda_baseline_destroy(map);
}

static void test_faults(void **state)
{
#ifdef KDA_FAULT_INJECTION
    size_t refused = 0;
    bool fired = true;
    (void)state;
    for (uint64_t n = 1; fired; n++) {
        struct kda_error err = {0};
        kda_fault_arm(n);
        enum kda_status status = load(MACHINE CALLBACK, strlen(MACHINE CALLBACK), &err);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        assert_true(status == KDA_OK ? !fired : err.text[0] != '\0');
        refused += status != KDA_OK;
        assert_true(n < 10000);
    }
    assert_true(refused > 10);
#else
    (void)state;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_maps),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_appeared_and_vanished),
        cmocka_unit_test(test_objects_of_one_name_are_counted),
        cmocka_unit_test(test_callbacks_are_compared_if_both_sides_know),
        cmocka_unit_test(test_callbacks_of_other_kinds),
        cmocka_unit_test(test_what_is_no_difference),
        cmocka_unit_test(test_json_document),
        cmocka_unit_test(test_text_that_is_no_map),
        cmocka_unit_test(test_rows_that_mean_harm),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
