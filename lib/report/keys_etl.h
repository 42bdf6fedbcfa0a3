/*
 * keys_etl.h - rows about trace files. The macros are those of keys.h.
 */
/* clang-format off */

#define FILE_KEY(heading) KEY(file, text, 1, heading, 0, "name without folders", true, o->file)
/* What only the first record tells, and what is only told where it is not 0. */
#define FROM_HEADER o->info->has_header
#define UNLESS_0(name, heading, flags, doc, value)                                                 \
    KEY(name, uint, 1, heading, flags, doc, o->info->value, o->info->value)

KIND(TRACE, trace, struct trace_row, KDA_KIND_VERTICAL,
     "A trace file (`kda etl info`). Keys from the first record are left out when it is damaged.")
FILE_KEY("File")
KEY(size, uint, 1, "File size", B, "bytes", true, o->info->file_size)
KEY(session, text, 1, "Session", O, "name in the first record", FROM_HEADER,
    o->info->session_name)
KEY(log_file, text, 1, "Log file", O, "name in the first record", FROM_HEADER, o->info->file_name)
KEY(os_version, text, 1, "Windows version", O, "major.minor.build", FROM_HEADER,
    os_version(o->info, kda_row_room(row, NUMBERS_TEXT)))
KEY(pointer_size, uint, 1, "Pointer size", O, "of the logger", FROM_HEADER, o->info->pointer_size)
KEY(layout, text, 1, "File layout", O, "of the file: `1.5`, `2.0`", FROM_HEADER,
    file_layout(o->info, kda_row_room(row, NUMBERS_TEXT)))
KEY(processors, uint, 1, "Processors", O, "of the machine", FROM_HEADER, o->info->processors)
KEY(mode, hex, 1, "Mode", O, "LogFileMode", FROM_HEADER, o->info->mode)
KEY(mode_flags, names, 1, "Mode bits", O, "names of its bits", FROM_HEADER, kda_etw_mode_names,
    o->info->mode)
KEY(clock, text, 1, "Clock", O, "`qpc`, `system_time`, `cpu_cycles`", FROM_HEADER,
    clock_name(o->info->clock.type))
BOOL(clock_guessed, 1, "Clock assumed", O, "yes|no", "true: the file does not say",
     FROM_HEADER && o->info->clock_guessed, true)
KEY(frequency, uint, 1, "Ticks a second", O, "of the clock", FROM_HEADER,
    o->info->clock.frequency)
KEY(start_time, time, 1, "Started", O, "of the trace", FROM_HEADER, o->info->start_time)
KEY(end_time, time, 1, "Ended", O, "left out if the file was never closed", FROM_HEADER,
    o->info->end_time)
KEY(boot_time, time, 1, "Booted", O, "of the machine", FROM_HEADER, o->info->boot_time)
BOOL(unfinished, 1, "Unfinished", O, "yes|no", "never closed", FROM_HEADER, o->info->unfinished)
BOOL(wrapped, 1, "Oldest overwritten", O, "yes|no",
     "circular, oldest buffers overwritten", FROM_HEADER && o->info->wrapped,
     true)
KEY(buffer_size, uint, 1, "Buffer size", O, "of the session, decompressed", FROM_HEADER,
    o->info->buffer_size)
KEY(buffers, uint, 1, "Buffers", 0, "that were found", true, o->info->buffers)
KEY(buffers_written, uint, 1, "Buffers written", O, "as the first record says", FROM_HEADER,
    o->info->buffers_written)
KEY(used_bytes, uint, 1, "Bytes of records", B, "bytes in use, decompressed", true,
    o->info->used_bytes)
UNLESS_0(tail_zeros, "Zeros at the end", O | B, "bytes behind the last buffer",
         tail_zeros)
KEY(compression, text, 1, "Compression", O, "`xpress`, `lznt1`, `xpress_huffman`",
    o->info->compression, compression_name(o->info->compression))
KEY(compressed_buffers, uint, 1, "Compressed buffers", O, "how many", o->info->compression,
    o->info->compressed_buffers)
UNLESS_0(unread_buffers, "Buffers not read", O, "buffers in a compression that is not read",
         unread_buffers)
KEY(events_lost, uint, 1, "Events lost", O, "as the first record says", FROM_HEADER,
    o->info->events_lost)
KEY(buffers_lost, uint, 1, "Buffers lost", O, "as the first record says", FROM_HEADER,
    o->info->buffers_lost)
UNLESS_0(events_lost_buffers, "Buffers marked EVENTS_LOST", O, "left out if 0",
         events_lost_buffers)
UNLESS_0(buffer_lost_buffers, "Buffers marked BUFFER_LOST", O, "left out if 0",
         buffer_lost_buffers)
UNLESS_0(backup_corrupt_buffers, "Buffers marked RTBACKUP_CORRUPT", O, "left out if 0",
         rtbackup_corrupt_buffers)
KEY(records, uint, 1, "Records", 0, "all that were read", true, o->totals->records)
KEY(first_time, time, 1, "First record", O, "of records", true, o->totals->first_time)
KEY(last_time, time, 1, "Last record", O, "of records", true, o->totals->last_time)
KEY(sessions, uint, 1, "Sessions", 0, "rows of this kind", true, kda_etl_session_count(o->etl))
KEY(cpus, uint, 1, "CPUs", 0, "rows of this kind", true, kda_etl_cpu_count(o->etl))
KEY(damages, uint, 1, "Damaged places", 0, "rows of this kind", true,
    kda_etl_damage_count(o->etl))
END

KIND(TRACE_SESSION, trace_session, struct trace_session_row, 0,
     "A session of a trace file; an appended file has several.")
FILE_KEY(NULL)
KEY(logger_id, uint, 1, "Session", R, "id of the session", true, o->at->logger_id)
KEY(first_buffer, uint, 1, "First buffer", R, "place in the file", true, o->at->first_buffer)
KEY(buffers, uint, 1, "Buffers", R, "number of them", true, o->at->buffers)
KEY(first_sequence, uint, 1, "First sequence", R, "number of the first buffer", true,
    o->at->first_sequence)
KEY(last_sequence, uint, 1, "Last sequence", R, "number of the last buffer", true,
    o->at->last_sequence)
BOOL(closed, 1, "Closed", 0, "yes|no", "its last buffer was flushed", true, o->at->closed)
END

KIND(TRACE_CPU, trace_cpu, struct trace_cpu_row, 0, "A processor of a trace file.")
FILE_KEY(NULL)
KEY(cpu, uint, 1, "CPU", R, "left out: the buffer's header is damaged",
    o->at->cpu != KDA_ETL_CPU_UNKNOWN, o->at->cpu)
KEY(buffers, uint, 1, "Buffers", R, "number of them", true, o->at->buffers)
KEY(used_bytes, uint, 1, "Bytes of records", R, "bytes in use, decompressed", true,
    o->at->used_bytes)
END

KIND(TRACE_DAMAGE, trace_damage, struct trace_damage_row, 0, "A damaged place of a trace file.")
FILE_KEY("File")
KEY(damage, text, 1, "Damage", 0,
    "`file` (between buffers, cut end), `buffer`, `record`, `unwritten`, "
     "`unsupported` (compression)",
    true, kda_etl_damage_name(o->at->kind))
KEY(offset, hex, 1, "Offset", R,
    "in the file; compressed: of the buffer plus the unpacked offset",
    true, o->at->off)
KEY(bytes, uint, 1, "Bytes", R, "how many", true, o->at->bytes)
BOOL(lost, 1, "Lost", 0, "yes|no", "false: repaired, nothing is missing", true, o->at->lost)
KEY(why, text, 1, "Why", 0, "what is wrong", true, o->at->why)
END

/* No column "row": tsv is the table of counts as it is kept beside trace files. */
KIND(TRACE_COUNT, trace_count, struct trace_count_row, KDA_KIND_NO_ROW,
     "Records of one kind in a trace file (`kda etl stats`). In csv and tsv there is no column "
     "`row`.")
FILE_KEY("File")
KEY(count, uint, 1, "Records", R, "events or records", true, o->records)
KEY(header, text, 1, "Header", 0,
    "`SYSTEM64`, …; `TOTAL`; `OTHERS`: beyond the limit", true,
    o->header)
KEY(group_or_provider, text, 1, "Group or provider", 0,
    "`g0f`; GUID without braces; `c7`: WPP component", o->named,
    source_text(o->at, kda_row_room(row, KDA_GUID_TEXT)))
KEY(type_or_id, text, 1, "Type or id", 0, "`t36`, `id5`", o->named,
    event_text(o->at, kda_row_room(row, NUMBERS_TEXT)))
KEY(version, text, 1, "Version", 0, "`v2`", o->named,
    version_text(o->at, kda_row_room(row, NUMBERS_TEXT)))
KEY(rest, text, 1, "Rest", 0,
    "of events: opcode, level, flags, property, extended items",
    o->named && o->at->shape == KDA_ETL_SHAPE_EVENT, rest_text(o->at, kda_row_room(row, REST_TEXT)))
END
#undef FILE_KEY
#undef FROM_HEADER
#undef UNLESS_0
