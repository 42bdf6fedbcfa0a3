"""What is true of an image: the truth file of the generator that made it, indexed, with the places of
its objects in physical memory."""
import json
import os

from memory import Memory, Space

# Sizes for builds whose table has none; only used to tell which pages an object is on.
DEFAULT_SIZES = {"_EPROCESS": 0x800, "_WMI_LOGGER_CONTEXT": 0x400, "_ETW_REALTIME_CONSUMER": 0x98,
                 "_ETW_GUID_ENTRY": 0x190, "_ETW_REG_ENTRY": 0x70, "_HANDLE_TABLE": 0x80}
HEADER = 0x30  # _OBJECT_HEADER before a body
MODULES = 0xFFFFF78000000000  # from here on: shared user data, drivers and the kernel
CALLBACKS = {"ob_process": "object_process", "ob_thread": "object_thread"}


class Layout:
    """Offsets of the build, from the table of public layouts."""

    def __init__(self, table, kernel):
        self.row = {}
        if not table or not os.path.exists(table):
            return
        with open(table, encoding="utf-8") as file:
            heading = file.readline().rstrip("\n").split("\t")
            key = heading.index("pdb_guid")
            rows = [line.rstrip("\n").split("\t") for line in file]
        named = [row for row in rows if row[0] == kernel.get("layout_row")]
        same = [row for row in rows if row[key].upper() == kernel["guid"].upper()]
        if named or same:
            self.row = dict(zip(heading, (same or named)[0]))

    def offset(self, field):
        """Offset in bytes of "_EPROCESS.Job", or None."""
        text = self.row.get(field, "").split("/")[0].split(".")[0]
        return int(text, 0) if text else None

    def size(self, struct):
        text = self.row.get(struct + ":size", "")
        return int(text, 0) if text else DEFAULT_SIZES.get(struct, 0x100)

    def rva(self, name):
        text = self.row.get("rva:" + name, "")
        return int(text, 0) if text else None


class Truth:
    def __init__(self, image, truth, engine, work, layouts):
        with open(truth, encoding="utf-8") as file:
            self.data = json.load(file)
        self.image = image
        self.memory = Memory(engine, image, work)
        self.space = Space(self.memory, self.data["dtb"], 5 if self.data["la57"] else 4)
        self.layout = Layout(layouts, self.data["kernel"])
        self.index()

    def index(self):
        data = self.data
        self.labels = {0: "host"}
        for silo in data["silos"][1:]:
            self.labels[silo["index"]] = "0x%016x" % silo["state"]
        self.names = {p["pid"]: p["short"] for p in data["processes"]}
        self.paths = {p["pid"]: p["path"] for p in data["processes"]}
        self.sessions = {(self.labels[x["silo"]], x["index"]): x for x in data["loggers"]}
        self.sessions_at = {x["va"]: x for x in data["loggers"]}
        self.consumers = {c["va"]: (logger, c) for logger in data["loggers"]
                          for c in logger["consumers"]}
        self.guids = {g["va"]: g for g in data["guids"]}
        self.processes = {p["eprocess"]: p for p in data["processes"]}
        self.callbacks = {(CALLBACKS.get(c["kind"], c["kind"]), c["va"]): c
                          for c in data["callbacks"]}
        # A registration may hang on a provider and on its group; the first says more.
        self.regs = {}
        for guid in data["guids"]:
            for reg in guid["regs"]:
                if reg["va"] not in self.regs or guid["type"] != "group":
                    self.regs[reg["va"]] = (guid, reg)
        self.embedded = {silo["state"] for silo in data["silos"] if silo["state"]}
        self.changes = (data.get("smear") or {}).get("changes", [])

    def object_at(self, kind, va):
        """What the truth says of the object of a kind of row at an address."""
        if kind == "consumer":
            return self.consumers[va][1]
        if kind == "registration":
            return self.regs[va][1]
        return {"process": self.processes, "provider": self.guids,
                "session": self.sessions_at}[kind][va]

    def allowed(self, key, value, va, size, field):
        """Values that a smeared image may show for a field: both moments."""
        out = {value}
        for change in self.changes:
            if change["what"] == "value" and change["field"] == field and \
                    va <= change["va"] < va + size:
                out |= {change["first"], change["later"]}
        return out

    # ---- places ----

    def extents(self):
        """(what, address, size) of everything that the truth gives an address."""
        size = self.layout.size
        for process in self.data["processes"]:
            name = "%s (%d)" % (process["name"], process["pid"])
            yield "EPROCESS of " + name, process["eprocess"] - HEADER, size("_EPROCESS") + HEADER
            yield "HANDLE_TABLE of " + name, process["table"], size("_HANDLE_TABLE")
        for logger in self.data["loggers"]:
            yield ("WMI_LOGGER_CONTEXT %s" % logger["name"], logger["va"],
                   size("_WMI_LOGGER_CONTEXT"))
            for consumer in logger["consumers"]:
                yield ("ETW_REALTIME_CONSUMER of %d" % consumer["pid"], consumer["va"] - HEADER,
                       size("_ETW_REALTIME_CONSUMER") + HEADER)
        for guid in self.data["guids"]:
            yield "ETW_GUID_ENTRY {%s}" % guid["guid"], guid["va"], size("_ETW_GUID_ENTRY")
            for filt in guid["filters"]:
                yield "ETW_FILTER_HEADER", filt["va"], size("_ETW_FILTER_HEADER")
        for va, (guid, reg) in self.regs.items():
            yield "ETW_REG_ENTRY of {%s}" % guid["guid"], va - HEADER, size("_ETW_REG_ENTRY") + HEADER
        for silo in self.data["silos"]:
            if silo["state"]:
                yield "ETW_SILODRIVERSTATE", silo["state"], size("_ETW_SILODRIVERSTATE")
            yield "logger array", silo["array"], 8 * silo["max"]
            yield "GUID hash table", silo["table"], 64 * 0x38
            if silo.get("globals"):
                yield "ESERVERSILO_GLOBALS", silo["globals"], size("_ESERVERSILO_GLOBALS")
        for process, va in self.handle_pages():
            yield "handles of %s (%d)" % (process["name"], process["pid"]), va, 4096
        for kind, va in self.callbacks:
            yield "%s callback" % kind, va, 16
        yield "KUSER_SHARED_DATA", 0xFFFFF78000000000, 0x700
        yield from self.kernel_extents()

    def kernel_extents(self):
        kernel = self.data["kernel"]
        yield "nt header", kernel["base"], 4096
        for section in kernel["sections"]:
            yield "nt " + section["name"], kernel["base"] + section["rva"], section["size"]
        yield "KDDEBUGGER_DATA64", kernel["kdbg"], 0x380
        if kernel.get("etwp_debugger_data"):
            yield "EtwpDebuggerData", kernel["etwp_debugger_data"]["va"], 16
        for name, rva in kernel["exports"].items():
            if name.startswith("Ps") and name[2:] in (
                    "InitialSystemProcess", "LoadedModuleList", "ProcessType", "ThreadType"):
                yield name, kernel["base"] + rva, 8
        for name in ("PsActiveProcessHead", "PspCidTable", "ObTypeIndexTable", "ObHeaderCookie"):
            rva = self.layout.rva(name)
            if rva:
                yield name, kernel["base"] + rva, 8
        for module in self.data["modules"][1:]:
            yield module["name"], module["base"], 4096

    def frames(self):
        """What stands on each frame: {frame: [words]}; pages that hold nothing that the truth names
        go by their address."""
        out = {}
        for va, pfn in self.space.kernel_pages():
            for table in self.space.translate(va)[1][:-1]:
                out.setdefault(table, ["page table"])
            if self.memory.has(pfn):
                out.setdefault(pfn, ["0x%x" % va])
        for what, va, size in self.extents():
            for page in range(va // 4096, (va + size - 1) // 4096 + 1):
                pfn = self.space.frame_at(page * 4096)
                if pfn is not None and what not in out.setdefault(pfn, []):
                    out[pfn].append(what)
        return out

    def pool_frames(self):
        """Frames of what a machine pages out and loses first: mapped kernel memory that is neither
        image nor page table, in the order of addresses."""
        tables, out = set(), {}
        for va, pfn in self.space.kernel_pages():
            tables.update(self.space.translate(va)[1][:-1])
            if va < MODULES and self.memory.has(pfn):
                out.setdefault(pfn, va)
        named = set()
        for what, va, size in self.extents():
            for page in range(va // 4096, (va + size - 1) // 4096 + 1):
                named.add(self.space.frame_at(page * 4096))
        return [pfn for pfn in sorted(out, key=out.get) if pfn in named and pfn not in tables]

    def sole_witness(self, pid):
        """Where the id of this process stands if the undamaged image holds it in one place only,
        else None."""
        there = []
        for process in self.data["processes"]:
            if process["pid"] != pid:
                continue
            for va, field in ((process["eprocess"], "_EPROCESS.UniqueProcessId"),
                              (process["table"], "_HANDLE_TABLE.UniqueProcessId")):
                offset = self.layout.offset(field)
                if va and offset is not None and self.space.u64(va + offset) is not None:
                    there.append((va + offset, 8))
        return there if len(there) < 2 else None

    def handle_pages(self):
        """(process, address of a page of its handle table), all levels, as far as readable."""
        for process in self.data["processes"]:
            code = self.layout.offset("_HANDLE_TABLE.TableCode")
            if code is None or not process["table"]:
                continue
            top = self.space.u64(process["table"] + code)
            if top is not None:
                yield from ((process, va) for va in self.handle_levels(top & ~7, top & 7))

    def handle_levels(self, va, level):
        yield va
        for slot in range(512 if level else 0):
            below = self.space.u64(va + 8 * slot)
            if not below:
                break
            yield from self.handle_levels(below, level - 1)
