"""Judges rows against the truth.

Each key of a row is of one of three classes:

  strict   identity, owner, link: the value of the truth or left out, whatever was damaged
  scalar   a value with no second witness: it may be wrong where bytes it was read from were changed,
           and is listed then; where pages are only missing it is as strict as the others
  unknown  the truth has no such value: it has to be that of the undamaged image

What a row says and what it leaves out are judged apart: a row or value that is gone has to be told by
the exit code (a gap, or that the whole could not be read).
"""
import datetime
import uuid

CLOCKS = {1: "qpc", 2: "system_time", 3: "cpu_cycles"}
FLAGS = ["kernel", "user", "reply", "classic", "session_space", "modern", "closed", "inserted",
         "wow64", "use_descriptor_type", "drop_traits"]
HEADER = 0x30
INCOMPLETE = 4


def number(value):
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def filetime(text):
    whole, fraction = text.rstrip("Z").split(".")
    moment = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    seconds = (moment - datetime.datetime(1601, 1, 1)) // datetime.timedelta(seconds=1)
    return seconds * 10 ** 7 + int(fraction)


STRUCTS = {"session": "_WMI_LOGGER_CONTEXT", "consumer": "_ETW_REALTIME_CONSUMER",
           "provider": "_ETW_GUID_ENTRY", "provider.provider_enable": "_ETW_GUID_ENTRY",
           "provider.registrations": "_ETW_REG_ENTRY", "process": "_EPROCESS",
           "provider.enables": "_ETW_GUID_ENTRY", "provider.filters": "_ETW_FILTER_HEADER"}
# Identity, owner and links: never lost without a word, even where a page was overwritten.
STRICT = {"row", "va", "id", "silo", "pid", "process", "session_id", "guid", "type", "kind", "module",
          "slot", "slot_va"}
# What stands elsewhere and has no count: one length or entry that is zero now takes it away.
OUT_OF_LINE = {"handle", "name", "log_file", "image", "security", "session", "pids", "event_ids",
               "executables", "altitude", "group"}
WORST_FIRST = ["crash", "wrong row", "wrong value", "silent loss", "not found"]


def bucket_of(guid):
    """Bucket that a GUID hashes to: checked against every GUID of every truth file by the tests."""
    raw = uuid.UUID(guid).bytes_le
    words = [int.from_bytes(raw[at:at + 4], "little") for at in range(0, 16, 4)]
    return (words[0] ^ words[1] ^ words[2] ^ words[3]) & 63


class Fault:
    """Something wrong in a case."""
    __slots__ = ("what", "row", "key", "where", "got", "expected")

    def __init__(self, what, row, key, where, got=None, expected=None):
        self.what, self.row, self.key, self.where = what, row, key, where
        self.got, self.expected = got, expected

    def group(self):
        """What is lost goes by the row: one cause takes many keys."""
        if self.what == "silent loss":
            return (self.what, self.row, "row" if self.key == "row" else "values")
        return (self.what, self.row, self.key)

    def __str__(self):
        text = "%s: %s.%s at %s" % (self.what, self.row, self.key, self.where)
        if self.what in ("wrong value", "scalar"):
            text += ": %r, is %r" % (self.got, self.expected)
        return text


def identity(row):
    kind = row["row"]
    if kind == "session":
        return kind, row.get("silo"), row.get("id")
    if kind == "callback":
        return kind, row.get("kind"), row.get("va")
    return kind, row.get("va")


class Judge:
    """`baseline`: rows of the undamaged image, for values that the truth does not have."""

    def __init__(self, truth, baseline):
        self.truth = truth
        self.baseline = {identity(row): row for row in baseline}
        self.near = {}  # object -> frames
        self.faults, self.edited = [], set()
        self.trusted = {}  # rows that were right with nothing edited, by identity of the object

    # ---- entry points ----

    def rows(self, rows, edited):
        """Faults of rows that were read while the bytes of the frames `edited` were changed."""
        self.edited = edited
        found = []
        for row in rows:
            key = id(row)
            known = None if edited else self.trusted.get(key)
            if known is None:
                self.faults = []
                self.row(row)
                known = (row, self.faults)
                if not edited:
                    self.trusted[key] = known
            found += known[1]
        return found

    def silent(self, case):
        """Rows and values that the undamaged image has and this case lacks, with exit code 0. An
        edited qword and another page of the same machine are let off: a slot that says "unused"
        is as good as one that was."""
        if case.code != 0 or case.words.startswith(("@", "=")):
            return []
        self.faults, self.edited = [], case.damage()[1]
        added = {identity(row): row for row in case.added}
        for row in case.gone:
            if row["row"] in ("gap", "info"):
                continue
            now = added.get(identity(row))
            if now is None:
                self.lost(row["row"], "row", row)
            else:
                self.lost_values(row["row"], row, now, row)
        return self.faults

    def lost(self, kind, key, row):
        """A scalar whose bytes were changed may have become nothing: one more wrong value."""
        va, struct = number(row.get("va")), STRUCTS.get(kind)
        scalar = self.edited and key not in STRICT and (
            key in OUT_OF_LINE or struct and va and
            self.touched((va, self.truth.layout.size(struct))))
        self.fault("scalar" if scalar else "silent loss", kind, key, row.get("va"))

    def lost_values(self, kind, before, now, row):
        for key, value in before.items():
            if key not in now:
                self.lost(kind, key, row)
            elif isinstance(value, dict):
                self.lost_values("%s.%s" % (kind, key), value, now[key], row)
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                self.lost_items("%s.%s" % (kind, key), value, now[key], row)

    def lost_items(self, kind, before, now, row):
        there = {item.get("va", item.get("slot")): item for item in now}
        for item in before:
            key = item.get("va", item.get("slot"))
            # A slot that is off shows leftovers, which nobody misses.
            if key not in there and item.get("enabled", True):
                self.lost(kind, "row" if "va" in item else "slot_values", item if "va" in item else row)
            elif key in there:
                self.lost_values(kind, item, there[key], item if "va" in item else row)

    # ---- helpers ----

    def fault(self, what, row, key, where, got=None, expected=None):
        self.faults.append(Fault(what, row, key, where, got, expected))

    def touched(self, *places):
        """Were bytes changed on the way to one of these (address, size)?"""
        if not self.edited:
            return False
        for place in places:
            frames = self.near.get(place)
            if frames is None:
                frames = self.near[place] = self.truth.space.frames_of(*place)
            if frames & self.edited:
                return True
        return False

    def value(self, kind, row, key, expected, where, places=None):
        """`expected`: the value, or a set of the allowed ones. `places` not None: a scalar that is
        read there ([] = anywhere)."""
        if key not in row:
            return
        got = number(row[key])
        if isinstance(expected, str):
            got = row[key]
        if isinstance(expected, (set, frozenset)):
            right = got in expected or row[key] in expected
        else:
            right = got == expected
        if right:
            return
        scalar = places is not None and self.edited and (not places or self.touched(*places))
        self.fault("scalar" if scalar else "wrong value", kind, key, where, got, expected)

    def unknown(self, kind, row, before, keys, where, places):
        """Values that the truth file does not have."""
        for key in keys:
            if key in row and before and key in before:
                self.value(kind, row, key, number(before[key]), where, places)

    def wrong_row(self, kind, row, key="row"):
        self.fault("wrong row", kind, key, row.get("va"))

    def unseen(self, row):
        """Of missing memory a changed pointer is all there is, and nothing contradicts it."""
        page = self.truth.space.read(number(row["va"]) & ~0xfff, 4096)
        return bool(self.edited) and (page is None or len(set(page)) == 1)

    def row(self, row):
        kind = row["row"]
        check = getattr(self, "check_" + kind, None)
        if check:
            check(row, self.baseline.get(identity(row)))

    # ---- kinds of rows ----

    def check_info(self, row, before):
        kernel = self.truth.data["kernel"]
        self.value("info", row, "kernel_base", kernel["base"], row.get("kernel_base"))
        # Any process's root maps the kernel; which one was used is said.
        self.value("info", row, "dtb", {self.truth.data["dtb"]} | {
            process["dtb"] for process in self.truth.data["processes"]}, row.get("dtb"))
        self.value("info", row, "kdbg", kernel["kdbg"], row.get("kdbg"))
        for key, name in (("pdb_name", "pdb"), ("pdb_age", "age"), ("pe_timestamp", "timestamp"),
                          ("pe_size", "size")):
            self.value("info", row, key, kernel[name], "info", [])
        self.value("info", row, "build", self.truth.data["build"], "info", [])
        self.value("info", row, "cpus", len(self.truth.data["processors"]), "info", [])
        if "pdb_guid" in row:
            guid = row["pdb_guid"].strip("{}").replace("-", "").upper()
            self.value("info", {"pdb_guid": guid}, "pdb_guid", kernel["guid"].upper(), "info", [])
        if "capture_time" in row:
            times = {self.truth.data["system_time"]} | {
                change[moment] for change in self.truth.changes
                if change.get("field") == "SystemTime" for moment in ("first", "later")}
            got = {"capture_time": filetime(row["capture_time"]) // 10 ** 7}
            self.value("info", got, "capture_time", {t // 10 ** 7 for t in times}, "info", [])

    def check_session(self, row, before):
        truth = self.truth
        logger = truth.sessions.get((row.get("silo"), row.get("id")))
        if logger is None:
            return None if self.unseen(row) else self.wrong_row("session", row)
        where, size = row.get("va"), truth.layout.size("_WMI_LOGGER_CONTEXT")
        self.value("session", row, "va", logger["va"], where)
        if number(row.get("va")) != logger["va"]:
            return None
        own = [(logger["va"], size)]
        for key, name in (("logger_id", "logger_id"), ("mode", "mode"),
                          ("buffer_size", "buffer_size"), ("get_cpu_clock", "get_cpu_clock"),
                          ("accept_new_events", "accept_new_events"),
                          ("events_lost", "events_lost"), ("buffers_lost", "log_buffers_lost"),
                          ("realtime_buffers_lost", "realtime_buffers_lost")):
            self.value("session", row, key, logger[name], where, own)
        # Out of line: the address that leads there is in the object, the text anywhere.
        for key, name in (("name", "name"), ("log_file", "file"), ("security", "sddl")):
            self.value("session", row, key, logger[name], where, [])
        self.value("session", row, "num_consumers",
                   truth.allowed("num_consumers", logger["num_consumers"], logger["va"], size,
                                 "NumConsumers"), where, own)
        self.value("session", row, "collecting", logger["collection_on"] == 1, where, own)
        self.value("session", row, "clock", CLOCKS[logger["clock_type"]], where, own)
        self.value("session", row, "instance_guid", "{%s}" % logger["instance_guid"], where, own)
        if "start_time" in row:
            self.value("session", {"start_time": filetime(row["start_time"])}, "start_time",
                       logger["start_time"], where, own)
        self.unknown("session", row, before, ("buffers", "max_buffers", "buffers_written"), where,
                     own)
        known = {c["va"] for c in logger["consumers"]}
        for item in row.get("consumers", []):
            if number(item["va"]) not in known:
                self.fault("wrong row", "session.consumers", "row", item["va"])
            else:
                self.owner("session.consumers", item,
                           truth.consumers[number(item["va"])][1]["pid"])
        return None

    def owner(self, kind, row, pid):
        """pid is an owner, the names that go with it are copies of the process's."""
        self.value(kind, row, "pid", pid, row["va"], self.truth.sole_witness(pid))
        self.value(kind, row, "process", self.truth.names.get(pid), row["va"], [])
        if "image" in row:
            self.value(kind, row, "image", self.truth.paths.get(pid), row["va"], [])

    def found_by(self, kind, row, lists, handle):
        """No way that the truth does not know; `lists`: words for lists it hangs on."""
        ways = set(row.get("found_by", []))
        for word in ("list", "table", "group_list"):
            if word in ways and word not in lists:
                self.fault("wrong value", kind, "found_by", row["va"], word, sorted(lists))
        if "handle" in ways and handle is None:
            self.fault("wrong value", kind, "found_by", row["va"], "handle", None)
        self.value(kind, row, "handle", handle, row["va"])

    def check_consumer(self, row, before):
        known = self.truth.consumers.get(number(row["va"]))
        if known is None:
            return self.wrong_row("consumer", row)
        logger, consumer = known
        self.value("consumer", row, "silo", self.truth.labels[consumer["silo"]], row["va"])
        self.value("consumer", row, "session_id", logger["index"], row["va"])
        self.value("consumer", row, "session", logger["name"], row["va"], [])
        self.owner("consumer", row, consumer["pid"])
        self.found_by("consumer", row, {"list"} if consumer["linked"] else set(),
                      consumer["handle"])
        self.unknown("consumer", row, before, ("flags", "buffers_lost"), row["va"],
                     [(consumer["va"], self.truth.layout.size("_ETW_REALTIME_CONSUMER"))])
        return None

    def check_embedded(self, row):
        """The entry of Security-Auditing inside a silo's state: the truth has its state only."""
        offset = self.truth.layout.offset("_ETW_SILODRIVERSTATE.EtwpSecurityProviderGuidEntry")
        places = {state + (offset or 0) for state in self.truth.embedded}
        right = number(row["va"]) in places if offset is not None else self.baseline.get(
            identity(row)) is not None
        if not right:
            return self.wrong_row("provider", row)
        homes = {self.truth.labels[silo["index"]] for silo in self.truth.data["silos"]
                 if silo["state"] + (offset or 0) == number(row["va"])}
        self.value("provider", row, "silo", homes or None, row["va"])
        self.value("provider", row, "guid", "{54849625-5478-4994-a5ba-3e3b0328c30d}", row["va"])
        for key in ("type", "name"):
            self.unknown("provider", row, self.baseline.get(identity(row)), (key,), row["va"], None)
        return None

    def check_provider(self, row, before):
        guid = self.truth.guids.get(number(row["va"]))
        if guid is None and row.get("found_by") == ["embedded"]:
            return self.check_embedded(row)
        if guid is None:
            return self.wrong_row("provider", row)
        where = row["va"]
        own = [(guid["va"], self.truth.layout.size("_ETW_GUID_ENTRY"))]
        self.value("provider", row, "silo", self.truth.labels[guid["silo"]], where)
        self.value("provider", row, "type", guid["type"], where)
        self.check_guid(row, guid, own)
        self.value("provider", row, "security", guid["sddl"], where, [])
        self.found_by("provider", row, {"table"} if guid["linked"] else set(), None)
        self.unknown("provider", row, before, ("name", "group"), where, [])
        combined, truth = row.get("provider_enable", {}), guid["provider_enable"]
        for key, value in (("enabled", truth["is_enabled"] != 0), ("level", truth["level"]),
                           ("match_any", truth["any"]), ("match_all", truth["all"])):
            self.value("provider.provider_enable", combined, key, value, where, own)
        self.check_enables(row, before, guid, own)
        self.check_filters(row, guid)
        self.check_registrations(row, guid)
        return None

    def check_guid(self, row, guid, own):
        """The bucket is the second witness of a GUID: one that hashes there as well, or that hangs in
        none, contradicts nothing."""
        got = row.get("guid", "").strip("{}")
        hidden = got and (not guid["linked"] or bucket_of(got) == guid["bucket"])
        self.value("provider", row, "guid", "{%s}" % guid["guid"], row["va"],
                   own if hidden else None)

    def check_enables(self, row, before, guid, own):
        slots = {e["slot"]: e for e in guid["enable"]}
        rest = {e["slot"]: e for e in (before or {}).get("enables", []) if not e["enabled"]}
        kind = "provider.enables"
        for item in row.get("enables", []):
            truth, where = slots.get(item["slot"]), "%s slot %d" % (row["va"], item["slot"])
            if truth is None:
                if item["enabled"] and not self.touched(*own):
                    self.fault("wrong row", kind, "row", where)
                elif item["slot"] in rest:
                    self.unknown(kind, item, rest[item["slot"]], item, where, own)
                elif not self.touched(*own) and before is not None:
                    self.fault("wrong row", kind, "row", where)
                continue
            enabled = {True} if "states" not in truth else {True, False}
            self.value(kind, item, "enabled", enabled, where, own)
            for key, name in (("level", "level"), ("match_any", "any"), ("match_all", "all"),
                              ("property", "prop"), ("session_id", "logger")):
                if "states" not in truth:
                    self.value(kind, item, key, truth[name], where, own)
            session = self.truth.sessions.get((row.get("silo"), truth["logger"]))
            if session and item.get("session_id") == truth["logger"]:
                self.value(kind, item, "session", session["name"], where, [])

    def check_filters(self, row, guid):
        kind, filters = "provider.filters", {f["slot"]: f for f in guid["filters"]}
        for item in row.get("filters", []):
            truth = filters.get(item["slot"])
            if truth is None or truth["va"] != number(item["va"]):
                self.fault("wrong row", kind, "row", item["va"])
                continue
            size = self.truth.layout.size("_ETW_FILTER_HEADER")
            self.value(kind, item, "flags", truth["flags"], item["va"], [(truth["va"], size)])
            self.value(kind, item, "pids", truth["pids"], item["va"], [])
            self.value(kind, item, "event_ids", truth["event_ids"], item["va"], [])

    def check_registrations(self, row, guid):
        regs = {r["va"]: r for r in guid["regs"]}
        kind = "provider.registrations"
        for item in row.get("registrations", []):
            truth = regs.get(number(item["va"]))
            if truth is None:
                self.fault("wrong row", kind, "row", item["va"])
                continue
            self.check_registration(kind, item, truth, guid)

    def check_registration(self, kind, item, truth, guid):
        where, size = item["va"], self.truth.layout.size("_ETW_REG_ENTRY")
        own = [(truth["va"], size)]
        self.value(kind, item, "kind", truth["kind"], where)
        if truth["kind"] == "user":
            self.owner(kind, item, truth["pid"])
            for key in ("module", "callback"):
                self.value(kind, item, key, None, where, own)
        else:
            self.value(kind, item, "pid", None, where)
            driver = "ntoskrnl.exe" if truth["driver"] == "nt" else truth["driver"]
            self.value(kind, item, "module", driver, where, [])
            self.value(kind, item, "callback", truth["callback"], where, own)
        self.value(kind, item, "enable_mask",
                   self.truth.allowed("enable_mask", truth["enable_mask"], truth["va"], size,
                                      "EnableMask"), where, own)
        if "group_mask" in truth:
            self.value(kind, item, "group_enable_mask", truth["group_mask"], where, own)
        else:
            self.value(kind, item, "group_enable_mask", 0, where, own)
        flags = [name for bit, name in enumerate(FLAGS) if truth["flags"] >> bit & 1]
        self.value(kind, item, "flags", flags, where, own)
        home, reg = self.truth.regs[truth["va"]]
        lists = set()
        if reg["linked"] and home["type"] != "group":
            lists.add("list")
        if truth.get("group") or guid["type"] == "group":
            lists.add("group_list")
        self.found_by(kind, item, lists, reg["handle"])

    def check_process(self, row, before):
        process = self.truth.processes.get(number(row["va"]))
        if process is None:
            if self.unseen(row):
                return None
            return self.wrong_row("process", row)
        where = row["va"]
        own = [(process["eprocess"], self.truth.layout.size("_EPROCESS"))]
        self.value("process", row, "pid", process["pid"], where,
                   self.truth.sole_witness(process["pid"]))
        self.value("process", row, "silo", self.truth.labels[process["silo"]], where)
        self.value("process", row, "dtb", process["dtb"], where, own)
        self.value("process", row, "ppid", process["ppid"], where, own)
        self.value("process", row, "name", process["short"], where, own)
        self.value("process", row, "image", process["path"], where, [])
        if "create_time" in row:
            self.value("process", {"create_time": filetime(row["create_time"])}, "create_time",
                       process["ctime"], where, own)
        self.found_by("process", row, {"list"} if process["linked"] else set(), None)
        self.unknown("process", row, before, ("protection",), where, own)
        if "exit_time" in row and "states" not in process and not (before or {}).get("exit_time"):
            self.value("process", row, "exit_time", None, where, own)
        return None

    def check_callback(self, row, before):
        truth = self.truth.callbacks.get((row.get("kind"), number(row.get("va"))))
        if truth is None:
            # An edited slot is a true one: the kernel would call what it leads to.
            if self.touched((number(row.get("slot_va", 0)), 8)):
                return None
            return self.wrong_row("callback", row)
        where, own = row.get("va"), [(truth["va"] - 0x40, 0x80)]
        self.value("callback", row, "slot", truth.get("slot"), where)
        # What stands on a list has no slot but its link.
        self.value("callback", row, "slot_va", truth.get("slot_va", truth["va"]), where)
        self.value("callback", row, "altitude", truth.get("altitude"), where, [])
        self.unknown("callback", row, before, ("enabled",), where, own)
        for key in ("function", "context", "post", "cookie"):
            self.value("callback", row, key, truth.get(key), where, own)
        driver = "ntoskrnl.exe" if truth["driver"] == "nt" else truth["driver"]
        self.value("callback", row, "module", driver, where, [])
        return None
