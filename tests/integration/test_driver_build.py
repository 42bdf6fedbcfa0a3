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

    def problems(self, data, arch="x64", imports=IMPORTS, objdump=None, signed=False):
        path = os.path.join(self.here, "changed.sys")
        with open(path, "wb") as f:
            f.write(data)
        return check_driver.check(path, arch, imports, objdump, signed)

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
        self.refused(changed(optional + 16, 0, 0x10, 0, 0), "entry point is not in INIT")
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
        for name in check_driver.SECTIONS:
            for bit in (check_driver.SHARED, check_driver.DISCARDABLE, check_driver.WRITE,
                        check_driver.NOT_PAGED, check_driver.READ):
                if check_driver.SECTIONS[name] & bit:
                    self.refused(flags(name, 0, bit), "section %s has flags" % name)
                else:
                    self.refused(flags(name, bit), "section %s has flags" % name)
        self.refused(flags("INIT", 0, check_driver.DISCARDABLE), "section INIT has flags")
        self.refused(flags(".data", check_driver.EXECUTE), "section .data is")
        self.refused(data.replace(b"PAGE\0\0\0\0", b"PAGX\0\0\0\0"), "0 sections PAGE")
        self.refused(data.replace(b"PAGE\0\0\0\0", b"PAGX\0\0\0\0"), "section PAGX is not")

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

    def changed(self, *changes, arch="x64", more=b""):
        """The image with (offset, size, value) written into it, and the checksum it then has."""
        out = bytearray(self.image(arch) + more)
        for at, size, value in changes:
            out[at:at + size] = (value if isinstance(value, bytes)
                                 else value.to_bytes(size, "little"))
        image = check_driver.Image(self.image(arch))
        image.data = bytes(out)
        struct.pack_into("<I", out, image.checksum_at, image.real_checksum())
        return bytes(out)

    @staticmethod
    def offset(image, rva):
        section = image.section_of(rva)
        return section.raw + rva - section.va

    def test_values_of_the_header(self):
        optional = check_driver.Image(self.image()).optional
        for at, size, value, text in (
                (4, 4, 0, "size of the code"), (8, 4, 0, "size of the data"),
                (20, 4, 0x2000, "begin of the code"), (24, 8, 0, "image base"),
                (36, 4, 3, "file alignment is"), (36, 4, 0x1000, "file alignment is"),
                (48, 2, 99, "subsystem version is"), (50, 2, 1, "minor subsystem version is"),
                (56, 4, 0, "size of the image is"), (56, 4, 0x7FFFFFFF, "size of the image is"),
                (60, 4, 0x7FFFFFFF, "size of the headers is"), (60, 4, 0, "size of the headers is"),
                (70, 2, 0xE1E0, "flags are 0xe1e0"), (104, 4, 1, "loader flags"),
                (-2, 2, 0x122, "file flags are"), (-12, 4, 0x400, "has a symbol table"),
                (-4, 2, 224, "not 16 data directories"), (108, 4, 15, "not 16 data directories")):
            with self.subTest(at=at, value=value):
                self.refused(self.changed((optional + at, size, value)), text)

    def test_every_byte_of_the_headers(self):
        """A bit of any byte: what no check looks at is on the list here, or is a hole."""
        image = check_driver.Image(self.image())
        free = {image.optional + 2, image.optional + 3}  # version of the linker
        table = image.optional + check_driver.OPTIONAL_SIZE
        for index in range(len(image.sections)):  # a size within the same block of the file
            free |= {table + 40 * index + 8}
        checksum = range(image.checksum_at, image.checksum_at + 4)
        unseen = [at for at in range(image.optional - 24, image.headers_end)
                  if at not in free and at not in checksum and not self.problems(
                      self.changed((at, 1, self.image()[at] ^ 0x80)))]
        self.assertEqual(unseen, [])

    def test_places_of_sections(self):
        image = check_driver.Image(self.image())
        table = image.optional + check_driver.OPTIONAL_SIZE
        last = table + 40 * (len(image.sections) - 1)
        self.refused(self.changed((last + 20, 4, image.sections[0].raw)),
                     "section .reloc is at 0x400 of the file")
        self.refused(self.changed((last + 12, 4, image.sections[0].va)), "section .reloc is")
        self.refused(self.changed((last + 8, 4, 0x10000)), "section .reloc has 0x400 bytes in the")
        self.refused(self.changed((last + 24, 4, 1)), "relocations of its own")
        count = image.optional - 18
        self.refused(self.changed((count, 2, len(image.sections) - 1)), "0 sections .reloc")
        self.refused(self.changed((count, 2, len(image.sections) + 1)), "section  is not expected")
        self.refused(self.changed((count, 2, 0)), "0 sections .text")
        self.refused(self.changed((count, 2, 0xFFFF)), "within the headers")
        self.refused(self.changed((image.headers_end + 8, 1, 1)), "data behind the headers")
        text = image.named(".text")
        self.refused(self.changed((text.raw + text.size, 1, 0x90)),
                     "data behind the end of section .text")
        self.refused(self.changed(more=bytes(16)), "16 bytes behind the last section")

    def test_directories(self):
        image = check_driver.Image(self.image())
        for index, name in enumerate(check_driver.DIRECTORIES):
            at = image.optional + 112 + 8 * index
            with self.subTest(name=name):
                if index in check_driver.PLACES:
                    self.refused(self.changed((at + 4, 4, 0)), "has no " + name)
                    self.refused(self.changed((at, 4, 0x1000)), name + ": ")
                    self.refused(self.changed((at + 4, 4, 0x7FFFFFFF)), name + ": ")
                else:
                    self.refused(self.changed((at, 4, 0x1000)), "has " + name)
                    self.refused(self.changed((at + 4, 4, 8)), "has " + name)

    def test_imports_behind_the_directory(self):
        """Descriptors go on behind the size that the directory states."""
        image = check_driver.Image(self.image())
        at, size = image.directories[check_driver.IMPORTS]
        old = image.at(at, size - 20)
        first = struct.unpack_from("<5I", old)
        # Over constants that nothing of the header points to.
        rdata, pointers = image.named(".rdata"), image.relocations()
        to = next(to for to in range(rdata.va, rdata.va + rdata.size, 16)
                  if not any(to - 8 < rva < to + 0x100 for rva in pointers))
        self.assertLess(to + 0x100, image.directories[check_driver.IMPORTS][0])
        names = to + len(old) + 40
        table = old + struct.pack("<5I", names, 0, 0, names + 48, names) + bytes(20)
        table += struct.pack("<2Q", names + 16, 0) + b"\0\0KeBugCheckEvil\0".ljust(32, b"\0")
        table += b"evil.sys\0"
        place = (self.offset(image, to), len(table), table)
        directory = image.optional + 112 + 8 * check_driver.IMPORTS
        evil = self.changed(place, (directory, 4, to))
        self.refused(evil, "import directory has %d bytes for 4 modules" % size)
        self.refused(evil, "KeBugCheckEvil from evil.sys is not on the list")
        self.refused(self.changed((self.offset(image, first[4]), 8, names + 16)),
                     "slot 0 of ntoskrnl.exe differs")
        self.refused(self.changed((self.offset(image, first[0]), 8, 1 << 31 | names)),
                     "slot 0 of ntoskrnl.exe differs")
        at = self.offset(image, at)
        self.refused(self.changed((at + size - 20, 4, 1)), "neither whole nor the end")
        self.refused(self.changed((at, 4, 0)), "neither whole nor the end")
        self.refused(self.changed((at + 4, 4, 0xFFFFFFFF)), "descriptor 0 is bound")
        self.refused(self.changed((at + 20, 20, bytes(20))), "for 1 modules")
        slots = image.optional + 112 + 8 * check_driver.SLOTS
        self.refused(self.changed((slots + 4, 4, 8)), "are not those of the modules")
        self.refused(self.changed((slots + 4, 4, 0xFFFFFFF8)), "are not those of the modules")

    def test_relocations(self):
        for arch in ("x64", "arm64"):
            image = check_driver.Image(self.image(arch))
            rva, size = image.directories[check_driver.RELOCATIONS]
            at = self.offset(image, rva)
            page, length = image.value(rva, 4), image.value(rva + 4, 4)
            directory = image.optional + 112 + 8 * check_driver.RELOCATIONS
            row = image.value(rva + 8, 2)

            def refused(text, *changes):
                self.refused(self.changed(*changes, arch=arch), text, arch=arch)
            empty = (at, 8, struct.pack("<II", page, 8))
            refused("relocation block of 8 bytes", empty)
            refused("relocation block of 8 bytes", empty, (directory + 4, 4, 8))
            refused("relocation block of 0 bytes", (at, size, bytes(size)))
            refused("bytes are left behind", (directory + 4, 4, length + 4))
            refused("no relocation of the pointer", (directory + 4, 4, length))
            refused("are not all of .reloc", (directory + 4, 4, length))
            refused("relocation block of page", (at, 4, page + 4))
            refused("relocation block of page", (at, 4, image.size))
            refused("relocation block of page", (at + length, 4, page))
            refused("relocation of type 3", (at + 8, 2, row & 0xFFF | 0x3000))
            refused("relocation of type 0", (at + 8, 2, 0))
            refused("where no pointer is", (at + 8, 2, row + 1))
            refused("where no pointer is", (at, 4, 0x1000))
            refused("overlaps or is not in order", (at + 10, 2, row))
            refused("no relocation of the pointer", (at + 10, 2, row))

    def test_entry(self):
        for arch in ("x64", "arm64"):
            image = check_driver.Image(self.image(arch))
            init, entry = image.named("INIT"), image.optional + 16
            for rva in (init.va + init.size - 1, image.entry + 4):
                self.refused(self.changed((entry, 4, rva), arch=arch),
                             "is not the beginning of a function", arch=arch)
            # A function, in INIT, and another one.
            other = next(begin for begin, _, _ in image.functions()
                         if init.holds(begin) and begin != image.entry)
            self.refused(self.changed((entry, 4, other), arch=arch),
                         "does not set the stack cookie", arch=arch, objdump=OBJDUMP)

    def test_functions(self):
        for arch, row in (("x64", 12), ("arm64", 8)):
            image = check_driver.Image(self.image(arch))
            at = self.offset(image, image.directories[check_driver.EXCEPTIONS][0])
            first = image.data[at:at + row]

            def refused(text, *changes):
                self.refused(self.changed(*changes, arch=arch), text, arch=arch)
            refused("not in order or not in code", (at, row, image.data[at + row:at + 2 * row]),
                    (at + row, row, first))
            refused("not in order or not in code", (at, 4, image.named(".rdata").va))
            refused("unwind data of function", (at + row - 4, 4, image.named(".data").va))
        image = check_driver.Image(self.image())
        unwind = image.functions()[0][2]
        self.refused(self.changed((self.offset(image, unwind), 1, 7)), "begins with 0x7")
        self.refused(self.changed((self.offset(image, unwind), 1, 0x21)), "begins with 0x21")
        unwind, size = next((u, image.value(u + 2, 1)) for _, _, u in image.functions()
                            if image.value(u, 1) >> 3)
        handler = self.offset(image, unwind) + 4 + 2 * (size + size % 2)
        self.refused(self.changed((handler, 4, 0x10)), "handler of function")

    def test_load_configuration(self):
        for arch in ("x64", "arm64"):
            image = check_driver.Image(self.image(arch))
            rva = image.directories[check_driver.LOAD_CONFIG][0]
            at, base = self.offset(image, rva), image.base
            used = check_driver.GUARD_DISPATCH if arch == "x64" else check_driver.GUARD_CHECK
            table = image.value(rva + check_driver.GUARD_TABLE, 8) - base
            cookie = image.value(rva + check_driver.COOKIE, 8) - base
            data, outside = image.named(".data").va, base + image.size

            def refused(text, *changes):
                self.refused(self.changed(*changes, arch=arch), text, arch=arch)
            refused("load configuration has 200 bytes", (at, 4, 200))
            refused("load configuration has a value at 24", (at + 24, 8, 1))
            refused("cookie cannot be written", (at + check_driver.COOKIE, 8, base + rva))
            refused("the stack cookie is 0x1", (self.offset(image, cookie), 8, 1))
            refused("no function to call", (at + used, 8, 0))
            refused("the pointer of control flow guard is at", (at + used, 8, base + data))
            refused("pointer of the other machine", (at + check_driver.GUARD_CHECK, 8, outside),
                    (at + check_driver.GUARD_DISPATCH, 8, 1))
            pointer = image.value(rva + used, 8) - base
            refused("does not lead to code", (self.offset(image, pointer), 8, base + data))
            refused("table of control flow guard is at",
                    (at + check_driver.GUARD_TABLE, 8, outside))
            refused("guard has no table", (at + check_driver.GUARD_COUNT, 8, 0))
            refused("guard has 4294967295 rows", (at + check_driver.GUARD_COUNT, 8, 0xFFFFFFFF))
            refused("guard has no table", (at + check_driver.GUARD_FLAGS, 4, 0x10000500))
            refused("control flow guard allows", (self.offset(image, table), 4, 0))
            refused("guard is not in order",
                    (self.offset(image, table), 4, image.value(table + 4, 4)))

    def test_resources_and_debug(self):
        image = check_driver.Image(self.image())
        at = self.offset(image, image.directories[check_driver.RESOURCES][0])
        self.refused(self.changed((at + 14, 2, 2)), "resources are not one version")
        self.refused(self.changed((at + 16, 4, 24)), "resources are not one version")
        self.refused(self.changed((at + 20, 4, 0x80000000)), "resources are not one version")
        self.refused(self.changed((at + 0x4C, 4, 0x10000)), "the version resource is")
        at = self.offset(image, image.directories[check_driver.DEBUG][0])
        self.refused(self.changed((at + 12, 4, 4)), "debug directory has entries")
        self.refused(self.changed((at + 24, 4, 0)), "debug directory: data at")
        self.refused(self.changed((at + 16, 4, 200)), "debug directory: 200 bytes")
        self.refused(self.changed((at + 4, 4, 0)), "debug directory: time")

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
        self.check_certificates(bytes(signed))
        signed[0x1000] ^= 1
        spoiled = os.path.join(self.here, "spoiled.sys")
        with open(spoiled, "wb") as f:
            f.write(signed)
        result = run(["osslsigncode", "verify", "-CAfile",
                      os.path.join(self.here, "signed/test.pem"), "-in", spoiled])
        self.assertNotEqual(result.returncode, 0)


    def check_certificates(self, signed):
        """Only in a file that is to be signed, and nothing hides in them."""
        image = check_driver.Image(signed)
        at, size = image.directories[check_driver.CERTIFICATES]
        directory = image.optional + 112 + 8 * check_driver.CERTIFICATES

        def put(*changes, more=b""):
            out = bytearray(signed + more)
            for where, value in changes:
                struct.pack_into("<I", out, where, value)
            return bytes(out)
        self.assertEqual(self.problems(signed, signed=True), [])
        self.refused(signed, "should not be signed")
        self.refused(self.image(), "is not signed", signed=True)
        grown = [(directory + 4, size + 8), (at, size + 8)]
        for text, data in (
                ("do not lie between", put(more=bytes(8))),
                ("do not lie between", put((directory, at - 8))),
                ("do not lie between", put((directory, 0x400))),
                ("certificate of", put((at, size + 8))),
                ("certificate of", put((at + 4, 0x00010200))),
                ("data behind the signature", put(*grown, more=b"more 8 b"))):
            self.refused(data, text, signed=True)


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
