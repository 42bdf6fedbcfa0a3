"""Runs kda-evidence over cases and hands out what each of them changed."""
import json
import os
import subprocess
import threading

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
        self.process = None

    def parse(self, line):
        row = self.parsed.get(line)
        if row is None:
            row = json.loads(line)
            if len(self.parsed) < 200000:
                self.parsed[line] = row
        return row

    def start(self):
        """A program that has told the undamaged image; it stays for further cases."""
        env = {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        self.process = subprocess.Popen(self.args, env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, bufsize=1 << 16)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        first = self.read_case(Case(-1, ""))
        if first is None:
            raise RuntimeError("kda-evidence does not start: " + " ".join(self.args))
        self.first = self.first or first

    def stop(self):
        """Ends the program; its exit code."""
        self.process.stdin.close()
        self.process.stdout.close()
        code = self.process.wait()
        self.process = None
        return code

    def feed(self, words):
        """Writes cases; the program answers one before it reads the next, so this runs beside."""
        try:
            for at in range(0, len(words), 64):
                self.process.stdin.write("".join(text + "\n" for text in words[at:at + 64]))
                self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the reader of the answers sees the end as well

    def run(self, cases):
        """Yields a Case for each text of words. A case that ends the program is told as a crash, and
        the ones behind it run in a new one."""
        left, number = list(cases), 0
        while left:
            if self.process is None:
                self.start()
            feeder = threading.Thread(target=self.feed, args=(left,), daemon=True)
            feeder.start()
            done = 0
            for text in left:
                case = Case(number, text)
                if self.read_case(case) is None:
                    feeder.join()
                    case.crash = self.crashed()
                number, done = number + 1, done + 1
                yield case
                if case.crash is not None:
                    break
            feeder.join()
            left = left[done:]

    def crashed(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()
        code = self.process.wait()
        self.process = None
        return code

    def __del__(self):
        if getattr(self, "process", None) is not None:
            self.stop()

    def read_case(self, case):
        rows = self.first.added if self.first else []
        for line in self.process.stdout:
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
