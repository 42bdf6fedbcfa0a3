"""Without symbols: the rows are those that symbols give, with every key that is there equal."""
import json
import os
import unittest

from common import forge, kda, rows, unpack, work
from test_forged import NEEDS_FORMAT, ForgedChecks, load
from test_truth import IMAGES, TruthChecks

KINDS = ("session", "consumer", "provider", "process")
# Builds without an ETW silo state: nothing says where their globals are.
TOO_OLD = {"win7-7601.24540", "win8.1-9600.19913"}
FITTED = ["win11", "new-24h2", "la57", "encoded", "silo", "levels", "server2022", "win10-19041",
          "win10-18362", "win10-17763", "win10-17763-new", "win10-1607", "holes",
          "holes-transition", "hostile-counts", "hostile-lists", "references",
          "hostile-strings"]


def leaves(value, path=""):
    """(path, value) of everything in a row; items of lists by their address where they have one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, path + "." + key)
    elif isinstance(value, list):
        yield path + ".length", len(value)
        for i, inner in enumerate(value):
            name = inner.get("va", i) if isinstance(inner, dict) else i
            yield from leaves(inner, "%s[%s]" % (path, name))
    else:
        yield path, value


def by_object(found):
    return {(row["row"], row["va"], row.get("silo") if row["row"] != "process" else None): row
            for row in found if row["row"] in KINDS}


class Images(unittest.TestCase):
    def compare(self, name):
        image = unpack("images/%s.%s.xz" % (name, IMAGES[name]))
        with_symbols = kda("map", image, "-f", "jsonl", "--all", "-q")
        without = kda("map", image, "-f", "jsonl", "--all", "-q", "--symbols", "none")
        self.assertEqual(without.returncode, with_symbols.returncode, without.stderr)
        expected, found = by_object(rows(with_symbols)), by_object(rows(without))
        self.assertEqual(set(found), set(expected))
        left_out = set()
        for key, row in expected.items():
            self.assertEqual(found[key].pop("layout"), "fitted")
            want, have = dict(leaves(row)), dict(leaves(found[key]))
            for path, value in have.items():
                self.assertEqual(value, want.get(path), "%s of %s" % (path, key))
            left_out |= set(want) - set(have)
        self.assertEqual(left_out, set())

    def test_too_old(self):
        for name in sorted(TOO_OLD):
            image = unpack("images/%s.%s.xz" % (name, IMAGES[name]))
            result = kda("sessions", image, "--symbols", "none")
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertEqual(result.stdout, "")
            self.assertIn("no silo state", result.stderr)

    def test_no_fit_where_a_source_was_named(self):
        image = unpack("images/win11-22000.795.raw.xz")
        for source in ("pdb", "isf"):
            result = kda("sessions", image, "--symbols", source)
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertEqual(result.stdout, "")


for _name in sorted(set(IMAGES) - TOO_OLD):
    def _test(self, name=_name):
        self.compare(name)
    setattr(Images, "test_" + _name.replace("-", "_").replace(".", "_"), _test)


class LentRow(TruthChecks, unittest.TestCase):
    """A build known from published structures only, which none from symbols stands beside."""
    image = "evidence/lent-row-16299"
    form = "raw"


class FittedChecks(ForgedChecks):
    options = ["--symbols", "none"]


for _scenario in FITTED:
    _class = "Fitted_" + _scenario.replace("-", "_")
    globals()[_class] = type(_class, (FittedChecks, unittest.TestCase),
                             {"scenario": _scenario, "image_format": NEEDS_FORMAT.get(_scenario)})


class Info(unittest.TestCase):
    def info(self, image, *args):
        result = kda("info", image, "-f", "jsonl", "-q", *args)
        self.assertIn(result.returncode, (0, 4), result.stderr)
        return rows(result, "info")[0]

    def test_evidence_is_shown(self):
        image, truth = load("new-24h2", "fit-info")
        info = self.info(image)
        self.assertEqual((info["symbol_source"], info["layout"]), ("fitted", "fitted"))
        fit = info["fit"]
        self.assertEqual(fit["nearest"], "10.0.26100.x")
        self.assertEqual(fit["score"], 100)
        self.assertTrue(fit["whole"])
        self.assertFalse(fit["anchors_disagree"])
        self.assertEqual(fit["layouts_left"], 1)
        accepted = {a["name"] for a in fit["anchors"] if a["verdict"] == "accepted"}
        self.assertLessEqual({"debugger_data", "self_naming", "exported_code"}, accepted)
        self.assertEqual({a["state"] for a in fit["anchors"] if a["verdict"] == "accepted"},
                         {truth["silos"][0]["state"]})
        self.assertEqual(len(fit["proven"]), fit["fields_proven"])
        self.assertEqual(len(fit["fitted"]), fit["fields_fitted"])
        self.assertIn("_EPROCESS.UniqueProcessId", fit["proven"])
        self.assertFalse(set(fit["proven"]) & set(fit["fitted"]))

    def test_symbols_command_still_wants_symbols(self):
        image, _ = load("new-24h2", "fit-symbols")
        for args in (["symbols", image], ["symbols", "export", image]):
            result = kda(*args, "-q")
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertIn("ntkrnlmp.pdb", result.stderr)

    def test_symbols_are_not_marked(self):
        image = forge("tiny", "fit-with-symbols")
        self.assertNotIn("fit", self.info(image))
        for row in rows(kda("map", image, "-f", "jsonl")):
            self.assertNotIn("layout", row)


class NewBuilds(unittest.TestCase):
    """Builds whose addresses nobody published, under everything that memory may look like."""

    def variant(self, build, *lines):
        text = []
        scenarios = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../images/scenarios")
        with open(os.path.join(scenarios, "win11.txt"), encoding="utf-8") as f:
            text = [line for line in f.read().splitlines()
                    if line.split(" ")[0] not in ("build", "kdbg", "seed")]
        name = "fit-%s-%s" % (build, "-".join(lines).replace(" ", "_").replace("=", "_"))
        path = work(name + ".txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(text + ["build " + build, "rvas invented"] + list(lines)) + "\n")
        truth = work(name + ".json")
        image = forge(path, name, "--truth", truth)
        with open(truth, encoding="utf-8") as f:
            return image, json.load(f)

    def check(self, build, *lines):
        image, truth = self.variant(build, *lines)
        result = kda("map", image, "-f", "jsonl", "--all", "-q")
        self.assertEqual(result.returncode, 4 if truth["holes"] else 0, result.stderr)
        found = rows(result)
        for kind, key in (("session", "sessions"), ("consumer", "consumers"),
                          ("provider", "providers"), ("process", "processes")):
            have = {row["va"] for row in found if row["row"] == kind}
            every = {x["va"] for x in truth[key]}
            self.assertLessEqual(have, every)
            if not truth["holes"]:
                self.assertEqual(have, every, kind)
        names = {s["va"]: s["name"] for s in truth["sessions"]}
        for row in found:
            if row["row"] == "session" and "name" in row:
                self.assertEqual(row["name"], names[row["va"]])

    def test_whole(self):
        for build in ("10.0.22621.382", "10.0.22631.2428", "10.0.26100.x"):
            for lines in ([], ["pcid on"], ["la57 on"], ["kdbg encoded"],
                          ["pcid on", "la57 on", "kdbg encoded"]):
                with self.subTest(build=build, lines=lines):
                    self.check(build, *lines)

    def test_missing_pages(self):
        for build in ("10.0.22631.2428", "10.0.26100.x"):
            for percent in (5, 10, 20):
                with self.subTest(build=build, percent=percent):
                    self.check(build, "seed %d" % percent,
                               "hole percent=%d kind=paged" % percent)


if __name__ == "__main__":
    unittest.main()
