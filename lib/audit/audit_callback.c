/*
 * audit_callback.c - checks of kernel callbacks: what security drivers asked the kernel to call.
 */
#include "audit.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char *symbol_of(enum kda_callback_kind kind)
{
    static const char *const names[KDA_CALLBACK_KINDS] = {"PspCreateProcessNotifyRoutine",
                                                          "PspCreateThreadNotifyRoutine",
                                                          "PspLoadImageNotifyRoutine",
                                                          "CallbackListHead",
                                                          "PsProcessType",
                                                          "PsThreadType"};
    return names[kind];
}

static struct kda_subject subject_of(struct kda_audit *audit, const struct kda_callback *row)
{
    struct kda_subject subject = kda_subject_of("callback", NULL, row->va, NULL);
    const char *module = row->module && row->module->name[0] ? row->module->name : "?";
    subject.name =
        row->has_slot
            ? kda_audit_text(audit, "%s slot %u of %s", kda_callback_kind_name(row->kind),
                             row->slot, module)
            : kda_audit_text(audit, "%s of %s", kda_callback_kind_name(row->kind), module);
    return subject;
}

#define ALL_KINDS ((1u << KDA_CALLBACK_KINDS) - 1)
#define OBJECT_KINDS (1u << KDA_CALLBACK_OBJECT_PROCESS | 1u << KDA_CALLBACK_OBJECT_THREAD)
#define ALTITUDE_KINDS (1u << KDA_CALLBACK_REGISTRY | OBJECT_KINDS)

/* Leaves each of these kinds open that could not be read; true when that is all of them. */
static bool open_kinds(struct kda_audit *audit, unsigned kinds)
{
    size_t readable = 0;
    if (!audit->callbacks) {
        kda_audit_open(audit, NULL, "the kernel's callbacks could not be read");
        return true;
    }
    for (unsigned kind = 0; kind < KDA_CALLBACK_KINDS; kind++) {
        const struct kda_callback_source *source = &audit->callbacks->sources[kind];
        if (!(kinds >> kind & 1u))
            continue;
        if (source->status == KDA_OK && source->complete) {
            readable++;
            continue;
        }
        struct kda_subject subject =
            kda_subject_of("callback", kda_callback_kind_name(kind), source->va, NULL);
        if (source->status == KDA_NO_SYMBOL)
            kda_audit_open(audit, &subject, "%s is not known for this build%s%s", symbol_of(kind),
                           source->why.text[0] ? ": " : "", source->why.text);
        else
            kda_audit_open(audit, &subject, "%s cannot be read to its end", symbol_of(kind));
        readable += source->status == KDA_OK;
    }
    return readable == 0;
}

bool kda_audit_modules_whole(struct kda_audit *audit)
{
    const struct kda_module *modules;
    size_t count;
    return kda_modules(audit->kernel, &modules, &count, NULL) == KDA_OK &&
           !kda_audit_has_gap(audit, "modules") && !kda_audit_has_gap(audit, "module");
}

/* The drivers, with what may be missing among them said; NULL: none is known. */
static const struct kda_module *drivers(struct kda_audit *audit, size_t *count)
{
    static const char *const kinds[] = {"modules", "module", "module_name", NULL};
    const struct kda_module *modules;
    if (kda_modules(audit->kernel, &modules, count, NULL) != KDA_OK) {
        kda_audit_open(audit, NULL, "the driver list cannot be read");
        return NULL;
    }
    kda_audit_open_gaps(audit, "drivers", kinds);
    return modules;
}

/* ---- code outside every driver ---- */

static void outside(struct kda_audit *audit, const struct kda_callback *row,
                    const struct kda_subject *subject, uint64_t function, const char *what,
                    uint64_t place)
{
    if (function == 0 || kda_module_at(audit->kernel, function))
        return;
    if (!kda_audit_modules_whole(audit)) {
        kda_audit_open(audit, subject, "the driver list cannot be read to its end");
        return;
    }
    kda_audit_finding(audit, KDA_SEVERITY_CRITICAL, subject,
                      "the kernel calls code that lies in no loaded driver");
    kda_audit_hex(audit, what, place, function, "an address in a loaded driver");
    kda_audit_hex(audit, "reference", row->slot_va, row->va, NULL);
}

static void check_outside(struct kda_audit *audit)
{
    if (open_kinds(audit, ALL_KINDS))
        return;
    for (size_t i = 0; i < audit->callbacks->count; i++) {
        const struct kda_callback *row = &audit->callbacks->rows[i];
        struct kda_subject subject = subject_of(audit, row);
        kda_audit_examined(audit);
        if (!row->readable) {
            kda_audit_open(audit, &subject, "the callback's record is not in the image");
            continue;
        }
        outside(audit, row, &subject, row->function, "function", row->va);
        outside(audit, row, &subject, row->post, "post-operation function", row->va);
    }
}

/* ---- the kernel's own count ---- */

static void check_count(struct kda_audit *audit)
{
    if (open_kinds(audit, ALL_KINDS & ~OBJECT_KINDS))
        return;
    for (unsigned kind = 0; kind < KDA_CALLBACK_KINDS; kind++) {
        const struct kda_callback_source *source = &audit->callbacks->sources[kind];
        struct kda_subject subject =
            kda_subject_of("callback", kda_callback_kind_name(kind), source->va, NULL);
        char expected[40];
        if (source->status != KDA_OK || !source->complete || kind >= KDA_CALLBACK_OBJECT_PROCESS)
            continue; /* the kernel does not count object callbacks */
        kda_audit_examined(audit);
        if (!source->has_count) {
            kda_audit_open(audit, &subject,
                           source->count_va ? "the kernel's count is not in the image"
                                            : "where the kernel's count is, is not known for this "
                                              "build");
            continue;
        }
        if (source->count == source->found)
            continue;
        (void)snprintf(expected, sizeof(expected), "%zu, as many as there are", source->found);
        kda_audit_finding(audit,
                          source->count < source->found ? KDA_SEVERITY_HIGH : KDA_SEVERITY_MEDIUM,
                          &subject, "the kernel counts %u %s callbacks and holds %zu",
                          source->count, kda_callback_kind_name(kind), source->found);
        kda_audit_number(audit, "count", source->count_va, source->count, expected);
    }
}

/* ---- a driver that asked for callbacks and has none ---- */

/* Functions that register a kind. Source: documentation of each. */
static const struct {
    const char *name;
    unsigned kinds; /* bits of kda_callback_kind: one of them is enough */
} registering[] = {
    {"PsSetCreateProcessNotifyRoutine", 1u << KDA_CALLBACK_PROCESS},
    {"PsSetCreateProcessNotifyRoutineEx", 1u << KDA_CALLBACK_PROCESS},
    {"PsSetCreateProcessNotifyRoutineEx2", 1u << KDA_CALLBACK_PROCESS},
    {"PsSetCreateThreadNotifyRoutine", 1u << KDA_CALLBACK_THREAD},
    {"PsSetCreateThreadNotifyRoutineEx", 1u << KDA_CALLBACK_THREAD},
    {"PsSetLoadImageNotifyRoutine", 1u << KDA_CALLBACK_IMAGE},
    {"PsSetLoadImageNotifyRoutineEx", 1u << KDA_CALLBACK_IMAGE},
    {"CmRegisterCallback", 1u << KDA_CALLBACK_REGISTRY},
    {"CmRegisterCallbackEx", 1u << KDA_CALLBACK_REGISTRY},
    {"ObRegisterCallbacks", OBJECT_KINDS},
};
#define REGISTERING (sizeof(registering) / sizeof(registering[0]))

struct wanted {
    size_t *left;                /* names that may still be looked at, over all drivers */
    unsigned kinds[REGISTERING]; /* of the names it imports */
    size_t count;
};

static bool on_import(void *context, const char *module, const char *name)
{
    struct wanted *wanted = context;
    (void)module;
    if (*wanted->left == 0)
        return false;
    --*wanted->left;
    for (size_t i = 0; i < REGISTERING; i++) {
        if (strcmp(registering[i].name, name) != 0)
            continue;
        bool known = false;
        for (size_t k = 0; k < wanted->count; k++)
            known = known || wanted->kinds[k] == registering[i].kinds;
        if (!known && wanted->count < REGISTERING)
            wanted->kinds[wanted->count++] = registering[i].kinds;
    }
    return true;
}

/* What of `kinds` the driver has; *open when one of them could not be read. */
static bool has_callback(const struct kda_audit *audit, const struct kda_module *module,
                         unsigned kinds, bool *open)
{
    for (unsigned kind = 0; kind < KDA_CALLBACK_KINDS; kind++) {
        const struct kda_callback_source *source = &audit->callbacks->sources[kind];
        if ((kinds >> kind & 1u) && (source->status != KDA_OK || !source->complete))
            *open = true;
    }
    for (size_t i = 0; i < audit->callbacks->count; i++) {
        const struct kda_callback *row = &audit->callbacks->rows[i];
        if (!(kinds >> row->kind & 1u))
            continue;
        if (!row->readable)
            *open = true;
        if (row->module == module || row->post_module == module)
            return true;
    }
    return false;
}

static const char *kind_text(unsigned kinds)
{
    for (unsigned kind = 0; kind < KDA_CALLBACK_KINDS; kind++)
        if (kinds >> kind & 1u)
            return kind >= KDA_CALLBACK_OBJECT_PROCESS ? "object" : kda_callback_kind_name(kind);
    return "unknown";
}

/* Is it sure that the driver has none of these? What cannot be decided is left open. */
static bool lacks(struct kda_audit *audit, const struct kda_module *module, unsigned kinds,
                  const struct kda_subject *subject, const char *kind)
{
    bool open = false;
    if (has_callback(audit, module, kinds, &open))
        return false;
    if (open)
        kda_audit_open(audit, subject, "not every %s callback can be read", kind);
    return !open;
}

/* Callbacks of this kind that the kernel counts and does not hold. The kernel counts no object
 * callbacks; functions that register several kinds are theirs only. */
static size_t surplus(const struct kda_audit *audit, unsigned kinds)
{
    for (unsigned kind = 0; kind < KDA_CALLBACK_OBJECT_PROCESS; kind++) {
        const struct kda_callback_source *source = &audit->callbacks->sources[kind];
        if (kinds == 1u << kind && source->complete && source->has_count &&
            source->count > source->found)
            return source->count - source->found;
    }
    return 0;
}

static uint64_t array_of(const struct kda_audit *audit, unsigned kinds)
{
    for (unsigned kind = 0; kind < KDA_CALLBACK_KINDS; kind++)
        if (kinds == 1u << kind)
            return audit->callbacks->sources[kind].va;
    return 0;
}

/* A driver that lives on callbacks: known by name, or called by the kernel for something else. */
static bool is_sensor(const struct kda_audit *audit, const struct kda_module *module)
{
    for (size_t i = 0; i < audit->callbacks->count; i++) {
        const struct kda_callback *row = &audit->callbacks->rows[i];
        if (row->readable && (row->module == module || row->post_module == module))
            return true;
    }
    return kda_audit_is_security_driver(module->name);
}

/* A driver that imports what registers callbacks and surely has none of them. */
struct asker {
    const struct kda_module *module;
    unsigned kinds;
    bool sensor;
};

struct askers {
    struct asker *items;
    size_t count, capacity;
    bool open; /* of some driver it is not known what it asks for */
};

/* How many others ask for the same, and how many of them live on callbacks. */
static size_t rivals(const struct askers *askers, const struct asker *asker, bool sensors)
{
    size_t count = 0;
    for (size_t i = 0; i < askers->count; i++)
        count += askers->items[i].kinds == asker->kinds && (!sensors || askers->items[i].sensor);
    return count;
}

/* Where no more drivers ask than callbacks are missing, each of them has lost one. Where more ask,
 * or may do, a driver that lives on callbacks is a likely one. */
static void tell(struct kda_audit *audit, const struct askers *askers, const struct asker *asker)
{
    const struct kda_module *module = asker->module;
    struct kda_subject subject = kda_subject_of("driver", module->name, module->base, NULL);
    size_t missing = surplus(audit, asker->kinds), all = rivals(askers, asker, false);
    bool sure = missing > 0 && all <= missing && !askers->open;
    bool likely = missing > 0 && (asker->sensor || rivals(askers, asker, true) == 0);
    enum kda_severity severity = kda_audit_is_security_driver(module->name) || sure
                                     ? KDA_SEVERITY_HIGH
                                 : likely && asker->sensor ? KDA_SEVERITY_MEDIUM
                                                           : KDA_SEVERITY_INFO;
    const char *kind = kind_text(asker->kinds);
    const char *told = sure     ? ", and the kernel counts one that it does not hold"
                       : likely ? ", and the kernel counts more than it holds"
                                : "";
    kda_audit_finding(audit, severity, &subject,
                      "the driver imports what registers a %s callback and has none%s", kind, told);
    kda_audit_hex(audit, "driver", module->va, module->base, NULL);
    if (sure || likely)
        kda_audit_about(audit, array_of(audit, asker->kinds));
}

static void ask(struct kda_audit *audit, const struct kda_module *module, struct askers *askers)
{
    struct kda_subject subject = kda_subject_of("driver", module->name, module->base, NULL);
    struct wanted wanted = {.left = &audit->imports_left};
    struct kda_error why;
    kda_audit_examined(audit);
    enum kda_status status = kda_module_imports(audit->kernel, module, on_import, &wanted, &why);
    for (size_t i = 0; i < wanted.count; i++) {
        void *items = askers->items;
        if (!lacks(audit, module, wanted.kinds[i], &subject, kind_text(wanted.kinds[i])))
            continue;
        if (!kda_grow(&items, &askers->capacity, askers->count + 1, sizeof(*askers->items),
                      SIZE_MAX)) {
            audit->no_memory = true;
            return;
        }
        askers->items = items;
        askers->items[askers->count++] =
            (struct asker){module, wanted.kinds[i], is_sensor(audit, module)};
    }
    if (status == KDA_OK && audit->imports_left == 0)
        status = kda_fail(&why, KDA_LIMIT, "audit", "the drivers import more than %u names",
                          KDA_AUDIT_MAX_IMPORTS);
    if (status == KDA_OK)
        return;
    askers->open = true;
    kda_audit_open(audit, &subject, "its import table: %s", why.text);
}

static void check_missing(struct kda_audit *audit)
{
    struct askers askers = {.open = !kda_audit_modules_whole(audit)};
    size_t count;
    if (open_kinds(audit, ALL_KINDS))
        return;
    const struct kda_module *modules = drivers(audit, &count);
    if (!modules)
        return;
    uint64_t kernel = kda_kernel_info(audit->kernel)->base;
    for (size_t i = 0; i < count && !audit->no_memory; i++)
        if (modules[i].base != kernel)
            ask(audit, &modules[i], &askers);
    for (size_t i = 0; i < askers.count; i++)
        tell(audit, &askers, &askers.items[i]);
    kda_free(askers.items);
}

/* ---- security drivers without any ---- */

/* Drivers of products whose sensors are kernel callbacks. Source: file names as the products
 * install them, documented by their makers. */
static const char *const security_drivers[] = {
    "WdFilter.sys",        "MsSecFlt.sys",     "SysmonDrv.sys", "CSAgent.sys",
    "SentinelMonitor.sys", "carbonblackk.sys", "ehdrv.sys",     "elastic-endpoint-driver.sys",
    "CyProtectDrv64.sys",  "klif.sys",         "SophosED.sys",  "tmcomm.sys",
    "mfehidk.sys",         "atc.sys",          "hmpalert.sys",  "kdamonitor.sys",
};

bool kda_audit_is_security_driver(const char *name)
{
    for (size_t i = 0; i < sizeof(security_drivers) / sizeof(security_drivers[0]); i++)
        if (kda_same_nocase(name, security_drivers[i]))
            return true;
    return false;
}

static void check_security_driver(struct kda_audit *audit)
{
    size_t count;
    if (open_kinds(audit, ALL_KINDS))
        return;
    const struct kda_module *modules = drivers(audit, &count);
    if (!modules)
        return;
    for (size_t i = 0; i < count; i++) {
        struct kda_subject subject =
            kda_subject_of("driver", modules[i].name, modules[i].base, NULL);
        if (!kda_audit_is_security_driver(modules[i].name))
            continue;
        kda_audit_examined(audit);
        if (!lacks(audit, &modules[i], ALL_KINDS, &subject, "kernel"))
            continue;
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, &subject,
                          "a security driver is loaded and the kernel calls it for nothing");
        kda_audit_hex(audit, "driver", modules[i].va, modules[i].base, NULL);
    }
}

/* ---- altitudes ---- */

static void check_altitude(struct kda_audit *audit)
{
    if (open_kinds(audit, ALTITUDE_KINDS))
        return;
    const struct kda_callback *rows = audit->callbacks->rows;
    for (size_t i = 0; i < audit->callbacks->count; i++) {
        struct kda_subject subject = subject_of(audit, &rows[i]);
        if (rows[i].kind < KDA_CALLBACK_REGISTRY)
            continue;
        kda_audit_examined(audit);
        if (!rows[i].readable || rows[i].altitude_missing) {
            kda_audit_open(audit, &subject, "its altitude cannot be read");
            continue;
        }
        for (size_t j = 0; j < i; j++) {
            if (rows[j].kind != rows[i].kind || !rows[j].altitude || !rows[i].altitude ||
                strcmp(rows[i].altitude, rows[j].altitude) != 0 || rows[i].module == rows[j].module)
                continue;
            kda_audit_finding(audit, KDA_SEVERITY_MEDIUM, &subject,
                              "two drivers' %s callbacks stand at altitude %s",
                              kda_callback_kind_name(rows[i].kind), rows[i].altitude);
            kda_audit_hex(audit, "this one", rows[i].va, rows[i].function, NULL);
            kda_audit_hex(audit, "the other", rows[j].va, rows[j].function, NULL);
        }
    }
}

/* clang-format off */
const struct kda_check kda_checks_callback[] = {
    {"callback.outside", KDA_SEVERITY_CRITICAL,
     "the kernel calls code outside every loaded driver",
     "A rootkit listens without a driver, or a driver's routine was exchanged for another.",
     "notify arrays, callback lists, driver list",
     "a driver that was being unloaded when the image was taken",
     "T1014", check_outside},
    {"callback.count", KDA_SEVERITY_HIGH,
     "the kernel's count of callbacks differs from what it holds",
     "A count of 0 makes the kernel skip the whole array; an emptied slot leaves it too high.",
     "notify arrays, counts",
     "a driver that was registering when the image was taken",
     "T1562.001", check_count},
    {"callback.missing", KDA_SEVERITY_HIGH,
     "a driver imports what registers a callback and has none",
     "Removing a security driver's callback leaves its driver loaded and blind; where the kernel "
     "counts more callbacks than it holds, one was removed.",
     "import tables of drivers, notify arrays, callback lists",
     "drivers that register on demand, or import through a shared library",
     "T1562.001", check_missing},
    {"callback.security_driver", KDA_SEVERITY_HIGH,
     "a known security driver has no callback at all",
     "The product runs and sees nothing.",
     "driver list, notify arrays, callback lists",
     "products that are installed and switched off",
     "T1562.001", check_security_driver},
    {"callback.altitude", KDA_SEVERITY_MEDIUM,
     "two drivers' callbacks stand at the same altitude",
     "Altitudes are unique; a driver that takes another's is called first, or keeps it out.",
     "callback lists, altitudes",
     "none known: the kernel refuses a second registration at an altitude",
     "T1562.001", check_altitude},
    {0},
};
/* clang-format on */
