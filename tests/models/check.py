#!/usr/bin/env python3
"""Checks a Spin model in each of its configurations.

Usage: check.py MODEL.pml WORKDIR

A model names its configurations in comment lines:

    run: NAME [DEFINE ...] => ok
    run: NAME [DEFINE ...] => error

`error` is for a configuration with a mistake in it: a model that does not find that is worthless.
"""
import os
import re
import subprocess
import sys
import time

RUN = re.compile(r"^\s*\*?\s*run: (\S+)((?: \S+)*) => (ok|error)$", re.M)


def call(args, cwd, limit=300):
    return subprocess.run(args, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=limit)


def check(model, work, name, defines, expected):
    folder = os.path.join(work, os.path.basename(model)[:-4], name)
    os.makedirs(folder, exist_ok=True)
    for args in (["spin", "-a"] + ["-D" + d for d in defines] + [os.path.abspath(model)],
                 ["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=1500", "-DVECTORSZ=4096",
                  "-o", "pan", "pan.c"]):
        result = call(args, folder)
        if result.returncode != 0:
            return "could not be built:\n" + result.stdout
    started = time.time()
    result = call(["./pan", "-m1000000"], folder)
    errors = re.search(r"errors: (\d+)", result.stdout)
    states = re.search(r"^\s*(\S+) states, stored", result.stdout, re.M)
    if not errors or (errors.group(1) == "0" and "Search not completed" in result.stdout):
        return "did not finish:\n" + result.stdout[-2000:]
    found = "error" if errors.group(1) != "0" else "ok"
    print("%s %s: %s, %s states, %.1f s" % (os.path.basename(model), name, found,
                                            states.group(1) if states else "?",
                                            time.time() - started))
    if found != expected:
        return "expected %s:\n%s" % (expected, result.stdout[-2000:])
    return None


def main():
    model, work = sys.argv[1:3]
    with open(model, encoding="utf-8") as f:
        runs = RUN.findall(f.read())
    if not runs:
        print("%s: no configuration" % model)
        return 1
    bad = 0
    for name, defines, expected in runs:
        problem = check(model, work, name, defines.split(), expected)
        if problem:
            print("%s %s %s" % (model, name, problem))
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
