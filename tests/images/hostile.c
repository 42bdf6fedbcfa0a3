#include "forge_int.h"

#include <stdlib.h>

#include "text.h"

/* Lies: what an attacker or a broken acquisition could have left in memory. Each is applied to a
 * finished image, so that everything around it is right. */

#define NON_CANONICAL 0xdeadbeefdeadbee8u
#define LIST_MAX 4096u

struct target {
    char kind[24];
    char id[64];
    uint64_t value;
    bool has_value;
    const char *text; /* behind '@' */
};

/* "kind", "kind:id", each with "@value" behind it. */
static bool split(const char *what, struct target *t)
{
    const char *sign = strchr(what, '@');
    size_t length = sign ? (size_t)(sign - what) : strlen(what);
    const char *colon = memchr(what, ':', length);
    size_t kind = colon ? (size_t)(colon - what) : length;
    size_t id = colon ? length - kind - 1 : 0;
    memset(t, 0, sizeof(*t));
    if (kind >= sizeof(t->kind) || id >= sizeof(t->id))
        return false;
    memcpy(t->kind, what, kind);
    if (colon)
        memcpy(t->id, colon + 1, id);
    t->has_value = sign != NULL;
    t->text = sign ? sign + 1 : "";
    t->value = sign ? strtoull(sign + 1, NULL, 0) : NON_CANONICAL;
    return true;
}

static const struct forge_session *session_at(struct forge *f, const char *id)
{
    uint64_t number = strtoull(id, NULL, 0);
    for (size_t i = 0; i < f->truth.session_count; i++)
        if (f->truth.sessions[i].silo == 0 && f->truth.sessions[i].id == number)
            return &f->truth.sessions[i];
    return NULL;
}

static const struct forge_provider *provider_at(struct forge *f, const char *id)
{
    uint8_t guid[16];
    for (size_t i = 0; kda_guid_parse(id, guid) && i < f->truth.provider_count; i++)
        if (memcmp(f->truth.providers[i].guid, guid, 16) == 0)
            return &f->truth.providers[i];
    return NULL;
}

static uint64_t head_of(struct forge *f, const struct target *t)
{
    static const struct {
        const char *kind;
        enum kda_symbol_id id;
    } heads[] = {
        {"processes", S(PsActiveProcessHead)},
        {"modules", S(PsLoadedModuleList)},
        {"tables", S(HandleTableListHead)},
        {"jobs", S(PspJobList)},
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        if (strcmp(t->kind, heads[i].kind) == 0)
            return symbol(f, heads[i].id);
    const struct forge_session *s = session_at(f, t->id);
    if (strcmp(t->kind, "consumers") == 0)
        return s ? s->list_va : 0;
    if (strcmp(t->kind, "buffers") == 0)
        return s ? at(f, s->va, F(WMI_LOGGER_CONTEXT, GlobalList)) : 0;
    const struct forge_provider *p = provider_at(f, t->id);
    if (strcmp(t->kind, "regs") == 0)
        return p ? at(f, p->va, F(ETW_GUID_ENTRY, RegListHead)) : 0;
    if (strcmp(t->kind, "bucket") == 0 && p)
        return f->truth.silos[p->silo].table +
               p->bucket * (uint64_t)size_of(f, ST(ETW_HASH_BUCKET), 0x38) + (uint64_t)p->type * 16;
    return 0;
}

/* cycle: the last node leads back to the first one instead of the head. self: a node in the middle
 * leads to itself. wild: it leads to an address that is none. */
static void break_list(struct forge *f, const struct hostile *h, const struct target *t,
                       uint64_t head)
{
    uint64_t nodes[LIST_MAX];
    size_t count = 0;
    for (uint64_t at_node = get64(f, head); at_node != head && count < LIST_MAX && forge_ok(f);
         at_node = get64(f, at_node))
        nodes[count++] = at_node;
    if (count == 0) {
        forge_fail(f, KDA_USAGE, "list \"%s\" is empty", h->what);
        return;
    }
    uint64_t middle = nodes[count / 2];
    if (strcmp(h->verb, "cycle") == 0) {
        put64(f, nodes[count - 1], nodes[count > 2 ? 1 : 0]);
    } else if (strcmp(h->verb, "self") == 0) {
        put64(f, middle, middle);
        put64(f, middle + 8, middle);
    } else {
        put64(f, middle, t->value);
        put64(f, middle + 8, t->value);
    }
}

static uint64_t process_field(struct forge *f, const struct target *t, bool table)
{
    const struct forge_process *p = forge_process_by_pid(f, strtoull(t->id, NULL, 0));
    if (!p)
        return 0;
    return table ? at(f, p->table_va, F(HANDLE_TABLE, TableCode))
                 : at(f, p->va, F(EPROCESS, ObjectTable));
}

/* A pointer that is not part of a list. */
static uint64_t pointer_of(struct forge *f, const struct target *t)
{
    const struct forge_session *s = session_at(f, t->id);
    const struct forge_provider *p = provider_at(f, t->id);
    uint64_t number = strtoull(t->id, NULL, 0);
    if (strcmp(t->kind, "slot") == 0 && number < f->truth.silos[0].max)
        return f->truth.silos[0].array + 8 * number;
    if (strcmp(t->kind, "sd") == 0 && s)
        return at(f, s->va, F(WMI_LOGGER_CONTEXT, SecurityDescriptor));
    if (strcmp(t->kind, "filter") == 0 && p)
        return at(f, p->va, F(ETW_GUID_ENTRY, FilterData));
    if (strcmp(t->kind, "traits") == 0 && number < f->truth.reg_count)
        return at(f, f->truth.regs[number].va, F(ETW_REG_ENTRY, Traits));
    if (strcmp(t->kind, "guidentry") == 0 && number < f->truth.reg_count)
        return at(f, f->truth.regs[number].va, F(ETW_REG_ENTRY, GuidEntry));
    if (strcmp(t->kind, "queue") == 0 && s)
        return at(f, at(f, s->va, F(WMI_LOGGER_CONTEXT, BufferQueue)),
                  F(ETW_BUFFER_QUEUE, QueueEntry));
    if (strcmp(t->kind, "current") == 0 && s)
        return at(f, s->va, F(WMI_LOGGER_CONTEXT, CurrentBuffer));
    if (strcmp(t->kind, "objecttable") == 0)
        return process_field(f, t, false);
    if (strcmp(t->kind, "tablecode") == 0)
        return process_field(f, t, true);
    if (strcmp(t->kind, "array") == 0)
        return at(f, f->truth.silos[0].state, F(ETW_SILODRIVERSTATE, EtwpLoggerContext));
    if (strcmp(t->kind, "type") == 0)
        return symbol(f, S(ObTypeIndexTable)) + 8 * number;
    return 0;
}

/* A number in the header of the n-th buffer. */
static bool lie_buffer(struct forge *f, const struct target *t)
{
    static const struct {
        const char *kind;
        unsigned off;
    } fields[] = {{"bufferbytes", 0},
                  {"buffersaved", 4},
                  {"buffercurrent", 8},
                  {"bufferoffset", 0x30},
                  {"bufferstate", 0x2c}};
    uint64_t number = strtoull(t->id, NULL, 0);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strcmp(t->kind, fields[i].kind) == 0 && number < f->truth.buffer_count) {
            put32(f, f->truth.buffers[number].va + fields[i].off, (uint32_t)t->value);
            return true;
        }
    return false;
}

static bool lie_count(struct forge *f, const struct target *t)
{
    const struct forge_session *s = session_at(f, t->id);
    const struct forge_provider *p = provider_at(f, t->id);
    if (!t->has_value)
        return false;
    if (strcmp(t->kind, "runs") == 0) {
        f->lie_runs = t->value;
    } else if (strcmp(t->kind, "pages") == 0) {
        f->lie_pages = t->value;
    } else if (strcmp(t->kind, "bits") == 0) {
        f->lie_bits = t->value;
    } else if (strcmp(t->kind, "maxloggers") == 0) {
        put(f, f->truth.silos[0].state, F(ETW_SILODRIVERSTATE, MaxLoggers), 4, t->value);
    } else if (strcmp(t->kind, "numconsumers") == 0 && s) {
        put(f, s->va, F(WMI_LOGGER_CONTEXT, NumConsumers), 4, t->value);
    } else if (strcmp(t->kind, "buffersize") == 0 && s) {
        put(f, s->va, F(WMI_LOGGER_CONTEXT, BufferSize), 4, t->value);
    } else if (strcmp(t->kind, "loggerid") == 0 && s) {
        put(f, s->va, F(WMI_LOGGER_CONTEXT, LoggerId), 4, t->value);
    } else if (strncmp(t->kind, "buffer", 6) == 0 && lie_buffer(f, t)) {
        return true;
    } else if (strcmp(t->kind, "filterpids") == 0 && p) {
        for (size_t i = 0; i < FORGE_ENABLE_SLOTS; i++)
            if (p->filters[i].used && p->filters[i].pid_count)
                put32(f, get64(f, at(f, p->filters[i].va, F(ETW_FILTER_HEADER, PidFilter))),
                      (uint32_t)t->value);
    } else {
        return false;
    }
    return true;
}

static uint64_t string_of(struct forge *f, const struct target *t)
{
    const struct forge_session *s = session_at(f, t->id);
    const struct forge_process *p = forge_process_by_pid(f, strtoull(t->id, NULL, 0));
    const struct forge_module *m = forge_module_by_name(f, t->id);
    if (strcmp(t->kind, "name") == 0 && s)
        return at(f, s->va, F(WMI_LOGGER_CONTEXT, LoggerName));
    if (strcmp(t->kind, "path") == 0 && p)
        return p->path_va;
    if (strcmp(t->kind, "module") == 0 && m)
        return at(f, m->va,
                  has(f, F(KLDR_DATA_TABLE_ENTRY, BaseDllName))
                      ? F(KLDR_DATA_TABLE_ENTRY, BaseDllName)
                      : F(LDR_DATA_TABLE_ENTRY, BaseDllName));
    return 0;
}

/* odd: half a character; huge: far more than there is; overmax: longer than its own maximum. */
static bool lie_string(struct forge *f, const struct target *t)
{
    uint64_t va = string_of(f, t);
    if (!va)
        return false;
    if (strcmp(t->text, "odd") == 0) {
        put(f, va, F(UNICODE_STRING, Length), 2, 7);
    } else if (strcmp(t->text, "huge") == 0) {
        put(f, va, F(UNICODE_STRING, Length), 2, 0xfffe);
        put(f, va, F(UNICODE_STRING, MaximumLength), 2, 0xfffe);
    } else if (strcmp(t->text, "overmax") == 0) {
        put(f, va, F(UNICODE_STRING, MaximumLength), 2, 2);
    } else if (strcmp(t->text, "wild") == 0) {
        put(f, va, F(UNICODE_STRING, Buffer), 8, NON_CANONICAL);
    } else {
        return false;
    }
    return true;
}

static void record_slot(struct forge *f, uint64_t value)
{
    struct forge_truth *t = &f->truth;
    if (t->wild_slot_count < sizeof(t->wild_slots) / sizeof(t->wild_slots[0]))
        t->wild_slots[t->wild_slot_count++] = value;
}

/* A directory entry that leads back to the top table, and a logger slot that leads into it. */
static bool lie_page_table(struct forge *f, const struct target *t)
{
    uint64_t va = f->pool[POOL_NONPAGED].start + 16 * MIB;
    if (strcmp(t->kind, "loop") != 0)
        return false;
    map_raw(f, va, 2, f->root | 0x63);
    put64(f, f->truth.silos[0].array + 8 * (uint64_t)(f->truth.silos[0].max - 1), va);
    record_slot(f, va);
    return true;
}

/* cycle: the table becomes three levels deep, and its top page is its own middle page. */
static bool lie_table(struct forge *f, const struct target *t)
{
    uint64_t code = process_field(f, t, true);
    if (!code || strcmp(t->kind, "cycle") != 0)
        return false;
    uint64_t root = get64(f, code) & ~(uint64_t)7;
    put64(f, code, root | 2);
    for (uint64_t i = 0; i < 512; i++)
        put64(f, root + 8 * i, root);
    return true;
}

static bool apply(struct forge *f, const struct hostile *h, const struct target *t)
{
    if (strcmp(h->verb, "count") == 0)
        return lie_count(f, t);
    if (strcmp(h->verb, "string") == 0)
        return lie_string(f, t);
    if (strcmp(h->verb, "pagetable") == 0)
        return lie_page_table(f, t);
    if (strcmp(h->verb, "table") == 0)
        return lie_table(f, t);
    uint64_t head = head_of(f, t);
    if (head) {
        break_list(f, h, t, head);
        return true;
    }
    uint64_t pointer = strcmp(h->verb, "wild") == 0 ? pointer_of(f, t) : 0;
    if (pointer)
        put64(f, pointer, t->value);
    if (pointer && strcmp(t->kind, "slot") == 0)
        record_slot(f, t->value);
    return pointer != 0;
}

void hostile_apply(struct forge *f)
{
    for (size_t i = 0; i < f->hostile_count && forge_ok(f); i++) {
        const struct hostile *h = &f->hostiles[i];
        struct target t;
        f->line = h->line;
        if (!split(h->what, &t) || !apply(f, h, &t))
            forge_fail(f, KDA_USAGE, "nothing to do for %s=%s in this image", h->verb, h->what);
    }
    f->line = 0;
}
