#!/usr/bin/env python3
"""Makes lib/tables/profiles_data.c from layouts.tsv.

usage: tools/gen_profiles.py layouts.tsv [MORE.tsv...] lib/tables/profiles_data.c

Further inputs are rows that `kda symbols export` wrote: each file with its own heading, same columns.

The ids and their order come from include/kda/fields.h, so a field that is added there and in the
input needs only a new run. A column of the input that fields.h does not name, or the other way
round, is an error: the two must not drift apart.

Cells of the input: "0x1c0/8" offset and size; "0x10" offset, size unknown; "0x330.16:8" bit field
(offset, bit, length); "0xb.?:1" bit field whose bit is unknown. Empty = absent.

Sources that give no sizes get those of the builds that have them, where these agree (see consensus
and fill_sizes); where they do not, the size stays unknown and the library does not read the field; a bit field whose
bit stays unknown is stored as absent.
"""

import hashlib
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEYS = ["version", "os", "source", "pdb_guid", "age", "pe_timestamp", "pe_size_of_image", "layout"]


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
    """(offset, size, bit, bits), or None for absent; size 0 = not known, nor is the bit."""
    if not text:
        return None
    m = re.fullmatch(r"0x([0-9a-f]+)\.(\?|\d+):(\d+)", text)
    if m:
        if m.group(2) == "?":
            return int(m.group(1), 16), 0, 0, int(m.group(3))
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


def family(version):
    return ".".join(version.split(".")[:2])


def consensus(column, versions):
    """What each build of one field that has a bare offset is to have in its place: (size, bit, bits)
    of all builds of the same Windows family ("10.0") that give them, or where the family gives none,
    of all builds; None where they differ. Bits are those of builds with the same offset."""
    said = {}
    for place, version in zip(column, versions):
        if place and place[1]:
            for key in (family(version), "all"):
                said.setdefault(key, set()).add(place if place[3] else place[1:])
    out = []
    for place, version in zip(column, versions):
        here = said.get(family(version)) or said.get("all") or set()
        if place and all(len(one) == 4 for one in here):
            here = {one[1:] for one in here
                    if one[0] == place[0] and place[3] in (0, one[3])}
        one = next(iter(here)) if len(here) == 1 else None
        out.append(one if one and len(one) == 3 else None)
    return out


def overlapping(places):
    """Pairs of fields (by index) of which the first covers the start of the second."""
    return {(a, b) for a, x in places.items() for b, y in places.items()
            if a != b and x[0] <= y[0] < x[0] + x[1]}


def fill_sizes(rows, fields, places):
    """Gives bare offsets the consensus, unless that reaches over the end of the structure or into a
    field that it does not cover in any build with sizes: then the field was smaller."""
    agreed = [consensus(column, [row["version"] for row in rows]) for column in places]
    members = {}
    for f, (struct, _) in enumerate(fields):
        members.setdefault(struct, []).append(f)
    for struct, group in members.items():
        known, found = set(), []
        for n, row in enumerate(rows):
            full = {f: places[f][n] for f in group if places[f][n]}
            bare = {f for f, place in full.items() if not place[1]}
            end = int(row["_%s:size" % struct] or "0", 16)
            for f in bare:
                offset, one = full[f][0], agreed[f][n]
                if one and (not full[f][3] or one[2]) and (not end or offset + one[0] <= end):
                    full[f] = (offset,) + one
            plain = {f: place for f, place in full.items() if not place[3]}
            if bare:
                found.append((n, full, plain, bare))
            else:
                known |= overlapping(plain)
        for n, full, plain, bare in found:
            wrong = {a for a, b in overlapping(plain) - known if a in bare}
            for f in bare:
                places[f][n] = (full[f][0], 0, 0, 0) if f in wrong else full[f]
                if full[f][3] and not full[f][1]:
                    places[f][n] = None


def read_table(path, want):
    """(name and hash, heading, rows as dictionaries)."""
    with open(path, "rb") as f:
        raw = f.read()
    lines = [line.split("\t") for line in raw.decode("utf-8").splitlines() if line]
    head = lines[0]
    if head[:len(KEYS)] != KEYS:
        raise SystemExit("%s: the heading does not start with %s" % (path, " ".join(KEYS)))
    if set(want) != set(head[len(KEYS):]) or len(set(want)) != len(head) - len(KEYS):
        raise SystemExit("fields.h and %s differ: %s"
                         % (path, sorted(set(want) ^ set(head[len(KEYS):]))))
    rows = []
    for line in lines[1:]:
        if len(line) != len(head):
            raise SystemExit("%s: short row: %s" % (path, line[0]))
        rows.append(dict(zip(head, line)))
    return (os.path.basename(path), hashlib.sha256(raw).hexdigest()), head, rows


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
    if len(argv) < 3:
        raise SystemExit(__doc__)
    with open(os.path.join(ROOT, "include/kda/fields.h"), encoding="utf-8") as f:
        header = f.read()
    symbols = [a for a, _ in macro(header, "KDA_SYMBOLS")]
    structs = [a for a, _ in macro(header, "KDA_STRUCTS")]
    fields = macro(header, "KDA_FIELDS")

    want = (["rva:" + s for s in symbols] + ["_%s:size" % s for s in structs]
            + ["_%s.%s" % f for f in fields])
    inputs = [read_table(path, want) for path in argv[1:-1]]
    order = {name: i for i, name in enumerate(want)}
    rows = [row for _, _, table in inputs for row in table]
    places = [[cell(row["_%s.%s" % f]) for row in rows] for f in fields]
    fill_sizes(rows, fields, places)

    cells, layouts, rvas, builds = Table(), Table(), Table(), []
    cells.add(None)
    for n, row in enumerate(rows):
        sizes = tuple(int(row["_%s:size" % s] or "0", 16) for s in structs)
        index = tuple(cells.add(column[n]) for column in places)
        layout = layouts.add((sizes, index))
        rva = tuple(int(row["rva:" + s], 16) if row["rva:" + s] else None for s in symbols)
        rva_index = rvas.add(rva) if any(v is not None for v in rva) else None
        if not 0 < len(row["version"]) < 20:
            raise SystemExit("version too long or missing: " + row["version"])
        builds.append((row["version"], guid_bytes(row["pdb_guid"]) if row["pdb_guid"] else None,
                       int(row["age"] or 0), int(row["pe_timestamp"] or "0", 16),
                       int(row["pe_size_of_image"] or "0", 16), layout, rva_index))

    out = []
    put = out.append
    put("/*")
    put(" * profiles_data.c - kernel layouts by build. GENERATED, do not edit.")
    put(" *")
    put(" * Made by tools/gen_profiles.py from")
    for (name, digest), _, _ in inputs:
        put(" * %s, sha256 %s." % (name, digest))
    put(" * %d builds, %d with addresses of globals, %d distinct layouts."
        % (len(builds), sum(b[6] is not None for b in builds), len(layouts.items)))
    put(" *")
    put(" * Sources of the facts (licences in NOTICE): JPCERTCC/Windows-Symbol-Tables (BSD-3-Clause),")
    put(" * novafacing/vergilius-rs (Apache-2.0), Rickebo/ntoskrnlib, crash dumps of")
    put(" * HalfTimeOfLife/KDAMonitor (MIT) and of rizinorg/rizin-testbins; PE time stamps and sizes from")
    put(" * winsiderss/systeminformer (MIT).")
    put(" */")
    put('#include "symbols/profiles.h"')
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
    put("/* Order of the input's columns: ids of globals, then of structures, then of fields. */")
    put("const uint16_t kda_profile_columns[] = {")
    out.extend(rows_of([order[name] for name in inputs[0][1][len(KEYS):]], 16, str))
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
    with open(argv[-1], "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main(sys.argv)
