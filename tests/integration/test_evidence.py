"""Damaged images: no wrong value, no row without a witness, no witness unused.

The handed cases of ../shared/data/evidence, and a fixed sample of what `make evidence` does in whole.
A failure prints the command that runs the case again.
"""
import json
import os
import sys
import unittest

from common import ROOT, kda, need_data, rows, unpack

sys.path.insert(0, os.path.join(ROOT, "tests/evidence"))

import cases as damage  # noqa: E402
import judge  # noqa: E402
import oracle  # noqa: E402
from subject import Subject  # noqa: E402

# One with symbols, two without.
SMALL = (("win11-22000.795", None), ("win10-19041.1466-encoded-kdbg", "none"),
         ("server2019-17763.379", "none"))
IMAGES = {
    "server2016-14393.4583": "raw", "server2019-17763.379": "dmp", "server2022-20348.825": "dmp",
    "tampered-win10-18362.30": "dmp", "tampered-win11-22000.795": "raw",
    "win10-19041.1466-encoded-kdbg": "raw", "win11-22000.318-holes": "dmp",
    "win11-22000.795": "raw", "win7-7601.24540": "dmp", "win8.1-9600.19913": "raw",
}
HANDED = {"lost-anchor-22631": "dmp", "lent-row-16299": "raw", "back-pointers-22631": "dmp",
          "torn-link-20348": "dmp", "removed-callback-14393": "dmp"}
# The sample takes each n-th page that the reader looks at, of each kind of damage another one.
EVERY = {"missing": 4, "zero": 16, "0x41": 16, "other": 16}
MUTANTS = 200
SEED = 1
SHOWN = 12


def folder(name):
    return "evidence" if name in HANDED else "images"


def path_of(name):
    endings = dict(IMAGES, **HANDED)
    return unpack("%s/%s.%s.xz" % (folder(name), name, endings[name]))


SUBJECTS = {}


def subject(name, symbols=None):
    if (name, symbols) not in SUBJECTS:
        need_data("%s/%s.truth.json.xz" % (folder(name), name))
        SUBJECTS[name, symbols] = Subject(name, symbols=symbols)
    return SUBJECTS[name, symbols]


class Judged(unittest.TestCase):
    """Cases of one image, judged."""
    maxDiff = None

    def judge(self, who, words):
        """Fails with what is wrong and the commands that show it, worst first."""
        found = []
        for case in who.engine.run(words):
            found += [(fault, case) for fault in who.faults(case) if fault.what != "scalar"]
        found.sort(key=lambda f: judge.WORST_FIRST.index(f[0].what))
        groups = {}
        for fault, case in found:
            groups.setdefault(fault.group(), []).append((fault, case))
        lines = ["%d of %d cases are wrong" % (len({case.words for _, case in found}), len(words))]
        for members in list(groups.values())[:SHOWN]:
            fault, case = members[0]
            lines += ["%s (%d such; %s)" % (fault, len(members), who.cause(case)),
                      "    " + who.command(case.words)]
        if found:
            self.fail("\n".join(lines))

    def right(self, who):
        """The image as it is has no wrong row."""
        wrong = who.judge.rows(who.engine.first.added, set())
        self.assertEqual([str(fault) for fault in wrong[:SHOWN]], [])

    def all_found(self, who):
        """Everything provable is found."""
        _, lost = who.recall(who.engine.first)
        self.assertEqual([str(fault) for fault in lost[:SHOWN]], [], "%d not found" % len(lost))


class HandedCases(Judged):
    """../shared/data/evidence/README.md, column "right"."""

    def test_lost_anchor_true_addresses_or_none(self):
        for symbols in (None, "none"):
            with self.subTest(symbols=symbols):
                who = subject("lost-anchor-22631", symbols)
                self.right(who)
                self.assertIn(who.engine.first.code, (0, 4))
                if who.engine.first.code == 0:
                    self.all_of_the_truth(who)

    def all_of_the_truth(self, who):
        """Nothing is missing, so that exit code 0 is right."""
        seen = oracle.found(who.engine.first.added)
        self.assertEqual(len(seen["session"]), len(who.truth.sessions))
        for kind, all_of_it in (("consumer", who.truth.consumers),
                                ("registration", who.truth.regs),
                                ("process", who.truth.processes)):
            self.assertEqual(seen[kind], set(all_of_it), kind)
        self.assertLessEqual(set(who.truth.guids), seen["provider"])
        self.all_found(who)

    def test_lent_row_everything_of_the_truth(self):
        for symbols in (None, "none"):
            with self.subTest(symbols=symbols):
                who = subject("lent-row-16299", symbols)
                self.right(who)
                self.assertEqual(who.engine.first.code, 0)
                self.all_of_the_truth(who)

    def test_back_pointers_lead_to_processes(self):
        for symbols in (None, "none"):
            with self.subTest(symbols=symbols):
                who = subject("back-pointers-22631", symbols)
                self.right(who)
                self.all_found(who)
                self.back_pointers_are_named(who)

    def back_pointers_are_named(self, who):
        """The eleven that only a back pointer names say so."""
        ways = {int(row["va"], 16): row["found_by"] for row in who.engine.first.added
                if row["row"] == "process"}
        only = [va for va, found_by in ways.items()
                if not {"list", "handle_table", "cid"} & set(found_by)]
        self.assertGreaterEqual(len(only), 11)
        for va in only:
            self.assertIn("back_pointer", ways[va], hex(va))

    def test_torn_link_both_sides_found(self):
        for symbols in (None, "none"):
            with self.subTest(symbols=symbols):
                who = subject("torn-link-20348", symbols)
                self.right(who)
                pids = {row.get("pid") for row in who.engine.first.added
                        if row["row"] == "process"}
                self.assertLessEqual({18384, 21088}, pids)
                self.all_found(who)
                self.assertEqual(who.engine.first.code, 4)

    def test_removed_callback_one_finding_names_the_driver(self):
        self.right(subject("removed-callback-14393"))
        found = rows(kda("audit", path_of("removed-callback-14393"), "-f", "jsonl"), "audit")
        about = [f for f in found if f["check"].startswith("callback.") and
                 f["severity"] != "info"]
        # What one act left behind is one finding; the others say which one they belong to.
        heads = [f for f in about if "joined_to" not in f]
        self.assertEqual([f.get("name") for f in heads], ["exampleedr.sys"],
                         json.dumps(about, indent=1))
        self.assertIn("process", heads[0]["text"])
        for finding in about:
            if finding is not heads[0]:
                self.assertEqual(finding["joined_to"]["name"], "exampleedr.sys")


class SingleEdits(Judged):
    """The three single edits of ../shared/data/evidence/README.md: no row, a gap."""

    def edit(self, name, symbols, offset, value):
        """Runs kda over a copy with one qword changed at an offset of the file (the page is one
        of the file's: damage is not told by frame here)."""
        source, target = path_of(name), path_of(name) + ".edited"
        with open(source, "rb") as file:
            data = bytearray(file.read())
        data[offset:offset + len(value)] = value
        with open(target, "wb") as file:
            file.write(data)
        args = ["--symbols", symbols] if symbols else []
        result = kda("map", target, "-f", "jsonl", "--all", *args)
        os.unlink(target)
        who = subject(name, symbols)
        shown = rows(result)
        # Every frame may be the changed one: what must be right is right everywhere.
        faults = who.judge.rows([row for row in shown if row["row"] != "info"],
                                set(range(who.truth.memory.frames)))
        wrong = [str(fault) for fault in faults if fault.what != "scalar"]
        self.assertEqual(wrong, [])
        self.assertEqual(result.returncode, 4)
        self.assertTrue([row for row in shown if row["row"] == "gap"])

    def test_list_link_moved_by_8_makes_no_provider(self):
        self.edit("win7-7601.24540", None, 0x31b0890,
                  (0xfffff8026e230378).to_bytes(8, "little"))

    def test_list_link_elsewhere_makes_no_registration(self):
        self.edit("win7-7601.24540", None, 0x15313d0,
                  (0xffffe0000041a5e8).to_bytes(8, "little"))

    def test_zero_page_makes_no_consumer(self):
        self.edit("win11-22000.795", "none", 0x8de000, bytes(4096))


class FixedSample(Judged):
    """A part of `make evidence`."""

    def pages(self, kind):
        for name, symbols in SMALL:
            with self.subTest(image=name, symbols=symbols):
                who = subject(name, symbols)
                words = list(damage.each_page(who.truth.memory, who.frames(), kind, SEED))
                start = damage.KINDS.index(kind)
                self.judge(who, words[start::EVERY[kind]])

    def test_pages_missing(self):
        self.pages("missing")

    def test_pages_zero(self):
        self.pages("zero")

    def test_pages_0x41(self):
        self.pages("0x41")

    def test_pages_overwritten_by_another(self):
        self.pages("other")

    def test_anchors_missing(self):
        """The pages of the kernel that a fit takes for granted, all of them."""
        for name, symbols in SMALL[1:]:
            with self.subTest(image=name):
                who = subject(name, symbols)
                self.judge(who, ["-%x" % pfn for pfn in sorted(who.kernel_frames())])

    def test_single_edits(self):
        for name in IMAGES:
            with self.subTest(image=name):
                who = subject(name)
                self.judge(who, list(damage.mutants(who.truth.memory, who.frames(), MUTANTS,
                                                    SEED)))


class TheJudge(Judged):
    """What the judge itself rests on."""

    def test_bucket_of_every_guid(self):
        for name in list(IMAGES) + list(HANDED):
            with open(unpack("%s/%s.truth.json.xz" % (folder(name), name))) as file:
                for guid in json.load(file)["guids"]:
                    self.assertEqual(judge.bucket_of(guid["guid"]), guid["bucket"])

    def test_engine_says_what_kda_says(self):
        for name, symbols in (("win11-22000.318-holes", None), ("server2019-17763.379", "none")):
            args = ["--symbols", symbols] if symbols else []
            result = kda("map", path_of(name), "-f", "jsonl", "--all", *args)
            first = subject(name, symbols).engine.first
            self.assertEqual(rows(result), first.added)
            self.assertEqual(result.returncode, first.code)

    def test_pages_that_are_not_read_change_nothing(self):
        """Why only pages that the reader looks at need a run."""
        for name, symbols in SMALL:
            who = subject(name, symbols)
            memory = who.truth.memory
            others = [pfn for pfn in range(memory.frames)
                      if memory.has(pfn) and pfn not in who.frames()]
            words = ["%s%x" % ("-zA"[index % 3], pfn)
                     for index, pfn in enumerate(others[::len(others) // 60])]
            for case in who.engine.run(words):
                self.assertEqual((case.added, case.gone), ([], []), who.command(case.words))

    def test_wrong_rows_are_seen(self):
        """A judge that lets everything pass is no judge: each value of a right row, changed."""
        who = subject("win11-22000.795")
        for row in who.engine.first.added:
            if row["row"] in ("info", "gap"):
                continue
            for key, value in row.items():
                if key in ("row", "mode_flags", "found_by", "enabled", "operations"):
                    continue
                other = json.loads(json.dumps(row))
                other[key] = {str: "0xbad", int: 123456789, bool: not value}.get(
                    type(value), value)
                if key in ("guid", "group", "instance_guid"):
                    other[key] = "{00000001-0002-0003-0004-000000000005}"
                if key.endswith("_time"):
                    other[key] = "2001-01-01T00:00:00.0000000Z"
                if other != row:
                    self.assertTrue(who.judge.rows([other], set()), (key, row))


if __name__ == "__main__":
    unittest.main()
