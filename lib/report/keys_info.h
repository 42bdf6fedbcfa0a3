/*
 * keys_info.h - rows about the image, its symbols and the program's tables. The macros are those of
 * keys.h.
 */
/* clang-format off */

/* `id`: of the kernel; NULL: not known. */
#define KERNEL_ID(place, numbers, size_heading, id)                                                \
    KEY(pdb_name, text, place, "PDB", O, "name of the kernel's PDB", (id) && (id)->has_pdb,        \
        (id)->pdb_name)                                                                            \
    KEY(pdb_guid, guid, place, "PDB GUID", O, "GUID of the PDB", (id) && (id)->has_pdb,            \
        (id)->pdb_guid)                                                                            \
    KEY(pdb_age, uint, place, "PDB age", (numbers) | O, "age of the PDB", (id) && (id)->has_pdb,   \
        (id)->pdb_age)                                                                             \
    KEY(pe_timestamp, hex, place, "PE time stamp", (numbers) | O,                                  \
        "TimeDateStamp of the kernel's image", (id) && (id)->has_pe, (id)->pe_timestamp)           \
    KEY(pe_size, uint, place, size_heading, (numbers) | O, "SizeOfImage", (id) && (id)->has_pe,    \
        (id)->pe_size)

#define SYMBOL_COUNTS(place, symbols, fields, of, flags, of_flags, counts)                         \
    KEY(symbols_found, uint, place, symbols, flags, "globals that are known", counts,              \
        (counts)->symbols_found)                                                                   \
    KEY(symbols_total, uint, place, of, of_flags, "globals looked for", counts,                    \
        (counts)->symbols_total)                                                                   \
    KEY(fields_found, uint, place, fields, flags, "fields that are known", counts,                 \
        (counts)->fields_found)                                                                    \
    KEY(fields_total, uint, place, of, of_flags, "fields looked for", counts,                      \
        (counts)->fields_total)

ITEM(driver, struct kda_image_driver)
KEY(name, text, 2, NULL, 0, "file name", true, o->name)
KEY(base, hex, 1, NULL, 0, "address", true, o->base)
KEY(size, uint, 1, NULL, 0, "bytes", true, o->size)
KEY(timestamp, hex, 1, NULL, 0, "TimeDateStamp", true, o->timestamp)
KEY(checksum, uint, 0, NULL, J, "CheckSum", true, o->checksum)
END_ITEM

ITEM(anchor, struct anchor_row)
KEY(name, text, 1, NULL, 0, "of the anchor", true, kda_fit_anchor_name(o->anchor))
KEY(verdict, text, 1, NULL, 0, "`accepted`, `rejected`, `not_found`, `not_tried`", true,
    kda_fit_verdict_name(o->at->verdict))
KEY(state, address, 0, NULL, J, "where it was found", true, o->at->state)
KEY(refused, uint, 1, NULL, 0, "candidates that failed the checks", true, o->at->refused)
END_ITEM

ITEM(completeness, struct kda_recall_item)
KEY(name, text, 1, NULL, 0, "anchor (a global that leads on), list, table, count", true,
    o->name)
KEY(object, text, 0, NULL, J,
    "what it leads to: `process`, `driver`, `logger slot`, …",
    true, o->object)
KEY(of, text, 1, NULL, 0, "silo, session, type, kind of callback", true,
    o->of)
KEY(va, address, 0, NULL, J, "where it stands", true, o->va)
KEY(state, text, 1, NULL, 0,
    "`complete`, `broken` (ends early), `missing` (from the image), `unknown` (for this build)",
    !o->only_count, kda_recall_state_name(o->state))
KEY(lists, uint, 0, NULL, J, "lists that it stands for", o->lists, o->lists)
KEY(whole, uint, 0, NULL, J, "of so many whole ones", o->lists, o->whole)
KEY(found, uint, 1, NULL, 0, "objects that it led to", o->has_found, o->found)
KEY(by_others, uint, 0, NULL, J, "objects that only other witnesses named",
    o->has_others, o->by_others)
KEY(counted, uint, 1, NULL, 0,
    "the kernel's count; of handle tables: pages by NextHandleNeedingPool",
    o->has_count, o->counted)
KEY(count_va, address, 1, NULL, 0, "where the count stands", true, o->count_va)
KEY(uncounted, text, 0, NULL, J, "why not counted, or not all", true, o->uncounted)
KEY(broken_at, address, 0, NULL, J, "first place that fails, forward", true, o->broken_va[0])
KEY(broken_back, address, 0, NULL, J, "first place that fails, backward", true, o->broken_va[1])
KEY(reason, text, 0, NULL, J, "why, as of a gap", o->reason != KDA_OK, kda_status_name(o->reason))
END_ITEM

#define IN_SHORT                                                                                   \
    "{name}[ of {of}][: {state}][, {whole} of][ {lists} whole][, {found} found]"                   \
    "[, {by_others} by others only][, {counted} counted][ at {count_va}][, {uncounted}]"           \
    "[, breaks at {broken_at}][ and {broken_back}][ ({reason})]"

KIND(INFO, info, struct info_row, KDA_KIND_VERTICAL, "What the image is (`kda info`).")
KEY(format, text, 2, "Format name", 0, "image format, as in `kda formats`", true,
    o->image->format)
KEY(title, text, 1, "Format", O, "in words", true, o->image->title)
KEY(kind, text, 2, "Holds", 0, "`physical`, or `triage` (small dump: no physical memory)", true,
    o->image->kind == KDA_IMAGE_TRIAGE ? "triage" : "physical")
KEY(size, uint, 2, "File size", B, "of the file, bytes", true, o->image->file_size)
KEY(pages, uint, 2, "Pages", O, "pages of 4 KiB the file answers for",
    o->image->kind == KDA_IMAGE_PHYSICAL, o->image->page_count)
KEY(max_pa, hex, 2, "Memory ends at", O, "end of the highest page",
    o->image->kind == KDA_IMAGE_PHYSICAL, o->image->max_pa)
KEY(dump_type, uint, 2, "Dump type", O, "DMP files", o->image->dump_type, o->image->dump_type)
KEY(version, text, 2, "Windows version", O,
    "of the kernel, else `10.0.26100`", true,
    o->version)
KEY(build_known, text, 2, "In the table", O,
    "no symbols, but the build is known in part: `layout known, globals not`",
    true, o->build_known)
KEY(build, uint, 2, "Build", O, "build number", o->build, o->build)
KEY(machine, text, 2, "Machine", O, "`x64`, `arm64`, `x86`, `other`", true,
    machine_name(o->machine))
KEY(cpus, uint, 2, "CPUs", O, "processors", o->cpus, o->cpus)
KEY(capture_time, time, 2, "Captured", O, "when the memory was read", true, o->time)
KEY(capture_time_source, text, 2, "Capture time from", O, "`header`, `shared_user_page`", o->time,
    o->time_from_page ? "shared_user_page" : "header")
KEY(kernel_base, address, 2, "Kernel base", O, "address of the kernel's image", true,
    o->kernel ? o->kernel->base : o->image->kernel_base)
KEY(dtb, hex, 2, "Page tables (DTB)", O, "root of the page tables", o->kernel, o->kernel->dtb)
KEY(dtb_source, text, 2, "DTB found by", O,
    "`option`, `header`, `cpu`, `low_stub`, `scan`, `system_process` (a processor or a scan led to "
    "the System process, whose root is used)",
    o->kernel && (unsigned)o->kernel->dtb_source < COUNT(dtb_sources),
    dtb_sources[o->kernel->dtb_source])
BOOL(la57, 2, "Five-level paging", O, "yes|no", "five-level page tables", o->kernel,
     o->kernel->la57)
KERNEL_ID(2, 0, "PE image size", o->id)
KEY(kdbg, hex, 2, "Debugger block", O, "debugger data block",
    has_kdbg(o), o->kernel->kdbg_va)
KEY(kdbg_state, text, 3, "Debugger block is", O,
    "`plain`, `decoded` (with its keys), `decoded_without_keys`", has_kdbg(o),
    kdbg_forms[o->kernel->kdbg_form])
KEY(kdbg_size, uint, 2, NULL, 0, "its bytes", has_kdbg(o), o->kernel->kdbg_size)
KEY(kdbg_source, text, 2, "Debugger block by", O,
    "what led to it: `header`, `symbol`, `version_block`, `list`, `content`", has_kdbg(o),
    kdbg_sources[o->kernel->kdbg_source])
KEY(kernel_missing, text, 4, "No kernel", O, "why no kernel was found", true,
    o->facts->kernel_missing)
KEY(symbol_source, text, 4, "Symbols", O, "`profile`, `cache`, `pdb`, `isf`, `fitted`",
    o->facts->symbols, o->facts->symbols->source)
KEY(symbol_origin, text, 4, "Symbols from", O, "file, `built-in table`, or how it was fitted",
    o->facts->symbols, o->facts->symbols->origin)
SYMBOL_COUNTS(4, "Globals known", "Fields known", "of", O, S, o->facts->symbols)
KEY(symbols_missing, text, 4, "Symbols missing", O,
    "why; the file wanted, places looked in", true,
    o->facts->symbols_missing)
OBJECT(bugcheck, "of a crash dump", o->image->has_bugcheck)
IN(bugcheck, code, hex, 4, "Bug check", O, "bug check code", true, o->image->bugcheck)
IN(bugcheck, args, hexes, 4, "Bug check args", O, "its four arguments", true, each_argument,
   o->image)
CLOSE
OBJECT(process, "process named by a triage dump", o->image->process_name || o->image->process_va)
IN(process, name, text, 4, "Process", O, "short name", true, o->image->process_name)
IN(process, pid, uint, 4, "Process id", O, "process id", o->image->has_process_pid,
   o->image->process_pid)
IN(process, va, address, 4, "EPROCESS", O, "`_EPROCESS`", true, o->image->process_va)
CLOSE
KEY(driver_count, uint, 4, "Drivers", O, "drivers that a triage dump names",
    o->image->driver_count, o->image->driver_count)
ITEMS(drivers, driver, 4, "Driver list", O | V | L, "{base}  {size}  {timestamp}  {name}",
      "each of them", o->image->driver_count, each_driver, o->image)
KEY(warnings, texts, 4, "Warning", O | L, "about the file", true,
    each_warning, o->image)
KEY(features, texts, 4, "Built in", 0,
    "`profile`, `pdb`, `isf`, `download`", true, each_feature, o)
KEY(gap_count, uint, 4, "Gaps", 0, "gaps that a full walk meets", true, o->facts->gaps)
KEY(layout, text, 0, NULL, J,
    "`fitted` where no symbols were found and the layout was worked out ([fit.md](fit.md))",
    o->fit, "fitted")
OBJECT(fit, "how the layout was worked out", o->fit)
IN(fit, nearest, text, 4, "Nearest layout", O,
   "first build of the best layout", true, o->fit->nearest)
IN_BOOL(fit, whole, 4, "Fits as a whole", O, "yes|no", "one known layout passes every check", true,
        o->fit->whole)
IN(fit, layouts_known, uint, 5, "of", S, "of so many", true, o->fit->layouts)
IN(fit, layouts_left, uint, 4, "Layouts left", O, "known layouts that are not refuted", true,
   o->fit->left)
IN(fit, score, uint, 6, "Score", O, "per cent of the checks that passed", true, score(o->fit))
IN(fit, checks_passed, uint, 6, "Checks passed", O, "checks that passed", true, o->fit->passed)
IN(fit, checks_failed, uint, 6, "Checks failed", O, "checks that failed", true, o->fit->failed)
IN(fit, fields_proven, uint, 6, "Fields proven", O, "offsets that the image proves", true,
   o->fit->proven)
IN(fit, fields_fitted, uint, 6, "Fields fitted", O, "offsets of the layouts that are left", true,
   o->fit->fitted)
IN(fit, fields_absent, uint, 6, "Fields left out", O, "offsets that are not known", true,
   o->fit->absent)
IN_BOOL(fit, anchors_disagree, 6, "Anchors disagree", O, "yes|no",
        "two anchors lead to different states", true, o->fit->disagreement)
IN_ITEMS(fit, anchors, anchor, 6, "Anchors", O | L, "{name} {verdict}", "how the walk was begun",
         true, each_anchor, o->fit)
IN(fit, proven, texts, 6, "Proven", O | V | L, "names of the fields", true, each_proven,
   o->facts->fit)
IN(fit, fitted, texts, 6, "Fitted", O | V | L, "names of the fields", true, each_fitted,
   o->facts->fit)
CLOSE
ITEMS(completeness, completeness, 7, "Completeness", O | V | L, IN_SHORT,
      "an object for each anchor, list or table, and count; for a session where NumConsumers "
       "differs or cannot be read",
      o->facts->recall, each_completeness, o->facts->recall)
END

KIND(SYMBOLS, symbols, struct symbols_row, KDA_KIND_VERTICAL,
     "What the kernel needs and where it was found (`kda symbols`).")
KERNEL_ID(1, 0, "PE image size", o->id)
KEY(store_path, text, 1, "Store path", O, "below the root of a symbol store", o->id->has_pdb,
    store_path(o->id, kda_row_room(row, STORE_TEXT)))
KEY(isf_name, text, 1, "ISF name", O, "as Volatility 3 names it", o->id->has_pdb,
    isf_name(o->id, kda_row_room(row, ISF_NAME_TEXT)))
BOOL(found, 1, "Found", 0, "yes|no", "symbols were found", true, o->found != NULL)
KEY(source, text, 1, "Source", O, "as `symbol_source` in info", o->found, o->found->source)
KEY(origin, text, 1, "From", O, "as `symbol_origin` in info", o->found, o->found->origin)
KEY(version, text, 1, "Version", O, "of Windows", o->found || o->known,
    o->found ? o->found->version : o->known->version)
SYMBOL_COUNTS(1, "Globals known", "Fields known", "of", O, S, o->found)
KEY(fetched, text, 1, "Stored at", O, "file that `get` stored", true, o->at->fetched)
KEY(missing, text, 1, "Missing", O, "why not", true, o->at->missing)
KEY(build_known, text, 1, "In the table", O, "as in info, where nothing was found", o->known,
    known_text(o->known))
KEY(pdb_source, text, 1, "PDB known by", O,
    "`table`: named by the table, through PE stamp and size",
    o->pdb_by_table, "table")
END

KIND(PROFILE, profile, struct profile_row, 0,
     "The built-in table, then each profile of one's own (`kda symbols list` and `add`).")
KEY(source, text, 1, "Source", 0,
    "`built-in`; what it was made from: `pdb`, `isf`; `unusable`", true, o->source)
KEY(version, text, 1, "Version", O, "where the table knows it", true, o->version)
KERNEL_ID(1, R, "PE size", o->id)
KEY(builds, uint, 1, "Builds", R | O, "of the built-in table", o->builds, o->builds)
KEY(complete_builds, uint, 1, "Complete", R | O, "builds with layout and globals", o->builds,
    o->complete)
SYMBOL_COUNTS(1, "Globals", "Fields", NULL, R | O, 0, o->counts)
KEY(written, time, 1, "Written", O, "when it was kept", true, o->written)
KEY(origin, text, 1, "File", O, "file of the profile", true, o->origin)
KEY(problem, text, 1, "Problem", O, "why it is unusable", true, o->problem)
END

KIND(FORMAT, format, struct format_row, 0, "A row of one of the program's tables (`kda formats`).")
KEY(table, text, 1, "Table", 0, "`image`, `symbols`, `build`, `trace`, `output`, `exit`", true,
    o->table)
KEY(name, text, 1, "Name", 0, "of the row", true, o->name)
KEY(title, text, 3, "Title", 0, "name in words", true, o->title)
BOOL(usable, 2, "Usable", 0, "yes|no", "this build can read it", true, o->usable)
KEY(advice, text, 3, "Advice", O, "what to do instead", true, o->advice)
END
#undef IN_SHORT
#undef KERNEL_ID
#undef SYMBOL_COUNTS
