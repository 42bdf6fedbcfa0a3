/* What the image generator writes, read back by a reader that shares nothing with the library. */
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
#include "process.h"

#define SCENARIOS KDA_SOURCE_DIR "/tests/images/scenarios/"
#define SHARED_IMAGE KDA_SOURCE_DIR "/../shared/data/images/win11-22000.795.raw.xz"
#define SHARED_UNPACKED KDA_BUILD_DIR "/forge-shared.raw"
#define F(type, name) KDA_F_##type##_##name
#define S(name) KDA_SYM_##name

struct built {
    struct forge *forge;
    const struct forge_truth *truth;
    uint8_t *bytes;
    struct plain_view view;
};

static char *read_file(const char *path, size_t *size)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return NULL;
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    long length = ftell(in);
    assert_true(length >= 0);
    rewind(in);
    char *text = calloc(1, (size_t)length + 256);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)length, in), (size_t)length);
    (void)fclose(in);
    *size = (size_t)length;
    return text;
}

static void build(struct built *b, const char *name, const char *extra)
{
    char path[512];
    size_t size = 0;
    struct kda_error err = {0};
    (void)snprintf(path, sizeof(path), SCENARIOS "%s.txt", name);
    char *text = read_file(path, &size);
    assert_non_null(text);
    (void)snprintf(text + size, 256, "\n%s\n", extra);
    if (forge_build(text, &b->forge, &err) != KDA_OK)
        fail_msg("%s: %s", name, err.text);
    free(text);
    b->truth = forge_truth(b->forge);
    size_t bytes = 0;
    if (forge_write_memory(b->forge, FORGE_RAW, &b->bytes, &bytes, &err) != KDA_OK)
        fail_msg("%s: %s", name, err.text);
    b->view = (struct plain_view){b->bytes,       bytes,          b->truth->dtb,
                                  b->truth->la57, b->truth->base, *forge_layout(b->forge)};
}

static void drop(struct built *b)
{
    forge_free(b->forge);
    free(b->bytes);
}

/* ---- parts of the check ---- */

static void check_kernel(const struct built *b)
{
    const struct plain_view *v = &b->view;
    const struct forge_truth *t = b->truth;
    uint8_t h[1024], rsds[24];
    assert_true(plain_read(v, v->base, h, sizeof(h)));
    assert_memory_equal(h, "MZ", 2);
    uint32_t pe = (uint32_t)h[0x3c] | (uint32_t)h[0x3d] << 8;
    assert_memory_equal(h + pe, "PE\0\0", 4);
    assert_memory_equal(h + pe + 8, &t->id.pe_timestamp, 4);
    assert_memory_equal(h + pe + 24 + 56, &t->id.pe_size, 4);
    uint32_t debug = 0, record = 0;
    memcpy(&debug, h + pe + 24 + 112 + 48, 4);
    assert_true(plain_read(v, v->base + debug + 20, &record, 4));
    assert_true(plain_read(v, v->base + record, rsds, sizeof(rsds)));
    assert_memory_equal(rsds, "RSDS", 4);
    assert_memory_equal(rsds + 4, t->id.pdb_guid, 16);
    assert_int_equal(plain_u64(v, plain_symbol(v, S(NtBuildNumber))) & 0xffff, t->build);
    assert_int_equal(
        plain_field(v, plain_symbol(v, S(KdVersionBlock)), F(DBGKD_GET_VERSION64, KernBase), 8),
        t->base);
    assert_int_equal(plain_u64(v, 0xfffff78000000014u), t->system_time);
}

static void check_processes(const struct built *b)
{
    const struct plain_view *v = &b->view;
    uint64_t nodes[256];
    long count = plain_ring(v, plain_symbol(v, S(PsActiveProcessHead)), nodes, 256);
    long linked = 0;
    uint32_t link = v->layout.field[F(EPROCESS, ActiveProcessLinks)].offset;
    for (size_t i = 0; i < b->truth->process_count; i++) {
        const struct forge_process *p = &b->truth->processes[i];
        char type[64], name[16] = {0};
        assert_int_equal(plain_field(v, p->va, F(EPROCESS, UniqueProcessId), 8), p->pid);
        assert_true(
            plain_read(v, p->va + v->layout.field[F(EPROCESS, ImageFileName)].offset, name, 15));
        if (strlen(name) == strlen(p->name)) /* else it holds more than ASCII */
            assert_string_equal(name, p->name);
        assert_true(plain_type_name(v, p->header_va, type, sizeof(type)));
        assert_string_equal(type, "Process");
        uint64_t cid = plain_u64(v, plain_symbol(v, S(PspCidTable)));
        assert_int_equal(plain_handle(v, cid, p->pid), p->no_cid ? 0 : p->va);
        if (p->unlinked)
            continue;
        assert_true(linked < count);
        assert_int_equal(nodes[linked] - link, p->va);
        linked++;
    }
    assert_int_equal(linked, count);
    assert_int_equal(plain_u64(v, plain_symbol(v, S(PsInitialSystemProcess))),
                     b->truth->processes[0].va);
}

static const struct forge_process *by_pid(const struct forge_truth *t, uint64_t pid)
{
    for (size_t i = 0; i < t->process_count; i++)
        if (t->processes[i].pid == pid)
            return &t->processes[i];
    return NULL;
}

static void check_handle(const struct built *b, uint64_t pid, uint64_t handle, uint64_t body,
                         const char *type)
{
    char name[64];
    const struct forge_process *p = by_pid(b->truth, pid);
    assert_non_null(p);
    assert_true(handle != 0 && handle % 4 == 0);
    assert_int_equal(plain_handle(&b->view, p->table_va, handle), body - 0x30);
    assert_true(plain_type_name(&b->view, body - 0x30, name, sizeof(name)));
    assert_string_equal(name, type);
}

static void check_sessions(const struct built *b)
{
    const struct plain_view *v = &b->view;
    for (size_t i = 0; i < b->truth->session_count; i++) {
        const struct forge_session *s = &b->truth->sessions[i];
        const struct forge_silo *silo = &b->truth->silos[s->silo];
        char name[256];
        assert_int_equal(plain_u64(v, silo->array + 8 * (uint64_t)s->id), s->va);
        assert_true(plain_string(v,
                                 s->va + v->layout.field[F(WMI_LOGGER_CONTEXT, LoggerName)].offset,
                                 name, sizeof(name)));
        if (!strchr(name, '?'))
            assert_string_equal(name, s->name);
        assert_int_equal(plain_field(v, s->va, F(WMI_LOGGER_CONTEXT, LoggerMode), 4), s->mode);
        assert_int_equal(plain_ring(v, s->list_va, NULL, 0), s->num_consumers);
        assert_int_equal(plain_field(v, s->va, F(WMI_LOGGER_CONTEXT, NumConsumers), 4),
                         s->num_consumers);
    }
    for (size_t i = 0; i < b->truth->consumer_count; i++) {
        const struct forge_consumer *c = &b->truth->consumers[i];
        assert_int_equal(plain_field(v, c->va, F(ETW_REALTIME_CONSUMER, ProcessObject), 8),
                         by_pid(b->truth, c->pid)->va);
        if (!c->no_handle)
            check_handle(b, c->pid, c->handle, c->va, "EtwConsumer");
    }
}

static bool in_ring(const struct plain_view *v, uint64_t head, uint64_t node)
{
    uint64_t nodes[512];
    long count = plain_ring(v, head, nodes, 512);
    assert_true(count >= 0);
    for (long i = 0; i < count && i < 512; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

static void check_providers(const struct built *b)
{
    const struct plain_view *v = &b->view;
    const struct forge_truth *t = b->truth;
    for (size_t i = 0; i < t->provider_count; i++) {
        const struct forge_provider *p = &t->providers[i];
        uint8_t guid[16];
        uint64_t head = t->silos[p->silo].table + p->bucket * 0x38u + (uint64_t)p->type * 16;
        assert_true(
            plain_read(v, p->va + v->layout.field[F(ETW_GUID_ENTRY, Guid)].offset, guid, 16));
        assert_memory_equal(guid, p->guid, 16);
        assert_int_equal(in_ring(v, head, p->va), !p->unlinked && !p->embedded);
        uint64_t slots = p->va + v->layout.field[F(ETW_GUID_ENTRY, EnableInfo)].offset;
        for (size_t k = 0; k < FORGE_ENABLE_SLOTS; k++)
            assert_int_equal(plain_field(v, slots + 32 * k, F(TRACE_ENABLE_INFO, IsEnabled), 4),
                             p->enables[k].enabled);
    }
    for (size_t i = 0; i < t->reg_count; i++) {
        const struct forge_reg *r = &t->regs[i];
        const struct forge_provider *p = &t->providers[r->provider];
        uint64_t head = p->va + v->layout.field[F(ETW_GUID_ENTRY, RegListHead)].offset;
        assert_int_equal(in_ring(v, head, r->va), !r->unlinked);
        assert_int_equal(plain_field(v, r->va, F(ETW_REG_ENTRY, GuidEntry), 8), p->va);
        if (!r->kernel && !r->no_handle)
            check_handle(b, r->pid, r->handle, r->va, "EtwRegistration");
    }
}

static void check_all(const char *name, const char *extra)
{
    struct built b;
    build(&b, name, extra);
    check_kernel(&b);
    check_processes(&b);
    check_sessions(&b);
    check_providers(&b);
    assert_true(plain_ring(&b.view, plain_symbol(&b.view, S(PsLoadedModuleList)), NULL, 0) >= 1);
    assert_true(plain_ring(&b.view, plain_symbol(&b.view, S(PspJobList)), NULL, 0) >= 0);
    drop(&b);
}

/* ---- tests ---- */

static void test_every_family(void **state)
{
    static const char *const names[] = {
        "win7",        "win81",       "win10-1607", "win10-17763", "win10-17763-new",
        "win10-18362", "win10-19041", "server2022", "win11",       "encoded",
        "la57",        "silo",        "levels",     "new-24h2",    "holes-transition",
        "tiny"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        check_all(names[i], "");
}

static void test_kernel_page_sizes(void **state)
{
    (void)state;
    check_all("silo", "kernel pages=4k");
    check_all("silo", "kernel pages=sparse");
    check_all("win7", "kernel pages=2m");
}

static uint64_t decode(uint64_t v, uint64_t never, uint64_t always, uint64_t flag)
{
    unsigned turn = never & 63;
    v ^= never;
    if (turn)
        v = v << turn | v >> (64 - turn);
    v ^= flag;
    uint64_t swapped = 0;
    for (unsigned i = 0; i < 8; i++)
        swapped |= (v >> 8 * i & 0xff) << (56 - 8 * i);
    return swapped ^ always;
}

static void test_encoded_debugger_block(void **state)
{
    struct built b;
    (void)state;
    build(&b, "encoded", "");
    const struct plain_view *v = &b.view;
    uint64_t block = plain_symbol(v, S(KdDebuggerDataBlock));
    uint64_t flag = plain_symbol(v, S(KdpDataBlockEncoded));
    uint64_t never = plain_u64(v, plain_symbol(v, S(KiWaitNever)));
    uint64_t always = plain_u64(v, plain_symbol(v, S(KiWaitAlways)));
    assert_int_equal(plain_u64(v, flag) & 0xff, 1);
    assert_int_not_equal(plain_u64(v, block + 0x10) & 0xffffffff, 0x4742444b);
    assert_int_equal(decode(plain_u64(v, block + 0x10), never, always, flag) & 0xffffffff,
                     0x4742444b);
    assert_int_equal(decode(plain_u64(v, block + 0x18), never, always, flag), b.truth->base);
    drop(&b);
}

static void test_root_can_be_found(void **state)
{
    struct built b;
    (void)state;
    build(&b, "win11", "");
    assert_int_equal(plain_find_root(b.bytes, b.view.size), b.truth->dtb);
    drop(&b);
    build(&b, "encoded", "");
    uint64_t root = plain_find_root(b.bytes, b.view.size);
    assert_int_not_equal(root, 0);
    b.view.root = root; /* may be a process's: the kernel half is the same */
    assert_true(plain_ring(&b.view, plain_symbol(&b.view, S(PsActiveProcessHead)), NULL, 0) > 5);
    drop(&b);
}

static void test_security_descriptor(void **state)
{
    static const uint8_t system_sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    struct built b;
    uint8_t sd[64];
    (void)state;
    build(&b, "win10-19041", "");
    const struct forge_session *s = &b.truth->sessions[1];
    uint64_t fast = plain_field(&b.view, s->va, F(WMI_LOGGER_CONTEXT, SecurityDescriptor), 8);
    assert_int_equal(fast & ~(uint64_t)15, s->sd_va);
    assert_true(plain_read(&b.view, s->sd_va, sd, sizeof(sd)));
    assert_int_equal(sd[0], 1);
    assert_int_equal(sd[2] | sd[3] << 8, 0x8004);
    uint8_t owner[12];
    assert_true(plain_read(&b.view, s->sd_va + sd[4], owner, sizeof(owner)));
    assert_memory_equal(owner, system_sid, sizeof(owner));
    drop(&b);
}

/* The same reader on an image from another generator: what holds there must hold here. */
static void test_like_the_shared_image(void **state)
{
    (void)state;
    FILE *probe = fopen(SHARED_IMAGE, "rb");
    if (!probe)
        skip();
    (void)fclose(probe);
    const char *const unpack[] = {"xz", "-dc", SHARED_IMAGE, NULL};
    if (!run_program(NULL, unpack, SHARED_UNPACKED))
        skip();
    size_t size = 0;
    char *bytes = read_file(SHARED_UNPACKED, &size);
    assert_non_null(bytes);
    (void)remove(SHARED_UNPACKED);
    struct built ours;
    build(&ours, "win11", "");
    struct plain_view v = ours.view;
    v.bytes = (const uint8_t *)bytes;
    v.size = size;
    v.root = plain_find_root(v.bytes, size);
    assert_int_not_equal(v.root, 0);
    /* The kernel lies on 2 MiB pages; the entry in the low stub leads there. */
    uint64_t entry = 0;
    for (size_t page = 0x1000; page < 0x100000 && entry == 0; page += 0x1000)
        if ((uint8_t)bytes[page] == 0xe9 && bytes[page + 2] == 6)
            memcpy(&entry, bytes + page + 0x70, 8);
    char mz[2] = {0};
    for (v.base = entry & ~(uint64_t)0xfffff; memcmp(mz, "MZ", 2) != 0; v.base -= 0x100000)
        assert_true(plain_read(&v, v.base, mz, 2));
    v.base += 0x100000;
    uint64_t state_va = plain_u64(&v, plain_symbol(&v, S(EtwpHostSiloState)));
    uint64_t globals = plain_symbol(&v, S(PspHostSiloGlobals));
    assert_int_equal(plain_field(&v, globals, F(ESERVERSILO_GLOBALS, EtwSiloState), 8), state_va);
    assert_int_equal(plain_field(&v, state_va, F(ETW_SILODRIVERSTATE, SiloGlobals), 8), globals);
    assert_true(plain_ring(&v, plain_symbol(&v, S(PsActiveProcessHead)), NULL, 0) > 5);
    assert_true(plain_ring(&v, plain_symbol(&v, S(HandleTableListHead)), NULL, 0) > 5);
    uint64_t debug = plain_symbol(&v, S(EtwpDebuggerData));
    uint8_t theirs[16], mine[16];
    assert_true(plain_read(&v, debug, theirs, 16));
    assert_true(plain_read(&ours.view, plain_symbol(&ours.view, S(EtwpDebuggerData)), mine, 16));
    assert_memory_equal(theirs, mine, 16);
    assert_int_equal(plain_u64(&v, debug + 24), state_va);
    drop(&ours);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family),           cmocka_unit_test(test_kernel_page_sizes),
        cmocka_unit_test(test_encoded_debugger_block), cmocka_unit_test(test_root_can_be_found),
        cmocka_unit_test(test_security_descriptor),    cmocka_unit_test(test_like_the_shared_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
