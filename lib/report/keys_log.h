/*
 * keys_log.h - rows about the sensor's logs. The macros are those of keys.h. Rows of kind event are
 * the members of a line, which event/kda_schema.h lists (rows_event.c).
 */
/* clang-format off */

KIND(LOG, log, struct kda_log_verdict, KDA_KIND_VERTICAL, "What `kda verify` found about one log.")
KEY(log, text, 1, "Log", O, "GUID of the log; left out if no line says", o->id[0], o->id)
BOOL(holds, 1, "Account holds", 0, "yes|NO", "no findings", true, o->findings == 0)
KEY(findings, uint, 1, "Findings", 0, "also those not listed", true,
    o->findings)
KEY(ending, text, 1, "Ends", 0,
    "`stopped`, `shutdown` (and a tail), `cut_off`", true,
    ending_name(o->ending))
BOOL(begins, 1, "Beginning there", 0, "yes|no",
     "with `sensor.start`; false: older files are missing", true, o->has_start)
BOOL(cut_line, 1, "Last line cut", O, "yes|no", "the last file ends within a line",
     o->cut_line, true)
KEY(tail, uint, 1, "Lines after shutdown", O, "behind `sensor.shutdown`",
    o->ending == KDA_LOG_SHUTDOWN, o->tail)
KEY(files, uint, 1, "Files", 0, "that were read", true, o->files)
KEY(bytes, uint, 1, "Bytes", B, "size", true, o->bytes)
KEY(lines, uint, 1, "Lines", 0, "whole ones", true, o->lines)
KEY(first_id, uint, 1, "First id", O, "of whole lines", o->ids > 0, o->first_id)
KEY(last_id, uint, 1, "Last id", O, "of whole lines", o->ids > 0, o->last_id)
KEY(first_time, time, 1, "First time", O, "of whole lines", true, o->first_time)
KEY(last_time, time, 1, "Last time", O, "of whole lines", true, o->last_time)
KEY(totals, text, 1, "Totals", 0,
    "`final` (`sensor.stop`), `earlier`, `none`", true, totals_name(o))
END

KIND(ACCOUNT, account, struct account_row, 0,
     "A kind of event in a log: what the sensor counted, and what is there. Kinds `sensor.*` have\n"
     "`lines` only.")
KEY(log, text, 1, NULL, 0, "GUID of the log", o->log[0], o->log)
KEY(kind, text, 1, "Kind", 0, "of event", true, o->kind)
KEY(offered, uint, 1, "Offered", R | O, "to the sensor; where totals are there",
    o->counted, o->at->offered)
KEY(written, uint, 1, "Written", R | O, "to the log", o->counted, o->at->written)
KEY(lost, uint, 1, "Lost", R | O, "on the way", o->counted, o->at->lost)
KEY(filtered, uint, 1, "Filtered", R | O, "taken by rules", o->counted, o->at->filtered)
KEY(lines, uint, 1, "Lines", R, "of that kind in the files", true, o->at->lines)
END

KIND(FINDING, finding, struct kda_log_finding, 0, "What is wrong with a log (`kda verify`).")
KEY(check, text, 1, "Check", 0, "`line`, `id`, `time`, `file`, `account`, `start`, `end`", true,
    o->check)
KEY(file, text, 1, "File", 0, "the file", true, o->file)
KEY(line, uint, 1, "Line", R | O, "from 1; left out where the finding is about the file", o->line,
    o->line)
KEY(text, text, 1, "Finding", 0, "one sentence", true, o->text)
END

KIND(COUNT, count, struct kda_log_count, 0, "A line of `kda log stats`.")
KEY(by, text, 1, "By", 0, "`kind` or `image`", true, o->by)
KEY(lines, uint, 1, "Lines", R, "how many", true, o->lines)
KEY(bytes, uint, 1, "Bytes", R, "size", true, o->bytes)
KEY(first_time, time, 1, "First", 0, "earliest", true, o->first_time)
KEY(last_time, time, 1, "Last", 0, "latest", true, o->last_time)
KEY(name, text, 1, "Name", 0, "of the kind or image", true, o->name)
END
