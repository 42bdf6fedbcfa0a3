/*
 * The n-th fallible call fails, for n = 1, 2, ...: opening the kernel, loading symbols and reading
 * the whole map either fail cleanly or say that something is missing. Needs a build with faults.
 */
#include <stdio.h>

#include "mini.h"

#include "forge.h"
#include "kda/etw.h"

#ifdef KDA_FAULT_INJECTION

static const char scenario[] =
    "build 10.0.22000.795\nsize 4M\nseed 3\nkernel pages=sparse\ncompact on\nusers off\n"
    "drivers none\ndriver tcpip.sys size=0x20000\n"
    "process 4 handles=2\n"
    "process 412 ppid=4 name=svchost.exe path=\\x\\svchost.exe handles=2\n"
    "session 1 name=One mode=0x180 sd=O:SYG:SYD:(A;;0x120fff;;;SY)\n"
    "consumer session=1 pid=412\n"
    "provider {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} enable=1,level=5,any=0x10 "
    "filter=pids:412 filter=exes:a.exe\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} kernel driver=nt\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} user pid=412 traits=Name\n"
    /* on no list: only pool blocks show these */
    "process 1200 ppid=4 name=ghost.exe unlinked nocid notablelink\n"
    "session 2 name=Two mode=0x100 hidden\n"
    "consumer session=1 pid=412 unlinked nohandle\n"
    "provider {22222222-0e7b-422b-a0c7-2fad1fd0e716} unlinked\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} user pid=412 unlinked nohandle\n";

/* What a run came to; equal for equal results. */
struct result {
    enum kda_status status;
    size_t silos, sessions, consumers, providers, registrations, processes, modules, names, gaps;
};

static bool fired; /* in the last run */

static size_t named(const char *text)
{
    return text && text[0] ? strlen(text) : 0;
}

static void count(struct kda_kernel *kernel, const struct kda_etw *etw, struct result *r)
{
    const struct kda_process *processes;
    const struct kda_module *modules;
    kda_fault_arm(0);
    assert_int_equal(kda_processes(kernel, &processes, &r->processes, NULL), KDA_OK);
    assert_int_equal(kda_modules(kernel, &modules, &r->modules, NULL), KDA_OK);
    for (size_t i = 0; i < r->processes; i++)
        r->names += named(processes[i].name) + named(processes[i].image);
    for (size_t i = 0; i < r->modules; i++)
        r->names += named(modules[i].name) + named(modules[i].path);
    (void)kda_etw_silos(etw, &r->silos);
    const struct kda_etw_session *const *sessions = kda_etw_sessions(etw, &r->sessions);
    for (size_t i = 0; i < r->sessions; i++)
        r->names += named(sessions[i]->name) + named(sessions[i]->security) + sessions[i]->have;
    const struct kda_etw_consumer *const *consumers = kda_etw_consumers(etw, &r->consumers);
    for (size_t i = 0; i < r->consumers; i++)
        r->names += named(consumers[i]->process) + consumers[i]->found_by;
    const struct kda_etw_provider *const *providers = kda_etw_providers(etw, &r->providers);
    for (size_t i = 0; i < r->providers; i++) {
        r->names += named(providers[i]->name) + named(providers[i]->security);
        r->registrations += providers[i]->registration_count;
        for (size_t j = 0; j < providers[i]->filter_count; j++)
            r->names +=
                named(providers[i]->filters[j].executables) + providers[i]->filters[j].pid_count;
    }
}

static struct result run(const uint8_t *bytes, size_t size)
{
    struct kda_image *image = NULL;
    struct kda_kernel *kernel = NULL;
    struct kda_etw *etw = NULL;
    struct kda_error err;
    struct kda_kernel_options options;
    struct result r;
    memset(&r, 0, sizeof(r));
    memset(&options, 0, sizeof(options));
    options.symbols.path = "profile";
    options.carve = true;
    r.status = kda_image_open_memory(bytes, size, "faults", &image, &err);
    if (r.status == KDA_OK)
        r.status = kda_kernel_open(image, &options, &kernel, &err);
    if (r.status == KDA_OK)
        r.status = kda_kernel_load_symbols(kernel, &err);
    if (r.status == KDA_OK)
        r.status = kda_etw_map(kernel, &etw, &err);
    fired = kda_fault_fired();
    if (r.status == KDA_OK) {
        r.gaps = kda_kernel_gaps(kernel)->count + kda_kernel_gaps(kernel)->dropped;
        count(kernel, etw, &r);
    } else {
        assert_true(err.text[0] != '\0');
        assert_null(etw);
    }
    kda_etw_free(etw);
    kda_kernel_close(kernel);
    kda_image_close(image);
    return r;
}

static void every_fault(enum forge_format format)
{
    struct kda_error err;
    uint8_t *bytes;
    size_t size, survived = 0;
    kda_fault_arm(0);
    if (forge_build_memory(scenario, format, &bytes, &size, &err) != KDA_OK)
        fail_msg("%s", err.text);
    struct result good = run(bytes, size);
    assert_int_equal(good.status, KDA_OK);
    assert_true(good.sessions == 2 && good.consumers == 2 && good.registrations == 3);
    fired = true;
    for (uint64_t n = 1; fired; n++) {
        assert_true(n < 100000);
        kda_fault_arm(n);
        struct result r = run(bytes, size);
        if (r.status == KDA_OK && r.gaps == good.gaps && memcmp(&r, &good, sizeof(r)) != 0)
            fail_msg("fault %llu changed the result without a word", (unsigned long long)n);
        survived += r.status == KDA_OK;
    }
    free(bytes);
    assert_true(survived > 0);
}

static void test_raw(void **state)
{
    (void)state;
    every_fault(FORGE_RAW);
}

static void test_dump(void **state)
{
    (void)state;
    every_fault(FORGE_DMP_BITMAP);
}

#else

static void test_raw(void **state)
{
    (void)state;
    skip();
}

static void test_dump(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_raw), cmocka_unit_test(test_dump)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
