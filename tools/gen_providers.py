#!/usr/bin/env python3
"""Makes lib/tables/providers_data.c from providers.tsv.

usage: tools/gen_providers.py providers.tsv lib/tables/providers_data.c

Input: "guid<TAB>name<TAB>group guid" a line, '#' starts a comment. Output: rows sorted by the GUID
as it stands in memory (so that a lookup is a binary search with memcmp), one pool of names, one
short list of group GUIDs.
"""

import hashlib
import sys


def guid_bytes(text):
    raw = bytes.fromhex(text.replace("-", ""))
    if len(raw) != 16:
        raise SystemExit("not a GUID: " + text)
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]


def c_bytes(guid):
    return "{%s}" % ",".join("0x%02x" % b for b in guid)


def main(argv):
    if len(argv) != 3:
        raise SystemExit(__doc__)
    with open(argv[1], "rb") as f:
        raw = f.read()
    rows, groups, seen = [], [], set()
    for line in raw.decode("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        guid, name, group = (line.split("\t") + ["", ""])[:3]
        key = guid_bytes(guid)
        if key in seen:
            raise SystemExit("listed twice: " + guid)
        seen.add(key)
        if not name.isascii() or not name.isprintable() or not name:
            raise SystemExit("name not printable ASCII: " + guid)
        if group and guid_bytes(group) not in groups:
            groups.append(guid_bytes(group))
        rows.append((key, name, groups.index(guid_bytes(group)) + 1 if group else 0))
    rows.sort()

    offsets, pool, size = {}, [], 0
    for _, name, _ in rows:
        if name not in offsets:
            offsets[name] = size
            pool.append(name)
            size += len(name) + 1

    out = []
    put = out.append
    put("/*")
    put(" * providers_data.c - names of ETW providers by GUID. GENERATED, do not edit.")
    put(" *")
    put(" * Made by tools/gen_providers.py from providers.tsv,")
    put(" * sha256 %s." % hashlib.sha256(raw).hexdigest())
    put(" * %d providers. Source: winsiderss/systeminformer (MIT, see NOTICE)." % len(rows))
    put(" */")
    put('#include "symbols/providers.h"')
    put("")
    put("/* clang-format off */")
    put("")
    put("const size_t kda_provider_row_count = %d;" % len(rows))
    put("")
    put("/* The first is \"no group\". */")
    put("const uint8_t kda_provider_groups[][16] = {")
    put("    %s," % c_bytes(bytes(16)))
    for group in groups:
        put("    %s," % c_bytes(group))
    put("};")
    put("")
    put("const struct kda_provider_row kda_provider_rows[] = {")
    for key, name, group in rows:
        put("    {%s, %d, %d}," % (c_bytes(key), offsets[name], group))
    put("};")
    put("")
    put("const char kda_provider_names[] = {")
    for name in pool:
        line = "    "
        for char in name:
            part = "'%s'," % {"\\": "\\\\", "'": "\\'"}.get(char, char)
            if len(line) + len(part) > 96:
                put(line)
                line = "    "
            line += part
        put(line + "0,")
    put("};")
    with open(argv[2], "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main(sys.argv)
