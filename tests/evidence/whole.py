#!/usr/bin/env python3
"""Everything of `make evidence`: every kind of damage on every image, over all cores, and the table
by kind of damage that stands in docs/evidence.md.

  whole.py [--jobs N] [--image NAME]... [--symbols none|found] [--kind KIND]... [--mutants N]
           [--seeds N] [--seed N] [--docs FILE] [--recall-from PERCENT]

KIND: whole, missing, zero, 0x41, other, pairs, mutants, uniform, clustered, smeared. The exit code is 1 when a
row or value was wrong or something vanished without a word, or recall of a kind of damage is below
--recall-from.
"""
import argparse
import collections
import functools
import json
import multiprocessing
import os
import sys
import time

import cases as damage
from judge import WORST_FIRST
from subject import DATA, Subject, find

RATES = (0.05, 0.10, 0.20)
ALL_KINDS = ("whole",) + damage.KINDS + ("pairs", "mutants", "uniform", "clustered", "smeared")
LOSSES = ("uniform", "clustered", "smeared")
BEGIN, END = "<!-- made by make evidence: begin -->", "<!-- made by make evidence: end -->"
TITLES = {"whole": "as it is", "missing": "each page missing", "zero": "each page zero",
          "0x41": "each page 0x41", "other": "each page another", "pairs": "pairs of kernel pages",
          "mutants": "single edits", "uniform": "uniform loss", "clustered": "clustered loss",
          "smeared": "smeared loss"}


@functools.lru_cache(maxsize=2)
def subject_of(image, symbols):
    """Tasks of one image follow each other."""
    return Subject(image, symbols=symbols)


class Task:
    """One image, read in one way, under one kind of damage."""

    def __init__(self, image, symbols, kind, rate, options):
        self.image, self.symbols, self.kind, self.rate = image, symbols, kind, rate
        self.options = options

    def words(self, subject):
        memory, frames, o = subject.truth.memory, subject.frames(), self.options
        if self.kind == "whole":
            return []
        if self.kind in damage.KINDS:
            return list(damage.each_page(memory, frames, self.kind, o.seed))
        if self.kind == "pairs":
            return list(damage.pairs(subject.kernel_frames(), o.pairs, o.seed))
        if self.kind == "mutants":
            # Half of them without symbols: 10,000 for each image.
            return list(damage.mutants(memory, frames, o.mutants // 2,
                                       "%d %s" % (o.seed, self.symbols)))
        lose = damage.clustered if self.kind == "clustered" else damage.uniform
        pages = subject.truth.pool_frames()
        return [damage.missing(lose(pages, self.rate, seed))
                for seed in range(o.seed, o.seed + o.seeds)]

    def run(self):
        subject = subject_of(self.image, self.symbols)
        result = Result(self)
        recall = self.kind in ("whole", "missing") + LOSSES
        if self.kind == "whole":
            first = subject.engine.first
            result.add(first, subject.judge.rows(first.added, set()), subject)
            result.count(subject.recall(first)[0])
        for case in subject.engine.run(self.words(subject)):
            result.add(case, subject.faults(case), subject)
            if recall:
                result.count(subject.recall(case)[0])
        return result


class Result:
    def __init__(self, task):
        self.image, self.symbols, self.kind, self.rate = (task.image, task.symbols, task.kind,
                                                          task.rate)
        self.cases = self.wrong = 0
        self.codes = collections.Counter()
        self.scalars = collections.Counter()
        self.score = collections.Counter()
        self.provable = collections.Counter()
        self.groups = {}  # (what, row, key, cause) -> [cases, text, command]

    def add(self, case, faults, subject):
        self.cases += 1
        self.codes[case.code] += 1
        bad = [fault for fault in faults if fault.what != "scalar"]
        self.scalars.update("%s.%s" % (f.row, f.key) for f in faults if f.what == "scalar")
        self.wrong += bool(bad)
        cause = subject.cause(case)
        for key in {fault.group() for fault in bad}:
            fault = next(f for f in bad if f.group() == key)
            entry = self.groups.setdefault(key + (cause,),
                                           [0, str(fault), subject.command(case.words)])
            entry[0] += 1

    def count(self, score):
        for kind, (found, provable) in score.items():
            self.score[kind] += found
            self.provable[kind] += provable


def run_task(task):
    return task.run()


def images():
    """Names of all images that have a truth."""
    out = []
    for folder in ("images", "evidence"):
        names = sorted(os.listdir(os.path.join(DATA, folder)))
        out += [name[:-len(".truth.json.xz")] for name in names if name.endswith(".truth.json.xz")]
    return out


def smeared(image):
    """Are the image's pages of two moments? Loss in it is of its own kind then."""
    with open(find(image)[1], encoding="utf-8") as file:
        return bool(json.load(file).get("smear"))


def tasks(options):
    kinds = options.kind or ALL_KINDS
    smears = {image: smeared(image) for image in options.image or images()}
    ways = {"none": ["none"], "found": [None]}.get(options.symbols, [None, "none"])
    out = []
    for kind in kinds:
        for image, smear in smears.items():
            if kind in ("uniform", "smeared") and smear != (kind == "smeared"):
                continue
            for symbols in ways:
                for rate in RATES if kind in LOSSES else (None,):
                    out.append(Task(image, symbols, kind, rate, options))
    # The longest first, so that no core waits at the end; then image by image.
    order = ("mutants", "pairs") + damage.KINDS
    return sorted(out, key=lambda t: (order.index(t.kind) if t.kind in order else len(order),
                                      t.image, t.symbols or ""))


def merged(results, key):
    """{key: Result-like sums}."""
    out = {}
    for result in results:
        sums = out.setdefault(key(result), collections.Counter())
        sums["cases"] += result.cases
        sums["wrong"] += result.wrong
        sums["found"] += sum(result.score.values())
        sums["provable"] += sum(result.provable.values())
    return out


def percent(part, whole):
    return "%.2f %%" % (100.0 * part / whole) if whole else "-"


def kind_of(result):
    title = TITLES[result.kind]
    return "%s, %d %%" % (title, round(100 * result.rate)) if result.rate else title


def summary(results):
    """Markdown: precision as runs with something wrong, recall of what is provable, for each rate."""
    lines = ["| damage | symbols | rates | found of what is provable | runs with anything wrong |",
             "|---|---|---|---|---|"]
    for kind in ALL_KINDS:
        for symbols in ("found", "none"):
            sums = merged([r for r in results if (r.kind, r.symbols or "found") == (kind, symbols)],
                          lambda r: r.rate or 0)
            if sums:
                rows = [sums[rate] for rate in sorted(sums)]
                lines.append("| %s | %s | %s | %s | %d of %d |" % (
                    TITLES[kind], symbols,
                    ", ".join("%d %%" % round(100 * rate) if rate else "-" for rate in sorted(sums)),
                    ", ".join(percent(s["found"], s["provable"]) for s in rows),
                    sum(s["wrong"] for s in rows), sum(s["cases"] for s in rows)))
    return lines


def by_image(results):
    lines = ["| image | symbols | runs | runs with anything wrong | found at 5, 10, 20 % uniform loss | "
             "clustered |", "|---|---|---|---|---|---|"]
    for (image, symbols), s in sorted(merged(
            results, lambda r: (r.image, r.symbols or "found")).items()):
        cells = []
        for kinds in (("uniform", "smeared"), ("clustered",)):
            rates = merged([r for r in results if r.kind in kinds and
                            (r.image, r.symbols or "found") == (image, symbols)],
                           lambda r: r.rate)
            cells.append(", ".join(percent(rates[rate]["found"], rates[rate]["provable"])
                                   for rate in sorted(rates)))
        lines.append("| %s | %s | %d | %d | %s | %s |" % (
            image, symbols, s["cases"], s["wrong"], cells[0], cells[1]))
    return lines


def scalar_list(results):
    keys = collections.Counter()
    for result in results:
        keys.update(result.scalars)
    return [] if not keys else ["Values without a second witness, which changed bytes may change unseen: " +
            ", ".join("`%s`" % key for key in sorted(keys)) + "."]


def failures(results):
    """Grouped over all images, worst first."""
    groups = {}
    for result in results:
        for (what, row, key, cause), (cases, text, command) in result.groups.items():
            entry = groups.setdefault((what, row, key), [0, set(), []])
            entry[0] += cases
            entry[1].add(result.image)
            entry[2].append((cases, cause, text, command))
    for (what, row, key), (cases, names, found) in sorted(
            groups.items(), key=lambda g: (WORST_FIRST.index(g[0][0]), -g[1][0])):
        print("%6d cases on %d images  %s: %s.%s" % (cases, len(names), what, row, key))
        for count, cause, text, command in sorted(found, key=lambda f: -f[0])[:4]:
            print("       %4d  damage of %s\n             %s\n             %s" % (
                count, cause, text, command))


def write_docs(path, lines):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    head, rest = text.split(BEGIN)
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1])


def below(results, limit):
    """Kinds of damage whose recall is not reached, over all images."""
    sums = merged(results, lambda r: (kind_of(r), r.symbols or "found"))
    return ["%s, symbols %s: %s" % (kind, symbols, percent(s["found"], s["provable"]))
            for (kind, symbols), s in sums.items()
            if s["provable"] and 100.0 * s["found"] < limit * s["provable"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--image", action="append")
    parser.add_argument("--symbols", choices=["none", "found"])
    parser.add_argument("--kind", action="append", choices=ALL_KINDS)
    parser.add_argument("--mutants", type=int, default=10000)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recall-from", type=float, default=99.0)
    parser.add_argument("--docs")
    options = parser.parse_args()
    started, results = time.time(), []
    todo = tasks(options)
    with multiprocessing.Pool(options.jobs) as pool:
        for result in pool.imap_unordered(run_task, todo):
            results.append(result)
            print("%-34s %-5s %-28s %6d runs, %5d wrong, exit codes %s" % (
                result.image, result.symbols or "found", kind_of(result), result.cases,
                result.wrong, ", ".join("%s: %d" % c for c in sorted(
                    result.codes.items(), key=lambda c: str(c[0])))), flush=True)
    lines = summary(results) + [""] + scalar_list(results)
    print("\n" + "\n".join(lines + [""] + by_image(results)) + "\n")
    failures(results)
    missed = below(results, options.recall_from)
    for line in missed:
        print("recall below %g %%: %s" % (options.recall_from, line))
    wrong = sum(result.wrong for result in results)
    print("%d runs, %d with anything wrong, %d s" % (
        sum(result.cases for result in results), wrong, time.time() - started))
    if options.docs:
        write_docs(options.docs, lines)
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
