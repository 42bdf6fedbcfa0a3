"""The same image gives the same rows whichever source the symbols come from: the built-in profile,
a Volatility symbol table, a PDB made with clang and lld."""
import glob
import os
import subprocess
import unittest

from common import BIN, DATA, ROOT, forge, kda, need_data, need_tool, unpack, work

COMMANDS = ["sessions", "consumers", "providers", "processes"]
OLD = ("6.1.", "6.3.")  # no silos


def versions_by_guid():
    with open(need_data("layouts.tsv"), encoding="utf-8") as f:
        header = f.readline().rstrip("\n").split("\t")
        guid, version = header.index("pdb_guid"), header.index("version")
        rows = (line.rstrip("\n").split("\t") for line in f)
        return {row[guid]: row[version] for row in rows if row[guid]}


def real_image(version):
    """An image of ../shared/data with this kernel, or None."""
    short = version.replace("10.0.", "").replace("6.1.", "").replace("6.3.", "")
    for packed in glob.glob(os.path.join(DATA, "images", "*%s*.xz" % short)):
        if not packed.endswith(".truth.json.xz"):
            return unpack("images/" + os.path.basename(packed))
    return None


def forged_image(version):
    """A generated machine of this build, from a scenario that the build can hold."""
    scenario = "win81" if version.startswith(OLD) else "silo"
    with open(os.path.join(ROOT, "tests/images/scenarios", scenario + ".txt")) as f:
        text = f.read()
    lines = [("build " + version) if line.startswith("build ") else line
             for line in text.split("\n")]
    path = work("source-%s.txt" % version)
    with open(path, "w") as f:
        f.write("\n".join(lines))
    return forge(path, "source-%s.raw" % version)


class Sources(unittest.TestCase):
    def answers(self, image, symbols):
        out = {}
        for command in COMMANDS:
            result = kda(command, image, "-f", "jsonl", "-q", "--symbols", symbols)
            self.assertIn(result.returncode, (0, 4), result.stderr)
            out[command] = result.stdout
            self.assertTrue(result.stdout.strip())
        return out

    def same(self, image, path, source):
        info = kda("info", image, "-f", "jsonl", "-q", "--symbols", path)
        self.assertIn('"symbol_source":"%s"' % source, info.stdout)
        self.assertEqual(self.answers(image, path), self.answers(image, "profile"))

    def test_every_isf(self):
        tables = sorted(glob.glob(os.path.join(need_data("isf"), "*.json.xz")))
        self.assertEqual(len(tables), 14)
        versions = versions_by_guid()
        for table in tables:
            version = versions[os.path.basename(table).split("-")[0]]
            for image in filter(None, (real_image(version), forged_image(version))):
                with self.subTest(version=version, image=os.path.basename(image)):
                    self.same(image, table, "isf")

    def test_pdb_made_with_clang_and_lld(self):
        need_tool("clang")
        need_tool("lld-link")
        if not glob.glob(os.path.join(BIN, "ntfake-[0-9]*", "ntkrnlmp.pdb")):
            subprocess.run([os.path.join(BIN, "test_ntfake")], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pdbs = sorted(glob.glob(os.path.join(BIN, "ntfake-[0-9]*", "ntkrnlmp.pdb")))
        self.assertGreaterEqual(len(pdbs), 8)
        for pdb in pdbs:
            version = os.path.basename(os.path.dirname(pdb)).replace("ntfake-", "")
            images = [forged_image(version)]
            if os.path.isdir(DATA):
                images.append(real_image(version))
            for image in filter(None, images):
                with self.subTest(version=version, image=os.path.basename(image)):
                    self.same(image, pdb, "pdb")

    def test_symbols_of_another_kernel_are_refused(self):
        need_tool("clang")
        pdbs = sorted(glob.glob(os.path.join(BIN, "ntfake-[0-9]*", "ntkrnlmp.pdb")))
        if not pdbs:
            raise unittest.SkipTest("needs the PDBs of test_ntfake")
        image = forge("tiny", "other-kernel.raw")
        for pdb in pdbs:
            result = kda("sessions", image, "--symbols", pdb)
            if result.returncode != 0:
                self.assertEqual(result.returncode, 5, result.stderr)
                self.assertEqual(result.stdout, "")
                return
        self.fail("every PDB was taken")


if __name__ == "__main__":
    unittest.main()
