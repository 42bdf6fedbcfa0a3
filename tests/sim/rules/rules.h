/*
 * rules.h - tests of the rule book: each names the ids that it proves, and runs in a child process.
 *
 *   VIOLATION("EX-002", name) { ... }  the code breaks the rule: the run has to be stopped with its
 * id OUTCOME("PS-019 PS-020", name) { ... }  what the documentation says is what happens (EXPECT)
 *   LEVEL("PS-043", APC_LEVEL, call);  the call is allowed at that level and stopped above it
 *
 * A machine with the smallest driver is up; tests that end with _COLD boot their own. For LEVEL and
 * those with _FX `fx` has something of each kind. What a test leaves behind goes with its process.
 */
#ifndef KDA_TESTS_RULES_H
#define KDA_TESTS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddi_more.h"
#include "fwp.h"
#include "nt.h"
#include "sim.h"
#include "wfp.h"

#define TAG 0x656C7552u /* Rule */
#define PID(n) ((HANDLE)(uintptr_t)(n))
#define STATUS(value) ((NTSTATUS)(value##u))

struct rule_test {
    const char *rules;
    const char *name;
    const char *file;
    void (*run)(void);
    unsigned level;
    bool has_level;
    bool violates;
    bool cold;
    bool furnished;
    struct rule_test *next;
};
void rule_test_add(struct rule_test *test);

/* What most calls need, made by the harness. */
struct fixture {
    PDRIVER_OBJECT driver;
    PDEVICE_OBJECT device;
    PEPROCESS process;
    PETHREAD thread;
    HANDLE process_handle;
    HANDLE thread_handle;
    HANDLE token;
    HANDLE key;
    HANDLE file; /* C:\Windows\Temp\rules.txt, for reading and appending */
    HANDLE folder;
    LARGE_INTEGER cookie;
    PVOID block; /* nonpaged pool */
    KEVENT event;
    FAST_MUTEX mutex;
    KSPIN_LOCK lock;
    EX_RUNDOWN_REF rundown;
    PIO_WORKITEM item;
    uint32_t pid; /* a user's process */
    uint32_t tid;
};
extern struct fixture fx;

/* Boots with these options and loads the smallest driver; NULL: the usual ones. */
void rules_boot(const struct sim_options *options);
UNICODE_STRING rules_string(const uint16_t *text);
OBJECT_ATTRIBUTES rules_attributes(UNICODE_STRING *name, ULONG flags);
PVOID rules_export(const uint16_t *name);

_Noreturn void rules_failed(const char *file, int line, const char *what);
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            rules_failed(__FILE__, __LINE__, #condition);                                          \
    } while (0)
#define EXPECT_STATUS(value, call) EXPECT((uint32_t)(call) == (value##u))

/* What differs comes as members of the test. */
#define RULE_TEST_(ids, test_name, ...)                                                            \
    static void test_name(void);                                                                   \
    static struct rule_test test_name##_test = {                                                   \
        .rules = ids, .name = #test_name, .file = __FILE__, .run = test_name, __VA_ARGS__};        \
    __attribute__((constructor)) static void test_name##_add(void)                                 \
    {                                                                                              \
        rule_test_add(&test_name##_test);                                                          \
    }                                                                                              \
    static void test_name(void)
#define RULE_TEST(ids, test_name, ...) RULE_TEST_(ids, test_name, __VA_ARGS__)

#define VIOLATION(rule, name) RULE_TEST(rule, name, .violates = true)
#define VIOLATION_COLD(rule, name) RULE_TEST(rule, name, .violates = true, .cold = true)
#define OUTCOME(rules, name) RULE_TEST(rules, name, .violates = false)
#define OUTCOME_COLD(rules, name) RULE_TEST(rules, name, .cold = true)
/* With all of `fx`. */
#define VIOLATION_FX(rule, name) RULE_TEST(rule, name, .violates = true, .furnished = true)
#define OUTCOME_FX(rules, name) RULE_TEST(rules, name, .furnished = true)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define LEVEL_VOID(rule, max, call)                                                                \
    RULE_TEST(rule, JOIN(level_, __LINE__), .furnished = true, .has_level = true, .level = (max))  \
    {                                                                                              \
        call;                                                                                      \
    }                                                                                              \
    _Static_assert(1, "")
#define LEVEL(rule, max, call) LEVEL_VOID(rule, max, (void)(call))

#endif
