/*
 * How complete the picture is: each anchor, list and count of a healthy machine is whole, and of
 * one with a hole the row that the hole hits says so, with the address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "forged.h"
#include "kda/recall.h"

#define PROCESS "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}"

struct hit {
    const char *add;
    const char *name, *of; /* of the row; `of` NULL: any */
    enum kda_recall_state state;
    int found, others; /* -1: not looked at */
    int counted;       /* -2: not known */
};

static const struct hit hits[] = {
    {"hole what=process:412", "PsActiveProcessHead", NULL, KDA_RECALL_BROKEN, 4, 0, -1},
    {"process 904 unlinked", "PsActiveProcessHead", NULL, KDA_RECALL_COMPLETE, 4, 1, -1},
    {"process 904 notablelink", "HandleTableListHead", NULL, KDA_RECALL_COMPLETE, 4, 1, -1},
    {"hole what=module:exampleedr.sys", "PsLoadedModuleList", NULL, KDA_RECALL_BROKEN, -1, -1, -1},
    {"hole what=symbol:PspCidTable", "PspCidTable", NULL, KDA_RECALL_MISSING, -1, -1, -1},
    {"hole what=leaf:900", "EPROCESS.ObjectTable", NULL, KDA_RECALL_BROKEN, -1, -1, -1},
    {"hole what=array:0", "logger array", "host", KDA_RECALL_BROKEN, 0, -1, 80},
    {"hole what=provider:" PROCESS, "EtwpGuidHashTable", "host", KDA_RECALL_BROKEN, -1, -1, -1},
    {"provider {99999999-0000-0000-0000-000000000001} unlinked\n"
     "reg {99999999-0000-0000-0000-000000000001} user pid=412",
     "EtwpGuidHashTable", "host", KDA_RECALL_COMPLETE, 8, 2, -1}, /* and the embedded one */
    {"hole what=consumer:900", "WMI_LOGGER_CONTEXT.Consumers", NULL, KDA_RECALL_BROKEN, 7, 0, 7},
    {"consumer session=9 pid=800 unlinked\npoke session:9 NumConsumers 2",
     "WMI_LOGGER_CONTEXT.Consumers", NULL, KDA_RECALL_COMPLETE, 7, 1, 8},
    {"poke session:9 NumConsumers 3", "WMI_LOGGER_CONTEXT.NumConsumers", "Edr", KDA_RECALL_STATES,
     1, -1, 3},
    {"hole what=session:9", "WMI_LOGGER_CONTEXT.NumConsumers", NULL, KDA_RECALL_STATES, -1, -1, -2},
    {"hole what=reg:3", "ETW_GUID_ENTRY.RegListHead", NULL, KDA_RECALL_BROKEN, -1, -1, -1},
    {"hole what=symbol:PspCreateProcessNotifyRoutine", "PspCreateProcessNotifyRoutine", "process",
     KDA_RECALL_MISSING, -1, -1, -1},
    {"callback thread driver=WdFilter.sys emptied", "PspCreateThreadNotifyRoutine", "thread",
     KDA_RECALL_COMPLETE, 1, -1, 2},
    {"hole what=symbol:CmpCallBackCount", "CallbackListHead", "registry", KDA_RECALL_COMPLETE, 2,
     -1, -2},
    {"hole what=callback:6", "CallbackListHead", "registry", KDA_RECALL_BROKEN, -1, -1, 2},
};
#define HITS (sizeof(hits) / sizeof(hits[0]))

static void start(struct forged *forged, struct kda_recall **recall, const char *add)
{
    struct kda_error err;
    char *text = forged_text("audit", NULL, add);
    forged_open(forged, text, true);
    free(text);
    if (kda_recall_read(forged->kernel, forged->etw, recall, &err) != KDA_OK)
        fail_msg("%s", err.text);
}

static bool fits(const struct kda_recall_item *item, const struct hit *hit)
{
    if (strcmp(item->name, hit->name) != 0 ||
        (hit->of && (!item->of || strcmp(item->of, hit->of) != 0)))
        return false;
    bool state = hit->state == KDA_RECALL_STATES ? item->only_count : item->state == hit->state;
    bool broken = item->only_count || item->state == KDA_RECALL_COMPLETE ||
                  item->state == KDA_RECALL_UNKNOWN || item->reason != KDA_OK ||
                  item->broken_va[0] != 0;
    bool counted = hit->counted == -1 ||
                   (hit->counted == -2 ? !item->has_count && item->uncounted && item->count_va
                                       : item->has_count && (int)item->counted == hit->counted);
    return state && broken && counted && (hit->found < 0 || (int)item->found == hit->found) &&
           (hit->others < 0 || (item->has_others && (int)item->by_others == hit->others));
}

static void test_hits(void **state)
{
    unsigned failed = 0;
    (void)state;
    for (size_t i = 0; i < HITS; i++) {
        struct forged forged;
        struct kda_recall *recall;
        size_t count, fit = 0;
        start(&forged, &recall, hits[i].add);
        const struct kda_recall_item *items = kda_recall_items(recall, &count);
        for (size_t k = 0; k < count; k++)
            fit += fits(&items[k], &hits[i]);
        if (fit != 1) {
            print_message("hit %zu (%s): %zu rows fit\n", i, hits[i].add, fit);
            for (size_t k = 0; k < count; k++)
                if (strcmp(items[k].name, hits[i].name) == 0)
                    print_message("  %s of %s: %s, %zu found, %zu by others, %llu counted\n",
                                  items[k].name, items[k].of ? items[k].of : "-",
                                  kda_recall_state_name(items[k].state), items[k].found,
                                  items[k].by_others, (unsigned long long)items[k].counted);
            failed++;
        }
        kda_recall_free(recall);
        forged_close(&forged);
    }
    assert_int_equal(failed, 0);
}

/* Everything is whole; what the kernel counts is what was found; nothing is a gap. */
static void test_healthy(void **state)
{
    struct forged forged;
    struct kda_recall *recall;
    size_t count, counts = 0;
    (void)state;
    start(&forged, &recall, NULL);
    const struct kda_recall_item *items = kda_recall_items(recall, &count);
    for (size_t i = 0; i < count; i++) {
        const struct kda_recall_item *item = &items[i];
        if (!item->only_count && item->state != KDA_RECALL_COMPLETE)
            fail_msg("%s: %s", item->name, kda_recall_state_name(item->state));
        assert_int_equal(item->whole, item->lists);
        if (item->has_count && item->counted != item->found)
            fail_msg("%s: %llu counted, %zu found", item->name, (unsigned long long)item->counted,
                     item->found);
        counts += item->has_count;
    }
    assert_true(counts >= 7); /* slots, table pages twice, consumers, four kinds of callbacks */
    assert_int_equal(kda_kernel_gaps(forged.kernel)->count, 0);
    kda_recall_free(recall);
    forged_close(&forged);
}

/* A count of objects of a type: 0 beside objects says nothing, another number is compared. */
static void test_type_counts(void **state)
{
    char add[96] = "";
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        struct forged forged;
        struct kda_recall *recall;
        size_t count, seen = 0;
        uint64_t where = 0;
        start(&forged, &recall, add[0] ? add : NULL);
        const struct kda_recall_item *items = kda_recall_items(recall, &count);
        for (size_t i = 0; i < count; i++) {
            if (!items[i].of || strcmp(items[i].of, "EtwConsumer") != 0)
                continue;
            seen++;
            where = items[i].count_va;
            assert_int_equal(items[i].found, 7);
            assert_int_equal(items[i].has_count, round == 1);
            if (round == 1)
                assert_int_equal(items[i].counted, 9);
            else
                assert_non_null(items[i].uncounted);
        }
        assert_int_equal(seen, 1);
        (void)snprintf(add, sizeof(add), "poke va:0x%llx +0 9 width=4", (unsigned long long)where);
        kda_recall_free(recall);
        forged_close(&forged);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits),
        cmocka_unit_test(test_healthy),
        cmocka_unit_test(test_type_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
