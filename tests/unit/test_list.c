/* The list walker against every way a ring can be wrong. */
#include "mini.h"

#define HEAD 0xffff900000000000u
#define NODE(i) (HEAD + 0x1000u * ((i) + 1u) + 0x10u)

struct seen {
    uint64_t va[64];
    bool readable[64];
    size_t count, stop_at;
    bool take_torn;
};

static enum kda_step note(void *context, uint64_t link_va, enum kda_link how)
{
    struct seen *seen = context;
    assert_true(seen->count < 64);
    seen->va[seen->count] = link_va;
    seen->readable[seen->count++] = how != KDA_LINK_MISSING;
    if (how == KDA_LINK_TORN && !seen->take_torn) {
        seen->count--;
        return KDA_STEP_REFUSE;
    }
    return seen->count != seen->stop_at ? KDA_STEP_TAKE : KDA_STEP_STOP;
}

static struct mini *ring(unsigned nodes)
{
    struct mini *m = mini_create(NULL, false, 0);
    mini_list(m, HEAD);
    for (unsigned i = 0; i < nodes; i++)
        mini_list_add(m, HEAD, NODE(i));
    return m;
}

static bool has(const struct seen *seen, uint64_t va, bool readable)
{
    for (size_t i = 0; i < seen->count; i++)
        if (seen->va[i] == va && seen->readable[i] == readable)
            return true;
    return false;
}

static struct seen walk(struct mini *m, size_t max, struct kda_list_result *result)
{
    struct seen seen;
    memset(&seen, 0, sizeof(seen));
    mini_kernel(m);
    assert_int_equal(kda_list_walk(m->kernel, HEAD, max, "list", note, &seen, result, NULL),
                     KDA_OK);
    assert_int_equal(seen.count, result->nodes);
    for (size_t i = 0; i < seen.count; i++) /* each node once */
        for (size_t j = 0; j < i; j++)
            assert_true(seen.va[i] != seen.va[j]);
    return seen;
}

static void test_closed(void **state)
{
    (void)state;
    for (unsigned nodes = 0; nodes < 4; nodes++) {
        struct mini *m = ring(nodes);
        struct kda_list_result r;
        struct seen seen = walk(m, 100, &r);
        assert_int_equal(seen.count, nodes);
        for (unsigned i = 0; i < nodes; i++)
            assert_true(seen.va[i] == NODE(i) && seen.readable[i]);
        assert_int_equal(r.forward, KDA_LIST_CLOSED);
        assert_int_equal(r.backward, KDA_LIST_CLOSED);
        assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
        mini_free(m);
    }
}

static void test_node_to_itself(void **state)
{
    struct mini *m = ring(4);
    struct kda_list_result r;
    (void)state;
    mini_put64(m, NODE(1), NODE(1)); /* Flink */
    struct seen seen = walk(m, 100, &r);
    assert_int_equal(seen.count, 4); /* the rest from the other end */
    assert_int_equal(r.forward, KDA_LIST_CYCLE);
    assert_int_equal(mini_gaps(m, "list", KDA_BAD_DATA), 1);
    mini_free(m);
}

static void test_cycle_into_the_middle(void **state)
{
    struct mini *m = ring(6);
    struct kda_list_result r;
    (void)state;
    mini_put64(m, NODE(4), NODE(2));
    struct seen seen = walk(m, 100, &r);
    assert_int_equal(seen.count, 6);
    assert_int_equal(r.forward, KDA_LIST_CYCLE);
    assert_true(has(&seen, NODE(5), true));
    mini_free(m);
}

static void test_full_lie_without_the_head(void **state)
{
    struct mini *m = ring(3);
    struct kda_list_result r;
    (void)state;
    /* Both directions go round without ever coming back to the head. */
    mini_put64(m, NODE(2), NODE(0));
    mini_put64(m, NODE(0) + 8, NODE(2));
    struct seen seen = walk(m, 100, &r);
    assert_int_equal(r.forward, KDA_LIST_MISMATCH); /* the first node names another predecessor */
    assert_true(seen.count <= 3);
    assert_int_equal(mini_gaps(m, "list", KDA_OK), 1);
    mini_free(m);
}

static void test_mismatch(void **state)
{
    struct mini *m = ring(5);
    struct kda_list_result r;
    uint64_t stray = HEAD + 0x20000;
    (void)state;
    mini_list(m, stray);
    mini_put64(m, NODE(1), stray); /* a node that does not know the list */
    struct seen seen = walk(m, 100, &r);
    assert_int_equal(r.forward, KDA_LIST_MISMATCH);
    assert_false(has(&seen, stray, true));
    assert_false(has(&seen, stray, false));
    assert_int_equal(seen.count, 5);
    mini_free(m);
}

static void test_half_unlinked(void **state)
{
    struct mini *m = ring(5);
    struct kda_list_result r;
    (void)state;
    mini_put64(m, NODE(1), NODE(3)); /* node 2 left out forward only */
    struct seen seen = walk(m, 100, &r);
    assert_int_equal(seen.count, 5);
    assert_true(has(&seen, NODE(2), true));
    mini_free(m);
}

static void test_hole_in_the_middle(void **state)
{
    static void (*const holes[])(struct mini *, uint64_t) = {mini_absent, mini_paged};
    static const enum kda_status reasons[] = {KDA_ABSENT, KDA_PAGED_OUT};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct mini *m = ring(7);
        struct kda_list_result r;
        holes[i](m, NODE(3));
        struct seen seen = walk(m, 100, &r);
        assert_int_equal(seen.count, 7);
        assert_true(has(&seen, NODE(3), false)); /* known from its neighbour */
        assert_true(has(&seen, NODE(4), true));
        assert_int_equal(r.forward, KDA_LIST_BROKEN);
        assert_true(r.broken_va[0] == NODE(3));
        assert_int_equal(r.reason[0], reasons[i]);
        assert_int_equal(mini_gaps(m, "list", reasons[i]), 1);
        mini_free(m);
    }
}

static void test_two_holes(void **state)
{
    struct mini *m = ring(7);
    struct kda_list_result r;
    (void)state;
    mini_absent(m, NODE(2));
    mini_absent(m, NODE(4));
    struct seen seen = walk(m, 100, &r);
    assert_int_equal(seen.count, 6); /* node 3 is behind both */
    assert_true(has(&seen, NODE(2), false) && has(&seen, NODE(4), false));
    assert_true(has(&seen, NODE(5), true) && has(&seen, NODE(6), true));
    mini_free(m);
}

static void test_wild_pointers(void **state)
{
    static const uint64_t wild[] = {0,
                                    0x1234,
                                    0x00007ff712345678u,
                                    0x8000000000000000u,
                                    NODE(2) + 1,          /* misaligned */
                                    0xffffa00000000000u}; /* nothing mapped there */
    (void)state;
    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        struct mini *m = ring(4);
        struct kda_list_result r;
        mini_put64(m, NODE(1), wild[i]);
        struct seen seen = walk(m, 100, &r);
        assert_int_equal(seen.count, 4);
        assert_int_equal(r.forward, KDA_LIST_BROKEN);
        assert_true(r.broken_va[0] == NODE(1)); /* the link that lies, not where it leads */
        for (unsigned n = 0; n < 4; n++)
            assert_true(has(&seen, NODE(n), true));
        mini_free(m);
    }
}

static void test_lying_head(void **state)
{
    struct mini *m = ring(3);
    struct kda_list_result r;
    (void)state;
    mini_put64(m, HEAD, 0x41414141); /* Flink of the head itself */
    struct seen seen = walk(m, 100, &r);
    assert_int_equal(seen.count, 3);
    mini_put64(m, HEAD + 8, 0x41414141);
    seen = walk(m, 100, &r);
    assert_int_equal(seen.count, 0);
    assert_int_equal(r.backward, KDA_LIST_BROKEN);
    assert_int_equal(mini_gaps(m, "list", KDA_BAD_DATA), 1);
    mini_free(m);
}

static void test_head_says_empty_but_is_not(void **state)
{
    struct mini *m = ring(3);
    struct kda_list_result r;
    (void)state;
    mini_put64(m, HEAD, HEAD); /* its other link still names the last node */
    struct seen seen = walk(m, 100, &r);
    assert_int_equal(seen.count, 3);
    assert_int_equal(r.forward, KDA_LIST_MISMATCH);
    mini_free(m);
}

static void test_tail_cut_off(void **state)
{
    struct mini *m = ring(5);
    struct kda_list_result r;
    (void)state;
    mini_put64(m, NODE(1), HEAD);
    struct seen seen = walk(m, 100, &r);
    assert_int_equal(seen.count, 5);
    assert_int_equal(r.forward, KDA_LIST_MISMATCH);
    assert_int_equal(r.backward, KDA_LIST_CLOSED);
    mini_free(m);
}

static void test_limit(void **state)
{
    struct mini *m = ring(10);
    struct kda_list_result r;
    (void)state;
    struct seen seen = walk(m, 4, &r);
    assert_int_equal(seen.count, 4);
    assert_int_equal(r.forward, KDA_LIST_LIMIT);
    assert_int_equal(mini_gaps(m, "list", KDA_LIMIT), 1);
    seen = walk(m, 10, &r);
    assert_int_equal(seen.count, 10);
    assert_int_equal(r.forward, KDA_LIST_CLOSED);
    mini_free(m);
}

static void test_stopped(void **state)
{
    struct mini *m = ring(5);
    struct kda_list_result r;
    struct seen seen;
    (void)state;
    memset(&seen, 0, sizeof(seen));
    seen.stop_at = 2;
    mini_kernel(m);
    assert_int_equal(kda_list_walk(m->kernel, HEAD, 9, "list", note, &seen, &r, NULL), KDA_OK);
    assert_int_equal(r.forward, KDA_LIST_STOPPED);
    assert_int_equal(seen.count, 2);
    assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
    mini_free(m);
}

static void test_head_missing(void **state)
{
    struct mini *m = ring(2);
    struct kda_list_result r;
    struct seen seen;
    (void)state;
    memset(&seen, 0, sizeof(seen));
    memset(&r, 0, sizeof(r));
    mini_absent(m, HEAD);
    mini_kernel(m);
    assert_int_equal(kda_list_walk(m->kernel, HEAD, 9, "list", note, &seen, &r, NULL), KDA_ABSENT);
    assert_int_equal(seen.count, 0);
    assert_int_equal(mini_gaps(m, "list", KDA_ABSENT), 1);
    mini_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_node_to_itself),
        cmocka_unit_test(test_cycle_into_the_middle),
        cmocka_unit_test(test_full_lie_without_the_head),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_half_unlinked),
        cmocka_unit_test(test_hole_in_the_middle),
        cmocka_unit_test(test_two_holes),
        cmocka_unit_test(test_wild_pointers),
        cmocka_unit_test(test_lying_head),
        cmocka_unit_test(test_head_says_empty_but_is_not),
        cmocka_unit_test(test_tail_cut_off),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_head_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
