"""What every command prints, byte for byte, over small machines of the generator: tests/golden.

After a change that is meant: KDA_GOLDEN=write python3 tests/run.py --only integration \\
--pattern test_golden.py, and a look at the difference. tests/golden/keys.txt is written by
`make docs`; what it promises never goes, not even in a commit of its own.
"""
import os
import shutil
import subprocess
import unittest

from common import BIN, ROOT, forge, kda, work

GOLDEN = os.path.join(ROOT, "tests/golden")
PROMISES = ("format ", "kind ", "key ", "csv ", "event ")
EACH = ("text", "csv", "jsonl")
# Page by page: words of a command, the formats it is run in, and whether csv wants a folder.
PAGES = {
    "info": [(["info", "audit.raw"], ("text", "csv", "tsv", "json"), False),
             (["info", "fit.raw", "--symbols", "none"], EACH, False),
             (["info", "fit.raw", "--symbols", "none", "-v", "-q"], ("text",), False),
             (["symbols", "audit.raw"], ("text", "csv", "jsonl"), False)],
    "lists": [(["sessions", "holes.raw"], ("text", "csv", "tsv", "json", "jsonl"), False),
              (["consumers", "audit.raw"], EACH, False),
              (["providers", "audit.raw"], EACH, False),
              (["processes", "audit.raw"], EACH, False),
              (["sessions", "audit.raw", "--limit", "2"], EACH, False),
              (["processes", "audit.raw", "--grep", "LSASS"], EACH, False),
              (["callbacks", "audit.raw"], EACH, False)],
    "map": [(["map", "holes.raw"], ("text", "csv", "json"), True),
            (["map", "silo.raw"], ("text",), False)],
    "audit": [(["audit", "holes.raw"], EACH, True),
              (["audit", "tampered.raw", "--baseline", "audit.raw"], EACH, True)],
    "buffers": [(["buffers", "buffers.raw"], EACH, False),
                (["events", "buffers.raw", "--limit", "12"], EACH, False)],
    "traces": [(["etl", "info", "trace.etl"], EACH, True),
               (["etl", "info", "damaged.etl"], EACH, True),
               (["etl", "stats", "trace.etl"], ("text", "tsv", "jsonl"), False),
               (["events", "trace.etl"], ("text", "csv"), False)],
    "logs": [(["log", "show", "whole.jsonl"], EACH, False),
             (["log", "stats", "whole.jsonl"], EACH, False),
             (["verify", "-v", "whole.jsonl"], ("text", "csv", "json"), True),
             (["verify", "gappy.jsonl"], EACH, True),
             (["compare", "whole.jsonl", "gappy.jsonl"], EACH, True)],
    "tables": [(["formats", "--grep", "output"], EACH, False),
               (["formats", "--grep", "image"], ("text",), False),
               (["formats", "--grep", "trace"], ("text",), False),
               (["formats", "--grep", "symbols"], ("text",), False),
               (["formats", "--grep", "exit"], ("text",), False)],
}


def make(folder):
    """The inputs, in a folder of their own so that outputs name them without a path."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for scenario, name, *more in (
            ("audit", "audit.raw"), ("audit", "holes.raw", "hole what=session:9"),
            ("audit", "tampered.raw", "poke session:9 WMI_LOGGER_CONTEXT.AcceptNewEvents "
             "0xffffffff"), ("fit", "fit.raw"), ("silo", "silo.raw"), ("buffers", "buffers.raw")):
        shutil.move(forge(scenario, "golden-" + name, *(["--add"] + more if more else [])),
                    os.path.join(folder, name))
    kda("buffers", os.path.join(folder, "buffers.raw"), "3", "--silo", "host", "-o",
        os.path.join(folder, "trace.etl"))
    with open(os.path.join(folder, "trace.etl"), "rb") as f:
        trace = f.read()
    with open(os.path.join(folder, "damaged.etl"), "wb") as f:
        f.write(trace[:-100])
    subprocess.run([os.path.join(BIN, "kda-sim"), "script",
                    os.path.join(ROOT, "tests/sim/scripts/demo.txt"), "-o",
                    os.path.join(folder, "sim")], check=True, stdout=subprocess.DEVNULL)
    logs = os.path.join(folder, "sim/log")
    with open(os.path.join(logs, sorted(os.listdir(logs))[0]), encoding="utf-8") as f:
        lines = f.readlines()
    for name, kept in (("whole.jsonl", lines), ("gappy.jsonl", lines[:9] + lines[12:])):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.writelines(kept)


def run(folder, words, output_format, several):
    """What one run prints, with its messages and exit code, as text of a page."""
    args = words + ["-f", output_format]
    tables = os.path.join(folder, "tables")
    shutil.rmtree(tables, ignore_errors=True)
    if several and output_format == "csv":
        args += ["-o", "tables"]
    result = kda(*args, cwd=folder)
    text = "$ kda %s\n%s" % (" ".join(args), result.stdout)
    for name in sorted(os.listdir(tables)) if os.path.isdir(tables) else []:
        with open(os.path.join(tables, name), encoding="utf-8", newline="") as f:
            text += "= %s\n%s" % (name, f.read())
    text += "".join("! %s\n" % line for line in result.stderr.splitlines()
                    if not line.startswith("stat "))
    return text + "exit %d\n\n" % result.returncode


class Golden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = work("golden")
        make(cls.folder)

    def test_pages(self):
        for page, cases in PAGES.items():
            path = os.path.join(GOLDEN, page + ".txt")
            text = "".join(run(self.folder, words, output_format, several)
                           for words, formats, several in cases for output_format in formats)
            if os.environ.get("KDA_GOLDEN") == "write":
                with open(path, "w", encoding="utf-8", newline="") as f:
                    f.write(text)
            with open(path, encoding="utf-8", newline="") as f, self.subTest(page):
                self.assertEqual(text.split("\n"), f.read().split("\n"))


class Promises(unittest.TestCase):
    def tool(self, name, *args):
        return subprocess.run([os.path.join(BIN, name)] + list(args), stdout=subprocess.PIPE,
                              check=True).stdout.decode()

    def test_page_is_current(self):
        with open(os.path.join(ROOT, "docs/rows.md"), encoding="utf-8") as f:
            self.assertEqual(f.read(), self.tool("kda-rows-doc"), "run make docs")

    def test_list_is_current_and_only_grows(self):
        now = self.tool("kda-rows-doc", "keys") + self.tool("kda-events-doc", "keys")
        with open(os.path.join(GOLDEN, "keys.txt"), encoding="utf-8") as f:
            self.assertEqual(f.read().split("\n"), now.split("\n"), "run make docs")
        log = subprocess.run(["git", "log", "-p", "--format=", "--", "tests/golden/keys.txt"],
                             cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if log.returncode != 0:
            self.skipTest("no history here: the list is compared with the committed one only")
        ever = {line[1:] for line in log.stdout.decode().splitlines()
                if line.startswith("+") and line[1:].startswith(PROMISES)}
        self.assertEqual(sorted(ever - set(now.splitlines())), [],
                         "a key, column or format was removed, renamed or retyped")

    def test_versions(self):
        now = self.tool("kda-rows-doc", "keys") + self.tool("kda-events-doc", "keys")
        self.assertIn("version rows 1\n", now)
        self.assertIn("version events 1\n", now)


if __name__ == "__main__":
    unittest.main()
