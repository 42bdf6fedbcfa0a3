"""What the readable witnesses of a damaged image prove: the denominator of recall.

Nothing here asks the reader. The addresses of objects are the truth's, the offsets those of the public
table of layouts, the pointers those in the image. An object is *named* when a pointer that is still
readable leads to it from an object that is named, or from a root; it is *provable* when it is named
and its own identity is readable as well. So the denominator counts

  process       EPROCESS named by a neighbour on the list of processes (from either end), by a handle
                table (its list, QuotaProcess), an entry of the CID table (with symbols), an entry
                of another table, ETW_REG_ENTRY.Process, ETW_REALTIME_CONSUMER.ProcessObject, or its
                job's list, whose pid and name are readable
  session       a slot of a readable logger array, whose logger context is readable
  consumer      named by a list of consumers (from either end) or an entry of a handle table
  provider      ETW_GUID_ENTRY named by its bucket (from either end) or by a registration
  registration  named by a list of registrations, of groups (from either end), or a handle
  owner         a consumer or registration as above, whose process pointer is readable, and so is the
                pid of the process
  callback      a slot of the notify arrays that is readable with its block (with symbols)

Not counted, although a sharper reader could use them: threads' process pointers (the truth has no
threads), a session that only its consumers' list leads back to, objects that exist in one of
two moments of a smeared image.
"""
LINK = (0, 8)  # Flink, Blink
POINTERS = {
    "process": (("_EPROCESS.ActiveProcessLinks", LINK), ("_EPROCESS.ObjectTable", (0,)),
                ("_EPROCESS.Job", (0,)), ("_EPROCESS.JobLinks", LINK)),
    "table": (("_HANDLE_TABLE.HandleTableList", LINK), ("_HANDLE_TABLE.QuotaProcess", (0,))),
    "consumer": (("_ETW_REALTIME_CONSUMER.Links", LINK),
                 ("_ETW_REALTIME_CONSUMER.ProcessObject", (0,)),
                 ("_ETW_REALTIME_CONSUMER.SiloState", (0,))),
    "registration": (("_ETW_REG_ENTRY.RegList", LINK), ("_ETW_REG_ENTRY.GroupRegList", LINK),
                     ("_ETW_REG_ENTRY.GuidEntry", (0,)), ("_ETW_REG_ENTRY.GroupEntry", (0,)),
                     ("_ETW_REG_ENTRY.Process", (0,))),
    "provider": (("_ETW_GUID_ENTRY.GuidList", LINK), ("_ETW_GUID_ENTRY.RegListHead", LINK),
                 ("_ETW_GUID_ENTRY.SiloState", (0,)), ("_ETW_GUID_ENTRY.HostEntry", (0,))),
    "session": (("_WMI_LOGGER_CONTEXT.Consumers", LINK),
                ("_WMI_LOGGER_CONTEXT.SiloState", (0,))),
    "job": (("_EJOB.ServerSiloGlobals", (0,)), ("_EJOB.ProcessListHead", LINK)),
    "globals": (("_ESERVERSILO_GLOBALS.EtwSiloState", (0,)),),
}
# Fields at which a pointer to a node arrives, beside its start.
ARRIVALS = {"process": ("_EPROCESS.ActiveProcessLinks", "_EPROCESS.JobLinks"),
            "table": ("_HANDLE_TABLE.HandleTableList",),
            "consumer": ("_ETW_REALTIME_CONSUMER.Links",),
            "registration": ("_ETW_REG_ENTRY.RegList", "_ETW_REG_ENTRY.GroupRegList"),
            "provider": ("_ETW_GUID_ENTRY.GuidList", "_ETW_GUID_ENTRY.RegListHead")}
# What has to be readable of an object for it to count.
IDENTITY = {"process": (("_EPROCESS.UniqueProcessId", 8), ("_EPROCESS.ActiveProcessLinks", 16),
                        ("_EPROCESS.ImageFileName", 15)),
            "session": (("_WMI_LOGGER_CONTEXT.LoggerId", 4), ("_WMI_LOGGER_CONTEXT.LoggerName", 16)),
            "provider": (("_ETW_GUID_ENTRY.GuidList", 16), ("_ETW_GUID_ENTRY.Guid", 16),
                         ("_ETW_GUID_ENTRY.RegListHead", 16))}
WHOLE = {"consumer": "_ETW_REALTIME_CONSUMER", "registration": "_ETW_REG_ENTRY"}
HEADER = 0x30
BUCKET = 0x38  # the largest; what is no list of GUIDs leads nowhere
COUNTED = ("session", "consumer", "provider", "registration", "process", "owner", "callback")
ROOT = ("root", 0)


class Oracle:
    def __init__(self, truth, symbols):
        """`symbols`: globals are known by name."""
        self.truth, self.space, self.layout = truth, truth.space, truth.layout
        self.symbols = symbols
        self.usable = bool(self.layout.row)
        self.edges = {}     # node -> [(frames needed, node)]
        self.readable = {}  # node -> frames its identity needs
        self.owners = {}    # node -> (frames, pid)
        self.targets = {}   # address -> node
        if self.usable:
            self.collect_nodes()
            self.collect_edges()

    # ---- nodes ----

    def add_node(self, kind, va):
        node = (kind, va)
        self.targets[va] = node
        for field in ARRIVALS.get(kind, ()):
            offset = self.layout.offset(field)
            if offset is not None:
                self.targets[va + offset] = node
        needs = [(va + (self.layout.offset(field) or 0), size)
                 for field, size in IDENTITY.get(kind, ())]
        if kind in WHOLE:
            needs = [(va, self.layout.size(WHOLE[kind]))]
        self.readable[node] = self.needs(*needs)
        return node

    def needs(self, *places):
        """Frames that reading these places takes; None where the image lacks one as it is."""
        out = frozenset()
        for va, size in places:
            for page in range(va // 4096, (va + size - 1) // 4096 + 1):
                pa, frames = self.space.translate(page * 4096)
                if pa is None:
                    return None
                out |= frozenset(frames)
        return out

    def collect_nodes(self):
        truth = self.truth
        for va, process in truth.processes.items():
            self.add_node("process", va)
            if process["table"]:
                self.add_node("table", process["table"])
        for logger in truth.data["loggers"]:
            self.add_node("session", logger["va"])
        for va in truth.consumers:
            self.add_node("consumer", va)
        for va in truth.guids:
            self.add_node("provider", va)
        for va in truth.regs:
            self.add_node("registration", va)
        for silo in truth.data["silos"]:
            for kind in ("state", "job", "globals"):
                if silo.get(kind):
                    self.add_node(kind, silo[kind])

    # ---- edges ----

    def edge(self, source, frames, target):
        if frames is not None:
            self.edges.setdefault(source, []).append((frames, target))

    def pointer(self, source, va):
        """The pointer at `va`, if it leads to a node."""
        value = self.space.u64(va)
        target = self.targets.get(value) if value else None
        if target and target != source:
            self.edge(source, self.needs((va, 8)), target)

    def collect_edges(self):
        for node in list(self.readable):
            kind, va = node
            for field, places in POINTERS.get(kind, ()):
                offset = self.layout.offset(field)
                for place in places if offset is not None else ():
                    self.pointer(node, va + offset + place)
        self.roots()
        for silo in self.truth.data["silos"]:
            self.silo_edges(silo)
        for process in self.truth.data["processes"]:
            if process["table"]:
                self.table_edges(("table", process["table"]), process["table"], False)
        self.collect_owners()

    def symbol(self, name):
        kernel = self.truth.data["kernel"]
        rva = kernel.get("rvas", {}).get(name, self.layout.rva(name))
        return kernel["base"] + rva if rva else None

    def roots(self):
        kernel = self.truth.data["kernel"]
        self.pointer(ROOT, kernel["base"] + kernel["exports"]["PsInitialSystemProcess"])
        head = self.symbol("PsActiveProcessHead")
        if head and self.symbols:
            for place in LINK:
                self.pointer(ROOT, head + place)
        cid = self.symbol("PspCidTable")
        if cid and self.symbols and self.space.u64(cid):
            self.edge(ROOT, self.needs((cid, 8)), ("cid", 0))
            self.table_edges(("cid", 0), self.space.u64(cid), True)

    def silo_edges(self, silo):
        """The host's state has many anchors, one of which is taken to be there; Windows 7 and 8.1
        have globals instead."""
        state = silo["state"]
        node = ("state", state) if state else ROOT
        if state and silo["index"] == 0:
            self.edge(ROOT, frozenset(), node)
        if not state and not self.symbols:
            return
        offset = self.layout.offset("_ETW_SILODRIVERSTATE.EtwpLoggerContext")
        way = self.needs((state + offset, 8)) if state and offset is not None else frozenset()
        for logger in self.truth.data["loggers"]:
            if logger["silo"] == silo["index"] and way is not None:
                slot = silo["array"] + 8 * logger["index"]
                if self.space.u64(slot) == logger["va"]:
                    self.edge(node, way | self.needs((slot, 8)), ("session", logger["va"]))
        for place in range(0, 64 * BUCKET, 8):
            self.pointer(node, silo["table"] + place)

    def table_edges(self, node, table, cid):
        code = self.layout.offset("_HANDLE_TABLE.TableCode")
        top = self.space.u64(table + code) if code is not None else None
        if top:
            frames = self.needs((table + code, 8))
            self.level_edges(node, top & ~7, top & 7, frames, cid)

    def level_edges(self, node, va, level, frames, cid):
        for slot in range(0, 4096, 8 if level else 16):
            entry = self.space.u64(va + slot)
            if not entry:
                continue
            way = frames | self.needs((va + slot, 8))
            if level:
                self.level_edges(node, entry, level - 1, way, cid)
                continue
            target = self.targets.get(self.object_of(entry, cid))
            if target:
                self.edge(node, way, target)

    def object_of(self, entry, cid):
        """Body that a handle entry names: 44 bits from bit 20 since Windows 8.1, else an address
        whose low bits are flags."""
        if self.truth.data["build"] > 9000:
            value = entry >> 20 << 4 | 0xFFFF << 48
        else:
            value = entry & ~7
        return value if cid else value + HEADER

    def collect_owners(self):
        pid_at = self.layout.offset("_EPROCESS.UniqueProcessId")
        owned = [("consumer", va, c["pid"], "_ETW_REALTIME_CONSUMER.ProcessObject")
                 for va, (_, c) in self.truth.consumers.items()]
        owned += [("registration", va, r["pid"], "_ETW_REG_ENTRY.Process")
                  for va, (_, r) in self.truth.regs.items() if r["kind"] == "user"]
        for kind, va, pid, field in owned:
            offset = self.layout.offset(field)
            if offset is None or pid_at is None:
                continue
            process = self.space.u64(va + offset)
            if process in self.truth.processes:
                self.owners[kind, va] = self.needs((va + offset, 8), (process + pid_at, 8)), pid

    # ---- answers ----

    def provable(self, missing):
        """{kind: set of addresses} of what the image proves when these frames are missing as well."""
        known, todo = {ROOT}, [ROOT]
        while todo:
            for frames, target in self.edges.get(todo.pop(), ()):
                if target not in known and not frames & missing:
                    known.add(target)
                    todo.append(target)
        out = {kind: set() for kind in COUNTED}
        for node in known:
            frames = self.readable.get(node)
            if node[0] in out and frames is not None and not frames & missing \
                    and not self.momentary(node):
                out[node[0]].add(node[1])
                owner = self.owners.get(node)
                if owner and owner[0] is not None and not owner[0] & missing:
                    out["owner"].add(node[1])
        if self.symbols:
            out["callback"] = self.callbacks(missing)
        return out

    def momentary(self, node):
        """Does the object exist in one of two moments only?"""
        return "states" in self.truth.object_at(*node)

    def callbacks(self, missing):
        out = set()
        for (_, va), callback in self.truth.callbacks.items():
            if "slot_va" in callback and callback["linked"]:
                frames = self.needs((callback["slot_va"], 8), (va, 24))
                if frames is not None and not frames & missing and \
                        self.space.u64(callback["slot_va"]) not in (0, None):
                    out.add(va)
        return out


def found(rows):
    """{kind: set of addresses} of what rows show with its identity; owners apart."""
    out = {kind: set() for kind in COUNTED}
    for row in rows:
        kind = row["row"]
        if kind not in out:
            continue
        va = int(row["va"], 16)
        out[kind].add(va)
        if kind == "consumer" and "pid" in row:
            out["owner"].add(va)
        for item in row.get("registrations", []):
            out["registration"].add(int(item["va"], 16))
            if "pid" in item:
                out["owner"].add(int(item["va"], 16))
    return out
