#!/usr/bin/env python3
"""Fails when a file includes what its folder may not include (the layering of the house).

Usage: check_includes.py ROOT
"""
import os
import re
import sys

BASE = ["base/"]
PUBLIC = {"base": ["kda/error.h", "kda/gap.h"],
          "image": ["kda/error.h", "kda/image.h"],
          "symbols": ["kda/error.h", "kda/symbols.h", "kda/fields.h"],
          "kernel": ["kda/error.h", "kda/gap.h", "kda/image.h", "kda/symbols.h", "kda/fields.h",
                     "kda/kernel.h", "kda/callbacks.h", "kda/pool.h"],
          "etw": ["kda/error.h", "kda/gap.h", "kda/kernel.h", "kda/etw.h", "kda/buffers.h",
                  "kda/pool.h", "kda/recall.h", "kda/symbols.h", "kda/fields.h"],
          # Works a layout out and judges: both stand on the public map, not on its insides.
          "fit": ["kda/error.h", "kda/gap.h", "kda/kernel.h", "kda/etw.h", "kda/fit.h",
                  "kda/symbols.h", "kda/fields.h"],
          "audit": ["kda/audit.h", "kda/callbacks.h", "kda/error.h", "kda/gap.h", "kda/kernel.h",
                    "kda/etw.h", "kda/pool.h", "kda/symbols.h", "kda/fields.h"],
          # Generated rows: each file sees the declaration of its table.
          "tables": ["symbols/profiles.h", "symbols/providers.h", "etl/builtin.h"],
          "log": ["kda/error.h", "kda/compare.h", "kda/log.h", "kda_event.h"],
          "etl": ["kda/error.h", "kda/etl.h", "kda/etl_write.h", "kda/decode.h", "kda_event.h",
                  "kda_jsonl.h"],
          "report": ["kda/", "kda_event.h"]}
MAY_SEE_OPS = {"image", "symbols", "report"}

# Third-party headers and operating-system headers: each in exactly one file.
# Recordings are JSON in archives: one file of the simulator reads them.
SIM_THIRD_PARTY = {"archive.h", "archive_entry.h", "jansson.h"}
SIM_THIRD_PARTY_FILE = "sim/replay.c"
THIRD_PARTY = {"jansson.h": "lib/symbols/", "lzma.h": "lib/symbols/", "curl/curl.h": "lib/symbols/",
               "archive.h": "lib/symbols/", "archive_entry.h": "lib/symbols/",
               "expat.h": "lib/etl/"}
C_LIBRARY = {"assert.h", "ctype.h", "inttypes.h", "limits.h", "stdarg.h", "stdbool.h", "stddef.h",
             "stdint.h", "stdio.h", "stdlib.h", "string.h", "time.h"}
# Files that may talk to the operating system, and why.
OS_FILES = {"lib/base/file_posix.c": "files", "lib/base/file_win.c": "files",
            "lib/symbols/http_win.c": "HTTP", "lib/symbols/cab_win.c": "cabinets",
            "lib/base/dll_win.c": "DLLs",
            "cli/term_posix.c": "terminal, signals", "cli/term_win.c": "terminal, interruption",
            "lib/base/text_win.c": "UTF-16, paths, words for errors",
            "lib/base/text_win.h": "wchar_t",
            "cli/win_host.h": "handles", "cli/win_host.c": "files, interruption",
            "cli/win_service.c": "services", "cli/win_registry.c": "registry",
            "cli/win_device.c": "the driver's device", "cli/win_dump.c": "live dumps"}

# Texts and paths of Windows, for the tool's files that talk to it: of no use to other programs.
WINDOWS_TEXT = "base/text_win.h"

# The tool's one file that knows the driver's protocol.
CONTROL_FILE = {"cli/control.c": {"kda_ioctl.h", "kda_jsonl.h", "kda_settings.h"}}

# The contract: what a freestanding compiler has, its own files, and vectors in one of them.
EVENT_HEADERS = {"stddef.h", "stdint.h", "stdatomic.h"}
EVENT_EXTRA = {"event/kda_out.c": {"emmintrin.h"}}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(path):
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            found = INCLUDE.match(line)
            if found:
                yield number, found.group(1) == "<", found.group(2)


def allowed_quoted(layer, folder_files, name):
    if name in folder_files or name.startswith(layer + "/"):
        return True
    if name in BASE_FILES or name.startswith("base/"):
        return True
    if name in ("ops.h", "../ops.h"):
        return layer in MAY_SEE_OPS
    return any(name == p or (p.endswith("/") and name.startswith(p)) for p in PUBLIC[layer])


def check_lib(root, problems, third):
    for layer in sorted(os.listdir(os.path.join(root, "lib"))):
        folder = os.path.join(root, "lib", layer)
        if not os.path.isdir(folder):
            continue
        files = set(os.listdir(folder))
        for name in sorted(files):
            path = "lib/%s/%s" % (layer, name)
            for number, system, target in includes(os.path.join(root, path)):
                where = "%s:%d" % (path, number)
                if not system:
                    if layer not in PUBLIC:
                        problems.append("%s: folder lib/%s is not in the table" % (where, layer))
                    elif not allowed_quoted(layer, files, target):
                        problems.append("%s: %s may not include %s" % (where, layer, target))
                elif target in THIRD_PARTY:
                    third.setdefault(target, set()).add(path)
                    if not path.startswith(THIRD_PARTY[target]):
                        problems.append("%s: %s belongs to %s" % (where, target,
                                                                  THIRD_PARTY[target]))
                elif target not in C_LIBRARY and path not in OS_FILES:
                    problems.append("%s: only %s may include <%s>" % (
                        where, ", ".join(sorted(OS_FILES)), target))


def check_cli(root, problems):
    files = set(os.listdir(os.path.join(root, "cli")))
    for name in sorted(files):
        path = "cli/" + name
        for number, system, target in includes(os.path.join(root, path)):
            ok = target in C_LIBRARY or path in OS_FILES if system else (
                target in files or target.startswith("kda/") or
                target in CONTROL_FILE.get(path, ()) or
                target == WINDOWS_TEXT and path in OS_FILES and "win" in name)
            if not ok:
                problems.append("%s:%d: the tool includes public headers only, not %s" % (
                    path, number, target))


def check_sim(root, problems):
    """The simulator sees the driver's declarations and the event contract, never the library."""
    folder = os.path.join(root, "sim")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if not name.endswith((".c", ".h")):
            continue
        path = "sim/" + name
        for number, system, target in includes(os.path.join(root, path)):
            if target.startswith("kda/") or target in ("file.h", "alloc.h", "bytes.h"):
                problems.append("%s:%d: the simulator knows nothing of the library (%s)" % (
                    path, number, target))
            if system and target in SIM_THIRD_PARTY and path != SIM_THIRD_PARTY_FILE:
                problems.append("%s:%d: <%s> belongs to %s" % (path, number, target,
                                                              SIM_THIRD_PARTY_FILE))


def check_event(root, problems):
    folder = os.path.join(root, "event")
    files = set(os.listdir(folder))
    for name in sorted(files):
        path = "event/" + name
        for number, system, target in includes(os.path.join(folder, name)):
            ok = target in EVENT_HEADERS or target in EVENT_EXTRA.get(path, ()) if system else (
                target in files)
            if not ok:
                problems.append("%s:%d: event/ knows no operating system and no library: %s" % (
                    path, number, target))


def check_public(root, problems):
    for name in sorted(os.listdir(os.path.join(root, "include/kda"))):
        for number, system, target in includes(os.path.join(root, "include/kda", name)):
            if not (target in C_LIBRARY if system else target.startswith("kda/")):
                problems.append("include/kda/%s:%d: a public header may not include %s" % (
                    name, number, target))


def main():
    global BASE_FILES
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    BASE_FILES = set(os.listdir(os.path.join(root, "lib/base")))
    problems, third = [], {}
    check_lib(root, problems, third)
    check_cli(root, problems)
    check_public(root, problems)
    check_sim(root, problems)
    check_event(root, problems)
    for header, paths in sorted(third.items()):
        if len(paths) > 1:
            problems.append("<%s> is included by %s; one file only" % (header,
                                                                       ", ".join(sorted(paths))))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
