#!/usr/bin/env python3
"""docs/first-case.md tells the truth: every command of the page, run in its order, prints what the page
shows. A line `...` of the page stands for any lines."""
import os
import re
import shutil
import subprocess
import unittest

from common import BIN, ROOT, work

PAGE = os.path.join(ROOT, "docs/first-case.md")


def steps(text):
    """(command, lines shown) of each `$ ` line inside a fence; a command may go on behind a backslash."""
    found = []
    for fence in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        for block in re.split(r"^\$ ", fence, flags=re.M)[1:]:
            command = re.match(r"(?:.*\\\n)*.*\n", block).group()
            found.append((command, block[len(command):].rstrip("\n").split("\n")
                          if block[len(command):].strip() else []))
    return found


def agrees(shown, printed):
    pattern = "".join("(?:.*\n)*" if line == "..." else re.escape(line) + "[ ]*\n" for line in shown)
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


class FirstCase(unittest.TestCase):
    def test_page(self):
        folder = work("first-case")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        os.symlink(os.path.join(ROOT, "tests"), os.path.join(folder, "tests"))
        env = {"PATH": BIN + os.pathsep + os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8"}
        with open(PAGE, encoding="utf-8") as file:
            found = steps(file.read())
        self.assertGreater(len(found), 6)
        for command, shown in found:
            with self.subTest(command):
                done = subprocess.run(["sh", "-c", command], cwd=folder, env=env, timeout=120,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                printed = done.stdout.decode().splitlines()
                self.assertEqual(done.returncode, 0, printed)
                self.assertTrue(agrees(shown, printed),
                                "the page shows\n%s\nand this is printed\n%s" % (
                                    "\n".join(shown), "\n".join(printed)))

    def test_a_changed_page_fails(self):
        self.assertEqual(steps("```\n$ a \\\n  b\nx\n...\n$ c\n```\n"),
                         [("a \\\n  b\n", ["x", "..."]), ("c\n", [])])
        self.assertTrue(agrees(["a", "...", "c"], ["a", "b1", "b2", "c"]))
        self.assertFalse(agrees(["a", "...", "c"], ["a", "b", "d"]))
        self.assertFalse(agrees(["a"], ["a", "b"]))
        self.assertFalse(agrees([], ["a"]))


if __name__ == "__main__":
    unittest.main()
