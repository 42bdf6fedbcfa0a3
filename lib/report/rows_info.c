/*
 * rows_info.c - rows about the image, its symbols and the program's tables: what the lines of
 * keys_info.h need.
 */
#include "writer.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

static const char *const dtb_sources[] = {
    [KDA_DTB_OPTION] = "option", [KDA_DTB_HEADER] = "header",
    [KDA_DTB_CPU] = "cpu",       [KDA_DTB_LOW_STUB] = "low_stub",
    [KDA_DTB_SCAN] = "scan",     [KDA_DTB_SYSTEM] = "system_process",
};

static const char *const kdbg_sources[] = {
    [KDA_KDBG_NOT_FOUND] = NULL,  [KDA_KDBG_HEADER] = "header",
    [KDA_KDBG_SYMBOL] = "symbol", [KDA_KDBG_VERSION] = "version_block",
    [KDA_KDBG_LIST] = "list",     [KDA_KDBG_CONTENT] = "content",
};

static const char *const kdbg_forms[] = {
    [KDA_KDBG_UNKNOWN] = NULL,
    [KDA_KDBG_PLAIN] = "plain",
    [KDA_KDBG_KEYS] = "decoded",
    [KDA_KDBG_KEYLESS] = "decoded_without_keys",
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define VERSION_TEXT 24

/* "10.0.26100" from a build number. Source: the version each Windows reports for itself; every
 * build from 10240 on is 10.0. */
static const char *version_text(uint32_t build, char out[VERSION_TEXT])
{
    const char *family = build >= 10240  ? "10.0"
                         : build >= 9600 ? "6.3"
                         : build >= 9200 ? "6.2"
                         : build >= 7600 ? "6.1"
                         : build >= 6000 ? "6.0"
                                         : NULL;
    if (!family)
        return NULL;
    (void)snprintf(out, VERSION_TEXT, "%s.%u", family, build);
    return out;
}

struct info_row {
    const struct kda_report_facts *facts;
    const struct kda_image_info *image;
    const struct kda_kernel_info *kernel; /* NULL: none was found */
    const struct kda_fit_info *fit;
    const struct kda_kernel_id *id; /* of the kernel; NULL: not known */
    const char *version, *build_known;
    uint64_t time;
    uint32_t build, machine, cpus;
    bool time_from_page;
};

struct symbols_row {
    const struct kda_report_symbols *at;
    const struct kda_symbols_info *found;
    const struct kda_profile_info *known; /* NULL where symbols were found */
    const struct kda_kernel_id *id;
    bool pdb_by_table;
};

struct profile_row {
    const char *source, *version, *origin, *problem;
    const struct kda_kernel_id *id;
    const struct kda_symbols_info *counts;
    size_t builds, complete;
    uint64_t written;
};

struct format_row {
    const char *table, *name, *title, *advice;
    bool usable;
};

struct anchor_row {
    enum kda_fit_anchor anchor;
    const struct kda_fit_anchor_info *at;
};

/* PE machine. Source: PE format, "Machine Types". */
static const char *machine_name(uint32_t machine)
{
    return machine == 0x8664   ? "x64"
           : machine == 0xaa64 ? "arm64"
           : machine == 0x14c  ? "x86"
           : machine != 0      ? "other"
                               : NULL;
}

static bool has_kdbg(const struct info_row *info)
{
    return info->kernel && info->kernel->kdbg_va;
}

static const char *known_text(const struct kda_profile_info *known)
{
    return known->has_layout && known->has_rvas ? "layout and globals known"
           : known->has_layout                  ? "layout known, globals not"
                                                : "some globals known, layout not";
}

static uint64_t score(const struct kda_fit_info *fit)
{
    uint64_t checks = (uint64_t)fit->passed + fit->failed;
    return checks ? fit->passed * (uint64_t)100 / checks : 0;
}

#define ISF_NAME_TEXT (KDA_PDB_NAME_MAX + 80)

/* "windows/ntkrnlmp.pdb/8E33...B3-1.json.xz". Source: the folder layout of Volatility 3. */
static const char *isf_name(const struct kda_kernel_id *id, char out[ISF_NAME_TEXT])
{
    char guid[KDA_GUID_TEXT], plain[33];
    size_t used = 0;
    kda_guid_text(id->pdb_guid, guid);
    for (const char *c = guid; *c && used < sizeof(plain) - 1; c++)
        if (*c != '{' && *c != '}' && *c != '-')
            plain[used++] = (char)(*c >= 'a' ? *c - 'a' + 'A' : *c);
    plain[used] = '\0';
    (void)snprintf(out, ISF_NAME_TEXT, "windows/%.*s/%s-%u.json.xz", (int)KDA_PDB_NAME_MAX,
                   id->pdb_name, plain, id->pdb_age);
    return out;
}

#define STORE_TEXT (KDA_PDB_NAME_MAX * 2 + 64)
_Static_assert(ISF_NAME_TEXT + STORE_TEXT <= KDA_ROW_ROOM, "both texts of a row");

static const char *store_path(const struct kda_kernel_id *id, char out[STORE_TEXT])
{
    kda_symbols_store_path(id, out, STORE_TEXT);
    return out;
}

static void each_argument(struct kda_row *row, const struct kda_image_info *image)
{
    for (size_t i = 0; i < 4; i++)
        kda_put_hex(row, NULL, image->bugcheck_args[i]);
}

static void each_warning(struct kda_row *row, const struct kda_image_info *image)
{
    for (size_t i = 0; i < image->warning_count; i++)
        kda_put_text(row, NULL, image->warnings[i]);
}

static void each_feature(struct kda_row *row, const struct info_row *info)
{
    (void)info;
    kda_put_text(row, NULL, "profile");
    kda_put_text(row, NULL, "pdb");
    kda_put_text(row, NULL, kda_symbols_have_isf() ? "isf" : NULL);
    kda_put_text(row, NULL, kda_symbols_have_download() ? "download" : NULL);
}

static void each_field(struct kda_row *row, const struct kda_fit *fit, enum kda_fit_state state)
{
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (kda_fit_field_state(fit, (enum kda_field_id)i) == state)
            kda_put_text(row, NULL, kda_field_name((enum kda_field_id)i));
}

static void each_proven(struct kda_row *row, const struct kda_fit *fit)
{
    each_field(row, fit, KDA_FIT_PROVEN);
}

static void each_fitted(struct kda_row *row, const struct kda_fit *fit)
{
    each_field(row, fit, KDA_FIT_FITTED);
}

static void each_driver(struct kda_row *row, const struct kda_image_info *image);
static void each_anchor(struct kda_row *row, const struct kda_fit_info *fit);
static void each_completeness(struct kda_row *row, const struct kda_recall *recall);

#include "keys_build.h"

#include "keys_info.h"

#include "keys_table.h"

#include "keys_info.h"

static void each_driver(struct kda_row *row, const struct kda_image_info *image)
{
    for (size_t i = 0; i < image->driver_count; i++)
        put_driver(row, &image->drivers[i]);
}

static void each_anchor(struct kda_row *row, const struct kda_fit_info *fit)
{
    for (size_t i = 0; i < KDA_ANCHOR_COUNT; i++)
        put_anchor(row, &(struct anchor_row){(enum kda_fit_anchor)i, &fit->anchor[i]});
}

static void each_completeness(struct kda_row *row, const struct kda_recall *recall)
{
    size_t count;
    const struct kda_recall_item *items = kda_recall_items(recall, &count);
    for (size_t i = 0; i < count; i++)
        put_completeness(row, &items[i]);
}

/* A driver of a triage dump that starts where the kernel starts is the kernel: its PE identity. */
static bool triage_id(const struct kda_image_info *image, struct kda_kernel_id *id)
{
    for (size_t i = 0; i < image->driver_count; i++) {
        const struct kda_image_driver *driver = &image->drivers[i];
        if (image->kernel_base == 0 || driver->base != image->kernel_base)
            continue;
        memset(id, 0, sizeof(*id));
        id->has_pe = true;
        id->pe_timestamp = driver->timestamp;
        id->pe_size = driver->size;
        return true;
    }
    return false;
}

/* Without symbols: does the built-in table know the build, and what does it lack? */
static bool know_build(struct info_row *info)
{
    struct kda_profile_info known;
    if (!info->id || !kda_profile_identify(info->id, &known))
        return false;
    info->version = known.version;
    info->build_known = known_text(&known);
    return true;
}

/* Kernel facts where a kernel was found, else what the file's header says. */
static void find_machine(struct info_row *info, char scratch[VERSION_TEXT])
{
    const struct kda_image_info *image = info->image;
    const struct kda_kernel_info *kernel = info->kernel;
    const struct kda_symbols_info *symbols = info->facts->symbols;
    info->build = kernel && kernel->build ? kernel->build : image->build;
    info->machine = kernel && kernel->machine ? kernel->machine : image->machine;
    info->cpus = kernel && kernel->cpus ? kernel->cpus : image->cpus;
    info->time = image->system_time_100ns;
    if (kernel && kernel->system_time_100ns) {
        info->time = kernel->system_time_100ns;
        info->time_from_page = !kernel->system_time_from_header;
    }
    if (symbols && symbols->version)
        info->version = symbols->version;
    else if (symbols || !know_build(info))
        info->version = version_text(info->build, scratch);
}

void kda_report_info(struct kda_report *report, const struct kda_report_facts *facts)
{
    char scratch[VERSION_TEXT];
    struct kda_kernel_id triage;
    struct info_row info = {
        .facts = facts,
        .image = facts->image,
        .kernel = facts->kernel,
        .fit = facts->fit ? kda_fit_info(facts->fit) : NULL,
    };
    if (facts->kernel)
        info.id = &facts->kernel->id;
    else if (triage_id(facts->image, &triage))
        info.id = &triage;
    find_machine(&info, scratch);
    emit_info(report, &info);
}

void kda_report_symbols(struct kda_report *report, const struct kda_report_symbols *symbols)
{
    const struct kda_profile_info *known = symbols->row;
    bool by_table = known && known->id.has_pdb && !symbols->id->has_pdb;
    const struct symbols_row all = {
        .at = symbols,
        .found = symbols->found,
        .known = symbols->found ? NULL : known,
        .id = by_table ? &known->id : symbols->id,
        .pdb_by_table = by_table,
    };
    emit_symbols(report, &all);
}

void kda_report_builtin_profiles(struct kda_report *report)
{
    struct profile_row profile = {.source = "built-in", .builds = kda_profile_count()};
    for (size_t i = 0; i < profile.builds; i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        profile.complete += info.has_layout && info.has_rvas;
    }
    emit_profile(report, &profile);
}

void kda_report_own_profile(struct kda_report *report, const struct kda_own_profile *own)
{
    const struct kda_layout *layout = own->layout;
    struct kda_symbols_info counts = {.symbols_total = KDA_SYM_COUNT,
                                      .fields_total = KDA_FIELD_COUNT};
    struct profile_row profile = {
        .source = "unusable",
        .origin = own->path,
        .problem = own->problem,
        .written = own->time_100ns,
    };
    if (layout) {
        for (size_t i = 0; i < KDA_SYM_COUNT; i++)
            counts.symbols_found += layout->rva[i] != KDA_NONE;
        for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
            counts.fields_found += layout->field[i].offset != KDA_NONE;
        profile.source = own->source;
        profile.version = own->version;
        profile.id = &own->id;
        profile.counts = &counts;
    }
    emit_profile(report, &profile);
}

void kda_report_format_row(struct kda_report *report, const char *table, const char *name,
                           const char *title, bool usable, const char *advice)
{
    const struct format_row format = {table, name, title, advice, usable};
    emit_format(report, &format);
}
