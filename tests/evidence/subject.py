"""An image that is damaged over and over: how it is read, its truth, and what is wrong of a run."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))

import oracle  # noqa: E402
from common import BIN, DATA, work, unpack  # noqa: E402
from engine import Engine  # noqa: E402
from judge import Fault, Judge  # noqa: E402
from truth import Truth  # noqa: E402


def find(name):
    """(image, truth): of a path, or of a name in ../shared/data ("win7-7601.24540")."""
    if os.path.exists(name):
        return name, os.path.splitext(name)[0] + ".truth.json"
    for folder in ("images", "evidence"):
        for ending in (".raw", ".dmp"):
            if os.path.exists(os.path.join(DATA, folder, name + ending + ".xz")):
                return (unpack("%s/%s%s.xz" % (folder, name, ending)),
                        unpack("%s/%s.truth.json.xz" % (folder, name)))
    sys.exit("no such image: " + name)


class Subject:
    """An image, how it is read, its truth, and what the reader says of it undamaged."""

    def __init__(self, image, truth=None, symbols=None, build=None, audit=False):
        program = os.path.join(build or BIN, "kda-evidence")
        self.name, self.symbols = image, symbols
        self.path, beside = find(image)
        self.truth = Truth(self.path, truth or beside, program, os.path.dirname(work("x")),
                           os.path.join(DATA, "layouts.tsv"))
        self.engine = Engine(program, self.path, symbols, audit)
        self.engine.start()
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
