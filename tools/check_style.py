#!/usr/bin/env python3
"""Style that a formatter cannot check: banned functions, sizes, typedefs, words.

Usage: check_style.py ROOT
"""
import os
import re
import sys

BANNED = ["sprintf", "vsprintf", "strcpy", "strcat", "strncpy", "strncat", "gets", "atoi", "atol",
          "atoll", "strtok", "alloca", "sscanf", "system", "popen", "mktemp", "tmpnam"]
# The library allocates through lib/base/alloc.c, so that fault injection reaches every call.
ALLOCATORS = ["malloc", "calloc", "realloc", "free", "strdup"]
MAX_FILE_LINES = 650
# Longer ones: not split yet, and where they could be.
LONG = {"tools/check_driver.py": "the reader of images (Section, Image) apart from the checks",
        "tests/integration/test_sensor.py": "a file each for replays, storms, scripts and logs"}
MAX_FUNCTION_LINES = 70
MAX_COLUMNS = 100
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")

CALL = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(BANNED + ALLOCATORS))
FUNCTION_END = re.compile(r"^}")


def c_files(root):
    for top in ("event", "driver", "sim", "include", "lib", "cli", "tools", "tests"):
        for folder, dirs, names in os.walk(os.path.join(root, top)):
            dirs.sort()
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def python_files(root):
    for top in ("tools", "tests"):
        for folder, dirs, names in os.walk(os.path.join(root, top)):
            dirs.sort()
            for name in sorted(names):
                if name.endswith(".py"):
                    yield os.path.relpath(os.path.join(folder, name), root)


def strip_comments(text):
    """Comments and string contents become spaces; line numbers stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def check_functions(path, code, problems):
    start = None
    for number, line in enumerate(code.split("\n"), 1):
        if line == "{":
            start = number
        elif FUNCTION_END.match(line) and start is not None:
            if number - start - 1 > MAX_FUNCTION_LINES:
                problems.append("%s:%d: function of %d lines (limit %d)" % (
                    path, start, number - start - 1, MAX_FUNCTION_LINES))
            start = None


def check_length(path, lines, problems):
    if path.startswith("lib/tables/"):
        return
    if len(lines) > MAX_FILE_LINES and path not in LONG:
        problems.append("%s: %d lines (limit %d)" % (path, len(lines), MAX_FILE_LINES))
    if len(lines) <= MAX_FILE_LINES and path in LONG:
        problems.append("%s: short enough, take it out of LONG" % path)


def check_python(root, path, problems):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        lines = f.read().split("\n")
    check_length(path, lines, problems)
    for number, line in enumerate(lines, 1):
        if line.rstrip() != line or "\t" in line:
            problems.append("%s:%d: trailing space or tab" % (path, number))


def check(root, path, problems):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        text = f.read()
    code = strip_comments(text)
    lines = text.split("\n")
    check_length(path, lines, problems)
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            problems.append("%s:%d: %d columns" % (path, number, len(line)))
        if line.rstrip() != line or "\t" in line:
            problems.append("%s:%d: trailing space or tab" % (path, number))
        if UNFINISHED.search(line):
            problems.append("%s:%d: unfinished work" % (path, number))
    for number, line in enumerate(code.split("\n"), 1):
        for name in CALL.findall(line):
            allocator = name in ALLOCATORS
            if not allocator or (path.startswith(("lib/", "event/")) and
                                 path != "lib/base/alloc.c"):
                problems.append("%s:%d: %s is banned" % (path, number, name))
        # driver/ and what stands in for Windows follow the WDK, which names its structures.
        if re.match(r"\s*typedef\s+struct\b", line) and not path.startswith(
                ("driver/", "sim/", "tests/wine/drivers/")):
            problems.append("%s:%d: no struct typedefs" % (path, number))
        if re.search(r"\b(exit|abort)\s*\(", line) and path.startswith("lib/"):
            problems.append("%s:%d: the library never ends the program" % (path, number))
    check_functions(path, code, problems)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    problems = []
    for path in c_files(root):
        check(root, path, problems)
    for path in python_files(root):
        check_python(root, path, problems)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
