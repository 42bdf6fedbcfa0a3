"""kda audit and kda callbacks over the ten memory images of ../shared/data and their truth files."""
import csv
import json
import os
import subprocess
import unittest

from common import BIN, ROOT, forge, hexint, kda, rows, unpack, work
from test_truth import IMAGES

KINDS = {"ob_process": "object_process", "ob_thread": "object_thread"}

# What each tamper of the truth files has to be found as.
CHECKS = {
    "clock_hook": ("session.clock", "logger"),
    "session_reject": ("session.rejecting", "logger"),
    "session_stopped": ("session.stopped", "logger"),
    "logger_id_mismatch": ("session.logger_id", "logger"),
    "consumer_missing": ("session.consumer_count", "logger"),
    "sd_everyone": ("session.security", "logger"),
    "enable_cleared": ("provider.combined", "guid"),
    "guid_unlinked": ("provider.unlinked", "guid"),
    "filtered_silent": ("provider.filtered", "guid"),
    "ti_cleared": ("provider.silent", "guid"),
    "reg_unlinked": ("registration.unlinked", "registration"),
    "consumer_unlinked": ("consumer.unlinked", "consumer"),
    "process_unlinked": ("process.unlinked", "process"),
}


class AuditImage:
    def __init__(self, name):
        self.image = unpack("images/%s.%s.xz" % (name, IMAGES[name]))
        with open(unpack("images/%s.truth.json.xz" % name), encoding="utf-8") as f:
            self.truth = json.load(f)
        self.audit = kda("audit", self.image, "-f", "jsonl")
        self.callbacks = kda("callbacks", self.image, "-f", "jsonl")

    def findings(self):
        return rows(self.audit, "audit")

    def matches(self, tamper, what, finding):
        """Is the finding about the object that was tampered with?"""
        if what == "logger":
            va = next(x["va"] for x in self.truth["loggers"]
                      if x["silo"] == 0 and x["index"] == tamper["logger"])
            return hexint(finding["va"]) == va
        if what == "process":
            va = next(x["eprocess"] for x in self.truth["processes"] if x["pid"] == tamper["pid"])
            return hexint(finding["va"]) == va
        if what == "consumer":
            session = next(x for x in self.truth["loggers"]
                           if x["silo"] == 0 and x["index"] == tamper["logger"])
            va = next(x["va"] for x in session["consumers"] if x["pid"] == tamper["pid"])
            return hexint(finding["va"]) == va
        if what == "registration":
            return tamper["guid"] in finding["name"] and "(%d)" % tamper["pid"] in finding["name"]
        return tamper["guid"] in finding["name"]


class AuditChecks:
    """The tests; one class per image is made below."""
    maxDiff = None
    name = None
    loaded = None

    def setUp(self):
        if type(self).loaded is None:
            type(self).loaded = AuditImage(self.name)
        self.t = type(self).loaded

    def test_tampers_are_found(self):
        for tamper in self.t.truth["tampers"]:
            check, what = CHECKS[tamper["name"]]
            found = [x for x in self.t.findings()
                     if x["check"] == check and self.t.matches(tamper, what, x)]
            self.assertTrue(found, tamper)
            for finding in found:
                self.assertIn(finding["severity"], ("medium", "high", "critical"))
                self.assertTrue(finding["evidence"], finding)

    def test_untampered_is_quiet(self):
        if self.t.truth["tampers"]:
            return
        loud = [x for x in self.t.findings() if x["severity"] != "info"]
        self.assertEqual(loud, [])

    def test_every_check_has_an_outcome(self):
        results = rows(self.t.audit, "check")
        self.assertEqual(len(results), len({x["check"] for x in results}))
        self.assertGreater(len(results), 30)
        found = {}
        for finding in self.t.findings():
            found[finding["check"]] = found.get(finding["check"], 0) + 1
        unchecked = {}
        for item in rows(self.t.audit, "unchecked"):
            self.assertTrue(item["reason"])
            unchecked[item["check"]] = unchecked.get(item["check"], 0) + 1
        for result in results:
            here = found.get(result["check"], 0), unchecked.get(result["check"], 0)
            self.assertEqual((result["findings"], result["not_checked"]), here)
            expected = "findings" if here[0] else "not_checked" if here[1] else "passed"
            self.assertEqual(result["outcome"], expected, result)

    def test_holes_are_not_called_clean(self):
        if not self.t.truth["hole_pages"]:
            return
        outcomes = {x["check"]: x["outcome"] for x in rows(self.t.audit, "check")}
        for check in ("consumer.no_handle", "process.unlinked", "registration.unlinked"):
            self.assertEqual(outcomes[check], "not_checked")
        self.assertEqual(self.t.audit.returncode, 4)

    def test_callbacks_equal_the_truth(self):
        expected = []
        for callback in self.t.truth["callbacks"]:
            if not callback["linked"]:
                continue
            row = {"kind": KINDS.get(callback["kind"], callback["kind"]), "va": callback["va"],
                   "function": callback["function"], "context": callback["context"],
                   "module": "ntoskrnl.exe" if callback["driver"] == "nt" else callback["driver"],
                   "altitude": callback.get("altitude"), "slot": callback.get("slot"),
                   "post": callback.get("post") or None, "cookie": callback.get("cookie")}
            if "slot_va" in callback:
                row["slot_va"] = callback["slot_va"]
            expected.append(row)
        seen = []
        for row in rows(self.t.callbacks, "callback"):
            got = {key: hexint(row[key]) for key in ("va", "function", "context")}
            got.update({"kind": row["kind"], "module": row.get("module"), "slot": row.get("slot"),
                        "altitude": row.get("altitude"),
                        "post": hexint(row["post"]) if "post" in row else None,
                        "cookie": hexint(row["cookie"]) if "cookie" in row else None})
            if row["kind"] in ("process", "thread", "image"):
                got["slot_va"] = hexint(row["slot_va"])
            seen.append(got)
        key = lambda row: (row["kind"], row["va"])
        self.assertEqual(sorted(seen, key=key), sorted(expected, key=key))

    def test_exit_codes(self):
        tampered = bool(self.t.truth["tampers"])
        quiet = 4 if self.t.truth["hole_pages"] else 0
        self.assertEqual(self.t.audit.returncode, quiet)
        code = kda("audit", self.t.image, "--exit-code", "-q").returncode
        self.assertEqual(code, 1 if tampered else quiet)
        low = kda("audit", self.t.image, "--exit-code", "--min-severity", "info", "-q")
        self.assertEqual(low.returncode, 1)  # sessions of every sample image lost events


def make_classes():
    for name in IMAGES:
        cls = type("Audit_" + name.replace("-", "_").replace(".", "_"),
                   (AuditChecks, unittest.TestCase), {"name": name})
        globals()[cls.__name__] = cls


make_classes()


class AuditOutput(unittest.TestCase):
    def setUp(self):
        self.image = unpack("images/tampered-win11-22000.795.raw.xz")

    def test_formats_agree(self):
        lines = rows(kda("audit", self.image, "-f", "jsonl"))
        whole = json.loads(kda("audit", self.image, "-f", "json").stdout)
        self.assertEqual([x for x in whole["rows"]], [x for x in lines if x["row"] != "gap"])
        kda("audit", self.image, "-f", "csv", "-o", work("audit-tables"))
        with open(work("audit-tables/audit.csv"), encoding="utf-8", newline="") as f:
            self.assertEqual([row["name"] for row in csv.DictReader(f)],
                             [x["name"] for x in lines if x["row"] == "audit"])
        text = kda("audit", self.image).stdout
        for finding in (x for x in lines if x["row"] == "audit"):
            self.assertIn(finding["va"], text)

    def test_min_severity(self):
        found = rows(kda("audit", self.image, "-f", "jsonl", "--min-severity", "critical"), "audit")
        self.assertEqual({x["severity"] for x in found}, {"critical"})
        wrong = kda("audit", self.image, "--min-severity", "loud")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("critical", wrong.stderr)

    def test_lost_threshold(self):
        def severities(*args):
            return [x["severity"] for x in rows(kda("audit", self.image, "-f", "jsonl", *args),
                                                "audit") if x["check"] == "session.lost"]
        self.assertEqual(set(severities()), {"info"})
        self.assertEqual(sorted(severities("--lost", "3")), ["low", "low"])
        self.assertEqual(sorted(severities("--lost", "100")), ["info", "low"])

    def test_same_image_same_bytes(self):
        self.assertEqual(kda("audit", self.image, "-f", "jsonl").stdout,
                         kda("audit", self.image, "-f", "jsonl").stdout)

    def test_output_file(self):
        target = work("audit.jsonl")
        self.assertEqual(kda("audit", self.image, "-f", "jsonl", "-o", target).returncode, 0)
        with open(target, encoding="utf-8") as f:
            self.assertEqual(f.read(), kda("audit", self.image, "-f", "jsonl").stdout)
        os.remove(target)


class RemovedCallback(unittest.TestCase):
    """One process callback of a driver was removed, and 5 % of the pages are missing."""

    def setUp(self):
        self.image = unpack("evidence/removed-callback-14393.dmp.xz")
        with open(unpack("evidence/removed-callback-14393.truth.json.xz"), encoding="utf-8") as f:
            truth = json.load(f)
        self.driver = next(x["driver"] for x in truth["tampers"] if x["name"] == "callback_removed")
        self.base = next(x["base"] for x in truth["modules"] if x["name"] == self.driver)
        self.array = next(x["slot_va"] - 8 * x["slot"] for x in truth["callbacks"]
                          if x["kind"] == "process")

    def test_one_finding_names_the_driver(self):
        result = kda("audit", self.image, "-f", "jsonl")
        self.assertEqual(result.returncode, 4)
        found = [x for x in rows(result, "audit") if x["check"].startswith("callback.")]
        alone = [x for x in found if "joined_to" not in x]
        self.assertEqual([(x["check"], x["severity"], x["name"], hexint(x["va"])) for x in alone],
                         [("callback.missing", "high", self.driver, self.base)])
        self.assertEqual([(x["check"], hexint(x["va"])) for x in alone[0]["corroborated_by"]],
                         [("callback.count", self.array)])
        self.assertIn("counts 6 process callbacks and holds 5", alone[0]["text"])
        self.assertEqual([x["joined_to"]["name"] for x in found if "joined_to" in x], [self.driver])
        outcomes = {x["check"]: x["outcome"] for x in rows(result, "check")}
        self.assertEqual({outcomes[x] for x in ("callback.missing", "callback.count")},
                         {"findings"})

    def test_people_read_it_once(self):
        text = kda("audit", self.image).stdout
        told = [line for line in text.splitlines() if "holds 5" in line]
        self.assertEqual(len(told), 1)
        self.assertIn(self.driver, told[0])
        self.assertIn("callback.count of process at", told[0])

    def test_without_symbols_it_is_not_checked(self):
        result = kda("audit", self.image, "-f", "jsonl", "--symbols", "none")
        self.assertEqual([x for x in rows(result, "audit") if x["check"].startswith("callback.")],
                         [])
        outcomes = {x["check"]: x["outcome"] for x in rows(result, "check")}
        self.assertEqual({outcomes[x] for x in ("callback.missing", "callback.count")},
                         {"not_checked"})
        reasons = [x["reason"] for x in rows(result, "unchecked")
                   if x["check"] == "callback.missing" and x.get("name") == "process"]
        self.assertEqual(len(reasons), 1)
        self.assertIn("the code of PsSetCreateProcessNotifyRoutine names no place", reasons[0])


class Document(unittest.TestCase):
    def test_checks_page_is_current(self):
        made = subprocess.run([os.path.join(BIN, "kda-checks-doc")], stdout=subprocess.PIPE,
                              check=True).stdout
        with open(os.path.join(ROOT, "docs/checks.md"), "rb") as f:
            self.assertEqual(made, f.read(), "run make docs")


def write(name, text):
    target = work(name)
    with open(target, "w", encoding="utf-8") as f:
        f.write(text)
    return target


class Healthy(unittest.TestCase):
    """A machine from the project's own generator on which every check passes."""

    def setUp(self):
        self.truth = work("audit-healthy.json")
        self.image = forge("audit", "audit-healthy.raw", "--truth", self.truth)

    def test_every_check_passes(self):
        result = kda("audit", self.image, "-f", "jsonl", "--exit-code", "--min-severity", "info")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({x["outcome"] for x in rows(result, "check")}, {"passed"})
        self.assertEqual({x["row"] for x in rows(result)}, {"check"})

    def test_without_symbols(self):
        """Of a build that no table knows: what is not known is not checked, nothing is found."""
        image = forge("audit", "audit-new.raw", "--add", "build 10.0.26100.x", "--add",
                      "rvas invented")
        result = kda("audit", image, "-f", "jsonl")
        self.assertEqual(rows(result, "audit"), [])
        outcomes = {x["check"]: x["outcome"] for x in rows(result, "check")}
        self.assertEqual({x for x in outcomes if outcomes[x] != "passed"},
                         {"callback.outside", "callback.count", "callback.missing",
                          "callback.security_driver", "callback.altitude"})
        self.assertIn("CallbackListHead is not known for this build",
                      {x["reason"] for x in rows(result, "unchecked")})
        known = kda("audit", image, "--baseline", self.image)
        self.assertIn("registry callbacks are not compared: the image says nothing", known.stderr)

    def test_callbacks_by_code(self):
        """The same build whose code names the arrays: found there, only counts stay unknown."""
        code = sum((["--add", "code " + line] for line in (
            "PsSetCreateProcessNotifyRoutine 4883ec288ac233d284c00f95c2e8{IoCreateDevice}4883c428c3",
            "IoCreateDevice 41574883ec20448bfa4c8d2d{PspCreateProcessNotifyRoutine}bf40000000c3",
            "PsSetCreateThreadNotifyRoutine 4883ec28488d0d{PspCreateThreadNotifyRoutine}c3",
            "PsSetLoadImageNotifyRoutine 4883ec28488d0d{PspLoadImageNotifyRoutine}c3",
            "CmUnRegisterCallback 4883ec28488d0d{CallbackListHead}c3")), [])
        new = ["--add", "build 10.0.26100.x", "--add", "rvas invented"]
        truth = work("audit-code.json")
        image = forge("audit", "audit-code.raw", "--truth", truth, *new, *code)
        with open(truth, encoding="utf-8") as f:
            expected = json.load(f)["callbacks"]
        shown = kda("callbacks", image, "-f", "jsonl")
        self.assertEqual(sorted(hexint(x["function"]) for x in rows(shown, "callback")),
                         sorted(hexint(x["function"]) for x in expected))
        self.assertIn("found by the code", shown.stderr)
        outcomes = {x["check"]: x["outcome"]
                    for x in rows(kda("audit", image, "-f", "jsonl"), "check")}
        self.assertEqual([x for x in outcomes if outcomes[x] != "passed"], ["callback.count"])
        image = forge("audit", "audit-code.raw", *new, *code, "--add",
                      "driver SysmonDrv.sys size=0x20000 imports=PsSetCreateProcessNotifyRoutine",
                      "--add", "callback process driver=SysmonDrv.sys emptied")
        found = [x for x in rows(kda("audit", image, "-f", "jsonl"), "audit")
                 if x["check"].startswith("callback.") and "joined_to" not in x]
        self.assertEqual([(x["severity"], x["name"], [y["check"] for y in x["corroborated_by"]])
                          for x in found], [("high", "SysmonDrv.sys", ["callback.missing"])])

    def test_callbacks_equal_the_truth(self):
        with open(self.truth, encoding="utf-8") as f:
            truth = json.load(f)["callbacks"]
        seen = rows(kda("callbacks", self.image, "-f", "jsonl"), "callback")
        self.assertEqual(len(seen), 9)
        for row in seen:
            self.assertIn(row.get("module"), ("ntoskrnl.exe", "WdFilter.sys", "exampleedr.sys"))
        keys = ("va", "slot_va", "function")
        self.assertEqual(sorted([x["kind"]] + [hexint(x[k]) for k in keys] + [x.get("altitude")]
                                for x in seen),
                         sorted([x["kind"]] + [hexint(x[k]) for k in keys] + [x.get("altitude")]
                                for x in truth))

    def test_expected_sessions(self):
        listed = write("expect.txt", "# ours\n\"Circular Kernel Context Logger\" critical\n"
                       "Missing medium 22000-\nOlder 10240-19045\n")
        found = rows(kda("audit", self.image, "-f", "jsonl", "--expect", listed), "audit")
        self.assertEqual([(x["check"], x["name"], x["severity"]) for x in found],
                         [("session.expected", "Missing", "medium")])
        for text, part in (("A\nB often\n", "expect.txt:2: 'often'"), ("\"A\n", "expect.txt:1:"),
                           ("# none\n", "names no session")):
            wrong = kda("audit", self.image, "--expect", write("expect.txt", text))
            self.assertEqual(wrong.returncode, 2)
            self.assertIn(part, wrong.stderr)
        self.assertEqual(kda("audit", self.image, "--expect", work("no such list")).returncode, 2)


TRICKS = """
poke session:4 CollectionOn 0
poke provider:{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} EnableInfo/TRACE_ENABLE_INFO.Level 1
session 10 name=New mode=0x400
callback process driver=exampleedr.sys
consumer session=9 pid=800 unlinked
"""


class Baseline(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.before = forge("audit", "audit-before.raw")
        self.after = forge("audit", "audit-after.raw", "--add", "seed 36", *sum(
            (["--add", line] for line in TRICKS.strip().split("\n")), []))

    def changes(self, image, other, *args):
        result = kda("audit", image, "-f", "jsonl", "--baseline", other, *args)
        self.assertIn(result.returncode, (0, 4), result.stderr)
        return [(x["change"], x["object"], x["name"], x.get("field"), x.get("before"),
                 x.get("after")) for x in rows(result, "change")], result

    EXPECTED = [
        ("changed", "callback", "process exampleedr.sys", "count", "1", "2"),
        ("appeared", "consumer", "host Edr lsass.exe", None, None, None),
        ("changed", "session", "host EventLog-System", "collecting", "true", "false"),
        ("appeared", "session", "host New", None, None, None),
        ("changed", "slot", "host trace {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} Edr", "level", "5",
         "1"),
    ]

    def test_same_machine_same_objects(self):
        self.assertEqual(self.changes(self.before, self.before)[0], [])
        moved = forge("audit", "audit-moved.raw", "--add", "seed 77")  # every address differs
        self.assertEqual(self.changes(moved, self.before)[0], [])

    def test_changes_are_told(self):
        self.assertEqual(self.changes(self.after, self.before)[0], self.EXPECTED)
        back = {("vanished" if a == "appeared" else a, b, c, d, f, e)
                for a, b, c, d, e, f in self.EXPECTED}
        self.assertEqual(set(self.changes(self.before, self.after)[0]), back)

    def test_addresses_are_of_the_object(self):
        sessions = {x["name"]: x["va"] for x in rows(kda("sessions", self.after, "-f", "jsonl"))}
        result = self.changes(self.after, self.before)[1]
        new = [x for x in rows(result, "change") if x["name"] == "host New"]
        self.assertEqual(new[0]["va"], sessions["New"])

    def test_saved_maps(self):
        for form in ("json", "jsonl"):
            saved = work("audit-saved." + form)
            self.assertEqual(kda("map", self.before, "-f", form, "-o", saved).returncode, 0)
            self.assertEqual(self.changes(self.after, saved)[0], self.EXPECTED)
            self.assertEqual(self.changes(self.before, saved)[0], [])

    def test_two_saved_maps(self):
        saved = [work("audit-saved-%d.jsonl" % i) for i in range(2)]
        for image, target in zip((self.before, self.after), saved):
            self.assertEqual(kda("map", image, "-f", "jsonl", "-o", target).returncode, 0)
        told, result = self.changes(saved[1], saved[0], "--exit-code")
        self.assertEqual(told, self.EXPECTED)
        self.assertEqual({x["row"] for x in rows(result)}, {"change"})
        self.assertIn("the checks need an image", result.stderr)
        self.assertEqual(self.changes(saved[0], saved[0])[0], [])

    def test_what_goes_in_is_never_replaced(self):
        saved = write("audit-in.jsonl", kda("map", self.before, "-f", "jsonl").stdout)
        listed = write("audit-in.txt", "Edr\n")
        for args, target in (((self.after, "--baseline", saved), saved),
                             ((saved, "--baseline", self.after), saved),
                             ((self.after, "--expect", listed), listed)):
            before = os.stat(target).st_mtime_ns
            result = kda("audit", *args, "-o", target)
            self.assertEqual(result.returncode, 2, args)
            self.assertIn("the output", result.stderr)
            self.assertEqual(os.stat(target).st_mtime_ns, before)

    def test_a_map_without_callbacks(self):
        text = kda("map", self.before, "-f", "jsonl").stdout
        saved = write("audit-old.jsonl", "".join(
            line + "\n" for line in text.splitlines() if '"row":"callback"' not in line))
        told, result = self.changes(self.after, saved)
        self.assertEqual(told, self.EXPECTED[1:])
        self.assertIn("not compared", result.stderr)

    def test_gaps_are_mentioned(self):
        holes = forge("audit", "audit-gaps.raw", "--add", "hole what=session:9")
        self.assertRegex(self.changes(self.before, holes)[1].stderr,
                         r"[1-9]\d* gaps in the baseline, 0 in the image")
        self.assertNotIn("gaps in", self.changes(self.before, self.before)[1].stderr)

    def test_what_is_no_baseline(self):
        for text, code in (("hello\n", 3), ("{}\n", 3), ('{"row":"session",\n', 3)):
            wrong = kda("audit", self.before, "--baseline", write("audit-wrong", text))
            self.assertEqual(wrong.returncode, code, wrong.stderr)
        self.assertEqual(kda("audit", self.before, "--baseline", work("no such map")).returncode, 3)

    def test_changes_are_no_findings(self):
        result = kda("audit", forge("audit", "audit-extra.raw", "--add", "process 904 name=x.exe",
                                    "--add", "consumer session=9 pid=904", "--add", "user 904"),
                     "--baseline", self.before, "--exit-code", "-f", "jsonl")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(rows(result, "change")), 1)


if __name__ == "__main__":
    unittest.main()
