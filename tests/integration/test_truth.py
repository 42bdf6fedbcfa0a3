"""The ten memory images of ../shared/data against their truth files, row by row.

Everything that is readable and that a witness reaches must be there with equal fields; nothing may
be there that the truth does not have.
"""
import datetime
import json
import unittest

from common import hexint, kda, rows, unpack

IMAGES = {
    "server2016-14393.4583": "raw", "server2019-17763.379": "dmp", "server2022-20348.825": "dmp",
    "tampered-win10-18362.30": "dmp", "tampered-win11-22000.795": "raw",
    "win10-19041.1466-encoded-kdbg": "raw", "win11-22000.318-holes": "dmp",
    "win11-22000.795": "raw", "win7-7601.24540": "dmp", "win8.1-9600.19913": "raw",
}
CLOCKS = {1: "qpc", 2: "system_time", 3: "cpu_cycles"}
FLAG_NAMES = ["kernel", "user", "reply", "classic", "session_space", "modern", "closed",
              "inserted", "wow64", "use_descriptor_type", "drop_traits"]


def filetime(text):
    """ISO 8601 with seven digits -> 100 ns since 1601."""
    whole, fraction = text.rstrip("Z").split(".")
    moment = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    seconds = (moment - datetime.datetime(1601, 1, 1)) // datetime.timedelta(seconds=1)
    return seconds * 10 ** 7 + int(fraction)


def number(value):
    return hexint(value) if isinstance(value, str) else value


class Truth:
    def __init__(self, path, form):
        self.image = unpack("%s.%s.xz" % (path, form))
        with open(unpack("%s.truth.json.xz" % path), encoding="utf-8") as f:
            self.data = json.load(f)
        self.holes = bool(self.data["hole_pages"])
        self.windows7 = self.data["build"] == 7601
        result = kda("map", self.image, "-f", "jsonl", "--all")
        self.code, self.stderr = result.returncode, result.stderr
        self.rows = {}
        for row in rows(result):
            self.rows.setdefault(row["row"], []).append(row)
        self.labels = {0: "host"}
        for silo in self.data["silos"][1:]:
            self.labels[silo["index"]] = "0x%016x" % silo["state"]


class TruthChecks:
    """The tests; one class per image is made below."""
    maxDiff = None
    image = None
    form = None
    truth = None

    def setUp(self):
        if type(self).truth is None:
            type(self).truth = Truth(self.image, self.form)
        self.t = type(self).truth

    def equal(self, row, key, expected, where):
        """A value that the truth has must be in the row and equal."""
        if expected is None or expected == "":
            self.assertNotIn(key, row, where)
        else:
            self.assertIn(key, row, where)
            got = row[key]
            if isinstance(expected, int) and not isinstance(expected, bool):
                got = number(got)
            self.assertEqual(got, expected, "%s of %s" % (key, where))

    def test_exit_code_says_whether_something_is_missing(self):
        t = self.t
        self.assertEqual(t.code, 4 if t.holes else 0, t.stderr)
        self.assertEqual(bool(t.rows.get("gap")), t.holes, t.rows.get("gap"))

    def test_info(self):
        t = self.t
        info, kernel = t.rows["info"][0], t.data["kernel"]
        self.equal(info, "kernel_base", kernel["base"], "info")
        self.equal(info, "dtb", t.data["dtb"], "info")
        self.equal(info, "build", t.data["build"], "info")
        self.equal(info, "pdb_name", kernel["pdb"], "info")
        self.assertEqual(info["pdb_guid"].strip("{}").replace("-", "").upper(),
                         kernel["guid"])
        self.equal(info, "pdb_age", kernel["age"], "info")
        self.equal(info, "pe_timestamp", kernel["timestamp"], "info")
        self.equal(info, "pe_size", kernel["size"], "info")
        self.equal(info, "cpus", len(t.data["processors"]), "info")
        self.assertEqual(filetime(info["capture_time"]) // 10 ** 7,
                         t.data["system_time"] // 10 ** 7)

    def test_sessions(self):
        t = self.t
        found = {(row["silo"], row["id"]): row for row in t.rows["session"]}
        self.assertEqual(len(found), len(t.rows["session"]))
        self.assertEqual(set(found), {(t.labels[x["silo"]], x["index"])
                                      for x in t.data["loggers"]})
        for logger in t.data["loggers"]:
            self.check_session(t, found[t.labels[logger["silo"]], logger["index"]], logger)

    def check_session(self, t, row, logger):
        where = logger["name"]
        self.equal(row, "va", logger["va"], where)
        if not logger["readable"]:
            return
        self.equal(row, "name", logger["name"] if logger["name_readable"] else None, where)
        for key, truth_key in (("logger_id", "logger_id"), ("mode", "mode"),
                               ("buffer_size", "buffer_size"), ("log_file", "file"),
                               ("num_consumers", "num_consumers"),
                               ("accept_new_events", "accept_new_events"),
                               ("get_cpu_clock", "get_cpu_clock"), ("events_lost", "events_lost"),
                               ("buffers_lost", "log_buffers_lost"),
                               ("realtime_buffers_lost", "realtime_buffers_lost")):
            self.equal(row, key, logger[truth_key], where)
        self.assertEqual(row["collecting"], logger["collection_on"] == 1)
        self.assertEqual(row["clock"], CLOCKS[logger["clock_type"]])
        self.assertEqual(filetime(row["start_time"]), logger["start_time"])
        self.assertEqual(row["instance_guid"], "{%s}" % logger["instance_guid"])
        if logger["sd_readable"] is not False:
            self.equal(row, "security", logger["sddl"], where)
        self.assertEqual({(hexint(c["va"]), c["pid"]) for c in row["consumers"]},
                         {(c["va"], c["pid"]) for c in logger["consumers"]}, where)

    def witnesses(self, t, row, truth, list_word):
        """found_by against what the truth says is linked and has a handle."""
        ways = set(row["found_by"])
        if t.holes:
            self.assertEqual(list_word in ways, truth["linked"] and truth["reachable"])
            if "handle" in ways:
                self.equal(row, "handle", truth["handle"], row["va"])
            return
        expected = {list_word} if truth["linked"] else set()
        if truth["handle"] is not None:
            expected.add("handle")
        self.assertEqual(ways & {list_word, "handle"}, expected, row)
        self.equal(row, "handle", truth["handle"], row["va"])

    def test_consumers(self):
        t = self.t
        names = {p["pid"]: p["short"] for p in t.data["processes"]}
        found = {hexint(row["va"]): row for row in t.rows["consumer"]}
        expected = {c["va"]: (logger, c) for logger in t.data["loggers"]
                    for c in logger["consumers"]}
        self.assertEqual(set(found), set(expected))
        for va, (logger, consumer) in expected.items():
            row = found[va]
            self.assertEqual(row["silo"], t.labels[consumer["silo"]])
            self.assertEqual(row["session_id"], logger["index"])
            self.equal(row, "session", logger["name"], hex(va))
            self.assertEqual(row["pid"], consumer["pid"])
            self.assertEqual(row["process"], names[consumer["pid"]])
            self.witnesses(t, row, consumer, "list")

    def test_providers(self):
        t = self.t
        found = {hexint(row["va"]): row for row in t.rows["provider"]
                 if row["found_by"] != ["embedded"]}
        expected = {g["va"]: g for g in t.data["guids"]}
        self.assertEqual(set(found), set(expected))
        embedded = [row for row in t.rows["provider"] if row["found_by"] == ["embedded"]]
        self.assertEqual({row["guid"] for row in embedded},
                         {"{54849625-5478-4994-a5ba-3e3b0328c30d}"} if embedded else set())
        self.assertEqual(len(embedded), sum(1 for s in t.data["silos"] if s["state"]))
        for va, guid in expected.items():
            self.check_provider(t, found[va], guid)

    def check_provider(self, t, row, guid):
        where = guid["guid"]
        self.assertEqual(row["silo"], t.labels[guid["silo"]], where)
        self.assertEqual(row["type"], guid["type"], where)
        self.assertEqual(row["guid"], "{%s}" % guid["guid"])
        self.assertEqual("table" in row["found_by"], guid["linked"] and guid["reachable"], where)
        if guid["sd_readable"] is not False:
            self.equal(row, "security", guid["sddl"], where)
        combined, truth = row["provider_enable"], guid["provider_enable"]
        self.assertEqual((combined["enabled"], combined["level"], hexint(combined["match_any"]),
                          hexint(combined["match_all"])),
                         (truth["is_enabled"] != 0, truth["level"], truth["any"], truth["all"]))
        self.assertEqual([(e["slot"], e["session_id"], e["level"], hexint(e["match_any"]),
                           hexint(e["match_all"]), e["property"])
                          for e in row["enables"] if e["enabled"]],
                         [(e["slot"], e["logger"], e["level"], e["any"], e["all"], e["prop"])
                          for e in guid["enable"]], where)
        self.assertEqual([(f["slot"], hexint(f["va"]), f["flags"], f.get("pids", []),
                           f.get("event_ids", [])) for f in row["filters"]],
                         [(f["slot"], f["va"], f["flags"], f["pids"], f["event_ids"])
                          for f in guid["filters"]], where)
        self.check_registrations(t, row, guid)

    def check_registrations(self, t, row, guid):
        found = {hexint(r["va"]): r for r in row["registrations"]}
        self.assertEqual(set(found), {r["va"] for r in guid["regs"]}, guid["guid"])
        names = {p["pid"]: p["short"] for p in t.data["processes"]}
        for truth in guid["regs"]:
            reg = found[truth["va"]]
            self.assertEqual(reg["kind"], truth["kind"])
            if truth["kind"] == "user":
                self.assertEqual((reg["pid"], reg["process"]),
                                 (truth["pid"], names[truth["pid"]]))
            else:
                driver = "ntoskrnl.exe" if truth["driver"] == "nt" else truth["driver"]
                self.assertEqual(reg.get("module"), driver)
                self.equal(reg, "callback", truth["callback"], reg["va"])
            self.assertEqual(reg["enable_mask"], truth["enable_mask"])
            if "group_mask" in truth:
                self.assertEqual(reg["group_enable_mask"], truth["group_mask"])
            if t.windows7:
                self.assertNotIn("flags", reg)
            else:
                self.assertEqual(reg["flags"], [name for bit, name in enumerate(FLAG_NAMES)
                                                if truth["flags"] >> bit & 1])
            if guid["type"] == "group":
                self.assertIn("group_list", reg["found_by"])
            else:
                self.witnesses(t, reg, truth, "list")

    def test_processes(self):
        t = self.t
        found = {hexint(row["va"]): row for row in t.rows["process"]}
        expected = {p["eprocess"]: p for p in t.data["processes"]}
        self.assertEqual(set(found), set(expected))
        for va, truth in expected.items():
            row = found[va]
            self.equal(row, "pid", truth["pid"], hex(va))
            if truth["linked"] and truth["reachable"]:
                self.assertIn("list", row["found_by"])
            if not truth["linked"]:
                self.assertNotIn("list", row["found_by"])
            if not t.holes:
                self.assertLessEqual({"handle_table", "cid"}, set(row["found_by"]))
            if not truth["readable"]:
                continue
            self.equal(row, "ppid", truth["ppid"], hex(va))
            self.equal(row, "name", truth["short"], hex(va))
            self.equal(row, "dtb", truth["dtb"], hex(va))
            self.assertEqual(row["silo"], t.labels[truth["silo"]])
            self.assertEqual(filetime(row["create_time"]), truth["ctime"])
            if truth["path_readable"]:
                self.equal(row, "image", truth["path"], hex(va))


for _name in IMAGES:
    _class = "Truth_" + _name.replace("-", "_").replace(".", "_")
    globals()[_class] = type(_class, (TruthChecks, unittest.TestCase), {"image": "images/" + _name,
                                                                          "form": IMAGES[_name]})


if __name__ == "__main__":
    unittest.main()
