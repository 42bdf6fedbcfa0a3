#!/usr/bin/env python3
"""Damages images and judges what `kda map` says of them against their truth.

  evidence.py IMAGE [TRUTH] [--symbols none] --each-page missing|zero|0x41|other [--page PFN]
  evidence.py IMAGE [TRUTH] [--symbols none] --mutants N [--seed N]
  evidence.py IMAGE [TRUTH] [--symbols none] --pairs N          (kernel pages, two at a time)
  evidence.py IMAGE [TRUTH] [--symbols none] --loss uniform|clustered --rate 0.1 [--seeds N]
  evidence.py IMAGE [TRUTH] [--symbols none] --case "WORDS"     (words: see main.c)

--summary groups what is wrong by kind of row, key and what stood on the damaged page; without it each
case that is wrong is printed with the command that runs it again. --scalars lists values that an
overwritten page changed and that nothing contradicts. --loss prints recall: how much was found of what
the readable witnesses prove (oracle.py); --recall adds what was not found to the faults. TRUTH is found beside the image if not named.
IMAGE may be the name of one of ../shared/data. Exit code 1: something is wrong.
"""
import argparse
import collections
import sys

import cases as damage
from cases import KINDS
from judge import WORST_FIRST
from subject import Subject


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
        cause = self.subject.cause(case)
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
    if options.pairs:
        out += damage.pairs(subject.kernel_frames(), options.pairs, options.seed)
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
    parser.add_argument("--pairs", type=int, help="pairs of kernel pages damaged together")
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
