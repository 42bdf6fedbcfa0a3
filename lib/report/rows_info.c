/*
 * rows_info.c - rows about the image, its symbols, the program's tables, and gaps.
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

static void put_nonzero(struct kda_row *row, const char *key, uint64_t value)
{
    if (value != 0)
        kda_put_uint(row, key, value);
}

/* PE machine. Source: PE format, "Machine Types". */
static void put_machine(struct kda_row *row, uint32_t machine)
{
    if (machine == 0x8664)
        kda_put_text(row, "machine", "x64");
    else if (machine == 0xaa64)
        kda_put_text(row, "machine", "arm64");
    else if (machine == 0x14c)
        kda_put_text(row, "machine", "x86");
    else if (machine != 0)
        kda_put_text(row, "machine", "other");
}

static void put_kernel_id(struct kda_row *row, const struct kda_kernel_id *id)
{
    if (id->has_pdb) {
        kda_put_text(row, "pdb_name", id->pdb_name);
        kda_put_guid(row, "pdb_guid", id->pdb_guid);
        kda_put_uint(row, "pdb_age", id->pdb_age);
    }
    if (id->has_pe) {
        kda_put_hex(row, "pe_timestamp", id->pe_timestamp);
        kda_put_uint(row, "pe_size", id->pe_size);
    }
}

static void put_symbol_counts(struct kda_row *row, const struct kda_symbols_info *symbols)
{
    kda_put_uint(row, "symbols_found", symbols->symbols_found);
    kda_put_uint(row, "symbols_total", symbols->symbols_total);
    kda_put_uint(row, "fields_found", symbols->fields_found);
    kda_put_uint(row, "fields_total", symbols->fields_total);
}

static void put_image(struct kda_row *row, const struct kda_image_info *image)
{
    kda_put_text(row, "format", image->format);
    kda_put_text(row, "title", image->title);
    kda_put_text(row, "kind", image->kind == KDA_IMAGE_TRIAGE ? "triage" : "physical");
    kda_put_uint(row, "size", image->file_size);
    if (image->kind == KDA_IMAGE_PHYSICAL) {
        kda_put_uint(row, "pages", image->page_count);
        kda_put_hex(row, "max_pa", image->max_pa);
    }
    put_nonzero(row, "dump_type", image->dump_type);
}

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

static const char *known_text(const struct kda_profile_info *known)
{
    return known->has_layout && known->has_rvas ? "layout and globals known"
           : known->has_layout                  ? "layout known, globals not"
                                                : "some globals known, layout not";
}

/* Without symbols: does the built-in table know the build, and what does it lack? */
static bool put_known_build(struct kda_row *row, const struct kda_report_facts *facts)
{
    struct kda_kernel_id id;
    struct kda_profile_info known;
    if (facts->kernel)
        id = facts->kernel->id;
    else if (!triage_id(facts->image, &id))
        return false;
    if (!kda_profile_identify(&id, &known))
        return false;
    kda_put_text(row, "version", known.version);
    kda_put_text(row, "build_known", known_text(&known));
    return true;
}

/* Kernel facts where a kernel was found, else what the file's header says. `scratch` lives until
 * the row is emitted. */
static void put_machine_facts(struct kda_row *row, const struct kda_report_facts *facts,
                              char scratch[VERSION_TEXT])
{
    const struct kda_image_info *image = facts->image;
    const struct kda_kernel_info *kernel = facts->kernel;
    uint32_t build = kernel && kernel->build ? kernel->build : image->build;
    if (facts->symbols && facts->symbols->version)
        kda_put_text(row, "version", facts->symbols->version);
    else if (facts->symbols || !put_known_build(row, facts))
        kda_put_text(row, "version", version_text(build, scratch));
    put_nonzero(row, "build", build);
    put_machine(row, kernel && kernel->machine ? kernel->machine : image->machine);
    put_nonzero(row, "cpus", kernel && kernel->cpus ? kernel->cpus : image->cpus);
    if (kernel && kernel->system_time_100ns) {
        kda_put_time(row, "capture_time", kernel->system_time_100ns);
        kda_put_text(row, "capture_time_source",
                     kernel->system_time_from_header ? "header" : "shared_user_page");
    } else if (image->system_time_100ns) {
        kda_put_time(row, "capture_time", image->system_time_100ns);
        kda_put_text(row, "capture_time_source", "header");
    }
    kda_put_address(row, "kernel_base", kernel ? kernel->base : image->kernel_base);
}

static void put_kernel(struct kda_row *row, const struct kda_kernel_info *kernel)
{
    kda_put_hex(row, "dtb", kernel->dtb);
    if ((unsigned)kernel->dtb_source < sizeof(dtb_sources) / sizeof(dtb_sources[0]))
        kda_put_text(row, "dtb_source", dtb_sources[kernel->dtb_source]);
    kda_put_bool(row, "la57", kernel->la57);
    put_kernel_id(row, &kernel->id);
    if (kernel->kdbg_va) {
        kda_put_hex(row, "kdbg", kernel->kdbg_va);
        kda_put_text(row, "kdbg_state", kdbg_forms[kernel->kdbg_form]);
        kda_put_uint(row, "kdbg_size", kernel->kdbg_size);
        kda_put_text(row, "kdbg_source", kdbg_sources[kernel->kdbg_source]);
    }
}

static void put_triage(struct kda_row *row, const struct kda_image_info *image)
{
    if (image->process_name || image->process_va) {
        kda_put_object(row, "process");
        kda_put_text(row, "name", image->process_name);
        if (image->has_process_pid)
            kda_put_uint(row, "pid", image->process_pid);
        kda_put_address(row, "va", image->process_va);
        kda_put_end(row);
    }
    if (image->driver_count == 0)
        return;
    kda_put_uint(row, "driver_count", image->driver_count);
    kda_put_array(row, "drivers");
    for (size_t i = 0; i < image->driver_count; i++) {
        const struct kda_image_driver *driver = &image->drivers[i];
        kda_put_object(row, NULL);
        kda_put_text(row, "name", driver->name);
        kda_put_hex(row, "base", driver->base);
        kda_put_uint(row, "size", driver->size);
        kda_put_hex(row, "timestamp", driver->timestamp);
        kda_put_uint(row, "checksum", driver->checksum);
        kda_put_end(row);
    }
    kda_put_end(row);
}

static void put_bugcheck(struct kda_row *row, const struct kda_image_info *image)
{
    if (!image->has_bugcheck)
        return;
    kda_put_object(row, "bugcheck");
    kda_put_hex(row, "code", image->bugcheck);
    kda_put_array(row, "args");
    for (size_t i = 0; i < 4; i++)
        kda_put_hex(row, NULL, image->bugcheck_args[i]);
    kda_put_end(row);
    kda_put_end(row);
}

static void put_field_names(struct kda_row *row, const char *key, const struct kda_fit *fit,
                            enum kda_fit_state state)
{
    kda_put_array(row, key);
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (kda_fit_field_state(fit, (enum kda_field_id)i) == state)
            kda_put_text(row, NULL, kda_field_name((enum kda_field_id)i));
    kda_put_end(row);
}

static void put_anchors(struct kda_row *row, const struct kda_fit_info *info)
{
    kda_put_array(row, "anchors");
    for (size_t i = 0; i < KDA_ANCHOR_COUNT; i++) {
        const struct kda_fit_anchor_info *anchor = &info->anchor[i];
        kda_put_object(row, NULL);
        kda_put_text(row, "name", kda_fit_anchor_name((enum kda_fit_anchor)i));
        kda_put_text(row, "verdict", kda_fit_verdict_name(anchor->verdict));
        kda_put_address(row, "state", anchor->state);
        kda_put_uint(row, "refused", anchor->refused);
        kda_put_end(row);
    }
    kda_put_end(row);
}

/* How the layout was worked out and how well it holds. */
static void put_fit(struct kda_row *row, const struct kda_fit *fit)
{
    const struct kda_fit_info *info = kda_fit_info(fit);
    uint64_t checks = (uint64_t)info->passed + info->failed;
    kda_put_text(row, "layout", "fitted");
    kda_put_object(row, "fit");
    kda_put_text(row, "nearest", info->nearest);
    kda_put_bool(row, "whole", info->whole);
    kda_put_uint(row, "layouts_known", info->layouts);
    kda_put_uint(row, "layouts_left", info->left);
    kda_put_uint(row, "score", checks ? info->passed * (uint64_t)100 / checks : 0);
    kda_put_uint(row, "checks_passed", info->passed);
    kda_put_uint(row, "checks_failed", info->failed);
    kda_put_uint(row, "fields_proven", info->proven);
    kda_put_uint(row, "fields_fitted", info->fitted);
    kda_put_uint(row, "fields_absent", info->absent);
    kda_put_bool(row, "anchors_disagree", info->disagreement);
    put_anchors(row, info);
    put_field_names(row, "proven", fit, KDA_FIT_PROVEN);
    put_field_names(row, "fitted", fit, KDA_FIT_FITTED);
    kda_put_end(row);
}

static void put_recall_item(struct kda_row *row, const struct kda_recall_item *item)
{
    kda_put_object(row, NULL);
    kda_put_text(row, "name", item->name);
    kda_put_text(row, "object", item->object);
    kda_put_text(row, "of", item->of);
    kda_put_address(row, "va", item->va);
    if (!item->only_count)
        kda_put_text(row, "state", kda_recall_state_name(item->state));
    if (item->lists) {
        kda_put_uint(row, "lists", item->lists);
        kda_put_uint(row, "whole", item->whole);
    }
    if (item->has_found)
        kda_put_uint(row, "found", item->found);
    if (item->has_others)
        kda_put_uint(row, "by_others", item->by_others);
    if (item->has_count)
        kda_put_uint(row, "counted", item->counted);
    kda_put_address(row, "count_va", item->count_va);
    kda_put_text(row, "uncounted", item->uncounted);
    kda_put_address(row, "broken_at", item->broken_va[0]);
    kda_put_address(row, "broken_back", item->broken_va[1]);
    if (item->reason != KDA_OK)
        kda_put_text(row, "reason", kda_status_name(item->reason));
    kda_put_end(row);
}

static void put_recall(struct kda_row *row, const struct kda_recall *recall)
{
    size_t count;
    const struct kda_recall_item *items = kda_recall_items(recall, &count);
    kda_put_array(row, "completeness");
    for (size_t i = 0; i < count; i++)
        put_recall_item(row, &items[i]);
    kda_put_end(row);
}

void kda_report_info(struct kda_report *report, const struct kda_report_facts *facts)
{
    char scratch[VERSION_TEXT];
    struct kda_kernel_id triage;
    struct kda_row *row = kda_report_row(report, KDA_ROW_INFO);
    put_image(row, facts->image);
    put_machine_facts(row, facts, scratch);
    if (facts->kernel)
        put_kernel(row, facts->kernel);
    else if (triage_id(facts->image, &triage))
        put_kernel_id(row, &triage);
    kda_put_text(row, "kernel_missing", facts->kernel_missing);
    if (facts->symbols) {
        kda_put_text(row, "symbol_source", facts->symbols->source);
        kda_put_text(row, "symbol_origin", facts->symbols->origin);
        put_symbol_counts(row, facts->symbols);
    }
    kda_put_text(row, "symbols_missing", facts->symbols_missing);
    put_bugcheck(row, facts->image);
    put_triage(row, facts->image);
    kda_put_array(row, "warnings");
    for (size_t i = 0; i < facts->image->warning_count; i++)
        kda_put_text(row, NULL, facts->image->warnings[i]);
    kda_put_end(row);
    kda_put_array(row, "features");
    kda_put_text(row, NULL, "profile");
    kda_put_text(row, NULL, "pdb");
    if (kda_symbols_have_isf())
        kda_put_text(row, NULL, "isf");
    if (kda_symbols_have_download())
        kda_put_text(row, NULL, "download");
    kda_put_end(row);
    kda_put_uint(row, "gap_count", facts->gaps);
    if (facts->fit)
        put_fit(row, facts->fit);
    if (facts->recall)
        put_recall(row, facts->recall);
    kda_report_emit(report);
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

void kda_report_symbols(struct kda_report *report, const struct kda_report_symbols *symbols)
{
    char store[KDA_PDB_NAME_MAX * 2 + 64] = "", isf[ISF_NAME_TEXT];
    const struct kda_profile_info *known = symbols->row;
    bool by_table = known && known->id.has_pdb && !symbols->id->has_pdb;
    struct kda_kernel_id id = by_table ? known->id : *symbols->id;
    struct kda_row *row = kda_report_row(report, KDA_ROW_SYMBOLS);
    put_kernel_id(row, &id);
    if (id.has_pdb) {
        kda_symbols_store_path(&id, store, sizeof(store));
        kda_put_text(row, "store_path", store);
        kda_put_text(row, "isf_name", isf_name(&id, isf));
    }
    kda_put_bool(row, "found", symbols->found != NULL);
    if (symbols->found) {
        kda_put_text(row, "source", symbols->found->source);
        kda_put_text(row, "origin", symbols->found->origin);
        kda_put_text(row, "version", symbols->found->version);
        put_symbol_counts(row, symbols->found);
    } else if (known) {
        kda_put_text(row, "version", known->version);
    }
    kda_put_text(row, "fetched", symbols->fetched);
    kda_put_text(row, "missing", symbols->missing);
    if (known && !symbols->found)
        kda_put_text(row, "build_known", known_text(known));
    if (by_table)
        kda_put_text(row, "pdb_source", "table");
    kda_report_emit(report);
}

void kda_report_builtin_profiles(struct kda_report *report)
{
    size_t count = kda_profile_count(), complete = 0;
    for (size_t i = 0; i < count; i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        complete += info.has_layout && info.has_rvas;
    }
    struct kda_row *row = kda_report_row(report, KDA_ROW_PROFILE);
    kda_put_text(row, "source", "built-in");
    kda_put_uint(row, "builds", count);
    kda_put_uint(row, "complete_builds", complete);
    kda_report_emit(report);
}

void kda_report_own_profile(struct kda_report *report, const struct kda_own_profile *profile)
{
    const struct kda_layout *layout = profile->layout;
    struct kda_symbols_info counts = {.symbols_total = KDA_SYM_COUNT,
                                      .fields_total = KDA_FIELD_COUNT};
    struct kda_row *row = kda_report_row(report, KDA_ROW_PROFILE);
    kda_put_text(row, "source", layout ? profile->source : "unusable");
    if (layout) {
        for (size_t i = 0; i < KDA_SYM_COUNT; i++)
            counts.symbols_found += layout->rva[i] != KDA_NONE;
        for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
            counts.fields_found += layout->field[i].offset != KDA_NONE;
        kda_put_text(row, "version", profile->version);
        put_kernel_id(row, &profile->id);
        put_symbol_counts(row, &counts);
    }
    if (profile->time_100ns)
        kda_put_time(row, "written", profile->time_100ns);
    kda_put_text(row, "origin", profile->path);
    kda_put_text(row, "problem", profile->problem);
    kda_report_emit(report);
}

void kda_report_format_row(struct kda_report *report, const char *table, const char *name,
                           const char *title, bool usable, const char *advice)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_FORMAT);
    kda_put_text(row, "table", table);
    kda_put_text(row, "name", name);
    kda_put_text(row, "title", title);
    kda_put_bool(row, "usable", usable);
    kda_put_text(row, "advice", advice);
    kda_report_emit(report);
}

void kda_report_gap(struct kda_report *report, const struct kda_gap *gap)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_GAP);
    kda_put_text(row, "what", gap->what);
    kda_put_hex(row, "va", gap->va);
    kda_put_text(row, "reason", kda_status_name(gap->reason));
    kda_put_text(row, "text", gap->text);
    kda_report_emit(report);
}

void kda_report_gaps(struct kda_report *report, const struct kda_gaps *gaps)
{
    for (size_t i = 0; i < gaps->count; i++)
        kda_report_gap(report, &gaps->items[i]);
    if (gaps->dropped == 0)
        return;
    char text[96];
    (void)snprintf(text, sizeof(text), "%zu more gaps were counted but not kept", gaps->dropped);
    struct kda_row *row = kda_report_row(report, KDA_ROW_GAP);
    kda_put_text(row, "what", "gap_list");
    kda_put_text(row, "reason", kda_status_name(KDA_LIMIT));
    kda_put_text(row, "text", text);
    kda_report_emit(report);
}
