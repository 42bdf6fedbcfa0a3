/*
 * keys_model.h - rows of the ETW model, of processes and of gaps. The macros are those of keys.h.
 */
/* clang-format off */

#define SILO(place, of)                                                                            \
    KEY(silo, text, place, "Silo", H,                                                              \
        "`\"host\"`, or the hex address of the server silo's ETW state", of, (of)->label)
#define LAYOUT                                                                                     \
    KEY(layout, text, 0, NULL, J, "`fitted` where the layout was worked out ([fit.md](fit.md))",   \
        row->fitted, "fitted")

ITEM(session_consumer, struct kda_etw_consumer)
KEY(pid, uint, 1, NULL, 0, "process id", o->has_pid, o->pid)
KEY(process, text, 1, NULL, 0, "its short name", true, known(o->process))
KEY(va, hex, 0, NULL, J, "`_ETW_REALTIME_CONSUMER`", true, o->va)
END_ITEM

KIND(SESSION, session, struct kda_etw_session, 0, "A tracing session.")
SILO(1, o->silo)
KEY(id, uint, 1, "Id", R, "slot in the logger array", true, o->id)
KEY(logger_id, uint, 1, NULL, 0,
    "id in the context, else equal to `id`",
    HAS(o, LOGGER_ID), o->logger_id)
KEY(name, text, 8, "Name", 0, "logger name; may be empty", HAS(o, NAME), o->name)
KEY(va, hex, 8, NULL, 0, "logger context (`_WMI_LOGGER_CONTEXT`)", true, o->va)
KEY(mode, hex, 3, "Mode", R, "LoggerMode", HAS(o, MODE), o->mode)
KEY(mode_flags, names, 8, NULL, 0, "names of the bits of `mode`", HAS(o, MODE),
    kda_etw_mode_names, o->mode)
BOOL(collecting, 2, "Status", 0, "Running|Stopped", "CollectionOn", HAS(o, COLLECTING),
     o->collecting != 0)
KEY(accept_new_events, int, 8, NULL, 0, "AcceptNewEvents", HAS(o, ACCEPT), o->accept_new_events)
KEY(clock, text, 8, NULL, 0, "`qpc`, `system_time`, `cpu_cycles`, or the number",
    HAS(o, CLOCK), clock_text(o->clock))
KEY(get_cpu_clock, clock, 8, NULL, 0,
    "function (to 18362), number (from 19041)",
    HAS(o, GET_CPU_CLOCK), o->get_cpu_clock)
KEY(buffer_size, uint, 4, "Buffer KB", R | K, "bytes", HAS(o, BUFFER_SIZE), o->buffer_size)
KEY(buffers, uint, 4, "Buffers", R, "buffers in use", HAS(o, BUFFERS), o->buffers)
KEY(max_buffers, uint, 4, "Max", R, "upper limit of `buffers`", HAS(o, MAX_BUFFERS),
    o->max_buffers)
KEY(events_lost, uint, 6, "Events Lost", R, "events lost, as the kernel counts",
    HAS(o, EVENTS_LOST), o->events_lost)
KEY(buffers_lost, uint, 6, "Buffers Lost", R, "buffers lost, as the kernel counts",
    HAS(o, BUFFERS_LOST), o->buffers_lost)
KEY(realtime_buffers_lost, uint, 6, "RT Lost", R, "buffers that no consumer got",
    HAS(o, RT_BUFFERS_LOST), o->realtime_buffers_lost)
KEY(buffers_written, uint, 5, "Written", R, "buffers written", HAS(o, BUFFERS_WRITTEN),
    o->buffers_written)
KEY(log_file, text, 9, "Log File", O, "left out for a session without a file", HAS(o, LOG_FILE),
    known(o->log_file))
KEY(start_time, time, 8, NULL, 0, "when the session was started", HAS(o, START_TIME),
    o->start_time_100ns)
KEY(instance_guid, guid, 8, NULL, 0, "InstanceGuid", HAS(o, INSTANCE_GUID), o->instance_guid)
KEY(security, text, 8, NULL, 0,
    "SDDL",
    HAS(o, SECURITY), known(o->security))
KEY(num_consumers, uint, 8, NULL, 0, "the kernel's own count", HAS(o, NUM_CONSUMERS),
    o->num_consumers)
ITEMS(consumers, session_consumer, 8, "Consumers", O, "{process} ({pid})",
      "each consumer that any witness found", true, each_session_consumer, o)
KEY(found_by, bits, 10, NULL, 0,
    "`pool` (`--carve`): no slot holds it; `id` is the stored one",
    o->found_by == KDA_SESSION_POOL, o->found_by, session_ways)
LAYOUT
END

KIND(CONSUMER, consumer, struct kda_etw_consumer, 0,
     "A real-time consumer: who listens to a session.")
SILO(1, o->silo)
KEY(session_id, uint, 1, "Session", R, "slot of the session", o->session || o->has_session_id,
    o->session ? o->session->id : o->session_id)
KEY(session, text, 8, "Session Name", 0, "its name; left out if no such session exists",
    o->session && !o->unnamed && HAS(o->session, NAME), o->session->name)
KEY(pid, uint, 1, "PID", R, "owner", o->has_pid, o->pid)
KEY(process, text, 7, "Process", 0, "short name of the owner, at most 14 characters", true,
    known(o->process))
KEY(image, text, 9, "Image", O, "NT path of the owner", true, known(o->image))
KEY(va, hex, 2, "Address", R, "`_ETW_REALTIME_CONSUMER`", true, o->va)
KEY(found_by, bits, 4, "Found By", 0,
    "`list` (the session's), `handle`, `pool` (`--carve`), `link` (another entry's links)",
    true, o->found_by, consumer_ways)
KEY(handle, hex, 3, "Handle", R, "value in the owner's handle table", o->has_handle, o->handle)
KEY(flags, uint, 6, NULL, 0, "Flags", o->has_flags, o->flags)
KEY(buffers_lost, uint, 5, "Buffers Lost", R | O, "buffers that this consumer did not get",
    o->has_buffers_lost, o->buffers_lost)
LAYOUT
END

ITEM(enable, struct enable_slot)
KEY(slot, uint, 1, NULL, 0, "place in EnableInfo", true, o->slot)
KEY(enabled, flag, 1, NULL, 0, "IsEnabled", true, o->at->enabled != 0)
KEY(session_id, uint, 1, NULL, 0, "slot of the session", true,
    o->at->session ? o->at->session->id : o->at->logger_id)
KEY(session, text, 1, NULL, 0, "its name; left out if no such session exists",
    o->at->session && !o->at->unnamed && HAS(o->at->session, NAME), o->at->session->name)
KEY(level, uint, 1, NULL, 0, "highest level that is asked for", true, o->at->level)
KEY(match_any, hex, 1, NULL, 0, "any keywords", true, o->at->match_any)
KEY(match_all, hex, 1, NULL, 0, "all keywords", true, o->at->match_all)
KEY(property, uint, 1, NULL, 0, "EnableProperty", true, o->at->property)
END_ITEM

ITEM(filter, struct kda_etw_filter)
KEY(slot, uint, 1, NULL, 0, "the slot", true, o->slot)
KEY(va, hex, 1, NULL, 0, "FilterData", true, o->va)
KEY(flags, uint, 0, NULL, J, "FilterFlags", o->has_flags, o->flags)
KEY(pids, uints, 0, NULL, J, "processes", o->has_pids, each_pid, o)
KEY(event_ids, uints, 0, NULL, J, "events", o->has_event_ids, each_event_id, o)
KEY(executables, texts, 0, NULL, J, "names of programs", o->executables, each_executable, o)
KEY(others, bits, 0, NULL, J, "kinds that are not decoded", o->others,
    o->others, filter_kinds)
END_ITEM

ITEM(registration, struct kda_etw_registration)
KEY(va, hex, 2, NULL, 0, "`_ETW_REG_ENTRY`", true, o->va)
KEY(kind, text, 1, NULL, 0, "`user` or `kernel`", o->has_kind, o->kernel ? "kernel" : "user")
KEY(pid, uint, 1, NULL, 0, "process (user mode)", o->has_pid, o->pid)
KEY(process, text, 1, NULL, 0, "its short name", true, known(o->process))
KEY(module, text, 1, NULL, 0, "driver that holds the callback", true, known(o->module))
KEY(callback, address, 1, NULL, 0, "address that is called", true, o->callback)
KEY(enable_mask, uint, 1, NULL, 0, "EnableMask", o->has_enable_mask, o->enable_mask)
KEY(group_enable_mask, uint, 1, NULL, 0, "GroupEnableMask", o->has_group_enable_mask,
    o->group_enable_mask)
KEY(flags, names, 0, NULL, J, "names of the bits", o->has_flags, kda_etw_reg_flag_names,
    o->flags)
KEY(found_by, bits, 0, NULL, J, "`list`, `group_list`, `handle`, `symbol`, `pool`, `link`", true,
    o->found_by, registration_ways)
KEY(handle, hex, 0, NULL, J, "value in the owner's handle table", o->has_handle, o->handle)
END_ITEM

KIND(PROVIDER, provider, struct kda_etw_provider, 0,
     "A provider: who registered it, who enabled it and how. `kda providers` lists entries that\n"
     "are enabled or registered, and entries that could not be read; `--all` lists every entry;\n"
     "`--session` those with a slot that is on for that session.")
SILO(1, o->silo)
KEY(type, text, 1, "Type", 0, "`trace`, `notification`, `group`", o->has_type,
    kda_etw_guid_type_name(o->type))
KEY(guid, guid, 1, "GUID", 0, "of the provider", o->has_guid, o->guid)
SHOW(registrations, 2, "Regs", R | N)
KEY(name, text, 5, "Name", 0, "from traits, else the built-in table", true,
    known(o->name))
KEY(group, guid, 5, NULL, 0, "provider group", o->has_group, o->group)
KEY(va, hex, 5, NULL, 0, "`_ETW_GUID_ENTRY`", true, o->va)
KEY(found_by, bits, 5, NULL, 0,
    "`table`, `registration`, `embedded` (in the silo state), `symbol` (a global), "
     "`pool` (`--carve`), `link`",
    true, o->found_by, provider_ways)
OBJECT(provider_enable, "combined view of all sessions", o->combined.readable)
IN(provider_enable, enabled, flag, 4, NULL, 0, "IsEnabled", true, o->combined.enabled != 0)
IN(provider_enable, level, uint, 3, "Level", R | O, "highest level", true, o->combined.level)
IN(provider_enable, match_any, hex, 3, "Keywords (Any)", R | O, "any keywords",
   true, o->combined.match_any)
IN(provider_enable, match_all, hex, 3, "Keywords (All)", R | O, "all keywords",
   true, o->combined.match_all)
CLOSE
ITEMS(enables, enable, 5, "Enabled For", O | E, "{session} ({session_id})",
      "slots that are on or hold values", true, each_enable, o)
ITEMS(filters, filter, 5, NULL, 0, NULL, "what FilterData of a slot restricts", true, each_filter,
      o)
KEY(security, text, 5, NULL, 0, "SDDL", true, known(o->security))
ITEMS(registrations, registration, 5, NULL, 0, NULL, "who registered it", true, each_registration,
      o)
LAYOUT
END

KIND(PROCESS, process, struct process_row, 0, "A process of the image.")
KEY(pid, uint, 2, "PID", R, "process id", o->at->has_pid, o->at->pid)
KEY(ppid, uint, 2, "PPID", R, "of the parent", o->at->has_ppid, o->at->ppid)
KEY(name, text, 3, "Name", 0, "ImageFileName, at most 14 characters", true, known(o->at->name))
KEY(image, text, 3, "Image", O, "NT path", true, known(o->at->image))
KEY(va, hex, 2, "EPROCESS", R, "`_EPROCESS`", true, o->at->va)
KEY(dtb, address, 2, "DTB", R, "page-table root, low 12 bits clear", true, o->at->dtb)
KEY(create_time, time, 2, "Created", 0, "CreateTime", true, o->at->create_time_100ns)
KEY(exit_time, time, 2, "Exited", O, "left out while the process runs", true,
    o->at->exit_time_100ns)
KEY(protection, uint, 2, "Prot", R | O | X, "`PS_PROTECTION.Level`", o->at->has_protection,
    o->at->protection)
KEY(silo, text, 1, "Silo", H, "as of a session", true, o->silo)
KEY(found_by, bits, 2, "Found By", 0,
    "`list`, `handle_table`, `cid`, `back_pointer` (only other objects name it), "
     "`pool` (`--carve`)",
    true, o->at->found_by, process_ways)
LAYOUT
END

KIND(BUFFER, buffer, struct buffer_row, 0,
     "A trace buffer of a session (`kda buffers`); [buffers.md](buffers.md) says what the words\n"
     "mean. A buffer whose header is missing has only the keys up to `found_by`, and who holds it.")
SILO(1, o->session->silo)
KEY(session_id, uint, 1, "Session", R, "slot of the session", true, o->session->id)
KEY(session, text, 1, NULL, 0, "its name", HAS(o->session, NAME), o->session->name)
KEY(va, hex, 1, "Address", R,
    "`_WMI_BUFFER_HEADER`; of copies: in process `pid`", true,
    o->at->va)
KEY(found_by, texts, 12, "Found By", 0,
    "`global`, `free`, `overflow`, `cpu`, `current`, `compression`, `placeholder`, `undelivered`, "
    "`consumer`, `consumer_space`",
    true, each_place, o->at)
KEY(cpu, uint, 1, "CPU", R, "as the header says", o->at->readable, o->at->cpu)
KEY(state, text, 1, "State", 0,
    "`free`, `logging`, `cswitch`, `flush`, `pending_compression`, `compressed`, `placeholder`",
    o->at->readable, kda_buffer_state_name(o->at->state))
KEY(size, uint, 3, "of", R, "bytes, header included", o->at->readable, o->at->size)
KEY(used, uint, 2, "Used", R, "bytes that may hold records, header included", o->at->readable,
    o->at->used)
KEY(sequence, uint, 11, "Sequence", R, "SequenceNumber", o->at->readable, o->at->sequence)
KEY(references, int, 14, NULL, 0, "ReferenceCount", o->at->readable, o->at->references)
KEY(flags, uint, 16, NULL, 0, "BufferFlag", o->at->readable, o->at->flags)
KEY(type, uint, 16, NULL, 0, "BufferType", o->at->readable, o->at->type)
KEY(time_raw, hex, 16, NULL, 0, "TimeStamp, in the session's clock", o->at->readable, o->at->time)
BOOL(old, 5, "Old", O, "old|", "the events were delivered before", o->at->readable, o->at->old)
BOOL(copy, 5, "Copy", O, "copy|", "a kernel buffer of the session holds the same",
     o->at->readable, o->at->copy)
KEY(overfull, flag, 15, NULL, 0, "the last reservation did not fit", o->at->readable,
    o->at->overfull)
KEY(records, uint, 4, "Events", R, "whole records", o->facts->framed, o->facts->records)
KEY(unwritten, uint, 6, "Unwritten", R | O,
    "reserved, not written; left out when 0, as the next three",
    o->facts->unwritten, o->facts->unwritten)
KEY(damaged, uint, 6, "Damaged", R | O, "places that hold no record", o->facts->damaged,
    o->facts->damaged)
KEY(cut, uint, 8, NULL, 0, "records that reach into missing memory", o->facts->cut, o->facts->cut)
KEY(missing, uint, 7, "Missing", R | O, "bytes that are not in the image", o->facts->missing,
    o->facts->missing)
KEY(oldest, time, 9, "Oldest", O, "of the records, where the clock is known",
    o->facts->has_utc, o->facts->oldest_100ns)
KEY(newest, time, 9, "Newest", O, "same", o->facts->has_utc, o->facts->newest_100ns)
KEY(oldest_raw, hex, 9, NULL, 0, "`oldest` in the session's clock", o->facts->has_time,
    o->facts->oldest)
KEY(newest_raw, hex, 9, NULL, 0, "`newest` in the session's clock", o->facts->has_time,
    o->facts->newest)
KEY(slot_cpu, uint, 13, NULL, 0, "CPU whose slot names the buffer", o->at->has_slot_cpu,
    o->at->slot_cpu)
KEY(consumer, hex, 17, NULL, 0, "who holds the copy, or waits for the buffer", o->consumer,
    o->consumer->va)
KEY(pid, uint, 17, "PID", R | O, "process of `consumer`", o->consumer && o->consumer->has_pid,
    o->consumer->pid)
KEY(process, text, 17, "Process", O, "its short name", o->consumer, known(o->consumer->process))
LAYOUT
END

KIND(GAP, gap, struct gap_row, 0,
     "What could not be read. More gaps than are kept end with a row whose `what` is `gap_list`.\n"
     "In text and csv the gaps are counted on standard error; `-v` lists them there.")
KEY(what, text, 1, "Gap", 0, "kind of object in one word: `session`, `handle_table`, …", true,
    o->what)
KEY(va, hex, 1, "Address", R, "address that could not be read, or whose object is damaged",
    o->has_va, o->va)
KEY(reason, text, 1, "Reason", 0,
    "`absent` (page is not in the image), `paged_out`, `unmapped`, `bad_data`, `limit`, "
    "`no_symbol`, `unsupported`",
    true, kda_status_name(o->reason))
KEY(text, text, 1, "Text", 0, "one sentence", true, o->text)
END
#undef SILO
#undef LAYOUT
