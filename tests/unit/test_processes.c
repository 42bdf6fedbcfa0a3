/* Processes from three witnesses, with each of them lying or missing. */
#include "mini.h"

static const struct kda_process *find(struct mini *m, uint64_t va)
{
    const struct kda_process *processes;
    size_t count;
    assert_int_equal(kda_processes(m->kernel, &processes, &count, NULL), KDA_OK);
    return kda_process_at(m->kernel, va);
}

static size_t total(struct mini *m)
{
    const struct kda_process *processes;
    size_t count;
    assert_int_equal(kda_processes(m->kernel, &processes, &count, NULL), KDA_OK);
    return count;
}

static uint64_t give_table(struct mini *m, uint64_t process, uint64_t pid)
{
    uint64_t table = mini_handle_table(m);
    mini_set(m, table, KDA_F_HANDLE_TABLE_QuotaProcess, process);
    mini_set(m, table, KDA_F_HANDLE_TABLE_UniqueProcessId, pid);
    mini_list_add(m, mini_symbol(m, KDA_SYM_HandleTableListHead),
                  mini_at(m, table, KDA_F_HANDLE_TABLE_HandleTableList));
    return table;
}

static void unlink_process(struct mini *m, uint64_t process)
{
    uint8_t links[16];
    uint64_t at = mini_at(m, process, KDA_F_EPROCESS_ActiveProcessLinks);
    mini_read(m, at, links, 16);
    mini_put64(m, kda_le64(links + 8), kda_le64(links));
    mini_put64(m, kda_le64(links) + 8, kda_le64(links + 8));
    mini_list(m, at);
}

static void test_three_witnesses(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_system(m, 64);
    uint64_t system = mini_process(m, 4, "System");
    uint64_t hidden = mini_process(m, 400, "hidden.exe");
    uint64_t table = give_table(m, system, 4);
    mini_handle(m, mini_cid_page(m), 1, system, 0);
    mini_handle(m, mini_cid_page(m), 100, hidden, 0);
    mini_set(m, system, KDA_F_EPROCESS_ObjectTable, table);
    unlink_process(m, hidden);
    mini_kernel(m);
    assert_int_equal(total(m), 2);
    const struct kda_process *p = find(m, system);
    assert_int_equal(p->found_by, KDA_FOUND_LIST | KDA_FOUND_HANDLE_TABLE | KDA_FOUND_CID);
    assert_true(p->readable && p->has_pid && p->has_silo);
    assert_int_equal(p->pid, 4);
    assert_string_equal(p->name, "System");
    assert_true(p->handle_table == table);
    p = find(m, hidden);
    assert_int_equal(p->found_by, KDA_FOUND_CID);
    assert_int_equal(p->pid, 400);
    assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
    mini_free(m);
}

static void test_unlinked_with_a_table(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_system(m, 64);
    (void)mini_process(m, 4, "System");
    uint64_t hidden = mini_process(m, 400, "hidden.exe");
    (void)give_table(m, hidden, 400);
    unlink_process(m, hidden);
    mini_kernel(m);
    assert_int_equal(find(m, hidden)->found_by, KDA_FOUND_HANDLE_TABLE);
    mini_free(m);
}

static void test_threads_in_the_cid_table(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_system(m, 64);
    (void)mini_process(m, 4, "System");
    uint64_t thread = mini_alloc(m, 0x200) + 0x40;
    mini_type(m, thread, 8);
    mini_handle(m, mini_cid_page(m), 2, thread, 0);
    mini_kernel(m);
    assert_int_equal(total(m), 1);
    assert_int_equal(mini_gaps(m, NULL, KDA_OK), 0);
    mini_free(m);
}

static void test_unreadable(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_system(m, 64);
    (void)mini_process(m, 4, "System");
    (void)mini_alloc_page(m, 0xfd0); /* the body at a page start, its header in the page before */
    uint64_t gone = mini_process(m, 400, "gone.exe");
    assert_int_equal(gone & KDA_PAGE_MASK, 0);
    (void)mini_alloc_page(m, 1);
    (void)give_table(m, gone, 400);
    mini_absent(m, gone);
    mini_kernel(m);
    const struct kda_process *p = find(m, gone);
    assert_non_null(p);
    assert_false(p->readable);
    assert_false(p->has_silo);
    assert_true(p->has_pid && p->pid == 400); /* from its handle table */
    assert_string_equal(p->name, "");
    assert_int_equal(p->found_by, KDA_FOUND_LIST | KDA_FOUND_HANDLE_TABLE);
    assert_int_equal(mini_gaps(m, "process", KDA_ABSENT), 1);
    mini_free(m);
}

/* The object lies over two pages; what stands in the one that is there is not lost. */
static void one_page_missing(bool first)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint32_t name_at = m->layout.field[KDA_F_EPROCESS_ImageFileName].offset;
    uint32_t pid_at = m->layout.field[KDA_F_EPROCESS_UniqueProcessId].offset;
    mini_system(m, 64);
    (void)mini_process(m, 4, "System");
    assert_true(pid_at < name_at);
    (void)mini_alloc_page(m, KDA_PAGE_SIZE - 0x30 - (pid_at + name_at) / 2 / 16 * 16);
    uint64_t va = mini_process(m, 400, "half.exe");
    uint64_t page = (va + pid_at) & ~(uint64_t)KDA_PAGE_MASK;
    assert_true(((va + name_at) & ~(uint64_t)KDA_PAGE_MASK) == page + KDA_PAGE_SIZE);
    mini_handle(m, mini_cid_page(m), 100, va, 0);
    mini_paged(m, first ? page : page + KDA_PAGE_SIZE);
    mini_kernel(m);
    const struct kda_process *p = find(m, va);
    assert_non_null(p);
    assert_false(p->readable);
    assert_string_equal(p->name, first ? "half.exe" : "");
    assert_true(p->has_pid && p->pid == 400); /* its own field, or the CID table */
    assert_int_equal(mini_gaps(m, "process", KDA_PAGED_OUT), 1);
    mini_free(m);
}

static void test_one_page_of_two(void **state)
{
    (void)state;
    one_page_missing(true);
    one_page_missing(false);
}

static void test_fields_behind_a_hole_are_not_silent(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint32_t name_at = m->layout.field[KDA_F_EPROCESS_ImageFileName].offset;
    uint32_t exit_at = m->layout.field[KDA_F_EPROCESS_ExitTime].offset;
    (void)state;
    mini_system(m, 64);
    assert_true(name_at + 16 < exit_at);
    (void)mini_alloc_page(m, KDA_PAGE_SIZE - 0x30 - (name_at + exit_at) / 2 / 16 * 16);
    uint64_t va = mini_process(m, 400, "half.exe");
    mini_absent(m, va + exit_at);
    mini_kernel(m);
    const struct kda_process *p = find(m, va);
    assert_true(p->readable); /* pid and name are there */
    assert_int_equal(p->exit_time_100ns, 0);
    assert_int_equal(mini_gaps(m, "process", KDA_ABSENT), 1);
    mini_free(m);
}

static void test_list_head_missing(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_system(m, 64);
    uint64_t va = mini_process(m, 400, "only.exe");
    mini_handle(m, mini_cid_page(m), 100, va, 0);
    m->layout.rva[KDA_SYM_PsActiveProcessHead] = 0x3000000; /* nothing there */
    mini_absent(m, mini_symbol(m, KDA_SYM_PsActiveProcessHead));
    mini_kernel(m);
    assert_int_equal(find(m, va)->found_by, KDA_FOUND_CID);
    assert_int_equal(mini_gaps(m, "processes", KDA_ABSENT), 1);
    mini_free(m);
}

static void test_hole_in_the_list_filled_by_the_cid_table(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t va[7];
    (void)state;
    mini_system(m, 64);
    for (unsigned i = 0; i < 7; i++) {
        (void)mini_alloc_page(m, 0xfd0);
        va[i] = mini_process(m, 4 * (i + 1), "p.exe");
        mini_handle(m, mini_cid_page(m), i + 1, va[i], 0);
    }
    mini_absent(m, va[2]);
    mini_absent(m, va[4]);
    mini_kernel(m);
    assert_int_equal(total(m), 7);
    assert_int_equal(find(m, va[3])->found_by, KDA_FOUND_CID); /* between two holes */
    assert_true(find(m, va[3])->readable);
    assert_true(find(m, va[2])->has_pid); /* from the CID table */
    mini_free(m);
}

/* The id of a process whose page is missing: alone, impossible, and against the CID table. */
static void test_ids(void **state)
{
    static const struct {
        uint64_t table, cid, id; /* 0: none */
    } cases[] = {{400, 0, 400},       {0x806d2060, 0, 0}, {402, 0, 0},
                 {404, 101 * 4, 404}, {400, 101 * 4, 0},  {0x806d2060, 101 * 4, 404}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mini *m = mini_create(NULL, false, 0);
        mini_system(m, 64);
        uint64_t va = mini_process(m, 404, "a.exe");
        uint64_t table = give_table(m, va, cases[i].table);
        mini_set(m, va, KDA_F_EPROCESS_ObjectTable, table);
        mini_set(m, va, KDA_F_EPROCESS_UniqueProcessId, 3); /* impossible */
        if (cases[i].cid)
            mini_handle(m, mini_cid_page(m), (unsigned)(cases[i].cid / 4), va, 0);
        mini_kernel(m);
        const struct kda_process *p = find(m, va);
        assert_non_null(p);
        assert_int_equal(p->has_pid, cases[i].id != 0);
        assert_int_equal(p->pid, cases[i].id);
        mini_free(m);
    }
}

/* A table that a process names as its own does not make one out of missing memory. */
static void test_table_of_another(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_system(m, 64);
    uint64_t va = mini_process(m, 400, "a.exe"), hole = mini_alloc_page(m, 0x1000);
    mini_set(m, va, KDA_F_EPROCESS_ObjectTable, give_table(m, hole, 400));
    mini_absent(m, hole);
    mini_kernel(m);
    assert_int_equal(total(m), 1);
    assert_int_equal(mini_gaps(m, "handle_table", KDA_BAD_DATA), 1);
    mini_free(m);
}

/* No process stands inside another: the pointer for which less speaks is refused, of equals both.
 */
static void test_overlap(void **state)
{
    (void)state;
    for (unsigned listed = 0; listed < 2; listed++) {
        struct mini *m = mini_create(NULL, false, 0);
        mini_system(m, 64);
        (void)mini_process(m, 4, "System");
        uint64_t hole = mini_alloc_page(m, 0x4000), va = hole + 0x40;
        uint64_t table = give_table(m, va, 400);
        (void)give_table(m, va - 0x10, 404);
        if (listed)
            mini_list_add(m, mini_symbol(m, KDA_SYM_PsActiveProcessHead),
                          mini_at(m, va, KDA_F_EPROCESS_ActiveProcessLinks));
        for (uint64_t at = 0; at < 0x4000; at += 0x1000)
            mini_absent(m, hole + at);
        mini_kernel(m);
        assert_int_equal(total(m), 1 + listed);
        assert_true(!listed || find(m, va)->handle_table == table);
        assert_null(find(m, va - 0x10));
        assert_int_equal(mini_gaps(m, "process", KDA_BAD_DATA), 2 - listed);
        mini_free(m);
    }
}

static void test_names(void **state)
{
    static const struct {
        const char *stored, *want;
    } cases[] = {{"fifteenletters1", "fifteenletters1"},
                 {"a\xe9", "a\xc3\xa9"},
                 {"", ""},
                 {"\x1b[2J", "\x1b[2J"}}; /* escaped at the edge, not here */
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mini *m = mini_create(NULL, false, 0);
        mini_system(m, 64);
        uint64_t va = mini_process(m, 8, cases[i].stored);
        mini_kernel(m);
        assert_string_equal(find(m, va)->name, cases[i].want);
        mini_free(m);
    }
}

static void test_image_path(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_system(m, 64);
    uint64_t good = mini_process(m, 8, "good.exe"), bad = mini_process(m, 12, "bad.exe");
    uint64_t info = mini_alloc(m, 16);
    mini_string(m, info, "\\Device\\x\\good.exe");
    mini_set(m, good, KDA_F_EPROCESS_SeAuditProcessCreationInfo, info);
    mini_set(m, bad, KDA_F_EPROCESS_SeAuditProcessCreationInfo, 0x1234560);
    mini_kernel(m);
    assert_string_equal(find(m, good)->image, "\\Device\\x\\good.exe");
    assert_null(find(m, bad)->image);
    assert_int_equal(mini_gaps(m, "image_path", KDA_BAD_DATA), 1);
    mini_free(m);
}

/* Thousands of processes, each with a path of 64 KiB that is the same memory. */
static void test_long_paths_of_many_processes(void **state)
{
    struct mini *m = mini_create(NULL, false, 32u << 20);
    const struct kda_process *processes;
    size_t count, with = 0;
    (void)state;
    mini_system(m, 64);
    uint64_t text = mini_alloc_page(m, 65536), info = mini_alloc(m, 16);
    for (unsigned i = 0; i < 32767; i++)
        mini_put(m, text + 2 * i, 0x20ac, 2);
    mini_put(m, info, 0xfffefffeu, 4);
    mini_put64(m, info + 8, text);
    for (unsigned i = 0; i < 4000; i++) {
        uint64_t va = mini_process(m, 4 * (i + 1), "p");
        mini_set(m, va, KDA_F_EPROCESS_SeAuditProcessCreationInfo, info);
    }
    mini_kernel(m);
    m->kernel->arena.limit = (size_t)64 << 20;
    assert_int_equal(kda_processes(m->kernel, &processes, &count, NULL), KDA_OK);
    assert_int_equal(count, 4000);
    for (size_t i = 0; i < count; i++)
        with += processes[i].image != NULL;
    assert_in_range(with, 600, 700);                            /* 64 MiB of text */
    assert_int_equal(mini_gaps(m, "image_path", KDA_LIMIT), 1); /* the same string every time */
    assert_true(m->kernel->arena.used <= (size_t)64 << 20);
    mini_free(m);
}

static void test_sorted_and_found_by_address(void **state)
{
    struct mini *m = mini_create("6.1.7601.24540", false, 0);
    const struct kda_process *processes;
    uint64_t va[3];
    size_t count;
    (void)state;
    mini_system(m, 64);
    va[0] = mini_process(m, 900, "c");
    va[1] = mini_process(m, 4, "a");
    va[2] = mini_process(m, 30, "b");
    mini_kernel(m);
    assert_int_equal(kda_processes(m->kernel, &processes, &count, NULL), KDA_OK);
    assert_int_equal(count, 3);
    for (size_t i = 1; i < count; i++)
        assert_true(processes[i - 1].pid < processes[i].pid);
    for (size_t i = 0; i < 3; i++)
        assert_true(kda_process_at(m->kernel, va[i])->va == va[i]);
    assert_null(kda_process_at(m->kernel, va[0] + 8));
    assert_false(processes[0].has_protection); /* Windows 7 has none */
    mini_free(m);
}

/* ---- drivers ---- */

static uint64_t module(struct mini *m, const char *name, uint64_t base, uint32_t size)
{
    uint64_t va = mini_alloc(m, 0x120);
    mini_set(m, va, KDA_F_KLDR_DATA_TABLE_ENTRY_DllBase, base);
    mini_set(m, va, KDA_F_KLDR_DATA_TABLE_ENTRY_SizeOfImage, size);
    mini_string(m, mini_at(m, va, KDA_F_KLDR_DATA_TABLE_ENTRY_BaseDllName), name);
    mini_list_add(m, mini_symbol(m, KDA_SYM_PsLoadedModuleList), va);
    return va;
}

static void test_modules(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    const struct kda_module *modules;
    size_t count;
    (void)state;
    mini_system(m, 64);
    (void)module(m, "b.sys", 0xfffff80030000000u, 0x2000);
    (void)module(m, "a.sys", 0xfffff80020000000u, 0x1000);
    uint64_t nameless = module(m, "c.sys", 0xfffff80040000000u, 0x1000);
    mini_put64(m, mini_at(m, nameless, KDA_F_KLDR_DATA_TABLE_ENTRY_BaseDllName) + 8, 0x41);
    mini_kernel(m);
    assert_null(kda_module_at(m->kernel, 0xfffff80030000000u)); /* not read yet */
    assert_int_equal(kda_modules(m->kernel, &modules, &count, NULL), KDA_OK);
    assert_int_equal(count, 3);
    assert_string_equal(modules[0].name, "a.sys");
    assert_null(kda_module_at(m->kernel, 0xfffff8001fffffffu));
    assert_string_equal(kda_module_at(m->kernel, 0xfffff80020000fffu)->name, "a.sys");
    assert_null(kda_module_at(m->kernel, 0xfffff80020001000u));
    assert_string_equal(kda_module_at(m->kernel, 0xfffff80030001fffu)->name, "b.sys");
    assert_string_equal(modules[2].name, "");
    assert_int_equal(mini_gaps(m, "module_name", KDA_BAD_DATA), 1); /* the reason that is true */
    mini_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_witnesses),
        cmocka_unit_test(test_unlinked_with_a_table),
        cmocka_unit_test(test_threads_in_the_cid_table),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_one_page_of_two),
        cmocka_unit_test(test_fields_behind_a_hole_are_not_silent),
        cmocka_unit_test(test_list_head_missing),
        cmocka_unit_test(test_hole_in_the_list_filled_by_the_cid_table),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_table_of_another),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_image_path),
        cmocka_unit_test(test_long_paths_of_many_processes),
        cmocka_unit_test(test_sorted_and_found_by_address),
        cmocka_unit_test(test_modules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
