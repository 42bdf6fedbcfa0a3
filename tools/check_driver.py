#!/usr/bin/env python3
"""Checks a finished kdamonitor.sys: would the oldest Windows that it is for load it, and is the code
where it may be. The build runs it after the link.

What the build always writes the same has to be there as it is written; what nothing of the build
writes is refused. So a header that a loader reads otherwise than this check is no header of ours.

Usage: check_driver.py --arch x64|arm64 [--imports FILE] [--objdump PROGRAM] [--signed] IMAGE

Source: PE Format (learn.microsoft.com/windows/win32/debug/pe-format); x64 exception handling and
ARM64 exception handling (learn.microsoft.com/cpp/build).
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
PAGE, BLOCK = 0x1000, 0x200

# Section characteristics
CODE, DATA = 0x20, 0x40
NOT_PAGED, DISCARDABLE, SHARED = 0x08000000, 0x02000000, 0x10000000
EXECUTE, READ, WRITE = 0x20000000, 0x40000000, 0x80000000
# Each section, once, and no other. INIT goes when DriverEntry has returned, .reloc before.
SECTIONS = {
    ".text": CODE | EXECUTE | READ,
    ".rdata": DATA | READ,
    ".data": DATA | READ | WRITE,
    ".pdata": DATA | READ,
    "INIT": CODE | EXECUTE | READ | DISCARDABLE,
    "PAGE": CODE | EXECUTE | READ,
    ".rsrc": DATA | READ,
    ".reloc": DATA | READ | DISCARDABLE,
}

# Executable, and of 64 bits (large addresses)
FILE_FLAGS = 0x22
# DllCharacteristics that must be there: high entropy, dynamic base, integrity, NX, guard
REQUIRED = {0x20: "high entropy", 0x40: "dynamic base", 0x80: "integrity check", 0x100: "NX",
            0x4000: "control flow guard"}
# The linker's default: of no effect on a driver
TERMINAL_SERVER = 0x8000
# Offset in the optional header, size, name, value: what driver/CMakeLists.txt asks for, and what
# the linker always writes.
FIXED = (
    (12, 4, "size of uninitialized data", 0),
    (24, 8, "image base", 0x140000000),
    (32, 4, "section alignment", PAGE),
    (36, 4, "file alignment", BLOCK),
    (40, 2, "system version", 10), (42, 2, "minor system version", 0),
    (44, 2, "image version", 0), (46, 2, "minor image version", 0),
    (48, 2, "subsystem version", 10), (50, 2, "minor subsystem version", 0),
    (52, 4, "reserved version", 0),
    (72, 8, "stack reserve", 0x100000), (80, 8, "stack commit", 0x1000),
    (88, 8, "heap reserve", 0x100000), (96, 8, "heap commit", 0x1000),
    (104, 4, "loader flags", 0),
)
OPTIONAL_SIZE = 240

IMPORTS, RESOURCES, EXCEPTIONS, CERTIFICATES, RELOCATIONS, DEBUG, LOAD_CONFIG, SLOTS = (
    1, 2, 3, 4, 5, 6, 10, 12)
DIRECTORIES = (
    "exports", "imports", "version resource", "exception table", "certificates", "relocations",
    "debug directory", "architecture data", "global pointer", "thread-local storage",
    "load configuration", "bound imports", "import slots", "delayed imports", "CLR header",
    "reserved directory")
# The section that a directory lies in; whether it is all of it.
PLACES = {IMPORTS: (".rdata", False), RESOURCES: (".rsrc", True), EXCEPTIONS: (".pdata", True),
          RELOCATIONS: (".reloc", True), DEBUG: (".rdata", False), LOAD_CONFIG: (".rdata", False),
          SLOTS: (".rdata", False)}

# Types of a relocation
ABSOLUTE, DIR64 = 0, 10
# Types in the debug directory
CODEVIEW, REPRODUCIBLE = 2, 16
VERSION_INFO = 16
# struct kda_load_config (driver/windows/entry.c): its size; members that are used, and their sizes
CONFIG_SIZE = 192
COOKIE, GUARD_CHECK, GUARD_DISPATCH, GUARD_TABLE, GUARD_COUNT, GUARD_FLAGS = (
    88, 112, 120, 128, 136, 144)
TAKEN_TABLE, TAKEN_COUNT = 160, 168
CONFIG_USED = {0: 4, COOKIE: 8, GUARD_CHECK: 8, GUARD_DISPATCH: 8, GUARD_TABLE: 8, GUARD_COUNT: 8,
               GUARD_FLAGS: 4, TAKEN_TABLE: 8, TAKEN_COUNT: 8}
# A kernel that sets the cookie does so only where it finds this.
COOKIE_DEFAULT = 0x2B992DDFA232
# Instrumented, with a table, whose rows have 4 bytes
GUARDED = 0x500
# Far above what a driver takes: a damaged table is an error and no long search.
MODULES_MAX, IMPORTS_MAX, GUARD_MAX = 16, 1024, 65536
# What raises the level: not from code that may be paged out.
RAISERS = {"KeAcquireSpinLockRaiseToDpc", "KeAcquireSpinLockAtDpcLevel", "KfRaiseIrql",
           "KeAcquireInStackQueuedSpinLock", "KeRaiseIrqlToDpcLevel"}


class Bad(Exception):
    pass


def up(value, unit):
    return -(-value // unit) * unit


class Section:
    def __init__(self, name, size, va, raw_size, raw, old, flags):
        self.name, self.size, self.va = name, size, va
        self.raw_size, self.raw, self.flags = raw_size, raw, flags
        self.old = old  # line numbers and relocations of object files

    def holds(self, rva):
        return self.va <= rva < self.va + max(self.size, self.raw_size)


class Image:
    """Reads the headers; every read is checked, so that a broken file is an error and no surprise."""

    def __init__(self, data):
        self.data = data
        if data[:2] != b"MZ":
            raise Bad("no MZ header")
        pe = self.number(0x3C, 4)
        if pe < 0x40 or pe % 8:
            raise Bad("the PE header is at %#x" % pe)
        if data[pe:pe + 4] != b"PE\0\0":
            raise Bad("no PE header")
        self.machine, count = self.number(pe + 4, 2), self.number(pe + 6, 2)
        self.time = self.number(pe + 8, 4)
        self.symbols = self.number(pe + 12, 8)
        optional_size, self.flags = self.number(pe + 20, 2), self.number(pe + 22, 2)
        self.optional = optional = pe + 24
        if self.number(optional, 2) != 0x20B:
            raise Bad("no 64-bit image")
        if optional_size != OPTIONAL_SIZE or self.number(optional + 108, 4) != len(DIRECTORIES):
            raise Bad("not 16 data directories")
        self.code_size, self.data_size = self.number(optional + 4, 4), self.number(optional + 8, 4)
        self.entry, self.code_base = self.number(optional + 16, 4), self.number(optional + 20, 4)
        self.base = self.number(optional + 24, 8)
        self.size, self.headers_size = self.number(optional + 56, 4), self.number(optional + 60, 4)
        self.checksum_at = optional + 64
        self.checksum = self.number(self.checksum_at, 4)
        self.subsystem = self.number(optional + 68, 2)
        self.dll_flags = self.number(optional + 70, 2)
        self.directories = [(self.number(optional + 112 + 8 * i, 4),
                             self.number(optional + 116 + 8 * i, 4))
                            for i in range(len(DIRECTORIES))]
        self.sections = []
        for i in range(count):
            at = optional + optional_size + 40 * i
            name = data[at:at + 8].rstrip(b"\0").decode("ascii", "backslashreplace")
            self.sections.append(Section(name, *[self.number(at + 8 + 4 * k, 4) for k in range(4)],
                                         self.number(at + 24, 12), self.number(at + 36, 4)))
        self.headers_end = optional + optional_size + 40 * count

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
        self.at(rva, 1)
        section = self.section_of(rva)
        at = section.raw + rva - section.va
        out = self.data[at:min(at + 256, section.raw + section.raw_size)]
        if b"\0" not in out:
            raise Bad("a name without an end at %#x" % rva)
        return out[:out.index(b"\0")].decode("ascii", "backslashreplace")

    def modules(self):
        """(module, rva of its names, rva of its slots). To the descriptor of zeros, as a loader
        goes: what the directory says of its size ends nothing."""
        at, found = self.directories[IMPORTS][0], []
        while at and any(self.at(at, 20)):
            names, bound, name, slots = (self.value(at, 4), self.value(at + 4, 8),
                                         self.value(at + 12, 4), self.value(at + 16, 4))
            if not (names and name and slots):
                raise Bad("import descriptor %d is neither whole nor the end" % len(found))
            if bound:
                raise Bad("import descriptor %d is bound" % len(found))
            if len(found) == MODULES_MAX:
                raise Bad("imports from more than %d modules" % MODULES_MAX)
            found.append((self.text(name), names, slots))
            at += 20
        return found

    def imports(self):
        """(module, name, rva of the slot)"""
        found = []
        for module, names, slots in self.modules():
            index = 0
            while True:
                entry = self.value(names + 8 * index, 8)
                if self.value(slots + 8 * index, 8) != entry:
                    raise Bad("slot %d of %s differs from the name" % (index, module))
                if entry == 0:
                    break
                if entry >> 63:
                    raise Bad("import by number from " + module)
                if entry >> 31:
                    raise Bad("import %d from %s has no name" % (index, module))
                if index == IMPORTS_MAX:
                    raise Bad("imports from %s have no end" % module)
                found.append((module, self.text(entry + 2), slots + 8 * index))
                index += 1
        return found

    def functions(self):
        """(begin, end, rva of the unwind data or 0) by the exception table, in its order."""
        at, size = self.directories[EXCEPTIONS]
        found = []
        if self.machine == MACHINES["x64"]:
            for row in range(at, at + size - 11, 12):
                found.append(tuple(self.value(row + 4 * k, 4) for k in range(3)))
            return found
        for row in range(at, at + size - 7, 8):
            begin, unwind = self.value(row, 4), self.value(row + 4, 4)
            if unwind & 3 == 3:
                raise Bad("function %#x has reserved unwind data" % begin)
            if unwind & 3:  # packed: no data elsewhere
                found.append((begin, begin + 4 * (unwind >> 2 & 0x7FF), 0))
            else:
                found.append((begin, begin + 4 * (self.value(unwind, 4) & 0x3FFFF), unwind))
        return found

    def relocations(self):
        """Addresses of what is relocated; the table has to be whole."""
        at, size = self.directories[RELOCATIONS]
        end, last, found = at + size, -1, []
        while at < end:
            if end - at < 8:
                raise Bad("%d bytes are left behind the relocations" % (end - at))
            page, length = self.value(at, 4), self.value(at + 4, 4)
            if length < 12 or length % 4 or length > end - at:
                raise Bad("relocation block of %d bytes with %d left" % (length, end - at))
            if page % PAGE or page <= last or page >= self.size:
                raise Bad("relocation block of page %#x" % page)
            last = page
            rows = [self.value(row, 2) for row in range(at + 8, at + length, 2)]
            if rows[-1] == ABSOLUTE << 12:
                rows.pop()
            for row in rows:
                if row >> 12 != DIR64:
                    raise Bad("relocation of type %d in page %#x" % (row >> 12, page))
                found.append(page + (row & 0xFFF))
            at += length
        return found

    def real_checksum(self):
        data = self.data + b"\0" * (-len(self.data) % 2)
        total = sum(struct.unpack("<%dH" % (len(data) // 2), data))
        total -= self.number(self.checksum_at, 2) + self.number(self.checksum_at + 2, 2)
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return (total + len(self.data)) & 0xFFFFFFFF


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
    must(not image.flags & 0x1, "relocations are stripped")
    must(image.flags & 0x2, "not marked as executable")
    must(not image.flags & 0x2000, "marked as a DLL")
    must(image.flags == FILE_FLAGS, "file flags are %#x" % image.flags)
    must(image.symbols == 0, "has a symbol table")
    for bit, name in REQUIRED.items():
        must(image.dll_flags & bit, "flag is missing: " + name)
    wanted = sum(REQUIRED) | TERMINAL_SERVER
    must(image.dll_flags == wanted, "flags are %#x, should be %#x" % (image.dll_flags, wanted))
    for offset, size, name, wanted in FIXED:
        value = image.number(image.optional + offset, size)
        must(value == wanted, "%s is %#x, should be %#x" % (name, value, wanted))
    must(image.checksum == image.real_checksum(), "checksum is %#x, should be %#x" % (
        image.checksum, image.real_checksum()))
    wanted = up(image.headers_end, BLOCK)
    must(image.headers_size == wanted, "size of the headers is %#x, should be %#x" % (
        image.headers_size, wanted))
    must(not any(image.data[image.headers_end:wanted]), "there is data behind the headers")
    entry = image.section_of(image.entry)
    must(entry is not None and entry.name == "INIT", "entry point is not in INIT")
    must(image.entry in {begin for begin, _, _ in image.functions()},
         "entry point %#x is not the beginning of a function" % image.entry)


def check_sections(image, problems):
    names = [section.name for section in image.sections]
    for name in SECTIONS:
        if names.count(name) != 1:
            problems.append("%d sections %s" % (names.count(name), name))
    va, raw = up(image.headers_end, PAGE), up(image.headers_end, BLOCK)
    for section in image.sections:
        name, flags = section.name, section.flags
        if name not in SECTIONS:
            problems.append("section %s is not expected" % name)
            continue
        if flags & WRITE and flags & EXECUTE:
            problems.append("section %s is writable and executable" % name)
        if flags != SECTIONS[name]:
            problems.append("section %s has flags %#x, should have %#x" % (
                name, flags, SECTIONS[name]))
        if section.old:
            problems.append("section %s has relocations of its own or line numbers" % name)
        # Side by side, in memory and in the file: nothing overlaps, nothing lies between.
        if section.va != va or not section.size:
            problems.append("section %s is %#x bytes at %#x, should be at %#x" % (
                name, section.size, section.va, va))
        if section.raw != raw:
            problems.append("section %s is at %#x of the file, should be at %#x" % (
                name, section.raw, raw))
        # Only what can be written may have zeros that are not in the file.
        wanted = up(section.size, BLOCK)
        if section.raw_size % BLOCK or section.raw_size > wanted or (
                section.raw_size < wanted and not flags & WRITE):
            problems.append("section %s has %#x bytes in the file, should have %#x" % (
                name, section.raw_size, wanted))
        filler = b"\xCC" if flags & EXECUTE and image.machine == MACHINES["x64"] else b"\0"
        if image.data[section.raw + section.size:section.raw + section.raw_size].strip(filler):
            problems.append("there is data behind the end of section %s" % name)
        va, raw = up(section.va + section.size, PAGE), section.raw + section.raw_size
    if image.size != va:
        problems.append("size of the image is %#x, should be %#x" % (image.size, va))
    check_totals(image, problems)


def check_totals(image, problems):
    """What the header says of code and data together. The linker counts .text only as code."""
    text = image.named(".text")
    if text is None:
        return
    data = sum(section.raw_size for section in image.sections if section.flags & DATA)
    for name, value, wanted in (("size of the code", image.code_size, text.raw_size),
                                ("begin of the code", image.code_base, text.va),
                                ("size of the data", image.data_size, data)):
        if value != wanted:
            problems.append("%s is %#x, should be %#x" % (name, value, wanted))


def check_directories(image, problems):
    for index, name in enumerate(DIRECTORIES):
        at, size = image.directories[index]
        if index == CERTIFICATES:
            continue
        if index not in PLACES:
            if at or size:
                problems.append("has " + name)
            continue
        if not at or not size:
            problems.append("has no " + name)
            continue
        place, whole = PLACES[index]
        section = image.named(place)
        if section is None:
            continue
        if at < section.va or at + size > section.va + min(section.size, section.raw_size):
            problems.append("%s: %#x bytes at %#x are not in %s" % (name, size, at, place))
        elif whole and (at, size) != (section.va, section.size):
            problems.append("%s: %#x bytes at %#x are not all of %s" % (name, size, at, place))


def check_end(image, signed, problems):
    """Behind the last section lies a signature or nothing: no hash of the image covers what is in
    the certificates, nor is it loaded."""
    end = max([section.raw + section.raw_size for section in image.sections], default=0)
    at, size = image.directories[CERTIFICATES]
    if len(image.data) < end:
        problems.append("the last section is behind the end of the file")
        return
    if not signed:
        if at or size:
            problems.append("has certificates and should not be signed")
        elif len(image.data) > end:
            problems.append("there are %d bytes behind the last section" % (len(image.data) - end))
        return
    if not size:
        problems.append("is not signed")
        return
    if at != end or at + size != len(image.data) or size < 16:
        problems.append("certificates: %#x bytes at %#x do not lie between %#x and %#x" % (
            size, at, end, len(image.data)))
        return
    # One certificate, of PKCS#7: a sequence of DER, which fills it.
    length, revision, kind = (image.number(at, 4), image.number(at + 4, 2),
                              image.number(at + 6, 2))
    if (up(length, 8), revision, kind) != (size, 0x200, 2) or (
            image.data[at + 8:at + 10] != b"\x30\x82"):
        problems.append("certificate of %d bytes in %d, revision %#x, type %d" % (
            length, size, revision, kind))
        return
    used = 12 + int.from_bytes(image.data[at + 10:at + 12], "big")
    if up(used, 8) != size or any(image.data[at + used:]):
        problems.append("there is data behind the signature")


def check_functions(image, problems):
    """The kernel searches this table by halves, at a fault and when it walks a stack."""
    size = image.directories[EXCEPTIONS][1]
    x64 = image.machine == MACHINES["x64"]
    functions, last = image.functions(), 0
    if not functions or size != len(functions) * (12 if x64 else 8):
        problems.append("exception table has %d bytes for %d functions" % (size, len(functions)))
    for begin, end, unwind in functions:
        section = image.section_of(begin)
        if begin < last or end <= begin or section is None or not section.flags & EXECUTE or (
                end > section.va + section.size) or begin % (16 if x64 else 4):
            problems.append("function from %#x to %#x: not in order or not in code" % (begin, end))
        last = end
        if not x64 and not unwind:
            continue
        place = image.section_of(unwind)
        if unwind % 4 or place is None or place.name != ".rdata":
            problems.append("unwind data of function %#x is at %#x" % (begin, unwind))
        elif x64:
            check_unwind(image, begin, unwind, problems)


def check_unwind(image, begin, unwind, problems):
    """Version 1 without chains; a handler is code."""
    first, count = image.value(unwind, 1), image.value(unwind + 2, 1)
    if first & 7 != 1 or first >> 3 > 3:
        problems.append("unwind data of function %#x begins with %#x" % (begin, first))
    elif first >> 3:
        handler = image.section_of(image.value(unwind + 4 + 2 * up(count, 2), 4))
        if handler is None or handler.name != ".text":
            problems.append("handler of function %#x is not in .text" % begin)


def check_relocations(image, problems):
    """All pointers are relocated and nothing else. They lie in data; the preferred base is a number
    that nothing else begins with."""
    def is_pointer(value):
        return image.base <= value < image.base + image.size
    found, last = image.relocations(), -8
    if not found:
        problems.append("there is no relocation")
    for rva in found:
        section = image.section_of(rva)
        if rva < last + 8:
            problems.append("relocation of %#x overlaps or is not in order" % rva)
        last = rva
        if section is None or not section.flags & DATA or not is_pointer(image.value(rva, 8)):
            problems.append("relocation of %#x, where no pointer is" % rva)
    pointers = set()
    for section in image.sections:
        if section.flags & DATA:
            data = image.data[section.raw:section.raw + section.raw_size]
            for index, (value,) in enumerate(struct.iter_unpack("<Q", data[:len(data) & -8])):
                if is_pointer(value):
                    pointers.add(section.va + 8 * index)
    for rva in sorted(pointers - set(found)):
        problems.append("no relocation of the pointer at %#x" % rva)


def check_imports(image, listed, problems):
    seen, modules = set(), image.modules()
    size = image.directories[IMPORTS][1]
    if size != 20 * (len(modules) + 1):
        problems.append("import directory has %d bytes for %d modules" % (size, len(modules)))
    folded = [module.lower() for module, _, _ in modules]
    if len(set(folded)) != len(folded):
        problems.append("a module is there twice: " + " ".join(folded))
    found = image.imports()
    for module, name, _ in found:
        if name in seen:
            problems.append("%s is imported twice" % name)
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
    check_slots(image, modules, found, problems)


def check_slots(image, modules, found, problems):
    """The slots, with the zero after those of each module, are the directory that says where slots
    are: the kernel fills and then protects what that directory says."""
    at, size = image.directories[SLOTS]
    slots = [slot for _, _, slot in found]
    slots += [first + 8 * sum(module == name for name, _, _ in found)
              for module, _, first in modules]
    if size != 8 * len(slots) or sorted(slots) != list(range(at, at + size, 8)):
        problems.append("import slots: %#x bytes at %#x are not those of the modules" % (size, at))


def check_resources(image, problems):
    """One resource, in three steps: type, name, language."""
    base, _ = image.directories[RESOURCES]
    at = base
    for level in range(3):
        header = image.value(at, 8), image.value(at + 8, 4)
        named, numbered = image.value(at + 12, 2), image.value(at + 14, 2)
        kind, to = image.value(at + 16, 4), image.value(at + 20, 4)
        if header != (0, 0) or (named, numbered) != (0, 1) or kind >> 31 or (
                to >> 31 != (level < 2)) or (level == 0 and kind != VERSION_INFO):
            raise Bad("resources are not one version")
        at = base + (to & 0x7FFFFFFF)
    rva, size = image.value(at, 4), image.value(at + 4, 4)
    section = image.section_of(rva)
    if section is None or section.name != ".rsrc" or size != image.value(rva, 2) or (
            rva + size > section.va + section.size) or (
            "VS_VERSION_INFO".encode("utf-16-le") not in image.at(rva, 64)):
        problems.append("the version resource is %#x bytes at %#x" % (size, rva))


def check_debug(image, problems):
    """The name of the PDB is a name: no folder of the machine that built it. The other entry says
    that a hash stands where the time of the build would be."""
    at, size = image.directories[DEBUG]
    kinds, names = [], []
    if size != 2 * 28:
        raise Bad("debug directory has %d bytes" % size)
    for entry in range(at, at + size, 28):
        kind, length, rva, raw = (image.value(entry + 12 + 4 * k, 4) for k in range(4))
        kinds.append(kind)
        if image.value(entry, 4) or image.value(entry + 8, 4) or (
                image.value(entry + 4, 4) != image.time):
            problems.append("debug directory: time, version or flags of entry %d" % kind)
        if kind != CODEVIEW:
            if length or rva or raw:
                problems.append("debug directory: entry %d has data" % kind)
            continue
        section = image.section_of(rva)
        if section is None or section.name != ".rdata" or raw != rva - section.va + section.raw:
            problems.append("debug directory: data at %#x, at %#x of the file" % (rva, raw))
        elif image.at(rva, 4) == b"RSDS" and image.value(rva + 20, 4) == 1:
            names.append(image.text(rva + 24))
            if length != 24 + len(names[-1]) + 1:
                problems.append("debug directory: %d bytes for a name" % length)
    if kinds != [CODEVIEW, REPRODUCIBLE]:
        problems.append("debug directory has entries %r" % kinds)
    if names != ["kdamonitor.pdb"]:
        problems.append("debug directory names %r" % names)


def check_guard(image, problems):
    config, size = image.directories[LOAD_CONFIG]
    if not config:
        return
    if size != CONFIG_SIZE or image.value(config, 4) != CONFIG_SIZE:
        problems.append("load configuration has %d bytes, in the directory %d" % (
            image.value(config, 4), size))
        return
    unused = [at for at in range(CONFIG_SIZE) if image.value(config + at, 1) and not any(
        used <= at < used + length for used, length in CONFIG_USED.items())]
    if unused:
        problems.append("load configuration has a value at %d" % unused[0])
    cookie = image.value(config + COOKIE, 8) - image.base
    section = image.section_of(cookie)
    if section is None or not section.flags & WRITE or cookie % 8:
        problems.append("the stack cookie cannot be written")
    elif image.value(cookie, 8) != COOKIE_DEFAULT:
        problems.append("the stack cookie is %#x" % image.value(cookie, 8))
    check_guard_pointers(image, config, problems)
    check_guard_tables(image, config, problems)


def check_guard_pointers(image, config, problems):
    """One pointer, not writable and to code: what dispatches on x64, what checks on ARM64."""
    x64 = image.machine == MACHINES["x64"]
    used, other = (GUARD_DISPATCH, GUARD_CHECK) if x64 else (GUARD_CHECK, GUARD_DISPATCH)
    if image.value(config + other, 8):
        problems.append("control flow guard has a pointer of the other machine")
    if not image.value(config + used, 8):
        problems.append("control flow guard has no function to call")
        return
    pointer = image.value(config + used, 8) - image.base
    section = image.section_of(pointer)
    if section is None or section.name != ".rdata" or pointer % 8:
        problems.append("the pointer of control flow guard is at %#x" % pointer)
        return
    code = image.section_of(image.value(pointer, 8) - image.base)
    if code is None or code.name != ".text":
        problems.append("the pointer of control flow guard does not lead to code")


def check_guard_tables(image, config, problems):
    count, flags = image.value(config + GUARD_COUNT, 8), image.value(config + GUARD_FLAGS, 4)
    if count == 0 or flags != GUARDED:
        problems.append("control flow guard has no table: %d rows, flags %#x" % (count, flags))
        return
    rows = {}
    for at, count_at in ((GUARD_TABLE, GUARD_COUNT), (TAKEN_TABLE, TAKEN_COUNT)):
        count = image.value(config + count_at, 8)
        if count > GUARD_MAX:
            raise Bad("a table of control flow guard has %d rows" % count)
        table = image.value(config + at, 8) - image.base
        if count == 0 and table != -image.base:
            problems.append("a table of control flow guard has no rows")
        section = image.section_of(table)
        if count and (section is None or section.name != ".rdata"):
            problems.append("a table of control flow guard is at %#x" % table)
            count = 0
        rows[at] = [image.value(table + 4 * i, 4) for i in range(count)]
        if rows[at] != sorted(set(rows[at])):
            problems.append("the table of control flow guard is not in order")
    # The bitmap of the kernel has a bit for 16 bytes; what begins elsewhere opens all 16.
    unit = 16 if image.machine == MACHINES["x64"] else 4
    for rva in rows[GUARD_TABLE]:
        section = image.section_of(rva)
        if section is None or not section.flags & EXECUTE or rva % unit or (
                rva >= section.va + section.size):
            problems.append("control flow guard allows %#x" % rva)
    if image.entry not in rows[GUARD_TABLE]:
        problems.append("control flow guard does not allow the entry point")
    first, size = image.directories[SLOTS]
    if any(not first <= rva < first + size for rva in rows[TAKEN_TABLE]):
        problems.append("control flow guard allows imports outside of the slots")


# --- code -----------------------------------------------------------------------------------------

LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
# Jumps and calls of x64 and of ARM64
BRANCH = re.compile(r"j|call|bl?$|b\.|cbn?z$|tbn?z$")
ADDRESS = re.compile(r"0x([0-9a-f]+)")


class Arm:
    """Addresses that ARM64 code makes in two steps: a page, and a place in it. Code is followed as it
    stands, without its branches: a page is known until its register gets another value."""

    def __init__(self):
        self.pages = {}

    def made(self, op, rest):
        """The address that an instruction adds or accesses, or None."""
        words = re.split(r"[,\s\[\]!]+", rest)
        if op == "adrp":
            self.pages[words[0]] = int(ADDRESS.search(rest).group(1), 16)
            return None
        made, operands = None, words[1:]
        if op == "add" or op.startswith(("ldr", "str")):
            page = self.pages.get(operands[0]) if operands else None
            offset = operands[1].lstrip("#") if len(operands) > 1 else ""
            if page is not None and re.match(r"(0x[0-9a-f]+|[0-9]*)$", offset):
                made = page + int(offset or "0", 0)
        if not op.startswith(("st", "cmp", "ccmp", "b", "cb", "tb")):
            for name in words[:2 if op == "ldp" else 1]:
                self.pages.pop(name, None)
        return made


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


def check_entry_code(image, lines, problems):
    """The function at the entry sets the stack cookie: so it is GsDriverEntry, known without a
    symbol."""
    end = next((end for begin, end, _ in image.functions() if begin == image.entry), 0)
    cookie = image.value(image.directories[LOAD_CONFIG][0] + COOKIE, 8)
    for at, op, rest, names in lines:
        if not image.entry <= at - image.base < end or cookie not in names:
            continue
        if op == "str" or (op.startswith("mov") and rest.startswith("%")):
            return
    problems.append("what is at the entry point does not set the stack cookie")


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
    check_entry_code(image, lines["INIT"], problems)
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


def check(path, arch, imports, objdump, signed=False):
    problems = []
    with open(path, "rb") as f:
        data = f.read()
    try:
        image = Image(data)
    except Bad as error:
        return [str(error)]
    steps = [lambda: check_header(image, arch, problems),
             lambda: check_sections(image, problems),
             lambda: check_directories(image, problems),
             lambda: check_end(image, signed, problems),
             lambda: check_functions(image, problems),
             lambda: check_relocations(image, problems),
             lambda: check_imports(image, read_list(imports, arch), problems),
             lambda: check_resources(image, problems),
             lambda: check_debug(image, problems),
             lambda: check_guard(image, problems)]
    if objdump:
        steps.append(lambda: check_code(image, objdump, path, problems))
    for step in steps:
        try:
            step()
        except Bad as error:
            if str(error) not in problems:
                problems.append(str(error))
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", choices=sorted(MACHINES), required=True)
    parser.add_argument("--imports", default=os.path.join(ROOT, "driver/imports.txt"))
    parser.add_argument("--objdump", help="llvm-objdump, for what lies in the code")
    parser.add_argument("--signed", action="store_true", help="the file carries a signature")
    parser.add_argument("image")
    options = parser.parse_args()
    problems = check(options.image, options.arch, options.imports, options.objdump, options.signed)
    for problem in problems:
        print("%s: %s" % (os.path.basename(options.image), problem), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
