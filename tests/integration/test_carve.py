"""kda --carve: what is on no list and still stands in pool memory.

The images of ../shared/data have pool headers and come from another generator than ours. Whole, they
must show nothing new. Then objects of theirs are taken off every list by editing bytes, at places that
the truth files and the layout table name, and exactly these must be found.
"""
import csv
import json
import os
import shutil
import struct
import unittest

from common import forge, hexint, kda, need_data, rows, unpack, work
from test_truth import IMAGES

EDITED = ["server2016-14393.4583", "win10-19041.1466-encoded-kdbg", "win11-22000.795",
          "win8.1-9600.19913"]
WITH_UNNAMED = [name for name in EDITED if "19041" not in name]  # has no such process
FITTED = ["server2022-20348.825", "tampered-win11-22000.795", "win11-22000.318-holes"]


def found_by_pool(all_rows):
    """Addresses of rows that only pool memory shows, by kind."""
    found = set()
    for row in all_rows:
        if "pool" in row.get("found_by", []):
            found.add((row["row"], hexint(row["va"])))
        for reg in row.get("registrations", []):
            if "pool" in reg["found_by"]:
                found.add(("registration", hexint(reg["va"])))
    return found


def pool_findings(image, *options):
    found = set()
    for row in rows(kda("audit", image, "--carve", "-f", "jsonl", *options), "audit"):
        if row["check"].startswith("pool."):
            assert row["check"] == "pool." + row["object"]
            found.add((row["object"], hexint(row["va"])))
    return found


class Whole(unittest.TestCase):
    def untouched(self, name, *options):
        image = unpack("images/%s.%s.xz" % (name, IMAGES[name]))
        without = kda("map", image, "-f", "jsonl", "--all", *options)
        carved = kda("map", image, "-f", "jsonl", "--all", "--carve", *options)
        self.assertEqual(without.stdout, carved.stdout, name)
        self.assertEqual(without.returncode, carved.returncode, name)
        self.assertEqual(pool_findings(image, *options), set(), name)
        checks = [row for row in rows(kda("audit", image, "--carve", "-f", "jsonl", *options), "check")
                  if row["check"].startswith("pool.")]
        self.assertEqual([row["outcome"] for row in checks], ["passed"] * 5, name)
        self.assertTrue(all(row["examined"] > 0 for row in checks), name)

    def test_samples_show_nothing_new(self):
        for name in IMAGES:
            with self.subTest(name):
                self.untouched(name)

    def test_samples_show_nothing_new_without_symbols(self):
        for name in FITTED:
            with self.subTest(name):
                self.untouched(name, "--symbols", "none")

    def test_without_the_option_there_are_no_pool_checks(self):
        image = unpack("images/win11-22000.795.raw.xz")
        checks = [row["check"] for row in rows(kda("audit", image, "-f", "jsonl"), "check")]
        self.assertTrue(checks)
        self.assertFalse([check for check in checks if check.startswith("pool.")])


class Editor:
    """A raw sample image, its truth and layout, and a copy whose bytes can be changed."""

    def __init__(self, name):
        image = unpack("images/%s.raw.xz" % name)
        with open(unpack("images/%s.truth.json.xz" % name), encoding="utf-8") as f:
            self.truth = json.load(f)
        version = name.split("-")[1]
        with open(need_data("layouts.tsv"), encoding="utf-8", newline="") as f:
            self.layout = [row for row in csv.DictReader(f, delimiter="\t")
                           if row["version"].endswith(version) and row["rva:PspCidTable"]][0]
        self.path = work("carve-%s.raw" % name)
        shutil.copyfile(image, self.path)
        self.file = open(self.path, "r+b")  # closed by close()

    def close(self):
        self.file.close()
        os.remove(self.path)

    def at(self, field):
        return int(self.layout[field].split("/")[0], 16)

    def symbol(self, name):
        return self.truth["kernel"]["base"] + int(self.layout["rva:" + name], 16)

    def physical(self, va):
        table = self.truth["dtb"]
        for shift in (39, 30, 21, 12):
            self.file.seek(table + (va >> shift & 511) * 8)
            entry = struct.unpack("<Q", self.file.read(8))[0]
            assert entry & 1, "0x%x is not mapped" % va
            table = entry & 0xffffffffff000
            if shift in (30, 21) and entry & 0x80:
                return table & ~((1 << shift) - 1) | va & (1 << shift) - 1
        return table | va & 4095

    def get(self, va):
        self.file.seek(self.physical(va))
        return struct.unpack("<Q", self.file.read(8))[0]

    def put(self, va, value, size=8):
        self.file.seek(self.physical(va))
        self.file.write(value.to_bytes(size, "little"))
        self.file.flush()

    def unlink(self, link):
        """RemoveEntryList: the node's own links stay."""
        following, last = self.get(link), self.get(link + 8)
        self.put(last, following)
        self.put(following + 8, last)

    def clear_handle(self, table, value):
        code = self.get(table + self.at("_HANDLE_TABLE.TableCode"))
        page, index = code & ~7, value // 4
        if code & 3 == 2:
            page = self.get(page + index // (256 * 512) * 8)
        if code & 3 >= 1:
            page = self.get(page + index // 256 % 512 * 8)
        self.put(page + index % 256 * 16, 0)

    def leaves(self, table):
        code = self.get(table + self.at("_HANDLE_TABLE.TableCode"))
        pages = [code & ~7]
        for _ in range(code & 3):
            pages = [below for page in pages for i in range(512)
                     if (below := self.get(page + 8 * i)) != 0]
        return pages

    def clear_handles_to(self, body):
        """From Windows 8.1 on entries hold bits 4 to 47 of the header's address in bits 20 to 63."""
        wanted = (body - 0x30) >> 4 & (1 << 44) - 1
        for table in {p["table"] for p in self.truth["processes"] if p["table"]}:
            for page in self.leaves(table):
                for entry in range(page, page + 4096, 16):
                    if self.get(entry) >> 20 == wanted:
                        self.put(entry, 0)

    def table_of(self, pid):
        return [p["table"] for p in self.truth["processes"] if p["pid"] == pid][0]


def nobody_names(truth):
    """A process without consumers and registrations, which would name it."""
    named = {c["pid"] for s in truth["loggers"] for c in s["consumers"]}
    named |= {r["pid"] for g in truth["guids"] for r in g["regs"] if r["kind"] == "user"}
    return [p for p in truth["processes"]
            if p["silo"] == 0 and p["pid"] > 100 and p["pid"] not in named and p["linked"]][0]


class Unlinked(unittest.TestCase):
    def edited(self, name, edit):
        editor = Editor(name)
        try:
            wanted = edit(editor)
            for options in ([], ["--symbols", "none"]):
                if options and editor.truth["build"] < 14393:
                    continue
                carved = kda("map", editor.path, "-f", "jsonl", "--all", "--carve", *options)
                self.assertEqual(found_by_pool(rows(carved)), wanted, (name, options))
                without = rows(kda("map", editor.path, "-f", "jsonl", "--all", *options))
                self.assertEqual(found_by_pool(without), set())
                self.assertEqual(pool_findings(editor.path, *options), wanted, (name, options))
        finally:
            editor.close()

    def each(self, edit):
        for name in EDITED:
            with self.subTest(name):
                self.edited(name, edit)

    def test_session(self):
        def edit(e):
            session = [s for s in e.truth["loggers"] if s["silo"] == 0 and not s["consumers"]][0]
            e.put(e.truth["silos"][0]["array"] + 8 * session["index"], 1)
            return {("session", session["va"])}
        self.each(edit)

    def test_session_that_ended_is_left_out(self):
        def edit(e):
            session = [s for s in e.truth["loggers"] if s["silo"] == 0 and not s["consumers"]][0]
            e.put(e.truth["silos"][0]["array"] + 8 * session["index"], 1)
            e.put(session["va"] + e.at("_WMI_LOGGER_CONTEXT.CollectionOn"), 0, 4)
            return set()
        self.edited(EDITED[0], edit)

    def test_consumers(self):
        def edit(e):
            wanted = set()
            for c in [c for s in e.truth["loggers"] if s["silo"] == 0
                      for c in s["consumers"]][:3]:
                e.unlink(c["va"] + e.at("_ETW_REALTIME_CONSUMER.Links"))
                e.clear_handle(e.table_of(c["pid"]), c["handle"])
                wanted.add(("consumer", c["va"]))
            return wanted
        self.each(edit)

    def test_provider(self):
        def edit(e):
            guid = [g for g in e.truth["guids"] if g["type"] == "trace" and g["linked"] and
                    g["silo"] == 0 and not g["regs"]][0]
            e.unlink(guid["va"] + e.at("_ETW_GUID_ENTRY.GuidList"))
            return {("provider", guid["va"])}
        self.each(edit)

    def test_registrations(self):
        def edit(e):
            wanted = set()
            chosen = [r for g in e.truth["guids"] if g["type"] == "trace" and g["silo"] == 0
                      for r in g["regs"] if r["handle"] and not r["group"]]
            for r in chosen[:2] + chosen[-2:]:
                e.unlink(r["va"] + e.at("_ETW_REG_ENTRY.RegList"))
                e.clear_handle(e.table_of(r["pid"]), r["handle"])
                wanted.add(("registration", r["va"]))
            return wanted
        self.each(edit)

    @staticmethod
    def hide_process(e):
        process = nobody_names(e.truth)
        e.unlink(process["eprocess"] + e.at("_EPROCESS.ActiveProcessLinks"))
        e.unlink(process["table"] + e.at("_HANDLE_TABLE.HandleTableList"))
        e.clear_handle(e.get(e.symbol("PspCidTable")), process["pid"])
        e.clear_handles_to(process["eprocess"])
        return process

    def test_process(self):
        def edit(e):
            return {("process", self.hide_process(e)["eprocess"])}
        for name in WITH_UNNAMED:
            with self.subTest(name):
                self.edited(name, edit)

    def test_process_that_ended_is_left_out(self):
        def edit(e):
            process = self.hide_process(e)
            e.put(process["eprocess"] + e.at("_EPROCESS.ExitTime"), process["ctime"] + 10 ** 7)
            return set()
        self.edited(WITH_UNNAMED[0], edit)


class Scanned(unittest.TestCase):
    def test_options_of_commands(self):
        image = forge("audit", "carve-cli.raw", "--add",
                      "process 1200 name=ghost.exe unlinked nocid notablelink", "--add",
                      "session 12 name=Hidden mode=0x100 hidden", "--add",
                      "consumer session=9 pid=800 unlinked nohandle")
        self.assertEqual(kda("info", image, "--carve").returncode, 2)
        for command in ("map", "sessions", "consumers", "providers", "processes", "audit"):
            self.assertEqual(kda(command, image, "--carve").returncode, 0, command)
        self.assertIn("none: in pool memory only", kda("map", image, "--carve").stdout)
        self.assertIn("on no list and behind no handle", kda("map", image, "--carve").stdout)
        names = [row["name"] for row in rows(kda("processes", image, "-f", "jsonl", "--carve"))]
        self.assertIn("ghost.exe", names)


if __name__ == "__main__":
    unittest.main()
