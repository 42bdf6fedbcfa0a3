"""Runs kda-evidence over cases and hands out what each of them changed."""
import json
import os
import subprocess
import tempfile

PAGE = 4096


class Case:
    """One run. `added` and `gone` are parsed rows; they are relative to the first run."""
    __slots__ = ("number", "words", "code", "added", "gone", "pages", "crash")

    def __init__(self, number, words):
        self.number, self.words = number, words
        self.code, self.pages, self.crash = None, 0, None
        self.added, self.gone = [], []

    def damage(self):
        """Frames that are missing, and frames whose bytes were changed."""
        missing, edited = set(), set()
        for word in self.words.split():
            first = int(word[1:].split(":")[0], 16)
            if word[0] == "-":
                missing.add(first)
            else:
                edited.add(first // PAGE if word[0] == "@" else first)
        return missing, edited


class Engine:
    def __init__(self, program, image, symbols=None, audit=False):
        self.args = [program, image, "--pages"]
        if symbols:
            self.args += ["--symbols", symbols]
        if audit:
            self.args.append("--audit")
        self.symbols = symbols
        self.parsed = {}  # rows are mostly the same ones again
        self.first, self.read, self.scanned = None, set(), set()

    def parse(self, line):
        row = self.parsed.get(line)
        if row is None:
            row = json.loads(line)
            if len(self.parsed) < 200000:
                self.parsed[line] = row
        return row

    def start(self, words):
        """The program over the undamaged image and then these cases."""
        env = {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        with tempfile.TemporaryFile("w+") as cases:
            cases.write("\n" + "".join(text + "\n" for text in words))
            cases.seek(0)
            return subprocess.Popen(self.args, env=env, stdin=cases, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True, bufsize=1 << 16)

    def run(self, cases):
        """Yields a Case for each text of words. A case that ends the program is told as a crash,
        and the ones behind it run in a new one."""
        left = list(cases)
        number = 0
        while left or self.first is None:
            done = 0
            for case in self.batch(left, number):
                done += 1
                yield case
            number += done
            left = left[done:]
            if done == 0 and left:
                raise RuntimeError("kda-evidence does not start: " + " ".join(self.args))
            if not left:
                return

    def batch(self, words, number):
        process = self.start(words)
        first = self.read_case(process.stdout, Case(-1, ""))
        if first is not None:
            self.first = self.first or first
            for index, text in enumerate(words):
                case = self.read_case(process.stdout, Case(number + index, text))
                if case is None:
                    case = Case(number + index, text)
                    case.crash = process.wait()
                    yield case
                    break
                yield case
        process.stdout.close()
        process.wait()

    def read_case(self, stream, case):
        rows = self.first.added if self.first else []
        for line in stream:
            kind = line[0]
            if kind == "+":
                case.added.append(self.parse(line[1:]))
            elif kind == "-":
                case.gone.append(rows[int(line[1:])])
            elif kind == "c":
                case.code = int(line.split()[2])
            elif kind == "r":
                self.read.add(int(line.split()[1], 16))
            elif kind == "s":
                self.scanned.add(int(line.split()[1], 16))
            elif kind == "e":
                case.pages = int(line.split()[1])
                return case
        return None

    def rows(self, case):
        """All rows of a case."""
        if case is self.first:
            return list(case.added)
        gone = {id(row): 0 for row in case.gone}
        for row in case.gone:
            gone[id(row)] += 1
        out = []
        for row in self.first.added:
            if gone.get(id(row), 0) > 0:
                gone[id(row)] -= 1
            else:
                out.append(row)
        return out + case.added
