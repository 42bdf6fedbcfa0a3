#!/usr/bin/env python3
"""Joins the rule book of the kernel's interfaces with the tests of the simulator.

Usage: check_rules.py ROOT [BOOK]

Prints each rule that has neither a test in tests/sim/rules/ nor a reason in not_applicable.tsv, each
that has both, and each id that is named but is in no book. Without the book it says so and succeeds.

Naming an id is no test. LEVEL and VIOLATION are: the harness wants the run stopped with that id. An OUTCOME
has to assert at least one fact (EXPECT, or a further condition in it) for each id that it names; an id that
begins a row of a table, {"PS-010", ...}, is asserted by what walks that table, and counts by itself.
"""
import glob
import os
import re
import sys

ID = r"(?:PS|CM|WFP|IO|KE|EX|OB|ZW|NX)-\d{3}"
TEST = re.compile(r"\b(LEVEL|LEVEL_VOID|VIOLATION|MISUSE|OUTCOME)(?:_COLD|_FX)?\(\s*((?:\"[^\"]*\"\s*)+),\s*(\w+)")
FUNCTION = re.compile(r"^(?:static [^;{}()=]*?|PROBE\()?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
OUTCOME = re.compile(r"^OUTCOME\w*\([^{}]*?\b(\w+)\)\n\{\n(.*?)^\}", re.M | re.S)
SHARED = 2  # a helper of more tests than these sets the scene
ROW = re.compile(r"\{\s*\"(%s)\"," % ID)


def read_table(path, columns):
    with open(path, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    return {row[0]: row for row in rows if len(row) >= columns and re.fullmatch(ID, row[0])}


class Tests:
    """What tests/sim/rules/ proves: `stops` and `outcomes` are sets of ids, `merely` names and facts of
    each OUTCOME that names more ids than it asserts facts."""

    def __init__(self, root):
        self.stops, self.outcomes, self.merely = set(), set(), []
        for path in sorted(glob.glob(os.path.join(root, "tests/sim/rules/*.c"))):
            with open(path, encoding="utf-8") as f:
                self.read(os.path.basename(path), f.read())

    def read(self, name, text):
        bodies = dict(FUNCTION.findall(text))
        outcomes = dict(OUTCOME.findall(text))
        for helper in list(bodies):
            used = sum(bool(re.search(r"\b%s\b" % helper, body)) for body in outcomes.values())
            if used > SHARED:
                del bodies[helper]
        rows = set(ROW.findall(text))
        for kind, ids, test in TEST.findall(text):
            rules = re.findall(ID, ids)
            if kind != "OUTCOME":
                self.stops.update(rules)
                continue
            self.outcomes.update(rules)
            facts = count_facts(outcomes[test], bodies)
            wanted = len([rule for rule in rules if rule not in rows])
            if facts < max(wanted, 1):
                self.merely.append("%s %s names %d rules and asserts %d facts" % (
                    name, test, wanted, facts))


def count_facts(body, bodies):
    """EXPECTs of a test and of the helpers that are its own, with each `&&` in them."""
    todo, seen, facts = [body], set(), 0
    while todo:
        code = todo.pop()
        for call in re.findall(r"\bEXPECT\w*\((.*?)\);", code, re.S):
            facts += 1 + call.count("&&")
        for word in set(re.findall(r"\w+", code)) & set(bodies) - seen:
            seen.add(word)
            todo.append(bodies[word])
    return facts


def enforced(root):
    found = {}
    for path in sorted(glob.glob(os.path.join(root, "sim/*.[ch]"))):
        with open(path, encoding="utf-8") as f:
            for rule in re.findall('"(%s)"' % ID, f.read()):
                found.setdefault(rule, os.path.basename(path))
    return found


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    book_path = sys.argv[2] if len(sys.argv) > 2 else os.path.join(
        root, "../shared/design/ddi-rules.tsv")
    if not os.path.exists(book_path):
        print("check_rules: skipped, the rule book is not here")
        return 0
    book = read_table(book_path, 5)
    excused = read_table(os.path.join(root, "tests/sim/rules/not_applicable.tsv"), 2)
    found = Tests(root)
    tests = found.stops | found.outcomes
    stops = enforced(root)
    problems = list(found.merely)
    for rule, row in book.items():
        if rule in tests and rule in excused:
            problems.append("%s has a test, and a reason why it does not apply" % rule)
        elif rule not in tests and rule not in excused:
            problems.append("%s is open: %s: %s" % (rule, row[1], row[3]))
    for name, ids in (("a test", tests), ("not_applicable.tsv", excused), ("the simulator", stops)):
        problems += ["%s in %s is in no book" % (rule, name) for rule in ids if rule not in book]
    for rule in sorted(set(stops) & set(excused)):
        problems.append("%s stops a run (%s), and is said not to apply" % (rule, stops[rule]))
    for problem in problems:
        print("check_rules: %s" % problem)
    print("check_rules: %d rules, %d with a test (%d stop a run, %d are only made to happen), %d do not apply, "
          "%d problems" % (len(book), len(tests & set(book)), len(found.stops & set(book)),
                           len((found.outcomes - found.stops) & set(book)), len(excused), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
