#include "forge_int.h"

/* Object types, object headers, processes and jobs. */

#define QUOTA_INFO 0x20u /* the optional header in front of an object's header */
#define QUOTA_MASK 0x08u
#define FIRST_TYPE 2u

struct type_row {
    const char *name;
    bool silo_builds; /* Windows 10 1607 and later */
    bool small;       /* kept when the scenario asks for a compact image */
};

/* Order as on real systems up to Thread; behind that it differs from build to build, which is why
 * readers must look names up. */
static const struct type_row type_rows[] = {
    {"Type", false, true},
    {"Directory", false, true},
    {"SymbolicLink", false, true},
    {"Token", false, true},
    {"Job", false, true},
    {"Process", false, true},
    {"Thread", false, true},
    {"Partition", true, false},
    {"UserApcReserve", false, false},
    {"IoCompletionReserve", false, false},
    {"PsSiloContextPaged", true, false},
    {"PsSiloContextNonPaged", true, false},
    {"DebugObject", false, false},
    {"Event", false, true},
    {"Mutant", false, false},
    {"Callback", false, false},
    {"Semaphore", false, false},
    {"Timer", false, false},
    {"IRTimer", false, false},
    {"Profile", false, false},
    {"KeyedEvent", false, false},
    {"WindowStation", false, false},
    {"Desktop", false, false},
    {"Composition", true, false},
    {"TpWorkerFactory", false, false},
    {"Adapter", false, false},
    {"Controller", false, false},
    {"Device", false, false},
    {"Driver", false, false},
    {"IoCompletion", false, false},
    {"WaitCompletionPacket", true, false},
    {"File", false, true},
    {"TmTm", false, false},
    {"TmTx", false, false},
    {"TmRm", false, false},
    {"TmEn", false, false},
    {"Section", false, false},
    {"Session", false, false},
    {"Key", false, true},
    {"ALPC Port", false, false},
    {"PowerRequest", false, false},
    {"WmiGuid", false, false},
    {"EtwRegistration", false, true},
    {"EtwSessionDemuxEntry", true, false},
    {"EtwConsumer", false, true},
    {"DmaAdapter", true, false},
    {"PcwObject", false, false},
    {"FilterConnectionPort", false, false},
    {"FilterCommunicationPort", false, false},
};

/* Number of a type in this image, or 0. */
static uint8_t type_number(const struct forge *f, const char *name)
{
    bool silos = f->layout.size[ST(ESERVERSILO_GLOBALS)] != KDA_NONE;
    uint8_t number = FIRST_TYPE;
    for (size_t i = 0; i < sizeof(type_rows) / sizeof(type_rows[0]); i++) {
        if ((type_rows[i].silo_builds && !silos) || (f->opt.compact && !type_rows[i].small))
            continue;
        if (strcmp(type_rows[i].name, name) == 0)
            return number;
        number++;
    }
    return 0;
}

/* On builds with a cookie the stored index is masked with it and with the address: a byte of 0 is
 * as legal as any other. */
static uint8_t stored_index(const struct forge *f, uint64_t header, uint8_t number)
{
    if (f->layout.rva[S(ObHeaderCookie)] == KDA_NONE)
        return number;
    return (uint8_t)(number ^ (uint8_t)(header >> 8) ^ (uint8_t)f->cookie);
}

uint64_t object_alloc(struct forge *f, const char *type, uint64_t size, const char tag[4],
                      bool alone)
{
    uint64_t body = 0x30;
    if (has(f, F(OBJECT_HEADER, Body)))
        body = f->layout.field[F(OBJECT_HEADER, Body)].offset;
    uint64_t header = pool_alloc(f, POOL_NONPAGED, QUOTA_INFO + body + size, tag, alone);
    if (!header)
        return 0;
    header += QUOTA_INFO;
    put(f, header, F(OBJECT_HEADER, PointerCount), 8, 0x7fff);
    put(f, header, F(OBJECT_HEADER, HandleCount), 8, 1);
    put(f, header, F(OBJECT_HEADER, InfoMask), 1, QUOTA_MASK);
    put(f, header, F(OBJECT_HEADER, TypeIndex), 1, stored_index(f, header, type_number(f, type)));
    return header + body;
}

static void build_type(struct forge *f, const char *name)
{
    uint8_t number = type_number(f, name);
    if (number == 0)
        return;
    uint64_t va = object_alloc(f, "Type", size_of(f, ST(OBJECT_TYPE), 0xd8), "ObjT", false);
    char key[4] = {' ', ' ', ' ', ' '};
    memcpy(key, name, strlen(name) < 4 ? strlen(name) : 4);
    list_init(f, at(f, va, F(OBJECT_TYPE, TypeList)));
    list_init(f, at(f, va, F(OBJECT_TYPE, CallbackList)));
    (void)put_string(f, at(f, va, F(OBJECT_TYPE, Name)), name, false);
    put(f, va, F(OBJECT_TYPE, Index), 1, number);
    put_field_bytes(f, va, F(OBJECT_TYPE, Key), key, 4);
    f->type_va[number] = va;
    uint64_t table = symbol(f, S(ObTypeIndexTable));
    if (table)
        put64(f, table + 8 * (uint64_t)number, va);
}

static void name_type(struct forge *f, enum kda_symbol_id id, const char *name)
{
    uint64_t va = symbol(f, id);
    if (va)
        put64(f, va, f->type_va[type_number(f, name)]);
}

static void build_fillers(struct forge *f)
{
    static const char *const kinds[] = {"Event", "File", "Key", "Thread", "Directory"};
    for (size_t i = 0; i < (f->opt.compact ? 3u : 15u); i++)
        f->fillers[f->filler_count++] =
            object_alloc(f, kinds[i % 5], 0x40, i % 5 == 3 ? "Thre" : "Even", false);
}

void types_build(struct forge *f)
{
    uint64_t table = symbol(f, S(ObTypeIndexTable));
    uint64_t cookie = symbol(f, S(ObHeaderCookie));
    f->cookie = (uint32_t)forge_random(f, UINT32_MAX);
    if (cookie)
        put32(f, cookie, f->cookie);
    if (table)
        put64(f, table + 8, pool_alloc(f, POOL_NONPAGED, 16, "ObDi", false));
    for (size_t i = 0; i < sizeof(type_rows) / sizeof(type_rows[0]); i++)
        build_type(f, type_rows[i].name);
    name_type(f, S(ObpTypeObjectType), "Type");
    name_type(f, S(PsProcessType), "Process");
    name_type(f, S(PsThreadType), "Thread");
    name_type(f, S(EtwpRealTimeConnectionObjectType), "EtwConsumer");
    name_type(f, S(EtwpRegistrationObjectType), "EtwRegistration");
    build_fillers(f);
}

/* ---- jobs ---- */

uint64_t job_build(struct forge *f)
{
    uint64_t head = symbol(f, S(PspJobList));
    uint64_t job = object_alloc(f, "Job", size_of(f, ST(EJOB), 0x700), "Job ", false);
    list_init(f, at(f, job, F(EJOB, ProcessListHead)));
    list_append(f, head, at(f, job, F(EJOB, JobLinks)));
    return job;
}

static uint64_t plain_job(struct forge *f, unsigned number)
{
    if (!f->jobs[number])
        f->jobs[number] = job_build(f);
    return f->jobs[number];
}

/* ---- processes ---- */

static void write_image_name(struct forge *f, const struct forge_process *p)
{
    uint8_t name[15] = {0};
    size_t used = 0;
    for (const uint8_t *c = (const uint8_t *)p->name; *c && used < 14; c++) {
        if (*c < 0x80) {
            name[used++] = *c;
        } else {
            name[used++] = (uint8_t)((c[0] & 3) << 6 | (c[1] & 0x3f));
            c++;
        }
    }
    put_field_bytes(f, p->va, F(EPROCESS, ImageFileName), name, sizeof(name));
}

/* A UNICODE_STRING with its text right behind it, in the paged pool. */
static void write_path(struct forge *f, struct forge_process *p)
{
    uint8_t *text = NULL;
    size_t units = text_to_utf16(f, p->path, &text);
    uint32_t head = size_of(f, ST(OBJECT_NAME_INFORMATION), 16);
    if (!forge_ok(f))
        return;
    p->path_va =
        pool_alloc(f, POOL_PAGED, head + 2 * units + 2, "SeAu", forge_planned(f, "path", p->pid));
    uint64_t name = at(f, p->path_va, F(OBJECT_NAME_INFORMATION, Name));
    if (!name)
        name = p->path_va;
    if (units > 0) {
        put(f, name, F(UNICODE_STRING, Length), 2, 2 * units);
        put(f, name, F(UNICODE_STRING, MaximumLength), 2, 2 * units + 2);
        put(f, name, F(UNICODE_STRING, Buffer), 8, p->path_va + head);
        put_bytes(f, p->path_va + head, text, 2 * units + 2);
    }
    put(f, p->va, F(EPROCESS, SeAuditProcessCreationInfo), 8, p->path_va);
}

static void write_table_object(struct forge *f, struct forge_process *p)
{
    if (p->levels == 0)
        return;
    uint64_t va = pool_alloc(f, POOL_NONPAGED, size_of(f, ST(HANDLE_TABLE), 0x80), "Obtb",
                             forge_planned(f, "table", p->pid));
    uint64_t head = symbol(f, S(HandleTableListHead));
    uint64_t link = at(f, va, F(HANDLE_TABLE, HandleTableList));
    put(f, va, F(HANDLE_TABLE, QuotaProcess), 8, p->va);
    put(f, va, F(HANDLE_TABLE, UniqueProcessId), 4, p->pid);
    put(f, p->va, F(EPROCESS, ObjectTable), 8, va);
    if (p->no_table_link || forge_away(f, p->in))
        list_init(f, link);
    else
        list_append(f, head, link);
    p->table_va = va;
}

static void write_job(struct forge *f, const struct forge_process *p)
{
    const struct forge_silo *silo = &f->truth.silos[p->silo];
    uint64_t job = p->job ? plain_job(f, p->job) : silo->job;
    if (!job)
        return;
    put(f, p->va, F(EPROCESS, Job), 8, job);
    put(f, p->va, F(EPROCESS, ServerSilo), 8, silo->job);
    if (!forge_away(f, p->in))
        list_append(f, at(f, job, F(EJOB, ProcessListHead)), at(f, p->va, F(EPROCESS, JobLinks)));
}

static void build_process(struct forge *f, struct forge_process *p, size_t index)
{
    uint64_t size = size_of(f, ST(EPROCESS), 0xb80);
    uint64_t hour = 36000000000u;
    p->va = object_alloc(f, "Process", size, "Proc", forge_planned(f, "process", p->pid));
    if (!p->va)
        return;
    p->header_va = p->va - 0x30;
    p->dtb = p->pid == 4 ? f->root : phys_page(f) * PAGE;
    if (p->create_time == 0)
        p->create_time = f->truth.system_time - 24 * hour + index * 1234567890u;
    put8(f, p->va, 3); /* dispatcher object of type process */
    put(f, p->va, F(KPROCESS, DirectoryTableBase), 8, p->dtb | (f->opt.pcid ? 2 : 0));
    put(f, p->va, F(EPROCESS, UniqueProcessId), 8, p->pid);
    put(f, p->va, F(EPROCESS, InheritedFromUniqueProcessId), 8, p->ppid);
    put(f, p->va, F(EPROCESS, CreateTime), 8, p->create_time);
    put(f, p->va, F(EPROCESS, ExitTime), 8, p->exit_time);
    put(f, p->va, F(EPROCESS, Protection), 1, p->protection);
    put(f, p->va, F(EPROCESS, Peb), 8, p->pid == 4 ? 0 : 0x7ff000000000u);
    write_image_name(f, p);
    write_path(f, p);
    write_table_object(f, p);
    write_job(f, p);
    uint64_t link = at(f, p->va, F(EPROCESS, ActiveProcessLinks));
    if (p->unlinked || forge_away(f, p->in))
        list_init(f, link);
    else
        list_append(f, symbol(f, S(PsActiveProcessHead)), link);
    if (!p->no_cid && !forge_away(f, p->in))
        cid_add(f, p->pid, p->va);
}

void processes_build(struct forge *f)
{
    struct forge_truth *t = &f->truth;
    list_init(f, symbol(f, S(PsActiveProcessHead)));
    list_init(f, symbol(f, S(HandleTableListHead)));
    f->tables = kda_calloc(t->process_count, sizeof(*f->tables));
    if (!f->tables) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < t->process_count && forge_ok(f); i++) {
        f->line = t->processes[i].line;
        build_process(f, &t->processes[i], i);
    }
    f->line = 0;
    uint64_t system = symbol(f, S(PsInitialSystemProcess));
    if (system)
        put64(f, system, t->processes[0].va);
    /* Some unrelated handles first, so that those of ETW do not all stand at the beginning. */
    for (size_t i = 0; i < t->process_count && forge_ok(f); i++)
        for (unsigned h = 0; h < t->processes[i].fill && t->processes[i].levels; h++)
            (void)handle_add(f, i, f->fillers[forge_random(f, f->filler_count)], 0x1f0003, false);
}

/* Every process sees the kernel half; each top table maps itself. */
void processes_finish(struct forge *f)
{
    for (size_t i = 0; i < f->truth.process_count && forge_ok(f); i++) {
        const struct forge_process *p = &f->truth.processes[i];
        if (p->dtb == f->root)
            continue;
        const uint8_t *root = phys_bytes(f, f->root / PAGE);
        uint8_t *own = phys_bytes(f, p->dtb / PAGE);
        if (!own || !root)
            return;
        memcpy(own + PAGE / 2, root + PAGE / 2, PAGE / 2);
        kda_put_le64(own + (size_t)f->self_index * 8, p->dtb | 0x8000000000000063u);
        if (!f->opt.users)
            continue;
        map_page(f, p->dtb, 0x7ffe0000u, f->user_pfn);
        map_page(f, p->dtb, 0x7ff000000000u, phys_page(f));
    }
}
