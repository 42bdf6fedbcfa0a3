#!/usr/bin/env python3
"""Checks what the pages say of this tree: docs/*.md, README.md and CONTRIBUTING.md.

Usage: check_docs.py [ROOT]

* A path in backticks, and a file name in backticks, exists. `<name>` and `*` stand for any text: one
  file has to fit.
* A link to a page or a heading leads somewhere, and so does each page that a source names as docs/*.md.
* docs/README.md has a line for every page.
* The pages of docs/ have fewer than LIMIT words, as `wc -w` counts them.
"""
import fnmatch
import glob
import os
import re
import sys

LIMIT = 20000
SOURCES = (".c", ".h", ".py", ".pml", ".ps1", ".inf", ".txt", ".cmake", ".sh")
NAMES = re.compile(r"[\w<>*.-]+\.(?:c|h|py|md|pml|patch|ps1|cmake|inf|tsv)$")
OWN_TEST = "tests/integration/test_docs.py"  # which makes mistakes on purpose
MENTION = re.compile(r"docs/([\w*-]+\.md)")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def tree(root):
    """Files of the tree, without what is built or hidden."""
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f != "build" and not f.startswith(".")]
        for name in files:
            yield os.path.relpath(os.path.join(folder, name), root)


def quoted(text):
    """Words in backticks, outside of fences, with their line."""
    text = re.sub(r"^```.*?^```", lambda fence: "\n" * fence.group().count("\n"), text,
                  flags=re.M | re.S)
    for code in re.finditer(r"`([^`]+)`", text):
        number = text.count("\n", 0, code.start()) + 1
        for word in code.group(1).split():
            yield number, word.strip(",;:()\"")


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class Check:
    def __init__(self, root):
        self.root = root
        self.files = list(tree(root))
        self.names = {os.path.basename(path) for path in self.files}
        self.folders = {path.split(os.sep)[0] for path in self.files if os.sep in path}
        self.mistakes = []

    def say(self, path, number, text):
        self.mistakes.append("%s:%d: %s" % (path, number, text))

    def paths(self, page, text):
        for number, word in quoted(text):
            pattern = re.sub(r"<\w+>", "*", word)
            if "/" in word and word.split("/")[0] in self.folders:
                if not glob.glob(os.path.join(self.root, pattern)):
                    self.say(page, number, "`%s` does not exist" % word)
            elif NAMES.match(word) and not fnmatch.filter(self.names, pattern):
                self.say(page, number, "no file is named `%s`" % word)

    def links(self, page, text):
        for number, line in enumerate(text.splitlines(), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"https?:", target):
                    continue
                name, _, heading = target.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(page), name)) if name else page
                if not os.path.exists(os.path.join(self.root, path)):
                    self.say(page, number, "link to %s, which does not exist" % target)
                elif heading and heading not in map(slug, re.findall(
                        r"^#+ (.*)", read(self.root, path), re.M)):
                    self.say(page, number, "link to %s, which has no such heading" % target)

    def mentions(self):
        for path in self.files:
            if path == OWN_TEST or not (path.endswith(SOURCES) or
                                        os.path.basename(path) == "Makefile"):
                continue
            for number, line in enumerate(read(self.root, path).splitlines(), 1):
                for name in MENTION.findall(line):
                    if not glob.glob(os.path.join(self.root, "docs", name)):
                        self.say(path, number, "names docs/%s, which does not exist" % name)

    def index(self, pages):
        listed = re.findall(r"\]\((\w[\w-]*\.md)\)", read(self.root, "docs/README.md"))
        for page in pages:
            name = os.path.basename(page)
            if name != "README.md" and listed.count(name) != 1:
                self.say("docs/README.md", 1, "lists %s %d times" % (name, listed.count(name)))

    def run(self):
        pages = sorted(path for path in self.files if fnmatch.fnmatch(path, "docs/*.md"))
        for page in pages + ["README.md", "CONTRIBUTING.md"]:
            text = read(self.root, page)
            self.paths(page, text)
            self.links(page, text)
        self.mentions()
        self.index(pages)
        words = sum(len(read(self.root, page).split()) for page in pages)
        if words >= LIMIT:
            self.say("docs", 0, "%d words, the limit is %d" % (words, LIMIT))
        return self.mistakes


def main():
    mistakes = Check(sys.argv[1] if len(sys.argv) > 1 else ".").run()
    for mistake in mistakes:
        print(mistake)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
