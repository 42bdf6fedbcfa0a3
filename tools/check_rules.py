#!/usr/bin/env python3
"""Joins the rule book of the kernel's interfaces with the tests of the simulator.

Usage: check_rules.py ROOT [BOOK]

Prints each rule that has neither a test in tests/sim/rules/ nor a reason in not_applicable.tsv, each
that has both, and each id that is named but is in no book. Without the book it says so and succeeds.
"""
import glob
import os
import re
import sys

ID = r"(?:PS|CM|WFP|IO|KE|EX|OB|ZW|NX)-\d{3}"
TEST = re.compile(r"\b(?:LEVEL|LEVEL_VOID|VIOLATION\w*|OUTCOME\w*|MISUSE)\(\s*((?:\"[^\"]*\"\s*)+)")


def read_table(path, columns):
    with open(path, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    return {row[0]: row for row in rows if len(row) >= columns and re.fullmatch(ID, row[0])}


def tested(root):
    found = {}
    for path in sorted(glob.glob(os.path.join(root, "tests/sim/rules/*.c"))):
        with open(path, encoding="utf-8") as f:
            for match in TEST.finditer(f.read()):
                for rule in re.findall(ID, match.group(1)):
                    found.setdefault(rule, os.path.basename(path))
    return found


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
    tests = tested(root)
    stops = enforced(root)
    problems = []
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
    print("check_rules: %d rules, %d with a test, %d do not apply, %d problems" % (
        len(book), len(set(tests) & set(book)), len(excused), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
