"""Images of the project's own generator: what was put in must come out, whatever the build, the
file format, the paging depth and the holes; hostile images must never give a wrong row."""
import json
import os
import subprocess
import unittest

from common import FORGE, ROOT, forge, hexint, kda, rows, work

SCENARIOS = sorted(name[:-4] for name in os.listdir(os.path.join(ROOT, "tests/images/scenarios")))
# Scenarios whose kernel no built-in profile knows, or that ask for a format of their own.
NO_SYMBOLS = {"new-24h2"}
NEEDS_FORMAT = {"holes": "dmp-bitmap"}
FORMATS = ["raw", "dmp-full", "dmp-bitmap", "dmp-live", "elf", "vmem", "lime"]
CLOCKS = {1: "qpc", 2: "system_time", 3: "cpu_cycles"}


def load(scenario, name, *args):
    truth_path = work(name + ".json")
    image = forge(scenario, name, "--truth", truth_path, *args)
    with open(truth_path, encoding="utf-8") as f:
        truth = json.load(f)
    return image, truth


def has_surrogates(text):
    return any(0xd800 <= ord(c) < 0xe000 for c in text)


class ForgedChecks:
    scenario = None
    image_format = None
    options = []

    def setUp(self):
        cls = type(self)
        if cls.scenario and not hasattr(cls, "truth"):
            name = "forged-%s-%s" % (cls.scenario, cls.image_format or "default")
            args = ["--format", cls.image_format] if cls.image_format else []
            cls.image, cls.truth = load(cls.scenario, name, *args)
            cls.result = kda("map", cls.image, "-f", "jsonl", "--all", "-q", *cls.options)
            cls.rows = {}
            for row in rows(cls.result):
                cls.rows.setdefault(row["row"], []).append(row)
        self.hostile = bool(self.truth["hostile"])
        self.labels = {0: "host"}
        for silo in self.truth["silos"][1:]:
            self.labels[silo["number"]] = silo["state"]

    def found(self, kind):
        out = {row["va"]: row for row in self.rows.get(kind, [])}
        self.assertEqual(len(out), len(self.rows.get(kind, [])), "an address twice")
        return out

    def same_objects(self, found, expected):
        """Readable ones are there; nothing is there that was not put in."""
        self.assertLessEqual(set(found), set(expected))
        missing = [e for va, e in expected.items() if va not in found and e["readable"]]
        if not self.hostile:
            self.assertEqual(missing, [])

    def test_exit_code(self):
        incomplete = self.hostile or any(not x["readable"] for key in
                                         ("processes", "sessions", "consumers", "registrations")
                                         for x in self.truth[key])
        if incomplete:
            self.assertEqual(self.result.returncode, 4, self.result.stderr)
            self.assertTrue(self.rows["gap"])
        elif not self.truth["holes"]:
            self.assertEqual(self.result.returncode, 0, self.result.stderr)
            self.assertNotIn("gap", self.rows)

    def test_info(self):
        info = self.rows["info"][0]
        self.assertEqual(info["kernel_base"], self.truth["base"])
        self.assertEqual(info["dtb"], self.truth["dtb"])
        self.assertEqual(info["build"], self.truth["build"])
        self.assertEqual(info["la57"], self.truth["la57"])
        self.assertEqual(info["pdb_guid"], self.truth["pdb_guid"])
        self.assertEqual(info["cpus"], self.truth["cpus"])

    def test_sessions(self):
        found = self.found("session")
        expected = {s["va"]: s for s in self.truth["sessions"] if s["linked"]}
        self.same_objects(found, expected)
        for va, row in found.items():
            truth = expected[va]
            self.assertEqual((row["silo"], row["id"]), (self.labels[truth["silo"]], truth["id"]))
            if not truth["readable"] or self.hostile:
                continue
            if truth["name_readable"]:
                self.assertEqual(row["name"], truth["name"])
            for key, name in (("logger_id", "logger_id"), ("buffer_size", "buffer_size"),
                              ("buffers", "buffers"), ("max_buffers", "max_buffers"),
                              ("events_lost", "events_lost"), ("buffers_lost", "buffers_lost"),
                              ("realtime_buffers_lost", "realtime_lost"),
                              ("buffers_written", "written"), ("num_consumers", "num_consumers"),
                              ("instance_guid", "instance"), ("accept_new_events", "accept")):
                self.assertEqual(row[key], truth[name], "%s of %s" % (key, truth["name"]))
            self.assertEqual(hexint(row["mode"]), truth["mode"])
            self.assertEqual(row["clock"], CLOCKS[truth["clock"]])
            self.assertEqual(row["collecting"], truth["collecting"] != 0)
            self.assertEqual(row.get("log_file", ""), truth["file"])
            if truth["sd_readable"] or truth["sddl"] is None:
                self.assertEqual(row.get("security"), truth["sddl"])

    def has_witness(self, consumer):
        """False when the session's context and the page of the handle are both missing."""
        session = [s for s in self.truth["sessions"]
                   if (s["silo"], s["id"]) == (consumer["silo"], consumer["session"])][0]
        tables = [g["va"] for g in self.rows.get("gap", []) if g["what"] == "handle_table"]
        return (consumer["linked"] and session["readable"]) or (
            consumer["handle"] != "0x0" and not tables)

    def test_consumers(self):
        found = self.found("consumer")
        expected = {c["va"]: c for c in self.truth["consumers"]
                    if c["linked"] or c["handle"] != "0x0"}
        self.same_objects(found, {va: c for va, c in expected.items()
                                  if va in found or self.has_witness(c)})
        for va, row in found.items():
            truth = expected[va]
            if not truth["readable"] or self.hostile:
                continue
            self.assertEqual(row["silo"], self.labels[truth["silo"]])
            self.assertEqual((row["session_id"], row["pid"]), (truth["session"], truth["pid"]))
            if self.truth["holes"]:
                continue
            ways = (["list"] if truth["linked"] else []) + (
                ["handle"] if truth["handle"] != "0x0" else [])
            self.assertEqual(row["found_by"], ways)
            if truth["handle"] != "0x0":
                self.assertEqual(row["handle"], truth["handle"])

    def test_providers(self):
        found = self.found("provider")
        regs = {}
        for reg in self.truth["registrations"]:
            regs.setdefault(reg["provider"], []).append(reg)
        expected = {p["va"]: dict(p, regs=regs.get(i, []))
                    for i, p in enumerate(self.truth["providers"])}
        reachable = {va: p for va, p in expected.items()
                     if p["linked"] or p["embedded"] or p["regs"]}
        self.assertLessEqual(set(found), set(expected))
        if not self.hostile:
            self.assertLessEqual({va for va, p in reachable.items() if p["readable"]}, set(found))
        for va, row in found.items():
            truth = expected[va]
            if not truth["readable"] or self.hostile:
                continue
            self.assertEqual(row["guid"], truth["guid"])
            self.assertEqual(row["silo"], self.labels[truth["silo"]])
            self.assertEqual(row.get("type"), truth["type"])
            self.assertEqual([(e["slot"], e["session_id"], e["level"], e["match_any"])
                              for e in row["enables"] if e["enabled"]],
                             [(e["slot"], e["session"], e["level"], e["any"])
                              for e in truth["enables"] if e["enabled"]])
            if self.truth["holes"]:
                continue
            have = {r["va"]: r for r in row["registrations"]}
            want = {r["va"]: r for r in truth["regs"]}
            if truth["type"] != "group":
                self.assertEqual(set(have), {v for v, r in want.items()
                                             if r["linked"] or r["handle"] != "0x0"})
            for reg_va, reg in have.items():
                if reg_va not in want:
                    continue
                self.assertEqual(reg["kind"], want[reg_va]["kind"])
                self.assertEqual(reg["enable_mask"], want[reg_va]["enable_mask"])
                self.assertEqual("list" in reg["found_by"], want[reg_va]["linked"])

    def test_processes(self):
        found = self.found("process")
        expected = {p["va"]: p for p in self.truth["processes"]}
        self.same_objects(found, expected)
        for va, row in found.items():
            truth = expected[va]
            if not truth["readable"] or self.hostile:
                continue
            self.assertEqual((row["pid"], row["ppid"]), (truth["pid"], truth["ppid"]))
            self.assertEqual(row["name"], truth["name"][:14])
            # A layout that was worked out may not know whether a job is a container's.
            if "silo" in row or "none" not in self.options:
                self.assertEqual(row["silo"], self.labels[truth["silo"]])
            if truth["path_readable"] and not has_surrogates(truth["path"]):
                self.assertEqual(row.get("image", ""), truth["path"])
            if self.truth["holes"]:
                continue
            self.assertEqual(row["found_by"],
                             (["list"] if truth["linked"] else []) +
                             (["handle_table"] if truth["in_table_list"] else []) +
                             (["cid"] if truth["in_cid"] else []))


for _scenario in SCENARIOS:
    if _scenario in NO_SYMBOLS:
        continue
    _class = "Forged_" + _scenario.replace("-", "_")
    globals()[_class] = type(_class, (ForgedChecks, unittest.TestCase),
                             {"scenario": _scenario, "image_format": NEEDS_FORMAT.get(_scenario)})
for _format in FORMATS:
    _class = "Forged_win11_as_" + _format.replace("-", "_")
    globals()[_class] = type(_class, (ForgedChecks, unittest.TestCase),
                             {"scenario": "win11", "image_format": _format})


class Failure(unittest.TestCase):
    def forge(self, scenario, target, *args):
        return subprocess.run([FORGE, os.path.join(ROOT, "tests/images/scenarios", scenario),
                               "-o", target] + list(args), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_no_image_is_left(self):
        """What could not be written leaves no file that would pass for an image."""
        for image_format in ("raw", "vmem"):
            target = work("failed-" + image_format)
            # Pages are taken out, and a flat file cannot say so.
            result = self.forge("holes.txt", target, "--format", image_format)
            self.assertEqual(result.returncode, 1)
            self.assertIn("flat file", result.stderr)
            self.assertFalse(os.path.exists(target))
            self.assertFalse(os.path.exists(target + ".vmss"))

    def test_one_of_two_files(self):
        target = work("failed-pair")
        os.makedirs(target + ".vmss", exist_ok=True)
        result = self.forge("tiny.txt", target, "--format", "vmem")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot create", result.stderr)
        self.assertFalse(os.path.exists(target))

    def test_truth_that_cannot_be_written(self):
        target = work("no-truth")
        result = self.forge("tiny.txt", target, "--truth", work("no-such-folder/truth.json"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot write", result.stderr)

    def test_a_device_stays(self):
        self.assertEqual(self.forge("tiny.txt", "/dev/full").returncode, 1)
        self.assertTrue(os.path.exists("/dev/full"))


class Variants(unittest.TestCase):
    """The same machine in every format gives the same rows."""

    def test_formats_agree(self):
        answers = {}
        for image_format in FORMATS:
            image = forge("silo", "variant-" + image_format, "--format", image_format)
            for command in ("sessions", "consumers", "providers", "processes"):
                result = kda(command, image, "-f", "jsonl", "-q")
                self.assertEqual(result.returncode, 0, result.stderr)
                answers.setdefault(command, {})[image_format] = result.stdout
        for command, outputs in answers.items():
            self.assertEqual(len(set(outputs.values())), 1, command)
            self.assertTrue(outputs["raw"].strip())


if __name__ == "__main__":
    unittest.main()
