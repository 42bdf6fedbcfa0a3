/*
 * Objects that only pool memory shows: the parser of block headers, and machines on which something
 * was taken off every list, ended, was given back or copied.
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
#include "kda/pool.h"

/* ---- headers ---- */

static void put_header(uint8_t *page, size_t off, unsigned previous, unsigned size, unsigned type,
                       const char *tag)
{
    page[off] = (uint8_t)(previous / 16);
    page[off + 2] = (uint8_t)(size / 16);
    page[off + 3] = (uint8_t)type;
    memcpy(page + off + 4, tag, 4);
}

static void test_headers(void **state)
{
    static const struct {
        unsigned off, previous, size, type;
        const char *tag;
        bool good;
    } rows[] = {
        {0x100, 0, 0x80, 2, "EtwL", true},        {0x100, 0, 0x80, 3, "EtwG", true},
        {0x100, 0, 0x80, 2, "Pro\xe3", true}, /* protected: top bit of the tag */
        {0x100, 0, 0x80, 2, "EtwB", false},       {0x100, 0, 0x80, 0, "EtwL", false},
        {0x100, 0, 0x80, 1, "EtwL", false},       {0x100, 0, 0, 2, "EtwL", false},
        {0x100, 0, 0x10, 2, "EtwL", false},       {0xf80, 0, 0x80, 2, "EtwC", true},
        {0xf80, 0, 0x90, 2, "EtwC", false},       {0xff0, 0, 0x10, 2, "EtwC", false},
        {0x100, 0x40, 0x80, 2, "EtwR", true},     {0x100, 0x50, 0x80, 2, "EtwR", false},
        {0x100, 0x40, 0x90, 2, "EtwR", false},    {0x020, 0x40, 0x80, 2, "EtwR", false},
        {0x100, 0x50, 0x80, 2 | 4, "EtwR", true}, /* aligned: the byte means something else */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t page[KDA_PAGE_SIZE] = {0};
        struct kda_pool_block block;
        put_header(page, 0xc0, 0, 0x40, 2, "Abcd");
        put_header(page, 0x180, 0x80, 0x40, 2, "Abcd");
        put_header(page, rows[i].off, rows[i].previous, rows[i].size, rows[i].type, rows[i].tag);
        bool good = kda_pool_parse(page, rows[i].off, &block);
        if (good != rows[i].good)
            fail_msg("header %zu is %staken", i, good ? "" : "not ");
        if (good)
            assert_true(block.size == rows[i].size && !block.big && block.va == 0);
    }
}

/* ---- machines ---- */

#define GHOST "process 1200 name=ghost.exe unlinked nocid notablelink"
#define LINKED "process 1200 name=ghost.exe nocid notablelink"
#define SESSION "session 12 name=Hidden mode=0x400 hidden"
#define CONSUMER "consumer session=9 pid=800 unlinked nohandle"
#define GUID "{99999999-0000-0000-0000-000000000001}"
#define PROVIDER "provider " GUID " unlinked enable=9,level=4"
#define PROCESS "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}"
#define AMSI "{2a576b87-09a7-520e-c21a-4942f0271d67}"
#define REG "reg " PROCESS " user pid=800 unlinked nohandle"
#define REG_NUMBER "7" /* of what is added to audit.txt */

enum { S = 1, C = 2, P = 4, R = 8, E = 16 };

static const struct machine {
    const char *add;
    unsigned found; /* one of each of these kinds, and nothing else */
    bool gap;
} machines[] = {
    {"", 0, false},
    {SESSION, S, false},
    {CONSUMER, C, false},
    {PROVIDER, P, false},
    {REG, R, false},
    {GHOST, E, false},
    {SESSION "\n" CONSUMER "\n" PROVIDER "\n" REG "\n" GHOST, S | C | P | R | E, false},
    /* what belongs to something that is hidden itself */
    {SESSION "\nconsumer session=12 pid=800 unlinked nohandle", S | C, false},
    {PROVIDER "\nreg " GUID " user pid=800 unlinked nohandle", P | R, false},
    {GHOST "\nconsumer session=9 pid=1200 unlinked nohandle", C | E, false},
    {"reg " AMSI " kernel driver=exampleedr.sys unlinked", R, false},
    /* taken off with its own links kept */
    {"consumer session=9 pid=800 nohandle\nblock consumer:800 unlink", C, false},
    {"provider " GUID "\nblock provider:" GUID " unlink", P, false},
    {"reg " PROCESS " user pid=800 nohandle\nblock reg:" REG_NUMBER " unlink", R, false},
    {LINKED "\nblock process:1200 unlink", E, false},
    /* ended, given back, or torn */
    {SESSION " collecting=0", 0, false},
    {CONSUMER " flags=4", 0, false},
    {PROVIDER "\npoke provider:" GUID " RefCount 0", 0, false},
    {REG " flags=0x40", 0, false},
    {GHOST " exited=2024-03-07T12:40:00Z", 0, false},
    {SESSION "\nblock session:12 freed", 0, false},
    {CONSUMER "\nblock consumer:800 freed", 0, false},
    {PROVIDER "\nblock provider:" GUID " freed", 0, false},
    {REG "\nblock reg:" REG_NUMBER " freed", 0, false},
    {GHOST "\nblock process:1200 freed", 0, false},
    {GHOST "\nblock process:1200 tag=Free", 0, false},
    {GHOST "\nblock process:1200 size=0x200", 0, false},
    {GHOST "\nblock process:1200 previous=0x20", 0, false},
    /* contradicted in one place: type, InfoMask, references; slot, ring, owner, bucket, name */
    {GHOST "\npoke process:1200 +0xffffffffffffffe8 1 width=1", 0, false},
    {GHOST "\npoke process:1200 +0xffffffffffffffea 3 width=1", 0, false},
    {GHOST "\npoke process:1200 +0xffffffffffffffd0 0", 0, false},
    {GHOST "\npoke process:1200 ImageFileName 1 width=1", 0, false},
    {GHOST "\npoke process:1200 UniqueProcessId 1201", 0, false},
    {GHOST "\npoke process:1200 ObjectTable 0xffff900000000000", 0, false},
    {SESSION "\npoke session:12 LoggerId 500", 0, false},
    {SESSION "\npoke session:12 Consumers @session:9", 0, false},
    {SESSION "\npoke session:12 SiloState @session:9", 0, false},
    {SESSION "\npoke session:12 BufferSize 1000", 0, false},
    {CONSUMER "\npoke consumer:800 ProcessObject @session:9", 0, false},
    {CONSUMER "\npoke consumer:800 LoggerId 40", 0, false},
    {CONSUMER "\npoke consumer:800 Links @session:9\npoke consumer:800 Links+8 @session:9", 0,
     false},
    {PROVIDER "\npoke provider:" GUID " Guid 1 width=1", P, false}, /* its links are its own */
    {PROVIDER "\npoke provider:" GUID " RegListHead @session:9", 0, false},
    {"provider " GUID "\nblock provider:" GUID " unlink\npoke provider:" GUID " Guid 1 width=1", 0,
     false},
    {REG "\npoke reg:" REG_NUMBER " GuidEntry @session:9", 0, false},
    {REG "\npoke reg:" REG_NUMBER " Process @session:9", 0, false},
    /* copies of a page: mapped elsewhere, mapped nowhere, and the same page under two addresses */
    {"block session:9 copy=mapped", 0, false},
    {"block consumer:900 copy=mapped", 0, false},
    {"block provider:" PROCESS " copy=mapped", 0, false},
    {"block reg:1 copy=mapped\nblock reg:3 copy=mapped\nblock reg:4 copy=mapped", 0, false},
    {"block process:800 copy=mapped", 0, false},
    {GHOST "\nblock process:1200 copy=unmapped", E, false},
    {GHOST "\nblock process:1200 copy=mapped", E, false},
    {CONSUMER "\nblock consumer:800 copy=mapped", C, false}, /* it holds its own address */
    {GHOST "\nblock process:1200 copy=alias", 0, true},
    {"block process:800 copy=alias", 0, false},
    /* in the table of big pages */
    {GHOST "\nbigpages Proc", E, false},
    {SESSION "\nbigpages EtwL", S, false},
    {CONSUMER "\nbigpages EtwC", C, false},
    {REG "\nbigpages EtwR", R, false},
    {"bigpages EtwG", 0, false},
};

struct seen {
    size_t sessions, consumers, providers, registrations, processes;
    bool pool_gap;
};

static struct seen look(const struct forged *forged)
{
    struct seen seen = {0};
    size_t count;
    const struct kda_process *processes;
    assert_int_equal(kda_processes(forged->kernel, &processes, &count, NULL), KDA_OK);
    for (size_t i = 0; i < count; i++)
        seen.processes += processes[i].found_by == KDA_FOUND_POOL;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(forged->etw, &count);
    for (size_t i = 0; i < count; i++)
        seen.sessions += sessions[i]->found_by == KDA_SESSION_POOL;
    const struct kda_etw_consumer *const *consumers = kda_etw_consumers(forged->etw, &count);
    for (size_t i = 0; i < count; i++)
        seen.consumers += consumers[i]->found_by == KDA_CONSUMER_POOL;
    const struct kda_etw_provider *const *providers = kda_etw_providers(forged->etw, &count);
    for (size_t i = 0; i < count; i++) {
        seen.providers += (providers[i]->found_by & KDA_PROVIDER_POOL) != 0;
        for (size_t k = 0; k < providers[i]->registration_count; k++)
            seen.registrations += providers[i]->registrations[k]->found_by == KDA_REG_POOL;
    }
    const struct kda_gaps *gaps = kda_kernel_gaps(forged->kernel);
    for (size_t i = 0; i < gaps->count; i++)
        seen.pool_gap = seen.pool_gap || strcmp(gaps->items[i].what, "pool") == 0;
    return seen;
}

static bool same(const struct seen *seen, unsigned found, bool gap)
{
    return seen->sessions == ((found & S) != 0) && seen->consumers == ((found & C) != 0) &&
           seen->providers == ((found & P) != 0) && seen->registrations == ((found & R) != 0) &&
           seen->processes == ((found & E) != 0) && seen->pool_gap == gap;
}

static unsigned failed;

static void check(const struct machine *machine, const char *drop, const char *build, bool carve)
{
    struct forged forged;
    char add[1024];
    (void)snprintf(add, sizeof(add), "%s%s\n%s", build ? "build " : "", build ? build : "",
                   machine->add);
    char *text = forged_text("audit", drop, add);
    forged_carve(&forged, text, false, carve);
    free(text);
    struct seen seen = look(&forged);
    if (!same(&seen, carve ? machine->found : 0, carve && machine->gap)) {
        print_message("%s (%s): %zu sessions, %zu consumers, %zu providers, %zu registrations, "
                      "%zu processes, gap %d\n",
                      machine->add, build ? build : "22000", seen.sessions, seen.consumers,
                      seen.providers, seen.registrations, seen.processes, seen.pool_gap);
        failed++;
    }
    forged_close(&forged);
}

static void test_machines(void **state)
{
    (void)state;
    failed = 0;
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
        check(&machines[i], NULL, NULL, true);
    assert_int_equal(failed, 0);
}

static void test_without_the_option(void **state)
{
    (void)state;
    failed = 0;
    for (size_t i = 0; i < 7; i++)
        check(&machines[i], NULL, NULL, false);
    assert_int_equal(failed, 0);
}

/* Every form that the layouts have. */
static void test_builds(void **state)
{
    static const char *const builds[] = {"6.1.7601.24540", "6.3.9600.19913",  "10.0.14393.4583",
                                         "10.0.17763.379", "10.0.19041.1466", "10.0.20348.825"};
    static const unsigned rows[] = {0, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 19};
    (void)state;
    failed = 0;
    for (size_t b = 0; b < sizeof(builds) / sizeof(builds[0]); b++)
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            check(&machines[rows[i]], "poke silo", builds[b], true);
    assert_int_equal(failed, 0);
}

/* Without a cookie the type of a copied object agrees wherever it stands. */
static void test_copies_where_types_are_plain(void **state)
{
    static const struct machine rows[] = {
        {"block consumer:900 copy=mapped", 0, false},
        {"block reg:1 copy=mapped\nblock reg:3 copy=mapped\nblock reg:4 copy=mapped", 0, false},
        {"block process:800 copy=mapped", 0, false},
        {"consumer session=9 pid=800 nohandle\nblock consumer:800 unlink copy=mapped", 0, true},
    };
    (void)state;
    failed = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i], "poke silo", "6.3.9600.19913", true);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_without_the_option),
        cmocka_unit_test(test_builds),
        cmocka_unit_test(test_copies_where_types_are_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
