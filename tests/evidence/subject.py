"""An image that is damaged over and over: how it is read, its truth, and what is wrong of a run."""
import lzma
import os
import shutil
import sys

import oracle
from engine import Engine
from judge import Fault, Judge
from truth import Truth

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.path.join(ROOT, "../shared/data")


def work_folder(build):
    path = os.path.join(build, "..", "work")
    os.makedirs(path, exist_ok=True)
    return path


def unpack(path, work):
    """The file itself, or an unpacked copy of FILE.xz in the work folder."""
    if not path.endswith(".xz"):
        return path
    target = os.path.join(work, os.path.basename(path)[:-3])
    if not os.path.exists(target):
        part = "%s.%d" % (target, os.getpid())
        with lzma.open(path) as packed, open(part, "wb") as out:
            shutil.copyfileobj(packed, out, 1 << 20)
        os.rename(part, target)
    return target


def find_image(name):
    """A path, or the name of an image of ../shared/data ("win7-7601.24540")."""
    if os.path.exists(name):
        return name
    for folder in ("images", "evidence"):
        for ending in ("", ".xz", ".raw.xz", ".dmp.xz"):
            path = os.path.join(DATA, folder, name + ending)
            if os.path.exists(path):
                return path
    sys.exit("no such image: " + name)


def find_truth(image):
    stem = image[:-3] if image.endswith(".xz") else image
    stem = os.path.splitext(stem)[0]
    for path in (stem + ".truth.json", stem + ".truth.json.xz"):
        if os.path.exists(path):
            return path
    sys.exit("no truth beside " + image)


class Subject:
    """An image, how it is read, its truth, and what the reader says of it undamaged."""

    def __init__(self, image, truth=None, symbols=None, build=None, audit=False):
        build = build or os.environ.get("KDA_TEST_BIN", os.path.join(ROOT, "build/gcc"))
        program, work = os.path.join(build, "kda-evidence"), work_folder(build)
        found = find_image(image)
        self.name = image
        self.truth_path = truth or find_truth(found)
        self.path = unpack(found, work)
        self.symbols = symbols
        self.truth = Truth(self.path, self.truth_path, program, work,
                           os.path.join(DATA, "layouts.tsv"))
        self.engine = Engine(program, self.path, symbols, audit)
        for _ in self.engine.run([]):
            pass
        self.judge = Judge(self.truth, self.engine.first.added)
        self.places = self.proofs = None

    def recall(self, case):
        """{kind: (found, provable)} and what was not found, as faults. Builds without a silo state
        are not read without symbols, by design: nothing counts there."""
        if self.proofs is None:
            info = [row for row in self.engine.first.added if row["row"] == "info"]
            named = bool(info) and info[0].get("symbol_source") not in (None, "fitted")
            self.proofs = oracle.Oracle(self.truth, named)
        if not self.proofs.usable or self.engine.first.code == 5 and not self.truth.embedded:
            return {}, []
        proved = self.proofs.provable(case.damage()[0])
        seen = oracle.found(self.engine.rows(case))
        score = {kind: (len(vas & seen[kind]), len(vas)) for kind, vas in proved.items()}
        return score, [Fault("not found", kind, "row", "0x%x" % va)
                       for kind, vas in proved.items() for va in sorted(vas - seen[kind])]

    def frames(self):
        """Frames that the reader looks at in the undamaged image: no other can change what it
        says, while these are as they were."""
        return self.engine.read | self.engine.scanned

    def faults(self, case):
        missing, edited = case.damage()
        if case.crash is not None:
            return [Fault("crash", "run", "signal %d" % -case.crash, case.words)]
        return self.judge.rows(case.added, edited) + self.judge.silent(case)

    def on(self, pfn):
        """What stands on a frame, in words."""
        if self.places is None:
            self.places = self.truth.frames()
        words = self.places.get(pfn)
        return ", ".join(words[:3]) + (", ..." if len(words) > 3 else "") if words else "other memory"

    def cause(self, case):
        """What was damaged, in words."""
        missing, edited = case.damage()
        frames = sorted(missing | edited)
        if len(frames) == 1:
            return self.on(frames[0])
        return "%d pages" % len(frames) if frames else "nothing"

    def kernel_frames(self):
        """Frames that are read and belong to the kernel's image, its page tables or the state that
        everything hangs on: what a fit takes for granted."""
        base, size = self.truth.data["kernel"]["base"], self.truth.data["kernel"]["size"]
        out = set()
        for va, pfn in self.truth.space.kernel_pages():
            if base <= va < base + size:
                out.add(pfn)
        for silo in self.truth.data["silos"]:
            for va in (silo["state"], silo["array"], silo["table"]):
                out.add(self.truth.space.frame_at(va) if va else None)
        return out & self.frames()

    def command(self, words):
        return "python3 tests/evidence/evidence.py %s%s --case \"%s\"" % (
            self.name, " --symbols " + self.symbols if self.symbols else "", words)
