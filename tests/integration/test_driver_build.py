"""The driver for Windows: it builds, twice the same, and what tools/check_driver.py refuses."""
import csv
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

from common import WORK, need_data, need_tool

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import check_driver  # noqa: E402

IMPORTS = os.path.join(ROOT, "driver/imports.txt")
OBJDUMP = shutil.which("llvm-objdump-19") or "/usr/lib/llvm-19/bin/llvm-objdump"


def run(args):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def copy_sources(to):
    """What the driver is built from, somewhere else."""
    for folder in ("driver", "event"):
        shutil.copytree(os.path.join(ROOT, folder), os.path.join(to, folder))
    os.makedirs(os.path.join(to, "tools"))
    shutil.copy(os.path.join(ROOT, "tools/check_driver.py"), os.path.join(to, "tools"))


def build(source, folder):
    result = run(["cmake", "-S", os.path.join(source, "driver"), "-B", folder])
    if result.returncode == 0:
        result = run(["cmake", "--build", folder, "-j", "2"])
    return result


class DriverBuild(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for tool in ("clang-19", "lld-link-19", "llvm-rc-19", "llvm-dlltool-19"):
            need_tool(tool)
        top = os.path.join(WORK, "driver-windows")
        shutil.rmtree(top, ignore_errors=True)
        cls.here = os.path.join(top, "here")
        cls.tree = os.path.join(top, "another/place/with/a/longer name")
        cls.there = os.path.join(cls.tree, "out")
        result = build(ROOT, cls.here)
        if result.returncode:
            raise AssertionError(result.stdout)
        copy_sources(cls.tree)
        result = build(cls.tree, cls.there)
        if result.returncode:
            raise AssertionError(result.stdout)

    def image(self, arch="x64"):
        with open(os.path.join(self.here, arch, "kdamonitor.sys"), "rb") as f:
            return f.read()

    def problems(self, data, arch="x64", imports=IMPORTS, objdump=None):
        path = os.path.join(self.here, "changed.sys")
        with open(path, "wb") as f:
            f.write(data)
        return check_driver.check(path, arch, imports, objdump)

    def refused(self, data, text, **kw):
        found = self.problems(data, **kw)
        self.assertTrue(any(text in problem for problem in found), "%r not in %r" % (text, found))

    def test_sound(self):
        for arch in ("x64", "arm64"):
            self.assertEqual(self.problems(self.image(arch), arch, objdump=OBJDUMP), [])

    def test_same_bytes_from_another_folder(self):
        build(self.tree, self.there)
        for arch in ("x64", "arm64"):
            for name in ("kdamonitor.sys", "kdamonitor.pdb"):
                files = [os.path.join(folder, arch, name) for folder in (self.here, self.there)]
                contents = []
                for path in files:
                    with open(path, "rb") as f:
                        contents.append(f.read())
                self.assertEqual(contents[0], contents[1], "%s %s" % (arch, name))
                self.assertNotIn(os.path.dirname(ROOT).encode() + b"/", contents[0])

    def test_headers(self):
        data = self.image()
        pe = struct.unpack_from("<I", data, 0x3C)[0]

        def changed(at, *values):
            out = bytearray(data)
            out[at:at + len(values)] = bytes(values)
            return bytes(out)
        optional = pe + 24
        self.refused(changed(pe + 4, 0x64, 0xAA), "machine is")
        self.refused(data, "machine is", arch="arm64")
        self.refused(changed(pe + 22, data[pe + 22] | 1), "relocations are stripped")
        self.refused(changed(pe + 23, data[pe + 23] | 0x20), "marked as a DLL")
        self.refused(changed(optional + 68, 3), "not native")
        self.refused(changed(optional + 40, 4), "system version")
        self.refused(changed(optional + 64, data[optional + 64] ^ 1), "checksum is")
        self.refused(changed(len(data) - 1, data[-1] ^ 1), "checksum is")
        for bit in check_driver.REQUIRED:
            at = optional + 70 + (bit > 0xFF)
            self.refused(changed(at, data[at] & ~(bit if bit <= 0xFF else bit >> 8)), "flag is missing")
        self.refused(changed(optional + 112, 0, 0x10, 0, 0, 8), "has exports")
        self.refused(changed(optional + 112 + 8 * 5 + 4, 0, 0, 0, 0), "has no relocations")
        self.refused(changed(optional + 16, 0, 0x10), "entry point is not in INIT")
        self.refused(changed(0, 0), "no MZ header")
        self.refused(data[:pe + 40], "the file ends")
        self.refused(data[:0x1000], "behind the end of the file")

    def test_sections(self):
        data = self.image()
        image = check_driver.Image(data)
        pe = struct.unpack_from("<I", data, 0x3C)[0]
        table = pe + 24 + struct.unpack_from("<H", data, pe + 20)[0]

        def flags(name, bits, clear=0):
            index = [s.name for s in image.sections].index(name)
            out = bytearray(data)
            old = struct.unpack_from("<I", out, table + 40 * index + 36)[0]
            struct.pack_into("<I", out, table + 40 * index + 36, (old | bits) & ~clear)
            return bytes(out)
        self.refused(flags(".text", check_driver.WRITE), "writable and executable")
        self.refused(flags("PAGE", check_driver.NOT_PAGED), "section PAGE has flags")
        self.refused(flags("INIT", 0, check_driver.DISCARDABLE), "section INIT has flags")
        self.refused(flags(".data", check_driver.EXECUTE), "section .data is")
        self.refused(data.replace(b"PAGE\0\0\0\0", b"PAGX\0\0\0\0"), "0 sections PAGE")

    def test_imports(self):
        data = self.image()
        self.refused(data.replace(b"\0ZwFlushBuffersFile\0", b"\0ZwFlushBuffersFila\0"),
                     "ZwFlushBuffersFila from ntoskrnl.exe is not on the list")
        self.refused(data.replace(b"\0ZwFlushBuffersFile\0", b"\0ZwFlushBuffersFila\0"),
                     "ZwFlushBuffersFile is on the list and not used")
        self.refused(data.replace(b"ntoskrnl.exe\0", b"kdatestk.sys\0"), "is taken from kdatestk.sys")
        self.refused(data.replace(b"\0ZwFlushBuffersFile\0", b"\0\xffwFlushBuffersFile\0"),
                     "\\xffwFlushBuffersFile from ntoskrnl.exe is not on the list")
        pe = struct.unpack_from("<I", data, 0x3C)[0]
        long = bytearray(data)
        struct.pack_into("<I", long, pe + 24 + 112 + 8 + 4, 0x10000)
        self.refused(bytes(long), "modules")
        with open(IMPORTS, encoding="ascii") as f:
            text = f.read()
        newer = os.path.join(self.here, "newer.txt")
        with open(newer, "w", encoding="ascii") as f:
            f.write(re.sub(r"(ExUuidCreate +)5\.0 ", r"\g<1>10.0.19041 ", text))
        self.refused(data, "ExUuidCreate is newer than Windows 10 1809", imports=newer)

    def test_names_no_folder(self):
        self.refused(self.image().replace(b"\0kdamonitor.pdb\0", b"\0/home/x/kda.pd\0"),
                     "debug directory")

    def test_code_in_the_wrong_place(self):
        """A function that takes a spin lock is made pageable; one that is used later is discarded."""
        path = os.path.join(self.tree, "driver/filter.c")
        with open(path, encoding="ascii") as f:
            good = f.read()
        head = "BOOLEAN KdaFilterFirst("
        self.assertIn(head, good)
        try:
            for word, text in (("KDA_PAGED", "in PAGE raises the level"),
                               ("KDA_INITCODE", "leads into INIT")):
                with open(path, "w", encoding="ascii") as f:
                    f.write(good.replace(head, word + " " + head))
                for arch in ("x64", "arm64"):
                    result = run(["cmake", "--build", self.there, "--target", "driver-" + arch])
                    self.assertNotEqual(result.returncode, 0)
                    self.assertIn(text, result.stdout)
        finally:
            with open(path, "w", encoding="ascii") as f:
                f.write(good)

    def test_address_of_what_is_discarded(self):
        """A dispatch routine in INIT: registered from there, and called when it is gone."""
        path = os.path.join(self.tree, "driver/device.c")
        with open(path, encoding="ascii") as f:
            good = f.read()
        head = "static NTSTATUS KdapDispatch("
        self.assertIn(head, good)
        try:
            with open(path, "w", encoding="ascii") as f:
                f.write(good.replace(head, "KDA_INITCODE " + head))
            for arch in ("x64", "arm64"):
                result = run(["cmake", "--build", self.there, "--target", "driver-" + arch])
                self.assertNotEqual(result.returncode, 0)
                self.assertIn("takes an address in INIT", result.stdout)
        finally:
            with open(path, "w", encoding="ascii") as f:
                f.write(good)

    def test_signed(self):
        need_tool("osslsigncode")
        need_tool("openssl")
        result = run(["cmake", "--build", self.here, "--target", "signed"])
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(result.stdout.count("Signature verification: ok"), 2, result.stdout)
        with open(os.path.join(self.here, "signed/x64/kdamonitor.sys"), "rb") as f:
            signed = bytearray(f.read())
        signed[0x1000] ^= 1
        spoiled = os.path.join(self.here, "spoiled.sys")
        with open(spoiled, "wb") as f:
            f.write(signed)
        result = run(["osslsigncode", "verify", "-CAfile",
                      os.path.join(self.here, "signed/test.pem"), "-in", spoiled])
        self.assertNotEqual(result.returncode, 0)


class Imports(unittest.TestCase):
    """A name that is missing keeps the driver from loading: what the list says, against the symbols
    of kernels that were released. (Symbols are not exports: this can only find what is wrong.)"""
    # Symbols of these have another name, or are in another module.
    ELSEWHERE = {"__C_specific_handler"}

    def versions(self):
        """GUID of the symbols -> version of the kernel."""
        with open(need_data("layouts.tsv"), encoding="utf-8", newline="") as f:
            rows = csv.DictReader(f, delimiter="\t")
            return {row["pdb_guid"].upper(): tuple(int(n) for n in row["version"].split(".")[:3])
                    for row in rows if row["pdb_guid"]}

    def test_names_are_in_released_kernels(self):
        folder, versions, seen = need_data("isf"), self.versions(), 0
        listed = check_driver.read_list(IMPORTS, "x64")
        names = {name for name, (module, _) in listed.items()
                 if module == "ntoskrnl.exe" and name not in self.ELSEWHERE}
        self.assertGreater(len(names), 70)
        for leaf in sorted(os.listdir(folder)):
            kernel = versions.get(leaf.split("-")[0].upper())
            if kernel is None or kernel < check_driver.OLDEST:
                continue
            seen += 1
            with lzma.open(os.path.join(folder, leaf)) as f:
                symbols = json.load(f)["symbols"]
            with self.subTest(kernel=kernel):
                self.assertEqual(sorted(names - set(symbols)), [])
        self.assertGreater(seen, 5)

    def test_every_row_says_how_it_is_known(self):
        with open(IMPORTS, encoding="ascii") as f:
            rows = [line.split() for line in f if not line.startswith("#")]
        self.assertEqual(len({tuple(row[:2]) for row in rows}), len(rows))
        for row in rows:
            self.assertIn(len(row), (4, 5), row)
            self.assertIn(row[3], ("page", "symbols", "msvc"), row)
            self.assertRegex(row[2], r"^\d+\.\d+(\.\d+)?$")
            self.assertIn(row[4:], ([], ["arm64"], ["x64"]), row)


if __name__ == "__main__":
    unittest.main()
