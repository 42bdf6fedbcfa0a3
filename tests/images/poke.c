#include "forge_int.h"

#include <stdlib.h>

#include "text.h"

/* Values written over what was built: `poke OBJECT FIELD VALUE`. Tampering is a changed value, so
 * this one line does what a directive for each trick would. */

struct target {
    uint64_t va;
    const char *type; /* "_EPROCESS"; NULL = no structure is known */
};

static bool any_of(struct target *t, uint64_t va, const char *type)
{
    *t = (struct target){va, type};
    return va != 0;
}

/* "3" or "3@1": slot 3 of silo 1. */
static bool session_named(const struct forge *f, const char *id, struct target *t)
{
    char *end = NULL;
    uint64_t slot = strtoull(id, &end, 0), silo = *end == '@' ? strtoull(end + 1, NULL, 0) : 0;
    for (size_t i = 0; i < f->truth.session_count; i++) {
        const struct forge_session *s = &f->truth.sessions[i];
        if (s->id == slot && f->truth.silos[s->silo].number == silo)
            return any_of(t, s->va, "_WMI_LOGGER_CONTEXT");
    }
    return false;
}

static bool etw_named(const struct forge *f, const char *kind, const char *id, struct target *t)
{
    const struct forge_truth *truth = &f->truth;
    uint64_t number = strtoull(id, NULL, 0);
    uint8_t guid[16];
    if (strcmp(kind, "session") == 0)
        return session_named(f, id, t);
    for (size_t i = 0; strcmp(kind, "consumer") == 0 && i < truth->consumer_count; i++)
        if (truth->consumers[i].pid == number)
            return any_of(t, truth->consumers[i].va, "_ETW_REALTIME_CONSUMER");
    for (size_t i = 0; strcmp(kind, "provider") == 0 && i < truth->provider_count; i++)
        if (kda_guid_parse(id, guid) && memcmp(guid, truth->providers[i].guid, 16) == 0)
            return any_of(t, truth->providers[i].va, "_ETW_GUID_ENTRY");
    if (strcmp(kind, "reg") == 0 && number < truth->reg_count)
        return any_of(t, truth->regs[number].va, "_ETW_REG_ENTRY");
    for (size_t i = 0; i < truth->silo_count; i++)
        if (truth->silos[i].number == number && strcmp(kind, "silo") == 0)
            return any_of(t, truth->silos[i].state, "_ETW_SILODRIVERSTATE");
        else if (truth->silos[i].number == number && strcmp(kind, "array") == 0)
            return any_of(t, truth->silos[i].array, NULL);
    return false;
}

static bool machine_named(struct forge *f, const char *kind, const char *id, struct target *t)
{
    uint64_t number = strtoull(id, NULL, 0);
    const struct forge_process *p = forge_process_by_pid(f, number);
    const struct forge_module *m = forge_module_by_name(f, id);
    if (strcmp(kind, "process") == 0)
        return p && any_of(t, p->va, "_EPROCESS");
    if (strcmp(kind, "module") == 0)
        return m && any_of(t, m->va, "_KLDR_DATA_TABLE_ENTRY");
    if (strcmp(kind, "image") == 0)
        return m && any_of(t, m->base, NULL);
    if (strcmp(kind, "callback") == 0)
        return number < f->truth.callback_count && any_of(t, f->truth.callbacks[number].va, NULL);
    if (strcmp(kind, "va") == 0)
        return any_of(t, number, NULL);
    for (size_t i = 0; strcmp(kind, "symbol") == 0 && i < KDA_SYM_COUNT; i++)
        if (strcmp(kda_symbol_name((enum kda_symbol_id)i), id) == 0)
            return any_of(t, symbol(f, (enum kda_symbol_id)i), NULL);
    return false;
}

static bool resolve(struct forge *f, const char *object, struct target *t)
{
    char kind[16];
    const char *id = strchr(object, ':');
    size_t length = id ? (size_t)(id - object) : sizeof(kind);
    if (length < sizeof(kind)) {
        memcpy(kind, object, length);
        kind[length] = '\0';
        if (etw_named(f, kind, id + 1, t) || machine_named(f, kind, id + 1, t))
            return true;
    }
    forge_fail(f, KDA_USAGE, "no \"%s\" in this image", object);
    return false;
}

uint64_t object_named(struct forge *f, const char *object, const char **type)
{
    struct target target = {0, NULL};
    (void)resolve(f, object, &target);
    *type = target.type;
    return target.va;
}

/* "CollectionOn" of the target's own structure, or "TRACE_ENABLE_INFO.Level". */
static bool field_named(const struct target *t, const char *name, size_t size,
                        enum kda_field_id *ret)
{
    for (unsigned i = 0; i < KDA_FIELD_COUNT; i++) {
        const char *field = kda_field_name((enum kda_field_id)i);
        size_t own = t->type ? strlen(t->type) : 0;
        bool whole = strlen(field) == size + 1 && memcmp(field + 1, name, size) == 0;
        bool part = own && strncmp(field, t->type, own) == 0 && field[own] == '.' &&
                    strlen(field + own + 1) == size && memcmp(field + own + 1, name, size) == 0;
        if (!whole && !part)
            continue;
        *ret = (enum kda_field_id)i;
        return true;
    }
    return false;
}

/* Where "EnableInfo/TRACE_ENABLE_INFO.Level+0x20" leads; *field is its last one. */
static uint64_t place_of(struct forge *f, const struct target *target, const char *path,
                         enum kda_field_id *field)
{
    uint64_t va = target->va;
    while (*path) {
        size_t size = strcspn(path, "/+");
        char *end = NULL;
        if (*path == '+') {
            va += strtoull(path + 1, &end, 0);
            path = end;
        } else if (field_named(target, path, size, field) && has(f, *field)) {
            va += f->layout.field[*field].offset;
            path += size;
        } else {
            forge_fail(f, KDA_USAGE, "no field \"%s\" in this build", path);
            return 0;
        }
        if (*path && *path != '/' && *path != '+') {
            forge_fail(f, KDA_USAGE, "\"%s\" is no offset", path);
            return 0;
        }
        path += *path == '/';
    }
    return va;
}

static uint64_t value_of(struct forge *f, const char *text)
{
    struct target other;
    char *end = NULL;
    if (text[0] == '@')
        return resolve(f, text + 1, &other) ? other.va : 0;
    uint64_t value = strtoull(text, &end, 0);
    if (*end)
        forge_fail(f, KDA_USAGE, "\"%s\" is not a number", text);
    return value;
}

static void poke(struct forge *f, const struct poke *plan)
{
    struct target target;
    enum kda_field_id field = KDA_FIELD_COUNT;
    uint8_t bytes[8];
    if (!resolve(f, plan->object, &target))
        return;
    uint64_t va = place_of(f, &target, plan->field, &field), value = value_of(f, plan->value);
    if (!forge_ok(f))
        return;
    if (!plan->width && field < KDA_FIELD_COUNT) {
        put(f, va - f->layout.field[field].offset, field, 8, value);
        return;
    }
    kda_put_le64(bytes, value);
    put_bytes(f, va, bytes, plan->width ? plan->width : 8);
}

void pokes_apply(struct forge *f)
{
    for (size_t i = 0; i < f->poke_count && forge_ok(f); i++) {
        if (forge_away(f, f->pokes[i].in))
            continue;
        f->line = f->pokes[i].line;
        poke(f, &f->pokes[i]);
    }
    f->line = 0;
}
