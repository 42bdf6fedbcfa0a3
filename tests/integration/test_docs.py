#!/usr/bin/env python3
"""tools/check_docs.py on a small tree of its own: each kind of mistake is found, and named."""
import os
import subprocess
import sys
import tempfile
import unittest

from common import ROOT

RIGHT = {
    "README.md": "[pages](docs/README.md), [a heading](docs/a.md#two-words)\n",
    "CONTRIBUTING.md": "`lib/a_<name>.c`, a `lib/` and `a_x.c`, `../shared/x.c`, `-f json`\n```\n`lib/no.c`\n```\n",
    "docs/README.md": "* [a.md](a.md): a page\n",
    "docs/a.md": "# A\n\n## Two words\n\n`lib/a_x.c` [up](../README.md) [out](https://example.org/x)\n",
    "lib/a_x.c": "/* docs/a.md */\n",
}


def check(**changes):
    with tempfile.TemporaryDirectory() as root:
        for path, text in dict(RIGHT, **changes).items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tools/check_docs.py"), root],
                              stdout=subprocess.PIPE, universal_newlines=True)
        return done.returncode, done.stdout


class Pages(unittest.TestCase):
    def finds(self, text, **changes):
        code, output = check(**changes)
        self.assertEqual((code, output.count("\n")), (1, 1), output)
        self.assertIn(text, output)

    def test_right(self):
        self.assertEqual(check(), (0, ""))

    def test_mistakes(self):
        self.finds("CONTRIBUTING.md:2: `lib/b_<name>.c` does not exist",
                   **{"CONTRIBUTING.md": "a\n`lib/b_<name>.c`\n"})
        self.finds("CONTRIBUTING.md:1: no file is named `b.py`", **{"CONTRIBUTING.md": "`b.py`\n"})
        self.finds("`lib/gone.c` does not exist", **{"CONTRIBUTING.md": "a `span\nof lines` and `lib/gone.c`\n"})
        self.finds("link to docs/b.md", **{"README.md": "[b](docs/b.md)\n"})
        self.finds("no such heading", **{"README.md": "[b](docs/a.md#three-words)\n"})
        self.finds("lib/a_x.c:1: names docs/b.md", **{"lib/a_x.c": "/* docs/b.md */\n"})
        self.finds("lists b.md 0 times", **{"docs/b.md": "# B\n"})
        self.finds("words, the limit is 20000", **{"docs/a.md": "## Two words\n" + "word " * 19994})


if __name__ == "__main__":
    unittest.main()
