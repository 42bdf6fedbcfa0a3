/* What the generator does to a finished machine: two states mixed by page, runs of missing pages,
 * pages overwritten. Read back by a reader that shares nothing with the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "forge.h"
#include "plain_view.h"

#define S(name) KDA_SYM_##name
#define PAGE 4096u

static const char machine[] =
    "rvas invented\nsize 4M\nseed 9\ncpus 1\nkernel pages=sparse\nusers off\ndrivers none\n"
    "process 4 handles=4\nprocess 412 name=smss.exe handles=3\nprocess 500 name=a.exe handles=3\n"
    "session 3 name=Steady\nconsumer session=3 pid=412\n"
    "provider {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} enable=3\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} user pid=412\n";
static const char two_states[] =
    "process 600 name=late.exe handles=2 in=later\nprocess 604 name=gone.exe handles=2 in=first\n"
    "session 7 name=Late in=later\nsession 8 name=Gone in=first\n"
    "consumer session=7 pid=600 in=later\nconsumer session=3 pid=604 in=first\n"
    "provider {12345678-0000-0000-0000-000000000001} enable=3 in=later\n"
    "reg {12345678-0000-0000-0000-000000000001} user pid=600 in=later\n"
    "poke session:3 EventsLost 17 in=later\n";

struct built {
    struct forge *forge;
    const struct forge_truth *truth;
    uint8_t *bytes;
    size_t size;
    struct plain_view view;
};

static void build(struct built *b, const char *more, const char *still_more)
{
    char text[4096];
    struct kda_error err = {0};
    (void)snprintf(text, sizeof(text), "%s%s\n%s\n", machine, more, still_more);
    if (forge_build(text, &b->forge, &err) != KDA_OK ||
        forge_write_memory(b->forge, FORGE_RAW, &b->bytes, &b->size, &err) != KDA_OK)
        fail_msg("%s", err.text);
    b->truth = forge_truth(b->forge);
    b->view = (struct plain_view){b->bytes,       b->size,        b->truth->dtb,
                                  b->truth->la57, b->truth->base, *forge_layout(b->forge)};
}

static void drop(struct built *b)
{
    forge_free(b->forge);
    free(b->bytes);
}

static uint64_t session_va(const struct built *b, uint32_t id)
{
    for (size_t i = 0; i < b->truth->session_count; i++)
        if (b->truth->sessions[i].id == id)
            return b->truth->sessions[i].va;
    fail();
    return 0;
}

/* ---- two states ---- */

/* Is the object of that process on the list, in the table of ids, and its session in its slot? */
static void check_moment(const struct built *b, uint64_t pid, uint32_t slot, bool there)
{
    const struct plain_view *v = &b->view;
    uint64_t nodes[64], va = 0, link = v->layout.field[KDA_F_EPROCESS_ActiveProcessLinks].offset;
    long count = plain_ring(v, plain_symbol(v, S(PsActiveProcessHead)), nodes, 64);
    bool linked = false;
    for (size_t i = 0; i < b->truth->process_count; i++)
        va = b->truth->processes[i].pid == pid ? b->truth->processes[i].va : va;
    for (long i = 0; i < count; i++)
        linked = linked || nodes[i] == va + link;
    assert_int_equal(linked, there);
    uint64_t cid = plain_u64(v, plain_symbol(v, S(PspCidTable)));
    assert_int_equal(plain_handle(v, cid, pid), there ? va : 0);
    assert_int_equal(plain_u64(v, b->truth->silos[0].array + 8 * slot),
                     there ? session_va(b, slot) : 1);
}

static void states_at_the_ends(void **state)
{
    struct built first, later, none;
    (void)state;
    build(&first, two_states, "smear percent=0");
    build(&later, two_states, "smear percent=100");
    build(&none, two_states, "");
    check_moment(&first, 600, 7, false);
    check_moment(&first, 604, 8, true);
    check_moment(&later, 600, 7, true);
    check_moment(&later, 604, 8, false);
    /* Without the line it is the first state. */
    assert_int_equal(none.size, first.size);
    assert_memory_equal(none.bytes, first.bytes, first.size);
    uint64_t lost =
        session_va(&first, 3) + first.view.layout.field[KDA_F_WMI_LOGGER_CONTEXT_EventsLost].offset;
    assert_int_equal(plain_u64(&first.view, lost) & UINT32_MAX, 0);
    assert_int_equal(plain_u64(&later.view, lost) & UINT32_MAX, 17);
    drop(&first);
    drop(&later);
    drop(&none);
}

/* Every page is one of the two, the one that the truth names; nothing else differs. */
static void mixed_by_page(void **state)
{
    struct built first, later, mixed;
    unsigned seen[3] = {0};
    (void)state;
    build(&first, two_states, "smear percent=0");
    build(&later, two_states, "smear percent=100");
    build(&mixed, two_states, "smear percent=50 seed=3");
    const struct forge_truth *t = mixed.truth;
    size_t differing = 0;
    for (size_t pfn = 0; pfn < first.size / PAGE; pfn++)
        differing += memcmp(first.bytes + pfn * PAGE, later.bytes + pfn * PAGE, PAGE) != 0;
    assert_int_equal(t->smear_page_count, differing);
    for (size_t i = 0; i < t->smear_page_count; i++) {
        const struct forge_smear_page *page = &t->smear_pages[i];
        const uint8_t *from = page->state == FORGE_LATER ? later.bytes : first.bytes;
        assert_memory_equal(mixed.bytes + page->pfn * PAGE, from + page->pfn * PAGE, PAGE);
        assert_true(page->va != 0);
        seen[page->state]++;
        memcpy(mixed.bytes + page->pfn * PAGE, first.bytes + page->pfn * PAGE, PAGE);
    }
    assert_true(seen[FORGE_FIRST] > 0 && seen[FORGE_LATER] > 0);
    for (size_t i = 0; i < t->change_count; i++) {
        assert_int_equal(plain_u64(&first.view, t->changes[i].va), t->changes[i].first);
        assert_int_equal(plain_u64(&later.view, t->changes[i].va), t->changes[i].later);
    }
    assert_true(t->change_count >= differing);
    assert_memory_equal(mixed.bytes, first.bytes, first.size);
    drop(&first);
    drop(&later);
    drop(&mixed);
}

/* ---- missing and overwritten pages ---- */

/* A machine with much paged pool: names and paths of many processes. */
static void clustered(void **state)
{
    struct built b;
    static char many[120000];
    struct kda_error err = {0};
    size_t used = (size_t)snprintf(many, sizeof(many), "%s", machine), runs = 0;
    (void)state;
    for (unsigned i = 0; i < 300; i++)
        used +=
            (size_t)snprintf(many + used, sizeof(many) - used,
                             "process %u handles=1 name=p.exe path=%0*d\n", 1000 + i * 4, 200, 0);
    (void)snprintf(many + used, sizeof(many) - used,
                   "size 16M\nhole percent=20 run=8 pool=paged kind=paged\n");
    if (forge_build(many, &b.forge, &err) != KDA_OK)
        fail_msg("%s", err.text);
    b.truth = forge_truth(b.forge);
    const struct forge_hole_page *holes = b.truth->holes;
    for (size_t i = 0; i < b.truth->hole_count; i++)
        runs += i == 0 || holes[i].va != holes[i - 1].va + PAGE;
    /* 300 handle tables of a page each: about 60 pages in 8 or less runs of 8 or more. */
    assert_in_range(b.truth->hole_count, 24, 140);
    assert_true(runs > 1 && runs * 8 <= b.truth->hole_count + 7);
    /* No process object is in paged pool. */
    for (size_t i = 0; i < b.truth->process_count; i++)
        assert_true(b.truth->processes[i].readable);
    forge_free(b.forge);
}

/* The page as it is, with all that stands on it: nothing is moved for the hole. */
static void page_by_name(void **state)
{
    struct built whole, holed;
    uint64_t value;
    (void)state;
    build(&whole, "", "");
    build(&holed, "hole page-of=PsInitialSystemProcess", "hole page-of=session:3");
    assert_int_equal(holed.truth->hole_count, 2);
    assert_int_equal(holed.truth->holes[0].va,
                     plain_symbol(&whole.view, S(PsInitialSystemProcess)) & ~(uint64_t)(PAGE - 1));
    assert_int_equal(holed.truth->holes[1].va, session_va(&whole, 3) & ~(uint64_t)(PAGE - 1));
    assert_int_equal(session_va(&holed, 3), session_va(&whole, 3));
    assert_true(plain_read(&whole.view, session_va(&whole, 3), &value, 8));
    assert_false(plain_read(&holed.view, session_va(&holed, 3), &value, 8));
    assert_false(holed.truth->sessions[0].readable);
    drop(&whole);
    drop(&holed);
}

static void overwritten(void **state)
{
    static const char *const kinds[] = {"zeros", "0x41", "page"};
    struct built whole;
    (void)state;
    build(&whole, "", "");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct built b;
        char line[64];
        uint8_t wanted[PAGE];
        (void)snprintf(line, sizeof(line), "hole page-of=process:412 kind=%s", kinds[i]);
        build(&b, line, "");
        assert_int_equal(b.truth->hole_count, 1);
        uint64_t pfn = b.truth->holes[0].pfn, same = 0;
        memset(wanted, i == 1 ? 0x41 : 0, PAGE);
        for (uint64_t other = 0; i == 2 && other < b.size / PAGE; other++)
            same += other != pfn && memcmp(b.bytes + other * PAGE, b.bytes + pfn * PAGE, PAGE) == 0;
        if (i == 2)
            assert_true(same > 0);
        else
            assert_memory_equal(b.bytes + pfn * PAGE, wanted, PAGE);
        assert_memory_not_equal(b.bytes + pfn * PAGE, whole.bytes + pfn * PAGE, PAGE);
        for (size_t k = 0; k < b.truth->process_count; k++)
            if (b.truth->processes[k].pid == 412)
                assert_false(b.truth->processes[k].readable);
        drop(&b);
    }
    drop(&whole);
}

static void mistakes(void **state)
{
    static const char *const lines[] = {
        "hole page-of=nothing",
        "hole page-of=session:9",
        "hole percent=5 run=0",
        "hole percent=5 pool=swimming",
        "hole page-of=session:3 kind=ones",
        "smear percent=101",
        "session 9 name=x in=between",
        "silo 1 in=later",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[2048];
        struct forge *forge = NULL;
        struct kda_error err = {0};
        (void)snprintf(text, sizeof(text), "%s%s\n", machine, lines[i]);
        assert_int_equal(forge_build(text, &forge, &err), KDA_USAGE);
        assert_non_null(strstr(err.text, "line 15"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_at_the_ends), cmocka_unit_test(mixed_by_page),
        cmocka_unit_test(clustered),          cmocka_unit_test(page_by_name),
        cmocka_unit_test(overwritten),        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
