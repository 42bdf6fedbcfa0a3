"""kda compare: logs of real recordings against trace files written from them with events removed."""
import collections
import json
import os
import random
import unittest

import common
import etl_from_log
from common import kda, rows
from test_sensor import EVERYTHING, RECORDINGS, fresh, lines_of, log_files, sim


def write_log(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        for line in lines:
            f.write(json.dumps(line, ensure_ascii=False) + "\n")
    return path


def is_event(line):
    return not line["kind"].startswith("sensor.") and line["kind"] != "process.existing"


class Pair(unittest.TestCase):
    maxDiff = None

    def compared(self, a, b, *args):
        result = kda("compare", a, b, "-f", "jsonl", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return rows(result)

    def only(self, found, witness):
        return sorted(row["id"] for row in found
                      if row["row"] == "unmatched" and row["seen_by"] == witness)


class TestRecordings(Pair):
    """One class for all of them: each replay is made once."""

    def replay(self, name):
        path = common.need_data("activity/%s.zip" % name)
        folder = fresh("compare-" + name)
        result = sim("replay", path, "-o", folder, "--threads", "4", *EVERYTHING)
        self.assertEqual(result.returncode, 0, result.stderr)
        return folder

    def pairs(self, name, test):
        folder = self.replay(name)
        hosts = [os.path.join(folder, host) for host in sorted(os.listdir(folder))]
        for host in hosts:
            lines = lines_of(host)
            if sum(1 for line in lines if etl_from_log.record_of(line)) > 20:
                test(host, lines)

    def removed_are_reported(self, host, lines):
        told = [line for line in lines if is_event(line) and etl_from_log.record_of(line)]
        chance = random.Random(7)
        kinds = {}
        removed = set()
        for line in told:
            kinds[line["kind"]] = kinds.get(line["kind"], 0) + 1
            # The first of a kind stays: a trace without any does not record the kind. So do the
            # first and the last event, which are the ends of what the trace covers.
            if kinds[line["kind"]] > 1 and line not in (told[0], told[-1]) and \
                    chance.random() < 0.05:
                removed.add(line["id"])
        trace = host + "-removed.etl"
        etl_from_log.write(trace, [line for line in told if line["id"] not in removed])
        log = write_log(host + "-told.jsonl", [line for line in lines
                                               if line["id"] in {x["id"] for x in told} or
                                               not is_event(line)])
        found = self.compared(log, trace)
        # Two events alike to the last byte: which of them is missing nobody can say.
        records = {line["id"]: etl_from_log.record_of(line) for line in told}
        self.assertEqual(collections.Counter(records[x] for x in self.only(found, "A")),
                         collections.Counter(records[x] for x in removed), host)
        self.assertEqual(self.only(found, "B"), [], host)
        groups = [row for row in found if row["row"] == "difference"]
        self.assertEqual(sum(row["count"] for row in groups), len(removed))
        # The log has more kinds than the trace: they are left out, not reported.
        whole = self.compared(log_files(host)[0], trace)
        self.assertEqual(len(self.only(whole, "A")), len(removed), host)

    def test_removed_are_reported(self):
        for name in RECORDINGS:
            with self.subTest(name):
                self.pairs(name, self.removed_are_reported)


class TestSmall(Pair):
    def line(self, ident, second, kind="image.load", **more):
        line = {"v": 1, "id": ident, "time": "2026-11-29T21:04:%02d.0000000Z" % second,
                "kind": kind, "source": "driver", "cpu": 0, "pid": 100, "tid": 4}
        if kind == "image.load":
            line.update({"target_pid": 100, "base": "0x%x" % (0x10000 * (ident + 1)),
                         "module": "\\Device\\HarddiskVolume3\\Windows\\%d.dll" % ident})
        line.update(more)
        return line

    def logs(self, a, b, *args):
        return self.compared(write_log(common.work("compare-a.jsonl"), a),
                             write_log(common.work("compare-b.jsonl"), b), *args)

    def test_same(self):
        lines = [self.line(i, i) for i in range(20)]
        found = self.logs(lines, lines)
        self.assertEqual([row["row"] for row in found], ["witness", "witness"])
        self.assertEqual(found[0]["matched"], 20)

    def test_paths_in_other_words(self):
        a = [self.line(0, 0), self.line(1, 1), self.line(2, 2)]
        b = [dict(line) for line in a]
        b[0]["module"] = "C:\\windows\\0.DLL"
        b[1]["module"] = "\\SystemRoot\\1.dll"
        b[2]["module"] = "\\??\\C:\\Other\\2.dll"
        found = self.logs(a, b)
        self.assertEqual((self.only(found, "A"), self.only(found, "B")), ([2], [2]))

    def test_tolerance(self):
        a = [self.line(0, 0), self.line(1, 10), self.line(2, 20)]
        b = [dict(line) for line in a]
        b[1]["time"] = "2026-11-29T21:04:12.0000000Z"
        self.assertEqual(self.only(self.logs(a, b), "A"), [1])
        self.assertEqual(self.only(self.logs(a, b, "--tolerance", "2000"), "A"), [])
        self.assertEqual(kda("compare", "a", "b", "--tolerance", "99999999999").returncode, 2)

    def test_declared_losses(self):
        lines = [self.line(i, i) for i in range(30)]
        kept = [line for line in lines if line["id"] not in (10, 11, 20)]
        loss = self.line(100, 12, "sensor.loss", lost={"image.load": 2},
                         first_time="2026-11-29T21:04:10.0000000Z",
                         last_time="2026-11-29T21:04:11.0000000Z", reason="ring_full")
        found = self.logs(lines, kept[:11] + [loss] + kept[11:])
        self.assertEqual(self.only(found, "A"), [20])
        self.assertEqual(found[0]["left_out"], {"declared_lost": 2})
        loss["lost"] = {"image.load": 1}  # two are missing, one is declared: which, nobody can say
        found = self.logs(lines, kept[:11] + [loss] + kept[11:])
        self.assertEqual(self.only(found, "A"), [10, 11, 20])
        loss["lost"] = {"process.create": 5}
        found = self.logs(lines, kept[:11] + [loss] + kept[11:])
        self.assertEqual(self.only(found, "A"), [10, 11, 20])

    def test_losses_that_follow_each_other(self):
        """Both lie within the tolerance: neither may be charged with what the other declares."""
        lines = [self.line(i, 10, time="2026-11-29T21:04:%02d.%d000000Z" % (10 + i // 10, i % 10))
                 for i in range(40)]
        gone = range(10, 18)
        kept = [line for line in lines if line["id"] not in gone]
        for ident, first in ((100, 10), (101, 14)):
            loss = self.line(ident, 12, "sensor.loss", lost={"image.load": 4}, reason="ring_full",
                             first_time=lines[first]["time"], last_time=lines[first + 3]["time"])
            kept.insert(10, loss)
        found = self.logs(lines, kept)
        self.assertEqual(self.only(found, "A"), [])
        self.assertEqual(found[0]["left_out"], {"declared_lost": 8})
        found = self.logs(lines, [line for line in kept if line["id"] != 20])
        self.assertEqual(self.only(found, "A"), [*gone, 20])  # nine are missing, eight declared
        self.assertEqual({row["declared"] for row in found if row["row"] == "difference"}, {8})

    def test_what_is_not_recorded_uses_up_no_loss(self):
        lines = [self.line(i, i) for i in range(20)]
        with_exits = lines + [self.line(50 + i, 10, "thread.exit", tid=i) for i in range(5)]
        loss = self.line(100, 12, "sensor.loss", lost_events=1)
        found = self.logs(with_exits, [line for line in lines if line["id"] != 10] + [loss])
        self.assertEqual(self.only(found, "A"), [])
        self.assertEqual(found[0]["left_out"], {"declared_lost": 1, "kind_not_recorded": 5})

    def test_many_alike(self):
        """As many steps as events, not their square: else this takes hours."""
        many = [self.line(i, 5, "registry.value_set", key="\\R\\A", value="v") for i in range(400000)]
        found = self.logs(many, many[1:])
        self.assertEqual([row["only"] for row in found if row["row"] == "witness"], [1, 0])
        other = [dict(line, key="\\R\\B\\A") for line in many[:20000]]
        third = [dict(line, key="\\R\\C\\A") for line in many[:20000]]
        self.assertEqual(self.logs(other, third)[0]["only"], 20000)

    def test_many_losses(self):
        loss = {"lost": {"image.load": 1 << 63}, "first_time": "2026-11-29T21:04:01.0000000Z",
                "last_time": "2026-11-29T21:04:50.0000000Z"}
        a = [self.line(i, 30) for i in range(100000)]
        b = [self.line(0, 0), self.line(0, 59)] + [self.line(i, 40, "sensor.loss", **loss)
                                                   for i in range(60000)]
        self.assertEqual(self.logs(a, b)[0]["left_out"], {"declared_lost": 100000})

    def test_lines_that_cannot_be_read(self):
        a = write_log(common.work("compare-a.jsonl"), [self.line(i, i) for i in range(5)])
        with open(common.work("compare-b.jsonl"), "w") as f:
            f.write("".join(json.dumps(self.line(i, i)) + "\n" for i in range(5))
                    .replace('"v": 1, "id": 2', '"w": 1, "id": 2'))
        result = kda("compare", a, f.name, "-f", "jsonl")
        self.assertEqual(result.returncode, 4)
        self.assertIn("incomplete: 1 line of", result.stderr)
        self.assertEqual(self.only(rows(result), "A"), [2])
        self.assertEqual(kda("compare", a, f.name, "--exit-code").returncode, 1)

    def test_nothing_to_compare(self):
        a = write_log(common.work("compare-a.jsonl"), [self.line(i, i) for i in range(5)])
        b = write_log(common.work("compare-b.jsonl"), [])
        for pair in ((a, b), (b, a)):
            result = kda("compare", *pair, "--exit-code")
            self.assertEqual(result.returncode, 4)
            self.assertIn("has no event that can be compared", result.stderr)

    def test_filters(self):
        lines = [self.line(i, i) for i in range(30)]
        kept = [line for line in lines if line["id"] not in (5, 20)]
        taken = [self.line(100, 8, "sensor.filtered", filtered={"image.load": 1}, by="repeat")]
        found = self.logs(lines, kept[:8] + taken + kept[8:])
        self.assertEqual(self.only(found, "A"), [20])
        self.assertEqual(found[0]["left_out"], {"filtered": 1})

    def test_outside_and_kinds(self):
        lines = [self.line(i, i) for i in range(30)]
        lines.insert(15, self.line(50, 15, "thread.exit"))
        found = self.logs(lines, [line for line in lines[5:25] if line["kind"] == "image.load"])
        self.assertEqual(self.only(found, "A"), [])
        self.assertEqual(found[0]["left_out"]["kind_not_recorded"], 1)
        self.assertGreater(found[0]["left_out"]["outside"], 5)

    def test_declared_kinds_are_missing_when_absent(self):
        lines = [self.line(i, i) for i in range(10)]
        start = self.line(200, 0, "sensor.start", log="{aaaaaaaa-0000-0000-0000-000000000000}",
                          settings={"Kinds": ["thread.exit"]})
        both = [start] + [self.line(60 + i, i) for i in range(10)]
        with_exit = lines[:5] + [self.line(50, 5, "thread.exit")] + lines[5:]
        self.assertEqual(self.only(self.logs(with_exit, both), "A")[-1:], [50])

    def test_restart(self):
        start = {"log": "{aaaaaaaa-0000-0000-0000-000000000000}"}
        a = [self.line(i, i) for i in range(30)]
        b = [self.line(100, 0, "sensor.start", **start)] + a[0:10] + \
            [self.line(101, 20, "sensor.start", **start)] + a[20:30]
        found = self.logs(a, b)
        self.assertEqual(self.only(found, "A"), [])
        self.assertEqual(found[0]["left_out"], {"outside": 10})

    def test_exit_code_and_errors(self):
        a = write_log(common.work("compare-a.jsonl"), [self.line(0, 0), self.line(1, 1)])
        b = write_log(common.work("compare-b.jsonl"), [self.line(0, 0), self.line(2, 1)])
        self.assertEqual(kda("compare", a, b).returncode, 0)
        self.assertEqual(kda("compare", a, b, "--exit-code").returncode, 1)
        self.assertEqual(kda("compare", a, a, "--exit-code").returncode, 0)
        self.assertEqual(kda("compare", a).returncode, 2)
        self.assertEqual(kda("compare", a, "/nonexistent").returncode, 3)
        self.assertIn("missing", kda("compare", a, b).stdout.lower())

    def test_witnesses_are_not_overwritten(self):
        a = write_log(common.work("compare-a.jsonl"), [self.line(0, 0), self.line(1, 1)])
        b = write_log(common.work("compare-b.jsonl"), [self.line(0, 0), self.line(2, 1)])
        for target in (a, b):
            with open(target, "rb") as f:
                before = f.read()
            result = kda("compare", a, b, "-o", target)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("is a file that is read", result.stderr)
            with open(target, "rb") as f:
                self.assertEqual(f.read(), before)

    def test_damaged_trace(self):
        lines = [self.line(i, i) for i in range(30)]
        trace = common.work("compare-lost.etl")
        etl_from_log.write(trace, [line for line in lines if line["id"] != 12], lost=1)
        log = write_log(common.work("compare-a.jsonl"), lines)
        found = self.compared(log, trace)
        self.assertEqual(self.only(found, "A"), [])
        self.assertEqual(found[0]["left_out"], {"declared_lost": 1})


if __name__ == "__main__":
    unittest.main()
