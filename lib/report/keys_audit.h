/*
 * keys_audit.h - rows of callbacks, of the audit and of comparisons. The macros are those of
 * keys.h.
 */
/* clang-format off */

KIND(CALLBACK, callback, struct kda_callback, 0,
     "What drivers asked the kernel to call (`kda callbacks`, `kda map`). A record whose memory\n"
     "is missing has only `kind`, `slot`, `slot_va` and `va`.")
KEY(kind, text, 1, "Kind", 0,
    "`process`, `thread`, `image`, `registry`, `object_process`, `object_thread`", true,
    kda_callback_kind_name(o->kind))
KEY(slot, uint, 1, "Slot", R, "place in the array; not of the others",
    o->has_slot, o->slot)
KEY(slot_va, hex, 1, NULL, 0,
    "the array's slot, or the record's link", true, o->slot_va)
KEY(va, hex, 1, "Address", 0, "the kernel's record", true, o->va)
KEY(function, hex, 1, "Function", 0,
    "called; objects: before the operation (0: nothing)", o->readable, o->function)
KEY(module, text, 1, "Driver", 0, "driver that holds `function`; left out: none does",
    o->readable, module_name(o->module))
KEY(altitude, text, 1, "Altitude", O, "of registry and object callbacks", o->readable, o->altitude)
KEY(context, hex, 1, "Context", V, "the driver's; `process`: the kernel's flags",
    o->readable, o->context)
KEY(post, address, 1, "Post-operation", O, "called after the operation; object callbacks",
    o->readable, o->post)
KEY(post_module, text, 1, NULL, 0, "driver that holds `post`", o->readable,
    module_name(o->post_module))
KEY(enabled, flag, 1, NULL, 0, "object callbacks", is_object(o), o->enabled)
KEY(operations, bits, 1, NULL, 0, "`create`, `duplicate` (handles); object callbacks",
    is_object(o), o->operations, operations)
KEY(cookie, hex, 1, NULL, 0, "registry callbacks",
    o->readable && o->kind == KDA_CALLBACK_REGISTRY, o->cookie)
END

ITEM(evidence, struct kda_evidence)
KEY(name, text, 1, NULL, 0, "of the value", true, o->name)
KEY(va, address, 1, NULL, 0, "of the value", true, o->va)
KEY(found, text, 1, NULL, 0, "what is there", true, o->found)
KEY(expected, text, 1, NULL, 0, "what should be there", true, o->expected)
END_ITEM

ITEM(corroborating, struct kda_audit_finding)
KEY(check, text, 1, NULL, 0, "its check", true, o->check->id)
KEY(severity, text, 0, NULL, J, "its severity", true, kda_severity_name(o->severity))
KEY(name, text, 1, NULL, 0, "of its object", true, o->name)
KEY(va, address, 1, NULL, 0, "of its object", true, o->va)
KEY(text, text, 0, NULL, J, "one sentence", true, o->text)
END_ITEM

KIND(AUDIT, audit, struct kda_audit_finding, 0,
     "A finding of `kda audit`, the most severe first. [checks.md](checks.md) describes every "
     "check.")
KEY(severity, text, 1, "Severity", 0, "`info`, `low`, `medium`, `high`, `critical`", true,
    kda_severity_name(o->severity))
KEY(check, text, 1, "Check", 0, "`session.stopped`, …; never renamed", true, o->check->id)
KEY(silo, text, 1, "Silo", H, "as of a session", true, o->silo)
KEY(object, text, 1, "Object", 0,
    "`session`, `consumer`, `provider`, `registration`, `callback`, `driver`, `process`, "
    "`function`, `silo`, `system_logger`",
    true, o->object)
KEY(name, text, 1, "Name", 0, "of the object, for people", true, o->name)
KEY(va, address, 1, "Address", 0, "of the object", true, o->va)
KEY(text, text, 1, "Finding", 0, "one sentence", true, o->text)
ITEMS(evidence, evidence, 1, "Evidence", 0,
      "{name} = {found}[ at {va}][ (expected: {expected})]", "what it rests on", true,
      each_evidence, o)
KEY(attack, text, 1, "ATT&CK", V, "MITRE ATT&CK technique", true, o->check->attack)
KEY(false_positives, text, 1, "Also caused by", V, "when a healthy machine shows the same", true,
    o->check->false_positives)
ITEMS(corroborated_by, corroborating, 2, "Corroborated by", O, "{check}[ of {name}][ at {va}]",
      "findings with the same cause, which this one stands for",
      o->corroborating_count > 0, each_corroborating, o)
OBJECT(joined_to, "the finding that stands for this one",
       o->joined_to)
IN(joined_to, check, text, 2, NULL, 0, "its check", true, o->joined_to->check->id)
IN(joined_to, name, text, 2, NULL, 0, "of its object", true, o->joined_to->name)
IN(joined_to, va, address, 2, NULL, 0, "of its object", true, o->joined_to->va)
CLOSE
END

KIND(UNCHECKED, unchecked, struct kda_unchecked, 0,
     "What a check could not decide. Text lists these rows with `-v` only.")
KEY(check, text, 1, "Check", 0, "the check", true, o->check->id)
KEY(object, text, 1, "Object", 0, "as in audit", true, o->object)
KEY(name, text, 1, "Name", 0, "of the object", true, o->name)
KEY(va, address, 1, "Address", O, "of the object; none: the whole check", true, o->va)
KEY(reason, text, 1, "Not checked because", 0, "one sentence", true, o->reason)
END

KIND(CHECK, check, struct kda_check_result, 0, "A row for each check of the audit.")
KEY(check, text, 1, "Check", 0, "the check", true, o->check->id)
KEY(outcome, text, 1, "Outcome", 0, "`findings`, `passed`, `not_checked`", true,
    kda_outcome_name(o->outcome))
KEY(examined, uint, 1, "Examined", R, "objects looked at", true, o->examined)
KEY(findings, uint, 1, "Findings", R, "whatever `--min-severity` shows", true,
    o->findings)
KEY(not_checked, uint, 1, "Not checked", R, "objects that could not be decided", true, o->unchecked)
KEY(severity, text, 1, NULL, 0, "the highest it gives", true,
    kda_severity_name(o->check->severity))
KEY(attack, text, 1, NULL, 0, "MITRE ATT&CK technique", true, o->check->attack)
KEY(title, text, 1, "What it looks for", 0, "name in words", true, o->check->title)
END

KIND(CHANGE, change, struct kda_change, 0, "A difference to a baseline (`kda audit --baseline`).")
KEY(change, text, 1, "Change", 0, "`appeared`, `vanished`, `changed`", true, o->change)
KEY(object, text, 1, "Object", 0,
    "`session`, `consumer`, `provider`, `slot`, `filter`, `registration`, `callback`", true,
    o->object)
KEY(name, text, 1, "Name", 0, "what the object is told apart by", true, o->name)
KEY(field, text, 1, "Field", O, "what changed; `count`: objects of this name", true,
    o->field)
KEY(before, text, 1, "Before", O, "in the baseline", true,
    o->before)
KEY(after, text, 1, "After", O, "in the image", true, o->after)
KEY(va, address, 1, "Address", O, "in the image, else in the baseline", true, o->va)
END

#define LEFT_OUT(name, heading, reason, doc)                                                       \
    IN(left_out, name, uint, 1, heading, R | O, doc, o->seen->left_out[reason],                    \
       o->seen->left_out[reason])

KIND(WITNESS, witness, struct witness_row, 0,
     "One of the two files of `kda compare` ([compare.md](compare.md)).")
KEY(witness, text, 1, "Witness", 0, "`A` or `B`", true, side(o->witness))
KEY(path, text, 1, "File", 0, "as it was named", true, o->path)
KEY(source, text, 1, "Source", 0,
    "`log`, `trace` (file or memory)", true, o->source)
KEY(first_time, time, 1, "From", 0, "of its events", true, o->seen->first_time)
KEY(last_time, time, 1, "To", 0, "of its events", true, o->seen->last_time)
KEY(events, uint, 1, "Events", R, "of kinds that are compared", true, o->seen->events)
KEY(matched, uint, 1, "Matched", R, "the other has them too", true, o->seen->matched)
KEY(only, uint, 1, "Only here", R, "the other should have them and does not", true, o->seen->only)
OBJECT(left_out, "what the other could not have seen", true)
LEFT_OUT(outside, "Other not watching", KDA_COMPARE_BEFORE, "the other was not watching")
LEFT_OUT(kind_not_recorded, "Kind not recorded", KDA_COMPARE_KIND,
         "the other records no events of the kind")
LEFT_OUT(declared_lost, "Declared lost", KDA_COMPARE_LOST, "the other declares losses then")
LEFT_OUT(filtered, "Filtered", KDA_COMPARE_FILTERED, "rules of the other took such events")
CLOSE
KEY(kinds, texts, 1, NULL, 0, "that it records", true, each_kind, o->seen)
KEY(other, uint, 1, "Other lines", R | O, "events of kinds that are not compared", true,
    o->seen->other)
END

#define ONE_SIDED(event)                                                                           \
    KEY(seen_by, text, 1, "Seen by", 0, "witness that has it: `A`, `B`", true,                     \
        side((event)->seen_by))                                                                    \
    KEY(missing_in, text, 1, "Missing in", 0, "the other witness", true,                           \
        side(1 - (event)->seen_by))                                                                \
    KEY(kind, text, 1, "Kind", 0, "kind of event", true, kda_log_kind_name((event)->kind))         \
    KEY(pid, uint, 1, "PID", R, "process id", true, (event)->pid)                                  \
    KEY(image, text, 1, "Image", 0, "path of the process", (event)->image[0], (event)->image)

KIND(DIFFERENCE, difference, struct kda_compare_group, 0,
     "All events of one kind and process that one witness lacks.")
ONE_SIDED(o->events[0])
KEY(count, uint, 1, "Events", R, "events or records", true, o->count)
KEY(first_time, time, 1, "From", 0, "earliest", true, o->first_time)
KEY(last_time, time, 1, "To", 0, "latest", true, o->last_time)
KEY(declared, uint, 1, "Declared lost", R | O,
    "declared lost then, fewer than missing", o->declared, o->declared)
KEY(example, text, 1, "First of them", O, "as `what` in unmatched", o->events[0]->what[0],
    o->events[0]->what)
END

KIND(UNMATCHED, unmatched, struct kda_compare_event, 0, "One such event.")
ONE_SIDED(o)
KEY(id, uint, 1, "Id", R | O, "of the line", o->has_id, o->id)
KEY(time, time, 1, "Time", 0, "of the event", true, o->time)
KEY(what, text, 1, "What", O, "path and what identifies it", o->what[0], o->what)
END
#undef LEFT_OUT
#undef ONE_SIDED
