"""The driver's sources compile for Windows, and ask the kernel for nothing that is not listed."""
import glob
import os
import shutil
import subprocess
import unittest

from common import WORK

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLANG = shutil.which("clang") or shutil.which("clang-14")
NM = shutil.which("llvm-nm") or shutil.which("llvm-nm-14")
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wvla",
         "-Wstrict-prototypes", "-Werror", "-Wframe-larger-than=1024", "-ffreestanding",
         "-fms-extensions", "--target=x86_64-pc-windows-msvc", "-Idriver", "-Ievent"]
MODULES = {"ntoskrnl.exe", "hal.dll", "fwpkclnt.sys"}


def listed():
    names = {}
    with open(os.path.join(ROOT, "driver/imports.txt"), encoding="ascii") as f:
        for line in f:
            if not line.startswith("#"):
                module, name = line.split()
                names[name] = module
    return names


@unittest.skipUnless(CLANG and NM, "needs clang and llvm-nm")
class DriverBuild(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(WORK, "driver-windows")
        shutil.rmtree(cls.folder, ignore_errors=True)
        os.makedirs(cls.folder)

    def test_compiles_and_imports(self):
        objects = []
        for source in sorted(glob.glob(os.path.join(ROOT, "driver/*.c")) +
                             glob.glob(os.path.join(ROOT, "event/*.c"))):
            target = os.path.join(self.folder, os.path.basename(source) + ".obj")
            result = subprocess.run([CLANG] + FLAGS + ["-c", "-o", target, source], cwd=ROOT,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(result.returncode, 0, result.stdout)
            objects.append(target)
        symbols = subprocess.run([NM] + objects, stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        wanted, defined = set(), set()
        for line in symbols.splitlines():
            fields = line.split()
            if len(fields) == 2 and fields[0] == "U":
                wanted.add(fields[1])
            elif len(fields) == 3:
                defined.add(fields[2])
        names = listed()
        self.assertEqual(sorted(wanted - defined), sorted(names))
        self.assertEqual(set(names.values()), MODULES)
        self.assertIn("DriverEntry", defined)


if __name__ == "__main__":
    unittest.main()
