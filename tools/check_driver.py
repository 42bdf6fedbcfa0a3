#!/usr/bin/env python3
"""Checks a finished kdamonitor.sys: would the oldest Windows that it is for load it, and is the code
where it may be. The build runs it after the link.

Usage: check_driver.py --arch x64|arm64 [--imports FILE] [--objdump PROGRAM] IMAGE
"""
import argparse
import os
import re
import struct
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MACHINES = {"x64": 0x8664, "arm64": 0xAA64}
OLDEST = (10, 0, 17763)
PAGE = 0x1000

# Section characteristics
CODE, NOT_PAGED, DISCARDABLE = 0x20, 0x08000000, 0x02000000
EXECUTE, READ, WRITE = 0x20000000, 0x40000000, 0x80000000
# DllCharacteristics that must be there: high entropy, dynamic base, integrity, NX, guard
REQUIRED = {0x20: "high entropy", 0x40: "dynamic base", 0x80: "integrity check", 0x100: "NX",
            0x4000: "control flow guard"}
EXPORTS, IMPORTS, RESOURCES, RELOCATIONS, DEBUG, TLS, LOAD_CONFIG, BOUND, DELAY = (
    0, 1, 2, 5, 6, 9, 10, 11, 13)
DIRECTORIES = 16
# Far above what a driver takes: a damaged table is an error and no long search.
MODULES_MAX, IMPORTS_MAX = 16, 1024
# What raises the level: not from code that may be paged out.
RAISERS = {"KeAcquireSpinLockRaiseToDpc", "KeAcquireSpinLockAtDpcLevel", "KfRaiseIrql",
           "KeAcquireInStackQueuedSpinLock", "KeRaiseIrqlToDpcLevel"}


class Bad(Exception):
    pass


class Section:
    def __init__(self, name, size, va, raw_size, raw, flags):
        self.name, self.size, self.va = name, size, va
        self.raw_size, self.raw, self.flags = raw_size, raw, flags

    def holds(self, rva):
        return self.va <= rva < self.va + max(self.size, self.raw_size)


class Image:
    """Reads the headers; every read is checked, so that a broken file is an error and no surprise."""

    def __init__(self, data):
        self.data = data
        if data[:2] != b"MZ":
            raise Bad("no MZ header")
        pe = self.number(0x3C, 4)
        if data[pe:pe + 4] != b"PE\0\0":
            raise Bad("no PE header")
        self.machine = self.number(pe + 4, 2)
        count = self.number(pe + 6, 2)
        optional_size = self.number(pe + 20, 2)
        self.flags = self.number(pe + 22, 2)
        optional = pe + 24
        self.magic = self.number(optional, 2)
        if self.magic != 0x20B:
            raise Bad("no 64-bit image")
        self.entry = self.number(optional + 16, 4)
        self.base = self.number(optional + 24, 8)
        self.section_alignment = self.number(optional + 32, 4)
        self.os_version = (self.number(optional + 40, 2), self.number(optional + 42, 2))
        self.checksum_at = optional + 64
        self.checksum = self.number(self.checksum_at, 4)
        self.subsystem = self.number(optional + 68, 2)
        self.dll_flags = self.number(optional + 70, 2)
        if self.number(optional + 108, 4) != DIRECTORIES:
            raise Bad("not 16 data directories")
        self.directories = [(self.number(optional + 112 + 8 * i, 4),
                             self.number(optional + 116 + 8 * i, 4)) for i in range(DIRECTORIES)]
        self.sections = []
        for i in range(count):
            at = optional + optional_size + 40 * i
            name = data[at:at + 8].rstrip(b"\0").decode("ascii", "replace")
            self.sections.append(Section(name, *[self.number(at + 8 + 4 * k, 4) for k in range(4)],
                                         self.number(at + 36, 4)))

    def number(self, at, size):
        if at + size > len(self.data):
            raise Bad("the file ends at %#x, within the headers" % len(self.data))
        return int.from_bytes(self.data[at:at + size], "little")

    def section_of(self, rva):
        return next((s for s in self.sections if s.holds(rva)), None)

    def named(self, name):
        return next((s for s in self.sections if s.name == name), None)

    def at(self, rva, size):
        section = self.section_of(rva)
        if section is None or rva - section.va + size > section.raw_size:
            raise Bad("address %#x is not in the file" % rva)
        at = section.raw + rva - section.va
        if at + size > len(self.data):
            raise Bad("address %#x is behind the end of the file" % rva)
        return self.data[at:at + size]

    def value(self, rva, size):
        return int.from_bytes(self.at(rva, size), "little")

    def text(self, rva):
        out = b""
        while len(out) < 256:
            byte = self.at(rva + len(out), 1)
            if byte == b"\0":
                return out.decode("ascii", "backslashreplace")
            out += byte
        raise Bad("a name without an end at %#x" % rva)

    def imports(self):
        """(module, name, rva of the slot)"""
        found = []
        at, size = self.directories[IMPORTS]
        if size > 20 * MODULES_MAX:
            raise Bad("imports from %d modules" % (size // 20))
        end = at + size
        while at and at + 20 <= end and self.value(at + 12, 4):
            module = self.text(self.value(at + 12, 4))
            names, slots = self.value(at, 4), self.value(at + 16, 4)
            index = 0
            while True:
                entry = self.value(names + 8 * index, 8)
                if entry == 0:
                    break
                if entry >> 63:
                    raise Bad("import by number from " + module)
                if index == IMPORTS_MAX:
                    raise Bad("imports from %s have no end" % module)
                found.append((module, self.text((entry & 0x7FFFFFFF) + 2), slots + 8 * index))
                index += 1
            at += 20
        return found

    def real_checksum(self):
        data = self.data + b"\0" * (-len(self.data) % 2)
        total = 0
        for at, (word,) in zip(range(0, len(data), 2), struct.iter_unpack("<H", data)):
            if not self.checksum_at <= at < self.checksum_at + 4:
                total += word
                total = (total & 0xFFFF) + (total >> 16)
        return ((total & 0xFFFF) + (total >> 16) + len(self.data)) & 0xFFFFFFFF


def read_list(path, arch):
    """name -> (module, version) of this machine."""
    listed = {}
    with open(path, encoding="ascii") as f:
        for line in f:
            if line.startswith("#") or not line.strip():
                continue
            fields = line.split()
            module, name, version = fields[:3]
            if len(fields) > 4 and fields[4] != arch:
                continue
            listed[name] = (module, tuple(int(n) for n in version.split(".")))
    return listed


def check_header(image, arch, problems):
    def must(condition, text):
        if not condition:
            problems.append(text)
    must(image.machine == MACHINES[arch], "machine is %#x" % image.machine)
    must(image.subsystem == 1, "subsystem is %d, not native" % image.subsystem)
    must(image.os_version == (10, 0), "system version is %d.%d" % image.os_version)
    must(not image.flags & 0x1, "relocations are stripped")
    must(image.flags & 0x2, "not marked as executable")
    must(not image.flags & 0x2000, "marked as a DLL")
    for bit, name in REQUIRED.items():
        must(image.dll_flags & bit, "flag is missing: " + name)
    must(image.checksum == image.real_checksum(), "checksum is %#x, should be %#x" % (
        image.checksum, image.real_checksum()))
    for directory, name in ((EXPORTS, "exports"), (TLS, "thread-local storage"),
                            (BOUND, "bound imports"), (DELAY, "delayed imports")):
        must(image.directories[directory][1] == 0, "has " + name)
    for directory, name in ((IMPORTS, "imports"), (RESOURCES, "version resource"),
                            (RELOCATIONS, "relocations"), (DEBUG, "debug directory"),
                            (LOAD_CONFIG, "load configuration")):
        must(image.directories[directory][1] != 0, "has no " + name)
    entry = image.section_of(image.entry)
    must(entry is not None and entry.name == "INIT", "entry point is not in INIT")


def check_sections(image, problems):
    names = [section.name for section in image.sections]
    if image.section_alignment != PAGE:
        problems.append("sections are aligned to %#x" % image.section_alignment)
    for section in image.sections:
        if section.va % PAGE:
            problems.append("section %s begins within a page" % section.name)
        if section.flags & WRITE and section.flags & EXECUTE:
            problems.append("section %s is writable and executable" % section.name)
        if section.flags & EXECUTE and section.name not in (".text", "PAGE", "INIT"):
            problems.append("section %s is executable" % section.name)
    for name, wanted, refused in ((".text", EXECUTE | READ, DISCARDABLE),
                                  ("PAGE", EXECUTE | READ, DISCARDABLE | NOT_PAGED),
                                  ("INIT", EXECUTE | READ | DISCARDABLE, 0),
                                  (".reloc", READ | DISCARDABLE, 0)):
        if names.count(name) != 1:
            problems.append("%d sections %s" % (names.count(name), name))
            continue
        flags = image.named(name).flags
        if flags & wanted != wanted or flags & refused:
            problems.append("section %s has flags %#x" % (name, flags))


def check_imports(image, listed, problems):
    seen = set()
    for module, name, _ in image.imports():
        seen.add(name)
        if name not in listed:
            problems.append("%s from %s is not on the list" % (name, module))
            continue
        if listed[name][0].lower() != module.lower():
            problems.append("%s is taken from %s" % (name, module))
        if listed[name][1] > OLDEST:
            problems.append("%s is newer than Windows 10 1809: look it up at run time" % name)
    for name in sorted(set(listed) - seen):
        problems.append("%s is on the list and not used" % name)


def check_debug(image, problems):
    """The name of the PDB is a name: no folder of the machine that built it."""
    at, size = image.directories[DEBUG]
    names = []
    for entry in range(at, at + size, 28):
        if image.value(entry + 12, 4) == 2:
            rva = image.value(entry + 20, 4)
            if image.at(rva, 4) == b"RSDS":
                names.append(image.text(rva + 24))
    if names != ["kdamonitor.pdb"]:
        problems.append("debug directory names %r" % names)


def check_guard(image, problems):
    config = image.directories[LOAD_CONFIG][0]
    if not config:
        return
    field = lambda at: image.value(config + at, 8) - image.base
    cookie = image.section_of(field(88))
    if cookie is None or not cookie.flags & WRITE:
        problems.append("the stack cookie cannot be written")
    pointers = [image.value(config + at, 8) for at in (112, 120)]
    if not any(pointers):
        problems.append("control flow guard has no function to call")
    count, flags = image.value(config + 136, 8), image.value(config + 144, 4)
    if count == 0 or flags & 0x500 != 0x500:
        problems.append("control flow guard has no table")
        return
    table = [image.value(field(128) + 4 * i, 4) for i in range(count)]
    if table != sorted(set(table)):
        problems.append("the table of control flow guard is not in order")


# --- code -----------------------------------------------------------------------------------------

LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
# Jumps and calls of x64 and of ARM64
BRANCH = re.compile(r"j|call|bl?$|b\.|cbn?z$|tbn?z$")
ADDRESS = re.compile(r"0x([0-9a-f]+)")


class Arm:
    """Addresses that ARM64 code makes in two steps: a page, and a place in it."""

    def __init__(self):
        self.pages = {}

    def made(self, op, rest):
        words = re.split(r"[,\s\[\]!]+", rest)
        if op == "adrp":
            self.pages[words[0]] = int(ADDRESS.search(rest).group(1), 16)
        elif op in ("add", "ldr") and len(words) >= 3 and words[1] in self.pages:
            offset = words[2].lstrip("#") or "0"
            try:
                return self.pages[words[1]] + int(offset, 0)
            except ValueError:
                return None
        return None


def code_lines(image, objdump, path, section):
    """(address, operation, operands, addresses that the instruction names)"""
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", "--section=" + section, path],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    arm = Arm()
    for line in text.splitlines():
        found = LINE.match(line)
        if not found:
            continue
        at, op, rest = int(found.group(1), 16), found.group(2), found.group(3)
        names = [int(a, 16) for a in ADDRESS.findall(rest)]
        if image.machine == MACHINES["arm64"]:
            made = arm.made(op, rest)
            if made is not None:
                names.append(made)
        yield at, op, rest, names


def check_code(image, objdump, path, problems):
    slots = {image.base + slot: name for _, name, slot in image.imports()}
    init, page = image.named("INIT"), image.named("PAGE")
    if init is None or page is None:
        return
    # A call goes to a jump through the slot: on ARM64 three instructions, of which the last but one
    # names the slot.
    jumps, lines, count = {}, {}, 0
    for name in (".text", "PAGE", "INIT"):
        lines[name] = list(code_lines(image, objdump, path, name))
        count += len(lines[name])
        for i, (at, op, _, names) in enumerate(lines[name]):
            found = next((slots[n] for n in names if n in slots), None)
            if found and op.startswith("jmp"):
                jumps[at] = found
            elif found and op == "ldr" and i and lines[name][i - 1][1] == "adrp":
                jumps[lines[name][i - 1][0]] = found
    if count < 1000 or len(jumps) < 20:
        problems.append("the code could not be read: %d instructions, %d imports called" % (
            count, len(jumps)))
    for name in (".text", "PAGE"):
        for at, op, rest, names in lines[name]:
            if any(init.holds(n - image.base) for n in names):
                problems.append("%#x in %s: %s %s leads into INIT" % (at, name, op, rest))
    # What is handed to the system by its address is called later, whoever handed it.
    for at, op, rest, names in lines["INIT"]:
        if not BRANCH.match(op) and any(init.holds(n - image.base) for n in names):
            problems.append("%#x in INIT: %s %s takes an address in INIT" % (at, op, rest))
    for at, op, rest, names in lines["PAGE"]:
        called = {jumps.get(n) or slots.get(n) for n in names} & RAISERS
        # Written, that is; reading the level harms nobody.
        if called or rest.endswith("%cr8"):
            problems.append("%#x in PAGE raises the level: %s %s %s" % (
                at, op, rest, " ".join(called)))


def check(path, arch, imports, objdump):
    problems = []
    with open(path, "rb") as f:
        data = f.read()
    try:
        image = Image(data)
        check_header(image, arch, problems)
        check_sections(image, problems)
        check_imports(image, read_list(imports, arch), problems)
        check_debug(image, problems)
        check_guard(image, problems)
        if objdump:
            check_code(image, objdump, path, problems)
    except Bad as error:
        problems.append(str(error))
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", choices=sorted(MACHINES), required=True)
    parser.add_argument("--imports", default=os.path.join(ROOT, "driver/imports.txt"))
    parser.add_argument("--objdump", help="llvm-objdump, for what lies in the code")
    parser.add_argument("image")
    options = parser.parse_args()
    problems = check(options.image, options.arch, options.imports, options.objdump)
    for problem in problems:
        print("%s: %s" % (os.path.basename(options.image), problem), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
