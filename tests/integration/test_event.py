"""The contract: its documentation is current, and it compiles for the NT kernel by itself."""
import glob
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("KDA_TEST_BIN", os.path.join(ROOT, "build"))
# What the NT kernel exports and a compiler may call without being asked.
MAY_CALL = {"memcpy", "memset", "memmove", "memcmp"}


class EventContract(unittest.TestCase):
    def test_document_is_current(self):
        made = subprocess.run([os.path.join(BIN, "kda-events-doc")], stdout=subprocess.PIPE,
                              check=True).stdout
        with open(os.path.join(ROOT, "docs/events.md"), "rb") as f:
            self.assertEqual(made, f.read(), "run kda-events-doc > docs/events.md")

    @unittest.skipUnless(shutil.which("clang"), "clang is not installed")
    def test_compiles_for_the_kernel(self):
        nm = shutil.which("llvm-nm") or shutil.which("llvm-nm-14")
        for machine in ("x86_64", "aarch64"):
            undefined, defined = set(), set()
            with tempfile.TemporaryDirectory() as work:
                for source in sorted(glob.glob(os.path.join(ROOT, "event/*.c"))):
                    out = os.path.join(work, os.path.basename(source) + ".o")
                    result = subprocess.run(
                        ["clang", "--target=%s-pc-windows-msvc" % machine, "-ffreestanding",
                         "-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wvla",
                         "-Werror", "-c", source, "-o", out],
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                    self.assertEqual(result.returncode, 0, result.stdout)
                    if nm:
                        for line in subprocess.run([nm, out], stdout=subprocess.PIPE, text=True,
                                                   check=True).stdout.splitlines():
                            kind, name = line.split()[-2:]
                            (undefined if kind == "U" else defined).add(name)
            self.assertEqual(undefined - defined - MAY_CALL, set())


if __name__ == "__main__":
    unittest.main()
