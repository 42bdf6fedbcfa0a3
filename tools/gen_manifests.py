#!/usr/bin/env python3
"""Makes lib/tables/manifests_data.c from manifest-events.tsv.

usage: tools/gen_manifests.py manifest-events.tsv lib/tables/manifests_data.c

Input: "guid provider id version event(fields) opcode task level", tabs between, '#' starts a
comment; rows without a GUID are skipped, of rows for the same event the first counts. The input has
types and names, but neither lengths nor counts. What is known about lengths is written as a rule:
a Binary whose length stands in an earlier field named after it ("DataLength", "Data") takes it from
there, one that is the only Binary takes what the rest leaves, any other ends what can be decoded.
So does a structure, of which the input has no more than a number.
"""

import hashlib
import sys

# Numbers of enum kda_in_type.
TYPES = {"UnicodeString": 1, "AnsiString": 2, "Int8": 3, "UInt8": 4, "Int16": 5, "UInt16": 6,
         "Int32": 7, "UInt32": 8, "Int64": 9, "UInt64": 10, "Float": 11, "Double": 12,
         "Boolean": 13, "Binary": 14, "GUID": 15, "Pointer": 16, "FILETIME": 17, "SYSTEMTIME": 18,
         "SID": 19, "HexInt32": 20, "HexInt64": 21}
INTEGERS = {"UInt8", "UInt16", "UInt32", "UInt64", "Int32"}
FIXED = {"Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float",
         "Double", "Boolean", "GUID", "Pointer", "FILETIME", "SYSTEMTIME", "HexInt32", "HexInt64"}
LENGTH_ENDINGS = ("Length", "Size", "Len", "Bytes", "ByteCount", "_length", "_size", "DataLength",
                  "DataSize", "length", "size")
NO_LENGTH, REST = 0xFF, 0xFE
STRUCTURE = "structure"


def guid_bytes(text):
    raw = bytes.fromhex(text.replace("-", ""))
    if len(raw) != 16:
        raise SystemExit("not a GUID: " + text)
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]


def parse_fields(text, where):
    """The text behind the event's name, "(UInt32 A, Binary B)"."""
    inner = text[text.rindex("(") + 1:text.rindex(")")]
    fields = []
    for part in inner.split(", ") if inner else []:
        kind, _, name = part.partition(" ")
        kind = STRUCTURE if kind.isdigit() else kind
        if (kind not in TYPES and kind != STRUCTURE) or not name.isprintable() or not name:
            raise SystemExit("%s: no field: %r" % (where, part))
        fields.append((kind, name))
    return fields


def lengths(fields):
    """For each field the number of the one with its length, REST or NO_LENGTH."""
    out = []
    binaries = sum(kind == "Binary" for kind, _ in fields)
    for at, (kind, name) in enumerate(fields):
        found = NO_LENGTH
        if kind == "Binary":
            for before in range(at - 1, -1, -1):
                other, length = fields[before]
                if other in INTEGERS and any(length == name + e for e in LENGTH_ENDINGS):
                    found = before
                    break
            if found == NO_LENGTH and binaries == 1 and all(k in FIXED for k, _ in
                                                            fields[at + 1:]):
                found = REST
        out.append(found)
    return out


class Pool:
    def __init__(self):
        self.offsets, self.texts, self.size = {}, [], 0

    def add(self, text):
        if text not in self.offsets:
            self.offsets[text] = self.size
            self.texts.append(text)
            self.size += len(text.encode()) + 1
        return self.offsets[text]


def put_chars(put, texts):
    line = "    "
    for text in texts:
        for byte in text.encode() + b"\0":
            char = chr(byte)
            part = ("'%s'," % {"\\": "\\\\", "'": "\\'"}.get(char, char) if 32 <= byte < 127
                    else "%d," % (byte if byte < 128 else byte - 256))
            if len(line) + len(part) > 96:
                put(line)
                line = "    "
            line += part
    put(line)


def read(raw):
    providers = {}
    for number, line in enumerate(raw.decode("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        guid, provider, event, version, text, opcode, task, _ = line.split("\t")
        if not guid:
            continue
        key = (int(event), int(version))
        fields = parse_fields(text, "line %d" % number)
        if len(fields) > 200:
            raise SystemExit("line %d: too many fields" % number)
        if opcode == "Info" or opcode.startswith("opcode_"):
            opcode = ""
        name = "/".join(part for part in (task, opcode) if part)
        _, events = providers.setdefault(guid_bytes(guid), (provider, {}))
        events.setdefault(key, (name, tuple(zip(fields, lengths(fields)))))
    return providers


def main(argv):
    if len(argv) != 3:
        raise SystemExit(__doc__)
    with open(argv[1], "rb") as f:
        raw = f.read()
    providers = read(raw)
    names, layouts, layout_rows, events, heads = Pool(), {}, [], [], []
    for guid in sorted(providers):
        provider, of = providers[guid]
        heads.append((guid, names.add(provider), len(events), len(of)))
        for (event, version), (name, fields) in sorted(of.items()):
            if fields not in layouts:
                layouts[fields] = len(layout_rows)
                for (kind, field), length in fields:
                    layout_rows.append((names.add(field), TYPES.get(kind, TYPES["Binary"]), length))
            events.append((event, version, len(fields), names.add(name), layouts[fields]))

    out = []
    put = out.append
    put("/*")
    put(" * manifests_data.c - fields of manifest events by provider. GENERATED, do not edit.")
    put(" *")
    put(" * Made by tools/gen_manifests.py from manifest-events.tsv,")
    put(" * sha256 %s." % hashlib.sha256(raw).hexdigest())
    put(" * %d events of %d providers. Sources: see NOTICE." % (len(events), len(heads)))
    put(" */")
    put('#include "etl/builtin.h"')
    put("")
    put("/* clang-format off */")
    put("")
    put("const size_t kda_builtin_provider_count = %d;" % len(heads))
    put("")
    put("const struct kda_builtin_provider kda_builtin_providers[] = {")
    for guid, name, first, count in heads:
        put("    {{%s}," % ",".join("0x%02x" % b for b in guid))
        put("     %d, %d, %d}," % (name, first, count))
    put("};")
    put("")
    put("const struct kda_builtin_event kda_builtin_events[] = {")
    for event in events:
        put("    {%d, %d, %d, %d, %d}," % event)
    put("};")
    put("")
    put("const struct kda_builtin_field kda_builtin_fields[] = {")
    for at in range(0, len(layout_rows), 4):
        put("    " + " ".join("{%d, %d, %d}," % row for row in layout_rows[at:at + 4]))
    put("};")
    put("")
    put("const char kda_builtin_text[] = {")
    put_chars(put, names.texts)
    put("};")
    with open(argv[2], "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main(sys.argv)
