#!/usr/bin/env python3
"""Seeded mistakes: each patch of this folder is applied to a copy of the tree, the test it names is
built and has to fail.

Usage: run.py [--work DIR] [--jobs N] [--only TEXT] [--every N]

A patch begins with a sentence that says what is wrong, and a line `Test: NAME`, of a program that the
build makes (with arguments: a rule's id) or of a script in tools/. `--every 4` takes
every fourth patch only. Exit 0 if every mistake was caught, 1 if one was not, 2 if the unchanged
tree does not pass or a patch does not apply.
"""
import argparse
import filecmp
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TREES = ["CMakeLists.txt", "event", "driver", "sim", "include", "lib", "tools", "tests/unit",
         "tests/sim", "tests/support", "tests/images", "tests/evidence", "cli"]
# A mistake that makes something wait for ever is caught when this time is over.
ENVIRONMENT = dict(os.environ, KDA_SIM_HANG_MS="3000", KDA_SIM_CYCLES="40")
TEST_SECONDS = 40
# Some mistakes are races, and a loaded machine hides one now and then.
ATTEMPTS = 3


def run(args, **kw):
    return subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **kw)


def copy_file(source, target):
    """Only what differs, and with a new time: make must not take an older object for it."""
    if os.path.exists(target) and filecmp.cmp(source, target, shallow=False):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)


def copy_tree(tree):
    for name in TREES:
        source = os.path.join(ROOT, name)
        if not os.path.isdir(source):
            copy_file(source, os.path.join(tree, name))
        for folder, _, names in os.walk(source):
            for leaf in names:
                path = os.path.join(folder, leaf)
                copy_file(path, os.path.join(tree, os.path.relpath(path, ROOT)))


def build(tree, test, jobs):
    test = test.split()[0]
    if test.endswith(".py"):
        return run([sys.executable, "-m", "py_compile", os.path.join(tree, test)])
    return run(["make", "-C", os.path.join(tree, "build"), "-j%d" % jobs, test])


def passes(tree, test):
    """True, or why the test did not pass."""
    name, *arguments = test.split()
    program = [sys.executable, os.path.join(tree, name)] if name.endswith(".py") else [
        os.path.join(tree, "build", name)] + arguments
    try:
        result = run(program, env=ENVIRONMENT, timeout=TEST_SECONDS)
    except subprocess.TimeoutExpired:
        return "does not end"
    if result.returncode == 0:
        return True
    for pattern in (r"sim: (?!left|sim_boot)[^\n]*", r"ERROR: AddressSanitizer: [\w-]+", r"runtime error: [^\n]*",
                    r"\[  FAILED  \] (\w+)", r"(?m)^FAILED [^\n]{,100}"):
        found = re.search(pattern, result.stdout)
        if found:
            return found.group(0)
    return "exit status %d" % result.returncode


def read(path):
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    test = [line[6:] for line in lines[:3] if line.startswith("Test: ")]
    return lines[0], test[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    work = options.work or tempfile.mkdtemp(prefix="kda-mutants-")
    tree = os.path.join(work, "tree")
    patches = [p for p in sorted(glob.glob(os.path.join(HERE, "*.patch")))
               if re.search(options.only, os.path.basename(p))][::options.every]
    copy_tree(tree)
    configured = run(["cmake", "-S", tree, "-B", os.path.join(tree, "build"), "-DKDA_SANITIZE=ON",
                      "-DCMAKE_C_FLAGS=-O1"])
    if configured.returncode != 0:
        print(configured.stdout)
        return 2
    for test in sorted({read(p)[1] for p in patches}):
        built = build(tree, test, options.jobs)
        why = passes(tree, test) if built.returncode == 0 else built.stdout[-2000:]
        if why is not True:
            print("the unchanged tree does not pass %s: %s" % (test, why))
            return 2
    missed = stale = 0
    for patch in patches:
        name = os.path.basename(patch)[:-6]
        sentence, test = read(patch)
        begin = time.monotonic()
        applied = run(["patch", "-p1", "-s", "-F0", "-i", patch], cwd=tree)
        if applied.returncode != 0:
            print("%s: does not apply any more\n%s" % (name, applied.stdout), flush=True)
            stale += 1
            copy_tree(tree)
            continue
        built = build(tree, test, options.jobs)
        why = "does not compile" if built.returncode else True
        for _ in range(ATTEMPTS):
            why = passes(tree, test) if why is True else why
        copy_tree(tree)  # a reversed patch may find another place than the one it was applied to
        if why is True or why == "does not compile":
            missed += 1
            print("%s: NOT CAUGHT by %s (%s) %s" % (name, test, sentence, why), flush=True)
        else:
            print("%s: caught in %.0f s: %s" % (name, time.monotonic() - begin, why), flush=True)
    print("%d mistakes, %d caught, %d not caught, %d stale" % (
        len(patches), len(patches) - missed - stale, missed, stale))
    if not options.work:
        shutil.rmtree(work)
    return 2 if stale else 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
