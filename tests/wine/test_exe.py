"""kda.exe: the same bytes as the tool of this system, whatever the names of the files are."""
import json
import os
import shutil
import unittest

import common
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

    def test_folder_is_no_image(self):
        result = exe("info", self.folder)
        self.assertEqual(result.returncode, 3)
        self.assertIn("is a directory, not a file", result.stderr)
        result = exe("info", "NUL")
        self.assertEqual(result.returncode, 3)
        self.assertIn("is a character device, not a file", result.stderr)


class Symbols(unittest.TestCase):
    def test_what_is_not_in_this_build(self):
        result = exe("formats")
        self.assertEqual(result.returncode, 0)
        image = common.forge("win11", "wine-win11.raw")
        result = exe("info", "--symbols", "none", image)
        self.assertEqual(result.returncode, common.kda("info", "--symbols", "none",
                                                       image).returncode)

    def test_own_profile_is_kept_where_windows_keeps_caches(self):
        pdb = common.need_data("pdb")
        files = sorted(f for f in os.listdir(pdb) if f.endswith(".pdb"))
        self.assertTrue(files)
        path = wine_host.windows_path(os.path.join(pdb, files[0]))
        here, there = common.kda("symbols", "add", os.path.join(pdb, files[0])), exe(
            "symbols", "add", path)
        self.assertEqual(there.returncode, here.returncode, there.stderr)


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

    def test_arguments(self):
        for args in (["driver"], ["driver", "x"], ["driver", "set", "x", "on"], ["live-dump"],
                     ["map", "--live"], ["map"], ["watch", "-f", "csv"], ["watch", "--grep", "x"],
                     ["watch", "file"], ["driver", "filter", "remove"]):
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


if __name__ == "__main__":
    unittest.main()
