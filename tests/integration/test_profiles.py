"""Profiles of one's own: a kernel that the built-in table does not know becomes readable by one file,
once, and stays readable without it."""
import csv
import functools
import glob
import http.server
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import unittest

from common import BIN, KDA, ROOT, forge, kda, need_data, need_tool, rows, work

VERSION = "10.0.22000.795"
ALIEN = bytes(range(0x30, 0x40))  # a PDB GUID that no table has
COMMANDS = ("sessions", "consumers", "providers", "processes")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def text_of(guid):
    order = (3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15)
    return "".join("%02X" % guid[i] for i in order)


def bytes_of(text):
    raw = bytes.fromhex(text)
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]


def builtin_row(version):
    """The built-in row of a build, by way of `kda symbols export`, as (line, dictionary)."""
    image = forge("win11", "profiles-known.raw")
    info = rows(kda("info", image, "-f", "jsonl"), "info")[0]
    assert info["version"] == version, info
    key = info["pdb_guid"].strip("{}").replace("-", "").upper() + "%X" % info["pdb_age"]
    result = kda("symbols", "export", key, env={"XDG_CACHE_HOME": "/none"})
    assert result.returncode == 0, result.stderr
    return image, list(csv.DictReader(io.StringIO(result.stdout), delimiter="\t"))[0]


def write_isf(row, guid, path):
    """A Volatility symbol table with what the row says, for another GUID."""
    types, sizes = {}, set()
    for column, cell in row.items():
        if column.endswith(":size") and cell:
            types.setdefault(column[:-5], {"kind": "struct", "fields": {}})["size"] = int(cell, 16)
    for column, cell in row.items():
        if not column.startswith("_") or "." not in column or not cell:
            continue
        name, field = column.split(".")
        place, _, size = cell.partition("/")
        offset, _, bits = place.partition(".")
        if bits:
            bit, length = bits.split(":")
            kind = {"kind": "bitfield", "bit_position": int(bit), "bit_length": int(length),
                    "type": {"kind": "base", "name": "u8"}}
        else:
            sizes.add(int(size))
            kind = {"kind": "base", "name": "u%s" % size}
        types[name]["fields"][field] = {"offset": int(offset, 16), "type": kind}
    table = {
        "metadata": {"format": "6.2.0", "windows": {"pdb": {
            "GUID": text_of(guid), "age": 1, "database": "ntkrnlmp.pdb", "machine_type": 34404}}},
        "base_types": {"u%d" % s: {"size": s, "kind": "int", "signed": False, "endian": "little"}
                       for s in sizes | {8}},
        "symbols": {c[4:]: {"address": int(v, 16)} for c, v in row.items()
                    if c.startswith("rva:") and v},
        "enums": {}, "user_types": types}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(table, f)
    return path


class Profiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.known, cls.row = builtin_row(VERSION)
        cls.guid = bytes_of(cls.row["pdb_guid"])
        cls.alien = work("profiles-alien.raw")
        data = read(cls.known)
        assert cls.guid in data
        with open(cls.alien, "wb") as f:
            f.write(data.replace(cls.guid, ALIEN))
        cls.folder = work("profiles-isf")
        os.makedirs(cls.folder, exist_ok=True)
        cls.isf = write_isf(cls.row, ALIEN, os.path.join(cls.folder, text_of(ALIEN) + "-1.json"))

    def setUp(self):
        self.cache = work("profiles-cache")
        shutil.rmtree(self.cache, ignore_errors=True)
        self.env = {"XDG_CACHE_HOME": self.cache}
        self.stored = os.path.join(self.cache, "kda/profiles",
                                   "ntkrnlmp.pdb-%s1.kdaprof" % text_of(ALIEN))

    def run_kda(self, *args, code=0, **env):
        result = kda(*args, env=dict(self.env, **env))
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def source(self, **env):
        info = rows(self.run_kda("info", self.alien, "-f", "jsonl", **env), "info")[0]
        return info["symbol_source"]

    def same_rows(self):
        for command in COMMANDS:
            ours = self.run_kda(command, self.alien, "-f", "jsonl")
            self.assertTrue(ours.stdout.strip())
            self.assertEqual(ours.stdout, self.run_kda(command, self.known, "-f", "jsonl").stdout)

    def test_added_file_is_used_from_then_on(self):
        self.assertEqual(self.source(), "fitted")
        added = rows(self.run_kda("symbols", "add", self.isf, "-f", "jsonl"), "profile")
        self.assertEqual(len(added), 1)
        self.assertEqual(added[0]["origin"], self.stored)
        self.assertLess(os.path.getsize(self.stored), 1000)
        self.assertEqual(self.source(), "cache")
        self.same_rows()
        listed = rows(self.run_kda("symbols", "list", "-f", "jsonl"), "profile")
        self.assertEqual([row["source"] for row in listed], ["built-in", "isf"])
        self.assertEqual(listed[0]["builds"], 234)
        self.assertEqual(listed[0]["complete_builds"], 213)
        self.assertIn("written", listed[1])

    def test_added_with_its_image(self):
        row = rows(self.run_kda("symbols", "add", self.isf, self.alien, "-f", "jsonl"))[0]
        info = rows(self.run_kda("info", self.alien, "-f", "jsonl"), "info")[0]
        self.assertEqual((row["pe_timestamp"], row["pe_size"]),
                         (info["pe_timestamp"], info["pe_size"]))
        shutil.rmtree(self.cache)
        result = self.run_kda("symbols", "add", self.isf, self.known, code=5)
        self.assertIn("is for", result.stderr)
        self.assertFalse(os.path.exists(self.cache))

    def test_local_file_leaves_a_profile(self):
        self.assertEqual(self.source(KDA_SYMBOLS=self.folder), "isf")
        self.assertEqual(self.source(), "cache")
        first = read(self.stored)
        os.remove(self.stored)
        self.run_kda("sessions", self.alien, "--symbols", self.isf)
        self.assertEqual(read(self.stored), first)  # same input, same bytes
        self.run_kda("sessions", self.alien, "--symbols", self.stored)
        self.run_kda("sessions", self.alien, "--symbols", "pdb", code=5)
        self.run_kda("sessions", self.alien, "--symbols", "cache")

    def test_damaged_profile_is_named_and_replaced(self):
        self.run_kda("symbols", "add", self.isf)
        good = read(self.stored)
        for damage in (good[:-1], b"", good[:200] + b"\xff" + good[201:], b"\0" * 100000):
            with open(self.stored, "wb") as f:
                f.write(damage)
            result = self.run_kda("symbols", self.alien, code=5)
            bad = rows(self.run_kda("symbols", "list", "-f", "jsonl"))[1]
            self.assertEqual(bad["source"], "unusable")
            self.assertIn("problem", bad)
            result = self.run_kda("sessions", self.alien, KDA_SYMBOLS=self.folder)
            self.assertIn("profile skipped", result.stderr)
            self.same_rows()
        self.assertEqual(self.source(), "cache")

    def test_cache_that_cannot_be_written_is_no_failure(self):
        for place in ("/dev/null", "/proc/none"):
            env = {"XDG_CACHE_HOME": place, "KDA_SYMBOLS": self.folder}
            result = self.run_kda("sessions", self.alien, **env)
            self.assertIn("not kept as a profile", result.stderr)
            self.assertEqual(self.run_kda("sessions", self.alien, "-q", **env).stderr, "")
        self.run_kda("symbols", "add", self.isf, code=5, XDG_CACHE_HOME="/dev/null")

    def test_full_disk(self):
        def no_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))

        env = dict(os.environ, XDG_CACHE_HOME=self.cache, KDA_SYMBOLS=self.folder)
        result = subprocess.run([KDA, "sessions", self.alien], env=env, preexec_fn=no_room,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("not kept as a profile", result.stderr)
        self.assertEqual(os.listdir(os.path.dirname(self.stored)), [])

    def test_what_is_no_symbol_file(self):
        path = work("profiles-bad.pdb")
        with open(path, "wb") as f:
            f.write(os.urandom(5000))
        self.run_kda("symbols", "add", path, code=5)
        self.run_kda("symbols", "add", path + ".none", code=2)
        self.run_kda("symbols", "add", code=2)
        self.run_kda("symbols", "list", "x", code=2)
        self.run_kda("symbols", "lst", self.alien, code=2)
        self.assertFalse(os.path.exists(self.stored))

    def test_exported_row_reads_back(self):
        self.run_kda("symbols", "export", code=5)
        self.run_kda("symbols", "add", self.isf, self.alien)
        path = work("profiles-own.tsv")
        self.run_kda("symbols", "export", "-o", path)
        by_key = self.run_kda("symbols", "export", text_of(ALIEN) + "1").stdout
        with open(path, encoding="utf-8") as f:
            self.assertEqual(f.read(), by_key)
        own = list(csv.DictReader(io.StringIO(by_key), delimiter="\t"))[0]
        for column, cell in self.row.items():
            if column not in ("version", "source", "pdb_guid", "layout"):
                self.assertEqual(own[column], cell, column)
        self.assertEqual(own["pdb_guid"], text_of(ALIEN))
        by_image = self.run_kda("symbols", "export", self.alien).stdout
        image = list(csv.DictReader(io.StringIO(by_image), delimiter="\t"))[0]
        self.assertEqual(image["version"], "10.0.22000.x")
        out = work("profiles-data.c")
        subprocess.run([sys.executable, os.path.join(ROOT, "tools/gen_profiles.py"), path, out],
                       check=True)
        with open(out, encoding="utf-8") as f:
            made = f.read()
        self.assertIn("1 builds, 1 with addresses of globals", made)
        self.assertIn(",".join("0x%02x" % b for b in ALIEN), made)

    def test_every_built_in_row_exports_as_it_came(self):
        with open(need_data("layouts.tsv"), encoding="utf-8") as f:
            heading = f.readline()
            lines = [line for line in f if line.split("\t")[3]]
        self.assertEqual(len(lines), 213)
        skip = {1, 2, 7}  # os, source, layout
        for line in lines:
            cells = line.rstrip("\n").split("\t")
            key = cells[3] + "%X" % int(cells[4])
            shown = kda("symbols", "export", key, env=self.env).stdout.split("\n")
            self.assertEqual(shown[0] + "\n", heading)
            back = shown[1].split("\t")
            self.assertEqual([c for i, c in enumerate(back) if i not in skip],
                             [c for i, c in enumerate(cells) if i not in skip])
        own = work("profiles-more.tsv")
        with open(own, "w", encoding="utf-8") as f:
            f.write(heading + lines[0].replace(lines[0].split("\t")[3], text_of(ALIEN)))
        out = work("profiles-more.c")
        subprocess.run([sys.executable, os.path.join(ROOT, "tools/gen_profiles.py"),
                        need_data("layouts.tsv"), own, out], check=True)
        with open(out, encoding="utf-8") as f:
            self.assertIn("235 builds", f.read())

    def test_download_leaves_a_profile(self):
        need_tool("clang")
        need_tool("lld-link")
        pdb = os.path.join(BIN, "ntfake-" + VERSION, "ntkrnlmp.pdb")
        if not os.path.exists(pdb):
            subprocess.run([os.path.join(BIN, "test_ntfake")], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        made = sorted(glob.glob(os.path.join(BIN, "ntfake-10.0.22000*", "ntkrnlmp.pdb")))
        pdb = next((p for p in made if self.guid in read(p)), None)
        if not pdb:
            raise unittest.SkipTest("needs a PDB of %s from test_ntfake" % VERSION)
        served = work("profiles-served")
        store = os.path.join(served, "ntkrnlmp.pdb", text_of(ALIEN) + "1")
        os.makedirs(store, exist_ok=True)
        with open(os.path.join(store, "ntkrnlmp.pdb"), "wb") as out:
            out.write(read(pdb).replace(self.guid, ALIEN))

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Quiet, directory=served))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = "srv*%s*http://127.0.0.1:%d" % (os.path.join(self.cache, "pdbs"),
                                               server.server_address[1])
        try:
            for command in (("sessions", self.alien, "--download"), ("symbols", "get", self.alien)):
                shutil.rmtree(self.cache, ignore_errors=True)
                self.run_kda(*command, _NT_SYMBOL_PATH=path)
                self.assertTrue(os.path.exists(self.stored))
                shutil.rmtree(os.path.join(self.cache, "pdbs"))
        finally:
            server.shutdown()
            server.server_close()
        self.assertEqual(self.source(), "cache")
        self.same_rows()

    def test_half_known_builds_are_named(self):
        path = work("profiles-22621.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write("build 10.0.22621.382\nrvas invented\n")
        image = forge(path, "profiles-22621.raw")
        info = rows(self.run_kda("info", image, "-f", "jsonl", "--symbols", "profile", code=5),
                    "info")[0]
        self.assertEqual(info["version"], "10.0.22621.382")
        self.assertEqual(info["build_known"], "layout known, globals not")
        self.assertNotIn("symbol_source", info)
        known = rows(self.run_kda("info", self.known, "-f", "jsonl"), "info")[0]
        self.assertNotIn("build_known", known)

    def test_name_of_five_level_kernels(self):
        """ntkrla57.pdb is a kernel too; the GUID decides, whatever name a profile was made with."""
        image = work("profiles-la57.raw")
        data = read(self.alien)
        self.assertIn(b"ntkrnlmp.pdb", data)
        with open(image, "wb") as f:
            f.write(data.replace(b"ntkrnlmp.pdb", b"ntkrla57.pdb"))
        result = self.run_kda("symbols", image, code=5)
        self.assertIn("ntkrla57.pdb/%s1/ntkrla57.pdb" % text_of(ALIEN), result.stderr)
        self.run_kda("symbols", "add", self.isf)
        info = rows(self.run_kda("info", image, "-f", "jsonl"), "info")[0]
        self.assertEqual((info["pdb_name"], info["symbol_source"]), ("ntkrla57.pdb", "cache"))
        shutil.rmtree(self.cache)
        self.run_kda("symbols", "add", self.isf, image)
        self.assertTrue(os.path.exists(self.stored.replace("ntkrnlmp", "ntkrla57")))

    def test_triage_dumps_are_named(self):
        need_data("dumps")
        for name in ("1_IRQL_NOT_LESS_OR_EQUAL", "2_PAGE_FAULT_IN_NONPAGED_AREA",
                     "3_SYSTEM_THREAD_EXCEPTION_NOT_HANDLED"):
            result = kda("info", need_data("dumps/%s.dmp" % name), "-f", "jsonl", env=self.env)
            info = rows(result, "info")[0]
            self.assertEqual(info["version"], "10.0.26100.8036")
            self.assertEqual(info["build_known"], "some globals known, layout not")


if __name__ == "__main__":
    unittest.main()
