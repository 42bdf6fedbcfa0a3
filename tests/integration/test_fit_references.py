"""Everything that a kernel without symbols is read by, taken away or falsified: each reference alone,
and in pairs. What comes out must be what is true or be left out, and then the exit code says so.

The images are edited here, through page tables read here; what is true comes from the generator.
With KDA_TEST_WHOLE set, all builds are tried, and of SAMPLE every pair of references; otherwise every
reference of one build and a fixed sample of the rest.
"""
import itertools
import os
import random
import struct
import unittest

from common import hexint, kda, rows
from test_forged import load

SAMPLE = ["10.0.22631.2428", "10.0.14393.4583", "10.0.17763.379", "10.0.26100.x"]
WHOLE = SAMPLE + ["10.0.15063.0", "10.0.16299.15", "10.0.17134.1", "10.0.18362.30",
                  "10.0.19041.1466", "10.0.20348.825", "10.0.22000.795", "10.0.22621.382"]
SINGLES, PAIRS = 60, 100  # in the sample: of each further build, of the first
PAGE = 4096
KINDS = ("session", "consumer", "provider", "process")
# How a row was found depends on what is left to find it by; that is what is taken away here.
WITNESSES = {"found_by"}
POINTERS = ["PsInitialSystemProcess", "PspCidTable", "EtwpHostSiloState", "PsProcessType",
            "PsThreadType", "EtwpRegistrationObjectType", "EtwpRealTimeConnectionObjectType",
            "EtwThreatIntProvRegHandle", "EtwpPsProvRegHandle"]
LISTS = ["PsActiveProcessHead", "PsLoadedModuleList", "HandleTableListHead", "PspJobList",
         "KdpDebuggerDataListHead"]
EXPORTS = ["PsInitialSystemProcess", "PsLoadedModuleList", "PsProcessType", "PsThreadType",
           "PsGetServerSiloServiceSessionId", "NtBuildNumber", "NtBuildLab", "KeNumberProcessors"]
# Members of the debugger block: the module list, the process list, the table of ids, ETW's data.
KDBG_MEMBERS = {"PsLoadedModuleList": 0x48, "PsActiveProcessHead": 0x50, "PspCidTable": 0x58,
                "EtwpDebuggerData": 0x330}


def u64(value):
    return struct.pack("<Q", value & 0xffffffffffffffff)


class Machine:
    """A forged image, read and edited by virtual address. An edit is a list of (offset, bytes)."""

    def __init__(self, build):
        self.path, self.truth = load("references", "references-" + build,
                                     "--add", "build " + build)
        with open(self.path, "rb") as f:
            self.bytes = f.read()
        self.base, self.dtb = hexint(self.truth["base"]), hexint(self.truth["dtb"])
        self.edits = {}

    def entry(self, va):
        """Where the page-table entry of a page of 4 KiB is."""
        at = self.dtb
        for shift in (39, 30, 21):
            value, = struct.unpack_from("<Q", self.bytes, at + (va >> shift & 511) * 8)
            if not value & 1 or value & 0x80:
                raise LookupError("0x%x is in no small page" % va)
            at = value & 0xffffffffff000
        return at + (va >> 12 & 511) * 8

    def at(self, va):
        value, = struct.unpack_from("<Q", self.bytes, self.entry(va))
        if not value & 1:
            raise LookupError("0x%x is not mapped" % va)
        return (value & 0xffffffffff000) + va % PAGE

    def qword(self, va):
        return struct.unpack_from("<Q", self.bytes, self.at(va))[0]

    def symbol(self, name):
        rva = self.truth["rvas"].get(name)
        return None if rva is None else self.base + hexint(rva)

    # ---- edits ----

    def write(self, name, va, data):
        self.edits[name] = [(self.at(va), data)]

    def page(self, name, va):
        """In a page file: the entry says so and the page's bytes are gone."""
        self.edits[name + ": page"] = [(self.entry(va), u64(0x80 | 0x1234 << 32)),
                                       (self.at(va) & ~(PAGE - 1), bytes(PAGE))]

    def pointer(self, name, va, *others):
        value = self.qword(va)
        self.page(name, va)
        for what, wrong in (("zero", 0), ("+8", value + 8), ("+0x158", value + 0x158),
                            ("-0x118", value - 0x118), ("wild", 0x4141414141414141)):
            self.write("%s: %s" % (name, what), va, u64(wrong))
        for i, other in enumerate(others):
            self.write("%s: other %d" % (name, i), va, u64(other))

    def list_head(self, name, head):
        first, last = self.qword(head), self.qword(head + 8)
        self.page(name, head)
        for what, pair in (("zero", (0, 0)), ("self", (head, head)), ("+8", (first + 8, last)),
                           ("back +8", (first, last + 8)), ("first wild", (0x41414141, last)),
                           ("both +0x158", (first + 0x158, last + 0x158))):
            self.write("%s: %s" % (name, what), head, u64(pair[0]) + u64(pair[1]))
        if first != head:
            self.write(name + ": skip", head, u64(self.qword(first)))

    def holding(self, value, start, size):
        """Addresses from `start` on that hold a value."""
        return [va for va in range(start, start + size, 8) if self.qword(va) == value]

    # ---- what is referred to ----

    def globals(self):
        processes = [hexint(p["va"]) for p in self.truth["processes"]]
        for name in POINTERS:
            if self.symbol(name):
                others = processes[1:3] if name == "PsInitialSystemProcess" else []
                self.pointer(name, self.symbol(name), *others)
        for name in LISTS:
            if self.symbol(name):
                self.list_head(name, self.symbol(name))
        types = self.symbol("ObTypeIndexTable")
        for slot in (2, 7, 9):
            self.pointer("ObTypeIndexTable[%d]" % slot, types + slot * 8, self.qword(types + 24))
        if self.symbol("ObHeaderCookie"):
            self.page("ObHeaderCookie", self.symbol("ObHeaderCookie"))
            self.write("ObHeaderCookie: zero", self.symbol("ObHeaderCookie"), bytes(1))

    def silo(self):
        host, container = self.truth["silos"]
        state, array = hexint(host["state"]), hexint(host["array"])
        other, other_array = hexint(container["state"]), hexint(container["array"])
        owner = hexint(host["globals"])
        for va in self.holding(state, owner, 0x480):
            self.pointer("EtwSiloState of the globals", va, other)
        for va in self.holding(owner, state, 0x20):
            self.pointer("SiloGlobals of the state", va, hexint(container["globals"]))
        for va in range(state & ~(PAGE - 1), hexint(host["table"]) + 0xe00, PAGE):
            self.page("state 0x%x" % (va - state), va)
        self.page("array", array)
        for session in self.truth["sessions"][:2]:
            slot = array + 8 * session["id"]
            self.pointer("slot %d" % session["id"], slot, hexint(self.truth["sessions"][2]["va"]))
            # An emptied slot is no lost reference: it says that there is no session.
            del self.edits["slot %d: zero" % session["id"]]
        data = self.symbol("EtwpDebuggerData")
        self.pointer("array of EtwpDebuggerData", data + 0x10, other_array)
        self.pointer("state of EtwpDebuggerData", data + 0x18, other)
        self.write("mark of EtwpDebuggerData: zero", data + 2, bytes(5))

    def debugger(self):
        block = hexint(self.truth["kdbg"])
        self.page("KDBG", block)
        self.write("KDBG: tag", block + 0x10, b"GBDK")
        for name, offset in KDBG_MEMBERS.items():
            if self.symbol(name):
                self.pointer("KDBG's " + name, block + offset, self.symbol("PsLoadedModuleList"))
        self.page("KdVersionBlock", self.symbol("KdVersionBlock"))

    def exports(self):
        pe = self.base + struct.unpack_from("<I", self.bytes, self.at(self.base + 0x3c))[0]
        directory = self.base + struct.unpack_from("<I", self.bytes, self.at(pe + 24 + 112))[0]
        self.page("exports", directory)
        count, functions, names, ordinals = struct.unpack_from(
            "<IIII", self.bytes, self.at(directory + 24))
        for i in range(count):
            name_rva, = struct.unpack_from("<I", self.bytes, self.at(self.base + names + 4 * i))
            at = self.at(self.base + name_rva)
            name = self.bytes[at:at + 64].split(b"\0")[0].decode()
            if name not in EXPORTS:
                continue
            index, = struct.unpack_from("<H", self.bytes, self.at(self.base + ordinals + 2 * i))
            place = self.base + functions + 4 * index
            rva, = struct.unpack_from("<I", self.bytes, self.at(place))
            self.write("export %s: name" % name, self.base + name_rva, b"Zz")
            for what, wrong in (("zero", 0), ("+8", rva + 8), ("+0x158", rva + 0x158),
                                ("wild", 0x7fffffff),
                                ("other", hexint(self.truth["rvas"]["PsActiveProcessHead"])),
                                ("build", hexint(self.truth["rvas"]["NtBuildNumber"]))):
                self.write("export %s: %s" % (name, what), place, struct.pack("<I", wrong))

    def code(self):
        function = self.symbol("PsGetServerSiloServiceSessionId")
        if function is None:
            return
        code = self.bytes[self.at(function):self.at(function) + 32]
        self.page("code of PsGetServerSiloServiceSessionId", function)
        self.write("code of PsGetServerSiloServiceSessionId: zero", function, bytes(32))
        load = code.find(b"\x48\x8d\x0d") if b"\x48\x8d\x0d" in code else code.find(b"\x48\x8d\x05")
        if load >= 0:
            target, = struct.unpack_from("<i", code, load + 3)
            self.write("code of PsGetServerSiloServiceSessionId: +8", function + load + 3,
                       struct.pack("<i", target + 8))

    def objects(self):
        for process in self.truth["processes"]:
            self.page("process %d" % process["pid"], hexint(process["va"]))
            if process["table"] != "0x0":
                self.page("table of %d" % process["pid"], hexint(process["table"]))
        for session in self.truth["sessions"]:
            self.page("session %d of %d" % (session["id"], session["silo"]), hexint(session["va"]))
        cid = self.qword(self.symbol("PspCidTable"))
        self.page("table of ids", cid)

    def references(self):
        for part in (self.globals, self.silo, self.debugger, self.exports, self.code,
                     self.objects):
            part()
        return self.edits

    def look(self, *names, command="map"):
        """What the tool says after these edits, which are undone again."""
        edits = [edit for name in names for edit in self.edits[name]]
        with open(self.path, "r+b", buffering=0) as f:
            for offset, data in edits:
                f.seek(offset)
                f.write(data)
            result = kda(command, self.path, "-f", "jsonl", "--all", "-q", "--symbols", "none")
            for offset, data in edits:
                f.seek(offset)
                f.write(self.bytes[offset:offset + len(data)])
        return result


def flat(value, path=""):
    """(path, value) of everything in a row; items of a list by what names them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in WITNESSES:
                yield from flat(inner, path + "." + key)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            name = inner.get("va", inner.get("slot", i)) if isinstance(inner, dict) else i
            yield from flat(inner, "%s[%s]" % (path, name))
    else:
        yield path, value


def by_object(found):
    """Rows by address; a process whose address is left out by its id."""
    return {(row["row"], row.get("va", row.get("pid"))): dict(flat(row))
            for row in found if row["row"] in KINDS}


def judge(expected, result):
    """What is wrong with an answer; None if nothing is."""
    if result.returncode not in (0, 3, 4, 5):
        return "exit code %d: %s" % (result.returncode, result.stderr)
    if result.returncode in (3, 5):  # no kernel, no layout: said, and nothing else
        return "rows and exit code %d" % result.returncode if result.stdout else None
    complete, seen = True, set()
    by_id = {(kind, row.get(".pid")): (kind, va) for (kind, va), row in expected.items()}
    for key, have in by_object(rows(result)).items():
        key = by_id.get(key, key) if isinstance(key[1], int) else key
        want = expected.get(key)
        if want is None:
            return "a row that is none: %s %s" % key
        for path, value in have.items():
            if path not in want:
                return "%s of %s %s is %r, not left out" % ((path[1:],) + key + (value,))
            if want[path] != value:
                return "%s of %s %s is %r, not %r" % ((path[1:],) + key + (value, want[path]))
        seen.add(key)
        complete = complete and set(have) == set(want)
    if result.returncode == 0 and not (complete and seen == set(expected)):
        lost = sorted(map(str, set(expected) - seen)) or "keys"
        return "exit code 0, and left out: %s" % lost
    return None


class References(unittest.TestCase):
    maxDiff = None

    def same_as_truth(self, machine, found):
        """The image as it was made gives what the generator says it made."""
        self.assertEqual(found.returncode, 0, found.stderr)
        labels = {0: "host"}
        for silo in machine.truth["silos"][1:]:
            labels[silo["number"]] = "0x%016x" % hexint(silo["state"])
        have = {kind: {} for kind in KINDS}
        for row in rows(found):
            if row["row"] in KINDS:
                have[row["row"]][hexint(row["va"])] = row
        for kind, key, values in (
                ("process", "processes", lambda p: {
                    "pid": p["pid"], "ppid": p["ppid"], "name": p["name"],
                    "image": p["path"] or None, "protection": p["protection"],
                    "dtb": p["dtb"], "silo": labels[p["silo"]]}),
                ("session", "sessions", lambda s: {
                    "id": s["id"], "logger_id": s["logger_id"], "name": s["name"],
                    "log_file": s["file"] or None, "buffer_size": s["buffer_size"],
                    "buffers": s["buffers"], "security": s["sddl"], "silo": labels[s["silo"]],
                    "num_consumers": s["num_consumers"], "instance_guid": s["instance"]}),
                ("consumer", "consumers", lambda c: {
                    "session_id": c["session"], "pid": c["pid"], "silo": labels[c["silo"]],
                    "buffers_lost": c["buffers_lost"]}),
                ("provider", "providers", lambda p: {
                    "guid": p["guid"], "type": p["type"], "security": p["sddl"],
                    "silo": labels[p["silo"]]})):
            expected = {hexint(x["va"]): values(x) for x in machine.truth[key]}
            self.assertEqual({va: {k: row.get(k) for k in expected.get(va, {})}
                              for va, row in have[kind].items()}, expected)
        regs = {hexint(reg["va"]): reg for row in have["provider"].values()
                for reg in row["registrations"]}
        self.assertEqual({va: (reg["kind"], reg.get("pid")) for va, reg in regs.items()},
                         {hexint(r["va"]): (r["kind"], r.get("pid"))
                          for r in machine.truth["registrations"]})

    def sweep(self, build, choose):
        machine = Machine(build)
        cases = choose(list(machine.references()))
        whole = machine.look()
        self.same_as_truth(machine, whole)
        expected = by_object(rows(whole))
        processes = {key: row for key, row in expected.items() if key[0] == "process"}
        wrong = []
        for names in cases:
            problem = judge(expected, machine.look(*names))
            if not problem and len(names) == 1 and os.environ.get("KDA_TEST_WHOLE"):
                problem = judge(processes, machine.look(*names, command="processes"))
            # Where processes do not name their container, its job is all that leads to it.
            if problem and problem.startswith("exit code 0") and \
                    any(name.startswith("PspJobList") for name in names):
                continue
            if problem:
                wrong.append("%s: %s" % (" and ".join(names), problem))
        if wrong:
            self.fail("%d of the answers for %s are wrong:\n%s" % (len(wrong), build,
                                                                "\n".join(wrong)))


def pairs_of(edits):
    """Every two references, each with one of its edits."""
    choice, groups = random.Random(12), {}
    for edit in edits:
        groups.setdefault(edit.split(":")[0], []).append(edit)
    return [(choice.choice(groups[one]), choice.choice(groups[other]))
            for one, other in itertools.combinations(groups, 2)]


def choose_all(edits):
    return [(edit,) for edit in edits]


def choose_whole(edits):
    return choose_all(edits) + pairs_of(edits)


def choose_first(edits):
    return choose_all(edits) + random.Random(13).sample(pairs_of(edits), PAIRS)


def choose_some(edits):
    return [(edit,) for edit in random.Random(14).sample(edits, SINGLES)]


for _build in WHOLE if os.environ.get("KDA_TEST_WHOLE") else SAMPLE:
    def _test(self, build=_build):
        if os.environ.get("KDA_TEST_WHOLE"):
            self.sweep(build, choose_whole if build in SAMPLE else choose_all)
        else:
            self.sweep(build, choose_first if build == SAMPLE[0] else choose_some)
    setattr(References, "test_" + _build.replace(".", "_"), _test)


if __name__ == "__main__":
    unittest.main()
