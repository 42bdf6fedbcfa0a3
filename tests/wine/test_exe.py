"""kda.exe: the same bytes as the tool of this system, whatever the names of the files are."""
import glob
import json
import os
import shutil
import subprocess
import unittest

import common
import test_profiles
import wine_host

EXE = os.path.join(wine_host.WINDOWS, "kda.exe")


def setUpModule():
    wine_host.prepare()
    unittest.addModuleCleanup(wine_host.stop)


def exe(*args, **kw):
    return wine_host.run(EXE, *args, **kw)


class SameBytes(unittest.TestCase):
    VIEWS = [["map"], ["map", "-f", "json"], ["sessions", "-f", "csv"], ["providers", "--all"],
             ["consumers", "-f", "jsonl"], ["processes"]]

    def same(self, image, views):
        for view in views:
            with self.subTest(view=view):
                here, there = common.kda(*view, image), exe(*view, image)
                self.assertEqual(there.stderr, here.stderr)
                self.assertEqual(there.returncode, here.returncode)
                self.assertIn(here.returncode, (0, 4))
                # What is built in differs, and is not hidden.
                self.assertEqual(drop_built_in(there.stdout), drop_built_in(here.stdout))
                self.assertGreater(len(here.stdout), 500)

    def test_generated(self):
        self.same(common.forge("win11", "wine-win11.raw"), self.VIEWS + [["info"]])

    def test_triage(self):
        image = common.need_data("dumps")
        files = sorted(f for f in os.listdir(image) if f.endswith(".dmp"))
        self.assertTrue(files)
        for name in files[:3]:
            path = os.path.join(image, name)
            here, there = common.kda("info", path), exe("info", path)
            self.assertEqual((there.returncode, there.stderr), (here.returncode, here.stderr))
            self.assertEqual(drop_built_in(there.stdout), drop_built_in(here.stdout))

    def test_raw_image(self):
        self.same(common.unpack("images/win11-22000.795.raw.xz"), self.VIEWS)

    def test_crash_dump(self):
        self.same(common.unpack("images/server2022-20348.825.dmp.xz"), self.VIEWS)

    def test_image_with_holes(self):
        self.same(common.unpack("images/win11-22000.318-holes.dmp.xz"), self.VIEWS)

    def test_help(self):
        for args in (["--help"], ["map", "--help"], ["completions", "bash"]):
            self.assertEqual(exe(*args).stdout, common.kda(*args).stdout)


def drop_built_in(text):
    return "\n".join(line for line in text.splitlines() if not line.startswith("Built in")
                     and '"row":"info"' not in line and '"built_in"' not in line)


class Imports(unittest.TestCase):
    # What Windows takes from its own folder whatever lies beside the program (KnownDLLs).
    KNOWN = {"advapi32.dll", "kernel32.dll", "msvcrt.dll", "shell32.dll", "shlwapi.dll"}

    def test_nothing_beside_the_program_is_loaded(self):
        objdump = common.need_tool("x86_64-w64-mingw32-objdump")
        text = subprocess.run([objdump, "-p", EXE], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        names = {line.split()[2].lower() for line in text.splitlines() if "DLL Name:" in line}
        self.assertIn("kernel32.dll", names)
        self.assertLessEqual(names, self.KNOWN)


class Names(unittest.TestCase):
    def setUp(self):
        self.folder = common.work("wine-names")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.image = common.forge("win11", "wine-win11.raw")
        self.expected = common.kda("sessions", self.image).stdout

    def test_utf8(self):
        name = os.path.join(self.folder, "Speicher-ÄÖ-日本-😀.raw")
        os.link(self.image, name)
        for spelling in (name, wine_host.windows_path(name)):
            result = exe("sessions", spelling)
            self.assertEqual((result.returncode, result.stdout), (0, self.expected))
        gone = os.path.join(self.folder, "нет.raw")
        result = exe("info", gone)
        self.assertEqual(result.returncode, 3)
        self.assertIn("нет.raw", result.stderr)
        self.assertIn("error 2", result.stderr)

    def test_output_folder(self):
        here, there = (os.path.join(self.folder, name) for name in ("here", "Tabellen-ß"))
        for _ in range(2):  # into a folder that is new, and over the tables of the run before
            expected = common.kda("map", "-f", "csv", "-o", here, self.image)
            self.assertIn(expected.returncode, (0, 4))
            result = exe("map", "-f", "csv", "-o", there, self.image)
            self.assertEqual((result.returncode, result.stderr),
                             (expected.returncode, expected.stderr))
            self.assertEqual(sorted(os.listdir(there)), sorted(os.listdir(here)))
            for name in set(os.listdir(here)) - {"info.csv"}:
                with open(os.path.join(here, name), "rb") as a, \
                        open(os.path.join(there, name), "rb") as b:
                    self.assertEqual(a.read(), b.read(), name)
        refused = exe("map", "-f", "csv", "-o", self.image, self.image)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("-o FOLDER", refused.stderr)

    def test_output_file(self):
        target = os.path.join(self.folder, "Bericht-ß.txt")
        with open(target, "w") as f:
            f.write("old")
        result = exe("sessions", "-o", target, self.image)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open(target, encoding="utf-8") as f:
            self.assertEqual(f.read(), common.kda("sessions", "-o", "-", self.image).stdout)
        self.assertEqual(os.listdir(self.folder), ["Bericht-ß.txt"])

    def test_failed_output_leaves_what_was(self):
        target = os.path.join(self.folder, "kept.txt")
        with open(target, "w") as f:
            f.write("old")
        result = exe("sessions", "-o", target, os.path.join(self.folder, "none.raw"))
        self.assertEqual(result.returncode, 3)
        self.assertEqual(os.listdir(self.folder), ["kept.txt"])
        with open(target) as f:
            self.assertEqual(f.read(), "old")

    def test_output_is_the_input(self):
        copy = os.path.join(self.folder, "image.raw")
        os.link(self.image, copy)
        result = exe("sessions", "-o", copy, copy)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(os.path.getsize(copy), os.path.getsize(self.image))

    def test_long_path(self):
        folder = self.folder
        for i in range(12):
            folder = os.path.join(folder, "a-rather-long-name-of-a-folder-%02d" % i)
        os.makedirs(folder)
        name = os.path.join(folder, "image.raw")
        self.assertGreater(len(name), 400)
        os.link(self.image, name)
        target = os.path.join(folder, "out.txt")
        result = exe("sessions", name, "-o", target)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(folder)), ["image.raw", "out.txt"])
        # Relative to a folder, with the other separator and an upward step.
        below = os.path.relpath(name, self.folder).replace("/", "\\")
        result = exe("sessions", "..\\wine-names\\" + below, cwd=self.folder)
        self.assertEqual((result.returncode, result.stdout), (0, self.expected))

    def test_path_of_the_system(self):
        """Names that the system is not to look into; '/' separates there too."""
        for spelling in ("\\\\?\\Z:" + self.image.replace("/", "\\"), "\\\\?\\Z:" + self.image,
                         "//?/Z:" + self.image):
            with self.subTest(spelling=spelling):
                result = exe("sessions", spelling)
                self.assertEqual((result.returncode, result.stdout, result.stderr),
                                 (0, self.expected, ""))
        folder = os.path.join(self.folder, *("folder-with-a-long-name-%02d" % i for i in range(12)))
        os.makedirs(folder)
        self.assertGreater(len(folder), 260)
        os.link(self.image, os.path.join(folder, "image.raw"))
        result = exe("sessions", "//?/Z:%s/image.raw" % folder, "-o", "//?/Z:%s/out.txt" % folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(folder)), ["image.raw", "out.txt"])

    def test_pipe_that_nobody_reads(self):
        """No message about what is no mistake, as with the tool of this system."""
        for program in ([common.KDA], wine_host.command(EXE)):
            with self.subTest(program=program[-1]):
                reading, writing = os.pipe()
                os.close(reading)
                with os.fdopen(writing, "wb") as out:
                    result = subprocess.run(program + ["map", self.image],
                                            env=wine_host.environment(), stdout=out,
                                            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
                self.assertEqual((result.returncode, result.stderr), (6, b""))

    def test_folder_is_no_image(self):
        result = exe("info", self.folder)
        self.assertEqual(result.returncode, 3)
        self.assertIn("is a directory, not a file", result.stderr)
        result = exe("info", "NUL")
        self.assertEqual(result.returncode, 3)
        self.assertIn("is a character device, not a file", result.stderr)


class Symbols(unittest.TestCase):
    """A kernel that the built-in table does not know, and its PDB."""

    @classmethod
    def setUpClass(cls):
        cls.known, row = test_profiles.builtin_row(test_profiles.VERSION)
        cls.guid = test_profiles.bytes_of(row["pdb_guid"])
        if not glob.glob(os.path.join(common.BIN, "ntfake-*")):
            subprocess.run([os.path.join(common.BIN, "test_ntfake")], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        made = sorted(glob.glob(os.path.join(common.BIN, "ntfake-10.0.22000*", "ntkrnlmp.pdb")))
        pdb = next((p for p in made if cls.guid in test_profiles.read(p)), None)
        if not pdb:
            raise unittest.SkipTest("needs a PDB of %s from test_ntfake" % test_profiles.VERSION)
        cls.folder = common.work("wine-symbols")
        shutil.rmtree(cls.folder, ignore_errors=True)
        os.makedirs(cls.folder)
        cls.image, cls.pdb = (os.path.join(cls.folder, n) for n in ("alien.raw", "ntkrnlmp.pdb"))
        for source, target in ((cls.known, cls.image), (pdb, cls.pdb)):
            with open(target, "wb") as f:
                f.write(test_profiles.read(source).replace(cls.guid, test_profiles.ALIEN))
        cls.expected = common.kda("sessions", cls.known, "-f", "jsonl").stdout

    @staticmethod
    def profiles():
        return glob.glob(os.path.join(wine_host.PREFIX, "drive_c/users/*/AppData/Local/kda/**/*.*"),
                         recursive=True)

    def setUp(self):
        for path in self.profiles():
            os.remove(path)

    def test_pdb_and_the_profile_it_leaves(self):
        result = exe("info", "-f", "jsonl", self.image)
        self.assertEqual(json.loads(result.stdout.splitlines()[0])["symbol_source"], "fitted")
        result = exe("symbols", "add", wine_host.windows_path(self.pdb), self.image)
        self.assertEqual(result.returncode, 0, result.stderr)
        kept = self.profiles()
        self.assertEqual([os.path.basename(p) for p in kept],
                         ["ntkrnlmp.pdb-%s1.kdaprof" % test_profiles.text_of(test_profiles.ALIEN)])
        result = exe("sessions", self.image, "-f", "jsonl")
        self.assertEqual((result.returncode, result.stdout), (0, self.expected))
        result = exe("info", "-f", "jsonl", self.image)
        self.assertEqual(json.loads(result.stdout.splitlines()[0])["symbol_source"], "cache")
        # The same bytes as the one that the tool of this system keeps.
        cache = os.path.join(self.folder, "cache")
        here = common.kda("symbols", "add", self.pdb, self.image, env={"XDG_CACHE_HOME": cache})
        self.assertEqual(here.returncode, 0, here.stderr)
        self.assertEqual(test_profiles.read(kept[0]), test_profiles.read(
            os.path.join(cache, "kda/profiles", os.path.basename(kept[0]))))
        listed = common.rows(exe("symbols", "list", "-f", "jsonl"), "profile")
        self.assertEqual([row["source"] for row in listed], ["built-in", "pdb"])

    def test_named_pdb(self):
        folder = wine_host.windows_path(self.folder)
        for path in (wine_host.windows_path(self.pdb), folder, folder + "\\", "srv*" + folder):
            with self.subTest(path=path):
                result = exe("sessions", self.image, "-f", "jsonl", "--symbols", path)
                if path.startswith("srv*"):  # no store: nothing is found there
                    self.assertEqual(result.returncode, common.kda(
                        "sessions", self.image, "-f", "jsonl", "--symbols",
                        "srv*" + self.folder).returncode)
                    continue
                self.assertEqual((result.returncode, result.stdout), (0, self.expected),
                                 result.stderr)
        # By the environment, in the user's own characters.
        ours = os.path.join(self.folder, "Symbole-Ä日")
        os.makedirs(ours, exist_ok=True)
        shutil.copy(self.pdb, ours)
        result = exe("sessions", self.image, "-f", "jsonl",
                     env={"KDA_SYMBOLS": wine_host.windows_path(ours)})
        self.assertEqual((result.returncode, result.stdout), (0, self.expected), result.stderr)

    def test_what_is_not_in_this_build(self):
        isf = os.path.join(self.folder, "x.json")
        with open(isf, "w") as f:
            f.write("{}")
        result = exe("sessions", self.image, "--symbols", isf)
        self.assertEqual(result.returncode, 5)
        self.assertIn("without", result.stderr)


class NoDriver(unittest.TestCase):
    """What the commands say where there is no driver, or one that does not load."""

    def says(self, code, text, *args):
        result = exe(*args)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertIn(text, result.stdout + result.stderr)
        return result

    def test_not_installed(self):
        self.says(3, "not installed", "driver", "status")
        self.assertEqual(json.loads(exe("driver", "status", "-f", "json").stdout),
                         {"row": "driver", "installed": False})
        for verb in (["start"], ["stop"], ["remove"], ["filter", "list"],
                     ["filter", "add", "exclude"], ["set", "registry", "off"]):
            self.says(3, "kda driver install", "driver", *verb)
        self.says(3, "kda driver start", "watch")
        self.says(3, "name the driver's file", "driver", "install", "C:\\none.sys")

    def test_file_that_is_no_driver(self):
        path = common.work("nodriver.sys")
        with open(path, "w") as f:
            f.write("no driver\n")
        self.assertEqual(exe("driver", "install", path).returncode, 0)
        self.addCleanup(exe, "driver", "remove")
        self.says(3, "installed already", "driver", "install", path)
        self.says(3, "stopped, start: demand", "driver", "status")
        self.says(3, "cannot start the driver: ", "driver", "start")
        self.says(3, "kda driver start", "watch")
        self.says(0, "when it starts", "driver", "set", "image", "off")
        self.says(0, "\\REGISTRY\\A\\", "driver", "filter", "list")
        self.says(0, "", "driver", "filter", "add", "exclude", "image=\\Ä b\\c.exe")
        self.says(0, "  1  exclude image=\"\\Ä b\\c.exe\"\n", "driver", "filter", "list")
        self.says(2, "unknown kind", "driver", "filter", "add", "exclude", "kind=x")
        self.says(0, "removed", "driver", "remove")
        self.says(3, "not installed", "driver", "status")

    def test_file_from_a_disc(self):
        """All there is marked read-only; what was copied can be removed all the same."""
        path = common.work("read-only.sys")
        with open(path, "w") as f:
            f.write("no driver\n")
        os.chmod(path, 0o444)
        self.addCleanup(os.remove, path)
        installed = os.path.join(wine_host.PREFIX, "drive_c/windows/system32/drivers/kdamonitor.sys")
        shutil.copy(path, installed)  # left behind by an earlier version, and in the way
        self.assertEqual(exe("driver", "install", path).returncode, 0)
        self.assertTrue(os.path.exists(installed))
        self.says(0, "removed", "driver", "remove")
        self.assertFalse(os.path.exists(installed))

    def test_arguments(self):
        for args in (["driver"], ["driver", "x"], ["driver", "set", "x", "on"], ["live-dump"],
                     ["map", "--live"], ["map"], ["watch", "-f", "csv"], ["watch", "--grep", "x"],
                     ["watch", "file"], ["driver", "filter", "remove"],
                     ["driver", "filter", "list", "-f", "json"], ["driver", "start", "-f", "csv"]):
            with self.subTest(args=args):
                result = exe(*args)
                self.assertEqual(result.returncode, 2)
                self.assertTrue(result.stderr.startswith("kda: "))

    def test_live_dump(self):
        """Wine makes none, and says so by a status; nothing is left behind."""
        folder = common.work("wine-dump")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        target = os.path.join(folder, "ß.dmp")
        self.says(3, "status 0xc0000002", "live-dump", target)
        self.says(3, "status 0xc0000002", "map", "--live", "--dump", target)
        self.assertEqual(os.listdir(folder), [])
        self.says(3, "ß.dmp.partial", "live-dump", target, "--keep")
        self.assertEqual(os.listdir(folder), ["ß.dmp.partial"])
        self.says(3, "partial dump of an earlier run", "live-dump", target)
        with open(target, "w"):
            pass
        self.says(2, "exists already", "live-dump", target)
        self.says(3, "cannot look at the disk", "live-dump", os.path.join(folder, "none", "x.dmp"))
        self.says(3, "error 123", "live-dump", "")


if __name__ == "__main__":
    unittest.main()
