#!/usr/bin/env python3
"""Makes lib/symbols/profiles_data.c from layouts.tsv.

usage: tools/gen_profiles.py layouts.tsv lib/symbols/profiles_data.c

The ids and their order come from include/kda/fields.h, so a field that is added there and in the
input needs only a new run. A column of the input that fields.h does not name, or the other way
round, is an error: the two must not drift apart.

Cells of the input: "0x1c0/8" offset and size; "0x10" offset, size unknown; "0x330.16:8" bit field
(offset, bit, length); "0xb.?:1" bit field whose bit is unknown, which is stored as absent, because
a reader cannot use it. Empty = absent.
"""

import hashlib
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEYS = 8  # version os source pdb_guid age pe_timestamp pe_size_of_image layout


def macro(text, name):
    start = text.index("#define %s(X)" % name)
    body = text[text.index("\n", start):text.index("\n\n", start)]
    return re.findall(r"X\((\w+)(?:, (\w+))?\)", body)


def unit_size(bits):
    for size in (1, 2, 4, 8):
        if bits <= size * 8:
            return size
    raise SystemExit("bit field over 64 bits")


def cell(text):
    """(offset, size, bit, bits), or None for absent."""
    if not text:
        return None
    m = re.fullmatch(r"0x([0-9a-f]+)\.(\?|\d+):(\d+)", text)
    if m:
        if m.group(2) == "?":
            return None
        bit, bits = int(m.group(2)), int(m.group(3))
        return int(m.group(1), 16), unit_size(bit + bits), bit, bits
    m = re.fullmatch(r"0x([0-9a-f]+)(?:/(\d+))?", text)
    if not m:
        raise SystemExit("cell not understood: " + text)
    return int(m.group(1), 16), int(m.group(2) or 0), 0, 0


def guid_bytes(text):
    raw = bytes.fromhex(text.replace("-", ""))
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]


def rows_of(values, per_line, fmt):
    for i in range(0, len(values), per_line):
        yield "    " + " ".join(fmt(v) + "," for v in values[i:i + per_line])


def check(value, bits, what):
    if value >= 1 << bits:
        raise SystemExit("%s does not fit %d bits: 0x%x" % (what, bits, value))
    return value


class Table:
    """Values in order of first use."""

    def __init__(self):
        self.index = {}
        self.items = []

    def add(self, item):
        if item not in self.index:
            self.index[item] = len(self.items)
            self.items.append(item)
        return self.index[item]


def main(argv):
    if len(argv) != 3:
        raise SystemExit(__doc__)
    with open(os.path.join(ROOT, "include/kda/fields.h"), encoding="utf-8") as f:
        header = f.read()
    symbols = [a for a, _ in macro(header, "KDA_SYMBOLS")]
    structs = [a for a, _ in macro(header, "KDA_STRUCTS")]
    fields = macro(header, "KDA_FIELDS")

    with open(argv[1], "rb") as f:
        raw = f.read()
    lines = [line.split("\t") for line in raw.decode("utf-8").splitlines() if line]
    head, lines = lines[0], lines[1:]
    columns = {name: i for i, name in enumerate(head)}
    want = (["rva:" + s for s in symbols] + ["_%s:size" % s for s in structs]
            + ["_%s.%s" % f for f in fields])
    if set(want) != set(head[KEYS:]) or len(set(want)) != len(want):
        raise SystemExit("fields.h and the input differ: %s"
                         % sorted(set(want) ^ set(head[KEYS:])))

    cells, layouts, rvas, builds = Table(), Table(), Table(), []
    cells.add(None)
    for line in lines:
        if len(line) != len(head):
            raise SystemExit("short row: " + line[0])
        get = lambda name, line=line: line[columns[name]]
        sizes = tuple(int(get("_%s:size" % s) or "0", 16) for s in structs)
        index = tuple(cells.add(cell(get("_%s.%s" % f))) for f in fields)
        layout = layouts.add((sizes, index))
        rva = tuple(int(get("rva:" + s), 16) if get("rva:" + s) else None for s in symbols)
        rva_index = rvas.add(rva) if any(v is not None for v in rva) else None
        if len(get("version")) > 19:
            raise SystemExit("version too long: " + get("version"))
        builds.append((get("version"), guid_bytes(get("pdb_guid")) if get("pdb_guid") else None,
                       int(get("age") or 0), int(get("pe_timestamp") or "0", 16),
                       int(get("pe_size_of_image") or "0", 16), layout, rva_index))

    out = []
    put = out.append
    put("/*")
    put(" * profiles_data.c - kernel layouts by build. GENERATED, do not edit.")
    put(" *")
    put(" * Made by tools/gen_profiles.py from layouts.tsv,")
    put(" * sha256 %s." % hashlib.sha256(raw).hexdigest())
    put(" * %d builds, %d with addresses of globals, %d distinct layouts."
        % (len(builds), sum(b[6] is not None for b in builds), len(layouts.items)))
    put(" *")
    put(" * Sources of the facts (licences in NOTICE): JPCERTCC/Windows-Symbol-Tables (BSD-3-Clause),")
    put(" * novafacing/vergilius-rs (Apache-2.0), Rickebo/ntoskrnlib, crash dumps of")
    put(" * HalfTimeOfLife/KDAMonitor (MIT) and of rizinorg/rizin-testbins; PE time stamps and sizes from")
    put(" * winsiderss/systeminformer (MIT).")
    put(" */")
    put('#include "profiles.h"')
    put("")
    put("/* clang-format off */")
    put("")
    put("const size_t kda_profile_row_count = %d;" % len(builds))
    put("")
    put("/* Distinct places of fields: offset, size, bit, bits. The first means absent. */")
    put("const struct kda_profile_cell kda_profile_cells[] = {")

    def show_cell(c):
        if c is None:
            return "{0xffff, 0, 0, 0}"
        check(c[0], 16, "offset")
        return "{0x%x, %d, %d, %d}" % (c[0], check(c[1], 16, "size"), c[2], c[3])

    out.extend(rows_of(cells.items, 4, show_cell))
    put("};")
    put("")
    put("/* Sizes of structures by layout, in the order of KDA_STRUCTS; 0 = absent. */")
    put("const uint16_t kda_profile_sizes[][KDA_STRUCT_COUNT] = {")
    for sizes, _ in layouts.items:
        put("    {")
        out.extend("    " + r for r in rows_of(sizes, 12, lambda v: "0x%x" % check(v, 16, "size")))
        put("    },")
    put("};")
    put("")
    put("/* Indices into kda_profile_cells by layout, in the order of KDA_FIELDS. */")
    put("const uint16_t kda_profile_fields[][KDA_FIELD_COUNT] = {")
    for _, index in layouts.items:
        put("    {")
        out.extend("    " + r for r in rows_of(index, 16, str))
        put("    },")
    put("};")
    put("")
    put("/* RVAs of globals by build, in the order of KDA_SYMBOLS; 0 = absent. */")
    put("const uint32_t kda_profile_rvas[][KDA_SYM_COUNT] = {")
    for rva in rvas.items:
        put("    {")
        out.extend("    " + r for r in rows_of(
            rva, 9, lambda v: "0" if v is None else "0x%x" % check(v, 32, "rva")))
        put("    },")
    put("};")
    put("")
    put("/* Builds: version, PDB GUID in memory order, PE time stamp, PE size, RVA row, age, layout. */")
    put("const struct kda_profile_row kda_profile_rows[] = {")
    for version, guid, age, stamp, size, layout, rva in builds:
        put('    {"%s",' % version)
        put("     {%s}," % ",".join("0x%02x" % b for b in (guid or bytes(16))))
        put("     0x%x, 0x%x, %s, %d, %d}," % (
            stamp, size, "KDA_PROFILE_NO_RVAS" if rva is None else str(rva),
            check(age, 8, "age"), check(layout, 8, "layout")))
    put("};")
    with open(argv[2], "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main(sys.argv)
