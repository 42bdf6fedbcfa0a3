"""kda.exe fetches symbols from the server that misbehaves on request (tests/download/server.py), with
the outcome that the tool of this system has."""
import os
import shutil
import struct
import subprocess
import sys
import unittest

import common
import wine_host

EXE = os.path.join(wine_host.WINDOWS, "kda.exe")
GOOD = ["store", "cab", "index2", "case", "ptrrel", "ptrurl", "redirect", "resume", "norange",
        "changed", "badrange"]
BAD = ["nothing", "loop", "tofile", "ptrlocal", "ptrabs", "ptrshare", "ptrmsg", "truncate", "busy",
       "html", "other", "badcab", "empty"]


def setUpModule():
    wine_host.prepare()
    unittest.addModuleCleanup(wine_host.stop)


def tiny_pdb(guid, age, blocks=64):
    """As tests/support/tiny_pdb.c: an identity, and filler."""
    size = 4096
    file = bytearray(size * blocks)
    file[:32] = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0"
    struct.pack_into("<IIIIII", file, 32, size, 1, blocks, 28, 0, 3)
    struct.pack_into("<I", file, 3 * size, 4)
    struct.pack_into("<7I", file, 4 * size, 4, 0, 28, 0, 64, 5, 6)
    struct.pack_into("<III16s", file, 5 * size, 20000404, 0, age + 1, guid)
    struct.pack_into("<III8xH", file, 6 * size, 0xffffffff, 19990903, age, 0xffff)
    seed = 1
    for i in range(7 * size, len(file)):
        seed = (seed * 1664525 + 1013904223) & 0xffffffff
        file[i] = seed >> 24
    return bytes(file)


class Download(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.image = common.forge("win11", "wine-win11.raw")
        info = common.rows(common.kda("info", cls.image, "-f", "jsonl"), "info")[0]
        if "download" not in info["features"]:
            raise unittest.SkipTest("needs a tool of this system that downloads, to compare with")
        text = info["pdb_guid"].strip("{}").replace("-", "")
        raw = bytes.fromhex(text)
        cls.guid = raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]
        cls.age = info["pdb_age"]
        cls.place = os.path.join("ntkrnlmp.pdb", "%s%X" % (text.upper(), cls.age), "ntkrnlmp.pdb")
        cls.root = common.work("wine-download")
        shutil.rmtree(cls.root, ignore_errors=True)
        os.makedirs(cls.root)
        cls.good = tiny_pdb(cls.guid, cls.age)
        for name, data in (("good.pdb", cls.good), ("other.pdb", tiny_pdb(bytes(16), 9))):
            with open(os.path.join(cls.root, name), "wb") as f:
                f.write(data)

    def server(self):
        """A fresh one: some of its answers depend on how often it was asked."""
        process = subprocess.Popen(
            [sys.executable, os.path.join(common.ROOT, "tests/download/server.py"), self.root],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def end():
            process.stdin.close()
            process.wait()
            process.stdout.close()
        return int(process.stdout.readline()), end

    def fetch(self, run, mode, cache):
        shutil.rmtree(cache, ignore_errors=True)
        port, end = self.server()
        try:
            result = run("symbols", "get", self.image, "--cache", cache, "--symbols",
                         "srv*http://127.0.0.1:%d/%s" % (port, mode))
        finally:
            end()
        path = os.path.join(cache, self.place)
        found = None
        if os.path.exists(path):
            with open(path, "rb") as f:
                found = f.read()
        return result, found

    def both(self, mode):
        here, found_here = self.fetch(common.kda, mode, os.path.join(self.root, "here"))
        there, found_there = self.fetch(lambda *args: wine_host.run(EXE, *args), mode,
                                        os.path.join(self.root, "there"))
        self.assertEqual(there.returncode, here.returncode, here.stderr + there.stderr)
        self.assertEqual(found_there, found_here, there.stderr)
        return there, found_there

    def test_good(self):
        for mode in GOOD:
            with self.subTest(mode=mode):
                result, found = self.both(mode)
                self.assertEqual(found, self.good, result.stderr)

    def test_bad(self):
        for mode in BAD:
            with self.subTest(mode=mode):
                result, found = self.both(mode)
                self.assertEqual(result.returncode, 5)
                self.assertIsNone(found)

    def test_no_server(self):
        result = wine_host.run(EXE, "symbols", "get", self.image, "--cache",
                               os.path.join(self.root, "none"), "--symbols",
                               "srv*http://127.0.0.1:1/store")
        self.assertEqual(result.returncode, 5)
        self.assertIn("cannot connect", result.stderr)
        self.assertIn("127.0.0.1:1/store", result.stderr)

    def test_cache_of_windows(self):
        """A folder with a drive letter is one of this machine here."""
        folder = os.path.join(self.root, "drive")
        port, end = self.server()
        try:
            result = wine_host.run(EXE, "symbols", "get", self.image, "--symbols",
                                   "srv*%s*http://127.0.0.1:%d/store" % (
                                       wine_host.windows_path(folder), port))
        finally:
            end()
        self.assertTrue(os.path.exists(os.path.join(folder, self.place)), result.stderr)


if __name__ == "__main__":
    unittest.main()
