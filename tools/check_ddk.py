#!/usr/bin/env python3
"""Compares the constants, structure layouts and GUIDs of driver/nt*.h and driver/wfp.h with the public
headers that come with mingw-w64: the same facts, written down by others.

Usage: check_ddk.py [--compiler x86_64-w64-mingw32-gcc] [--host-compiler gcc] [--list]

What those headers lack stands in driver/ddk-missing.tsv with the page that says it: a name that is
neither compared nor listed is an error, and so is one that is listed and could be compared. `--list`
prints the names that are missing. Exit 0 if all agree, 1 if not, 77 if there is no mingw-w64.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = ["nt.h", "nt_ps.h", "nt_io.h", "wfp.h"]
OURS = '#include "nt.h"\n#include "wfp.h"\n'
# Two worlds that do not go together in one file: a name is looked for in the first, then in the others.
THEIRS = [
    ["#include <ntifs.h>", "#include <wdmsec.h>"],
    ["#define WIN32_NO_STATUS", "#include <windows.h>", "#undef WIN32_NO_STATUS", "#include <ntstatus.h>",
     "#include <winternl.h>", "#include <fwpmu.h>", "#include <rpcdce.h>"],
]
# Of our own make: no fact of Windows.
OWN = re.compile(r"^(KDA_(?!LAYER_)\w*|_\w+|TRUE|FALSE|NULL|CONST|VOID|NTAPI|FASTCALL)$")
OWN_FIELDS = {"Rest", "Modes", "Parts", "any", "Others"}
IDENTIFIER = r"[A-Za-z_]\w*"


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def constants(text):
    for name, value in re.findall(r"^#define (%s) +(\S[^\n]*)$" % IDENTIFIER, text, flags=re.M):
        if not OWN.match(name) and not value.startswith(("struct", "__", "KDA_W", "void", "const")):
            yield name
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
        for part in body.split(","):
            name = part.split("=")[0].strip()
            if re.fullmatch(IDENTIFIER, name) and not OWN.match(name):
                yield name


def matching(text, at):
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError("unbalanced")


def fields(body, prefix=""):
    """Names of the members, those of nested structures with a path."""
    at = 0
    while at < len(body):
        end = body.find(";", at)
        brace = body.find("{", at)
        if end < 0:
            return
        if 0 <= brace < end:
            close = matching(body, brace)
            end = body.find(";", close)
            name = body[close + 1:end].strip()
            yield from fields(body[brace + 1:close], prefix + name + "." if name else prefix)
        else:
            found = re.search(r"(%s)\s*(\[[^\]]*\])?$" % IDENTIFIER, body[at:end].strip())
            pointer = re.search(r"\(\s*\*\s*(%s)\s*\)" % IDENTIFIER, body[at:end])
            if pointer or found:
                yield prefix + (pointer or found).group(1)
        at = end + 1


def structures(text):
    for match in re.finditer(r"\b(typedef )?(struct|union)\b[^;{()]*\{", text):
        if not match.group(1) and not re.match(r"(struct|union) _\w+ \{$", match.group(0)):
            continue
        close = matching(text, match.end() - 1)
        if match.group(1):
            name = re.match(r"\s*(%s)" % IDENTIFIER, text[close + 1:])
            name = name.group(1) if name else None
        else:
            name = re.match(r"(?:struct|union) _(\w+)", match.group(0)).group(1)
        if name and not name.startswith("KDA_"):
            yield name, [f for f in fields(text[match.end():close]) if f.split(".")[-1] not in OWN_FIELDS]


def questions():
    """name -> expression."""
    asked = {}
    for header in HEADERS:
        text = without_comments(read(os.path.join(ROOT, "driver", header))).replace("\\\n", " ")
        for name in constants(text):
            asked[name] = "(long long)(%s)" % name
        for name, members in structures(text):
            asked[name] = "(long long)sizeof(%s)" % name
            for member in members:
                asked["%s.%s" % (name, member)] = "(long long)__builtin_offsetof(%s, %s)" % (name, member)
    return asked


def answers(compiler, flags, head, asked):
    """name -> value, of those that compile."""
    names = sorted(asked)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "ask.c")
        while True:
            lines = head.count("\n")
            with open(source, "w", encoding="utf-8") as f:
                f.write(head)
                for i, name in enumerate(names):
                    f.write("long long kda_%d = %s;\n" % (i, asked[name]))
            done = subprocess.run(compiler + flags + ["-w", "-S", "-o", "-", "-fmax-errors=0", source], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if done.returncode == 0:
                break
            wrong = {int(n) - lines - 1 for n in re.findall(r"ask\.c:(\d+):\d+: error", done.stderr)}
            if not wrong or min(wrong) < 0:
                sys.exit("check_ddk: the headers do not compile:\n" + done.stderr[:2000])
            names = [n for i, n in enumerate(names) if i not in wrong]
    found = {}
    for number, value in re.findall(r"^kda_(\d+):\s*\n\s*\.quad\s+(-?\d+)", done.stdout, flags=re.M):
        found[names[int(number)]] = int(value)
    for number in re.findall(r"^kda_(\d+):\s*\n\s*\.(?:zero|space)\s+8", done.stdout, flags=re.M):
        found[names[int(number)]] = 0
    return found


def guids(text, pattern):
    for name, body in re.findall(pattern, text, flags=re.S):
        numbers = [int(n, 16) for n in re.findall(r"0x([0-9a-fA-F]+)", body)]
        yield name, numbers


def their_guids(folder):
    text = read(os.path.join(folder, "fwpmu.h"))
    return dict(guids(text, r"DEFINE_GUID\(\s*(FWPM_LAYER_\w+)\s*,([^;]*)\)\s*;"))


def our_guids():
    text = read(os.path.join(ROOT, "driver", "wfp.h")).replace("\\\n", " ")
    found = dict(guids(text, r"#define KDA_(LAYER_\w+)\s+\{(.*?)\}\s*\}"))
    return {"FWPM_" + name: numbers for name, numbers in found.items()}


# Of a list on x64; those headers have them in a structure of their own.
LOOKASIDE = ["ListHead", "Depth", "MaximumDepth", "TotalAllocates", "AllocateMisses", "TotalFrees", "FreeMisses",
             "Type", "Tag", "Size", "Allocate", "Free", "ListEntry", "LastTotalAllocates", "Future"]


def lookaside_problems(folder, ask_ours, ask_theirs):
    """The list of small blocks: inline functions use its members, and it is larger on ARM64. The headers there
    know no ARM64, but what they add outside of x64 has to have room in ours: kernels set up that lock."""
    whole = "(long long)sizeof(NPAGED_LOOKASIDE_LIST)"
    at = "(long long)__builtin_offsetof(NPAGED_LOOKASIDE_LIST, %s)"
    ours = ask_ours(dict({name: at % name for name in LOOKASIDE}, size=whole))
    theirs = ask_theirs(dict({name: at % ("L." + name) for name in LOOKASIDE}, size=whole))
    problems = ["NPAGED_LOOKASIDE_LIST.%s: %s here, %s there" % (name, ours.get(name), theirs.get(name))
                for name in LOOKASIDE + ["size"] if name not in ours or ours[name] != theirs.get(name)]
    body = re.search(r"_NPAGED_LOOKASIDE_LIST \{(.*?)\n\}", read(os.path.join(folder, "ddk", "wdm.h")), re.S)
    if not body or not re.search(r"#if !defined\(_AMD64_\)[^\n]*\n\s*KSPIN_LOCK", body.group(1)):
        problems.append("wdm.h: where is the lock of NPAGED_LOOKASIDE_LIST?")
    clang = shutil.which("clang-19") or shutil.which("clang")
    if problems or not clang:
        return problems
    with tempfile.TemporaryDirectory() as scratch:
        source = os.path.join(scratch, "ask.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write(OURS + '_Static_assert(sizeof(NPAGED_LOOKASIDE_LIST) >= %d, "");\n' % (theirs["size"] + 8))
        done = subprocess.run([clang, "--target=aarch64-pc-windows-msvc", "-std=c11", "-ffreestanding",
                               "-fms-extensions", "-fsyntax-only", "-I" + os.path.join(ROOT, "driver"),
                               "-I" + os.path.join(ROOT, "event"), source],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        problems.append("NPAGED_LOOKASIDE_LIST on ARM64 is too small:\n" + done.stdout[:1000])
    return problems


def missing_list():
    listed = {}
    for number, line in enumerate(read(os.path.join(ROOT, "driver", "ddk-missing.tsv")).splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        parts = line.split("\t")
        if len(parts) < 2 or not all(parts):
            sys.exit("ddk-missing.tsv:%d: a name, a page, and for WFP a second source" % number)
        if parts[0].startswith(("FWPS_", "KDA_IO_CREATE")) and len(parts) < 3:
            sys.exit("ddk-missing.tsv:%d: %s needs two sources" % (number, parts[0]))
        listed[parts[0]] = parts[1:]
    return listed


def listed_as(name, listed):
    """The entry of a name: its own, or that of its structure or group (`FWPS_CALLOUT2.*`)."""
    if name in listed:
        return name
    group = name.split(".")[0] + ".*"
    return group if group in listed else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default="x86_64-w64-mingw32-gcc")
    parser.add_argument("--host-compiler", default="gcc")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    compiler = shutil.which(options.compiler) or shutil.which(options.compiler + "-win32")
    if not compiler:
        print("check_ddk: no %s" % options.compiler)
        return 77
    folder = "/usr/x86_64-w64-mingw32/include"
    asked = questions()
    own_flags = ["-std=c11", "-DKDA_SIM", "-I" + os.path.join(ROOT, "driver"), "-I" + os.path.join(ROOT, "event")]
    ours = answers([options.host_compiler], own_flags, OURS, asked)
    theirs = {}
    flags = ["-D_WIN32_WINNT=0x0A00", "-DNTDDI_VERSION=0x0A000006", "-I" + os.path.join(folder, "ddk")]
    for head in THEIRS:
        rest = {name: asked[name] for name in ours if name not in theirs}
        theirs.update(answers([compiler], flags, "\n".join(head) + "\n", rest))
    our_ids, their_ids = our_guids(), their_guids(folder)
    missing = sorted(set(ours) - set(theirs)) + sorted(set(our_ids) - set(their_ids))
    if options.list:
        print("\n".join(missing))
        return 0
    listed, used, wrong = missing_list(), set(), 0
    for name in sorted(set(ours) & set(theirs)):
        # Statuses are 32 bits, with or without sign.
        same = (ours[name] - theirs[name]) % 2 ** 32 == 0
        entry = "!" + name
        if not same and entry in listed:
            used.add(entry)
        elif not same:
            print("%s: %#x here, %#x there" % (name, ours[name] & 2 ** 64 - 1, theirs[name] & 2 ** 64 - 1))
            wrong += 1
    for name in sorted(set(our_ids) & set(their_ids)):
        if our_ids[name] != their_ids[name]:
            print("%s: another GUID" % name)
            wrong += 1
    for name in missing:
        entry = listed_as(name, listed)
        if entry is None:
            print("%s: in no header here, and driver/ddk-missing.tsv does not say where it is from" % name)
            wrong += 1
        used.add(entry)
    for name in sorted(set(listed) - used):
        print("%s: driver/ddk-missing.tsv lists it, but it can be compared, or is not used" % name)
        wrong += 1
    for problem in lookaside_problems(
            folder, lambda names: answers([options.host_compiler], own_flags, OURS, names),
            lambda names: answers([compiler], flags, "\n".join(THEIRS[0]) + "\n", names)):
        print(problem)
        wrong += 1
    single = sum(1 for sources in listed.values() if "-" in sources)
    print("check_ddk: %d facts compared, %d GUIDs, %d taken from pages (%d entries without a second source), "
          "%d wrong" % (len(set(ours) & set(theirs)), len(set(our_ids) & set(their_ids)), len(missing), single,
                        wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
