#!/usr/bin/env python3
"""Damages images and judges what `kda map` says of them against their truth.

  evidence.py IMAGE [TRUTH] [--symbols none] --each-page missing|zero|0x41|other [--page PFN]
  evidence.py IMAGE [TRUTH] [--symbols none] --mutants N [--seed N]
  evidence.py IMAGE [TRUTH] [--symbols none] --loss uniform|clustered --rate 0.1 [--seeds N]
  evidence.py IMAGE [TRUTH] [--symbols none] --case "WORDS"     (words: see main.c)

--summary groups what is wrong by kind of row, key and what stood on the damaged page; without it each
case that is wrong is printed with the command that runs it again. --scalars lists values that an
overwritten page changed and that nothing contradicts. --loss prints recall: how much was found of what
the readable witnesses prove (oracle.py); --recall adds what was not found to the faults. TRUTH is found beside the image if not named.
Files may be packed with xz. Exit code 1: something is wrong.
"""
import argparse
import collections
import lzma
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import cases as damage  # noqa: E402
import oracle  # noqa: E402
from engine import Engine  # noqa: E402
from judge import Fault, Judge, WORST_FIRST  # noqa: E402
from truth import Truth  # noqa: E402

DATA = os.path.join(ROOT, "../shared/data")
KINDS = ("missing", "zero", "0x41", "other")


def work_folder(build):
    path = os.path.join(build, "..", "work")
    os.makedirs(path, exist_ok=True)
    return path


def unpack(path, work):
    """The file itself, or an unpacked copy of FILE.xz in the work folder."""
    if not path.endswith(".xz"):
        return path
    target = os.path.join(work, os.path.basename(path)[:-3])
    if not os.path.exists(target):
        part = "%s.%d" % (target, os.getpid())
        with lzma.open(path) as packed, open(part, "wb") as out:
            shutil.copyfileobj(packed, out, 1 << 20)
        os.rename(part, target)
    return target


def find_image(name):
    """A path, or the name of an image of ../shared/data ("win7-7601.24540")."""
    if os.path.exists(name):
        return name
    for folder in ("images", "evidence"):
        for ending in ("", ".xz", ".raw.xz", ".dmp.xz"):
            path = os.path.join(DATA, folder, name + ending)
            if os.path.exists(path):
                return path
    sys.exit("no such image: " + name)


def find_truth(image):
    stem = image[:-3] if image.endswith(".xz") else image
    stem = os.path.splitext(stem)[0]
    for path in (stem + ".truth.json", stem + ".truth.json.xz"):
        if os.path.exists(path):
            return path
    sys.exit("no truth beside " + image)


class Subject:
    """An image, how it is read, its truth, and what the reader says of it undamaged."""

    def __init__(self, image, truth=None, symbols=None, build=None, audit=False):
        build = build or os.environ.get("KDA_TEST_BIN", os.path.join(ROOT, "build/gcc"))
        program, work = os.path.join(build, "kda-evidence"), work_folder(build)
        found = find_image(image)
        self.name = image
        self.truth_path = truth or find_truth(found)
        self.path = unpack(found, work)
        self.symbols = symbols
        self.truth = Truth(self.path, self.truth_path, program, work,
                           os.path.join(DATA, "layouts.tsv"))
        self.engine = Engine(program, self.path, symbols, audit)
        for _ in self.engine.run([]):
            pass
        self.judge = Judge(self.truth, self.engine.first.added)
        self.places = self.proofs = None

    def recall(self, case):
        """{kind: (found, provable)} and what was not found, as faults. Builds without a silo state
        are not read without symbols, by design: nothing counts there."""
        if self.proofs is None:
            info = [row for row in self.engine.first.added if row["row"] == "info"]
            named = bool(info) and info[0].get("symbol_source") not in (None, "fitted")
            self.proofs = oracle.Oracle(self.truth, named)
        if not self.proofs.usable or self.engine.first.code == 5 and not self.truth.embedded:
            return {}, []
        proved = self.proofs.provable(case.damage()[0])
        seen = oracle.found(self.engine.rows(case))
        score = {kind: (len(vas & seen[kind]), len(vas)) for kind, vas in proved.items()}
        return score, [Fault("not found", kind, "row", "0x%x" % va)
                       for kind, vas in proved.items() for va in sorted(vas - seen[kind])]

    def frames(self):
        """Frames that the reader looks at in the undamaged image: no other can change what it
        says, while these are as they were."""
        return self.engine.read | self.engine.scanned

    def faults(self, case):
        missing, edited = case.damage()
        if case.crash is not None:
            return [Fault("crash", "run", "signal %d" % -case.crash, case.words)]
        return self.judge.rows(case.added, edited) + self.judge.silent(case)

    def on(self, pfn):
        """What stands on a frame, in words."""
        if self.places is None:
            self.places = self.truth.frames()
        words = self.places.get(pfn)
        return ", ".join(words[:3]) + (", ..." if len(words) > 3 else "") if words else "other memory"

    def command(self, words):
        return "python3 tests/evidence/evidence.py %s%s --case \"%s\"" % (
            self.name, " --symbols " + self.symbols if self.symbols else "", words)


class Report:
    def __init__(self, subject, summary, scalars):
        self.subject, self.summary, self.scalars = subject, summary, scalars
        self.cases = self.wrong = 0
        self.groups = collections.OrderedDict()
        self.keys = collections.Counter()
        self.codes = collections.Counter()
        self.score = {}

    def count(self, score):
        for kind, (found, provable) in score.items():
            before = self.score.get(kind, (0, 0))
            self.score[kind] = (before[0] + found, before[1] + provable)

    def add(self, case, faults):
        self.cases += 1
        self.codes[case.code] += 1
        for fault in faults:
            if fault.what == "scalar":
                self.keys["%s.%s" % (fault.row, fault.key)] += 1
        faults = [f for f in faults if f.what != "scalar"]
        if not faults:
            return
        self.wrong += 1
        missing, edited = case.damage()
        frames = sorted(missing | edited)
        cause = self.subject.on(frames[0]) if len(frames) == 1 else "%d pages" % len(frames)
        for fault in faults:
            causes = self.groups.setdefault(fault.group(), collections.OrderedDict())
            causes.setdefault(cause, collections.OrderedDict()).setdefault(case.words, fault)
        if not self.summary:
            print("%s  (exit code %s; %s)" % (case.words, case.code, cause))
            for fault in faults[:6]:
                print("    %s" % fault)
            if len(faults) > 6:
                print("    and %d more" % (len(faults) - 6))
            print("    %s" % self.subject.command(case.words))

    def groups_worst_first(self):
        count = lambda causes: sum(len(found) for found in causes.values())
        for (what, row, key), causes in sorted(
                self.groups.items(), key=lambda g: (WORST_FIRST.index(g[0][0]), -count(g[1]))):
            print("%5d cases  %s: %s.%s" % (count(causes), what, row, key))
            for cause, found in sorted(causes.items(), key=lambda c: -len(c[1]))[:6]:
                words, fault = next(iter(found.items()))
                print("      %4d  damage of %s" % (len(found), cause))
                print("            %s" % fault)
                print("            %s" % self.subject.command(words))

    def end(self):
        if self.summary:
            self.groups_worst_first()
        if self.scalars and self.keys:
            print("scalars that nothing contradicts: " +
                  ", ".join("%s %d" % item for item in self.keys.most_common()))
        for kind, (found, provable) in self.score.items():
            if provable:
                print("recall of %-12s %6.2f %%  (%d of %d)" % (
                    kind, 100.0 * found / provable, found, provable))
        print("%s%s: %d cases, %d wrong; exit codes %s" % (
            self.subject.name, " --symbols none" if self.subject.symbols else "", self.cases,
            self.wrong, ", ".join("%s: %d" % c for c in sorted(
                self.codes.items(), key=lambda c: str(c[0])))))
        return 1 if self.wrong else 0


def words_of(options, subject):
    memory, frames = subject.truth.memory, subject.frames()
    if options.page is not None:
        frames = {int(options.page, 16)}
    if options.case is not None:
        return [options.case]
    out = []
    for kind in (KINDS if options.each_page == "all" else [options.each_page]):
        if kind:
            out += damage.each_page(memory, frames, kind, options.seed)
    if options.mutants:
        out += damage.mutants(memory, frames, options.mutants, options.seed)
    if options.loss:
        pages = subject.truth.pool_frames()
        lose = {"uniform": damage.uniform, "clustered": damage.clustered}[options.loss]
        out += [damage.missing(lose(pages, options.rate, seed))
                for seed in range(options.seed, options.seed + options.seeds)]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image")
    parser.add_argument("truth", nargs="?")
    parser.add_argument("--symbols", choices=["none"])
    parser.add_argument("--each-page", choices=KINDS + ("all",))
    parser.add_argument("--page", help="only this frame (hex)")
    parser.add_argument("--mutants", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loss", choices=["uniform", "clustered"])
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--case")
    parser.add_argument("--recall", action="store_true")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--scalars", action="store_true")
    parser.add_argument("--build", help="folder with kda-evidence")
    options = parser.parse_args()
    subject = Subject(options.image, options.truth, options.symbols, options.build)
    report = Report(subject, options.summary, options.scalars)
    first = subject.engine.first
    wrong = subject.judge.rows(first.added, set())
    if options.recall:
        score, lost = subject.recall(first)
        report.count(score)
        wrong = wrong + lost
    if wrong:
        print("the undamaged image: exit code %s" % first.code)
        report.add(first, wrong)
    for case in subject.engine.run(words_of(options, subject)):
        faults = subject.faults(case)
        if options.recall or options.loss:
            score, lost = subject.recall(case)
            report.count(score)
            faults += lost if options.recall else []
        report.add(case, faults)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
