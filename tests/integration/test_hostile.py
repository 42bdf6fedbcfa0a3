"""Files and places that mean harm: evidence as output, endless structures, sparse giants, shared
bytes, closed standard files."""
import os
import shutil
import struct
import subprocess
import unittest

from common import KDA, forge, kda, rows, work


class Output(unittest.TestCase):
    def test_what_goes_in_is_never_replaced(self):
        image = forge("tiny", "hostile-out.vmem", "--format", "vmem")
        state = image[:-4] + "vmss"
        link, hard = work("hostile-link"), work("hostile-hard")
        for path in (link, hard):
            if os.path.lexists(path):
                os.remove(path)
        os.symlink(image, link)
        os.link(image, hard)
        before = {path: os.stat(path).st_mtime_ns for path in (image, state)}
        for named in (image, state):
            for target in (image, state, link, hard):
                result = kda("map", named, "-o", target)
                self.assertEqual(result.returncode, 2, (named, target))
                self.assertIn("the output", result.stderr)
        symbols = work("hostile-symbols.pdb")
        shutil.copy(image, symbols)
        self.assertIn(kda("symbols", image, "--symbols", symbols, "-o", symbols).returncode, (2, 5))
        self.assertEqual(os.path.getsize(symbols), os.path.getsize(image))
        self.assertEqual({path: os.stat(path).st_mtime_ns for path in (image, state)}, before)

    def test_permissions_and_links_stay(self):
        target, link, void = (work("hostile-" + name) for name in ("mode", "void-link", "void"))
        for path in (target, link, void):
            if os.path.lexists(path):
                os.remove(path)
        with open(target, "w", encoding="ascii"):
            pass
        os.chmod(target, 0o600)
        self.assertEqual(kda("formats", "-o", target).returncode, 0)
        self.assertEqual(os.stat(target).st_mode & 0o777, 0o600)
        self.assertTrue(os.path.getsize(target))
        os.symlink(void, link)
        self.assertEqual(kda("formats", "-o", link).returncode, 0)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(os.path.getsize(void), os.path.getsize(target))
        if os.getuid() != 0:
            os.chmod(target, 0o400)
            self.assertEqual(kda("formats", "-o", target).returncode, 6)

    def test_closed_standard_files(self):
        image, target = forge("tiny", "hostile-tiny.raw"), work("hostile-closed.jsonl")
        for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
            script = '"$1" map "$2" -v -f jsonl -o "$3" ' + closed
            result = subprocess.run(["sh", "-c", script, "sh", KDA, image, target], check=False,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.assertEqual(result.returncode, 0, closed)
            with open(target, encoding="utf-8") as f:
                self.assertTrue(all(line.startswith('{"row":') for line in f), closed)
        result = subprocess.run(["sh", "-c", '"$1" map "$2" >&-', "sh", KDA, image], check=False,
                                stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 6)


class Download(unittest.TestCase):
    def test_download_asks_the_server_that_was_named(self):
        image = forge("new-24h2", "hostile-new.raw")
        for args in (("map", image, "--download"), ("symbols", "get", image)):
            result = kda(*args, "--symbols", "srv*http://127.0.0.1:1/store")
            if "without" in result.stderr and "libcurl" in result.stderr:
                self.skipTest("needs libcurl")
            self.assertEqual(result.returncode, 5)
            self.assertIn("127.0.0.1:1/store", result.stderr)
            self.assertNotIn("microsoft", result.stderr)


class Bounds(unittest.TestCase):
    """These run to their end; before they were bounded, each took minutes or all memory. A hang is
    what the timeout of kda() reports: no test says how fast it must be."""

    def bounded(self, expected, *args):
        result = kda(*args, timeout=240)
        self.assertEqual(result.returncode, expected, result.stderr)
        return result

    def test_structures_without_end_in_a_large_image(self):
        image = forge("hostile-pointers", "hostile-16g.raw", "--size", "16G")
        result = self.bounded(4, "map", image, "-f", "jsonl")
        self.assertIn('"row":"gap"', result.stdout)
        os.remove(image)

    def test_the_audit_of_lies_ends(self):
        for name in ("hostile-lists", "hostile-counts", "hostile-pointers", "hostile-strings"):
            image = forge(name, "hostile-audit.raw")
            result = self.bounded(4, "audit", image, "-f", "jsonl")
            outcomes = [row["outcome"] for row in rows(result, "check")]
            self.assertIn("not_checked", outcomes, name)
            self.assertIn("findings", outcomes, name)
            self.bounded(4, "audit", image, "--baseline", image)

    def test_holes_of_a_sparse_file_are_not_scanned(self):
        path = work("hostile-sparse.raw")
        with open(path, "wb") as f:
            f.truncate(1 << 40)
        try:
            self.bounded(3, "sessions", path)
        finally:
            os.remove(path)

    def test_a_kernel_behind_a_hole_is_found(self):
        image = forge("encoded", "hostile-hole.raw", "--size", "8G", "--add", "lowstub off")
        self.bounded(0, "map", image)
        os.remove(image)

    def test_ranges_that_share_their_bytes_are_scanned_once(self):
        path, count, size, data = work("hostile-alias.elf"), 60000, 16 << 20, 4 << 20
        header = bytearray(64)
        header[:7] = b"\x7fELF\x02\x01\x01"
        struct.pack_into("<HHIQQQIHHHHHH", header, 16, 4, 62, 1, 0, 64, 0, 0, 64, 56, count, 0, 0,
                         0)
        with open(path, "wb") as f:
            f.write(header)
            for i in range(count):
                f.write(struct.pack("<IIQQQQQQ", 1, 7, data, 0, i * size, size, size, 4096))
            f.seek(data)
            f.write(b"\x55" * size)
        try:
            self.bounded(3, "sessions", path)
        finally:
            os.remove(path)


if __name__ == "__main__":
    unittest.main()
