"""The three real traces that Microsoft's TraceEvent library has decoded: every field of its text is
held against what kda decodes. `perfview_*.baseline.txt` has the first five events of each kind."""
import datetime
import json
import re
import unittest

import common

FILES = {
    "primitive-types": "microsoft_perfview__primitive-types.etl",
    "gcevents": "microsoft_perfview__gcevents.etl",
    "net.4.5.2.x86": "microsoft_perfview__net.4.5.2.x86.etl",
}

# Heads of the schema that carry what the baseline has under another name.
PLACES = {
    "processid": ["pid", "target_pid"], "parentid": ["parent_pid"], "sessionid": ["session"],
    "parentprocessid": ["parent_pid", "pid"], "imagefilename": ["image"],
    "commandline": ["command_line"], "exitstatus": ["exit_code"], "exitcode": ["exit_code"],
    "imagename": ["image", "module"], "createtime": ["create_time"], "exittime": ["exit_time"],
    "imagebase": ["base"], "imagesize": ["size"], "filename": ["module"],
    "win32startaddr": ["start_address"], "daddr": ["remote_ip"], "saddr": ["local_ip"],
    "dport": ["remote_port"], "sport": ["local_port"], "parentthreadid": ["tid"],
}
OTHER_NAMES = {"pagedirectorybase": "directorytablebase", "irpptr": "irp",
               "samplesource": "source", "memorycount": "pagefaultcount",
               "startaddr": "affinity", "promoted": "bytes"}
# Names that TraceEvent has for numbers, and the other way round.
NAMED = {
    ("Process", "Flags"): {"None": 0, "Wow64": 2, "Protected": 4},
    ("DiskIO", "IrpFlags"): {"None": 0x60000, "Nocache, MountComple...": 0x43},
    ("GC", "CompactMechanisms"): {"compact_high_frag": 0x80000002,
                                  "compact_loh_forced": 0x80000008, "not_specified": 0},
    ("GC", "ExpandMechanisms"): {"not_specified": 0},
    ("AppDomainResourceManagement", "Flags"): {"2": "Finalizer", "4": "ThreadPoolWorker"},
    ("Loader", "AppDomainFlags"): {"268435459": "Default|Executable|0x10000000"},
    ("Loader", "AssemblyFlags"): {"None": 0},
    ("Runtime", "Sku"): {"CoreClr": 2},
    ("Runtime", "StartupMode"): {"None": 0},
    ("GC", "Type"): {"SmallObjectHeap": 0, "LargeObjectHeap": 1, "PinnedObjectHeap": 3,
                     "NonConcurrentGC": 0},
    ("GC", "AllocationKind"): {"Small": 0},
    ("GC", "Reason"): {"AllocSmall": 0, "Induced": 1, "SuspendForGC": 1},
    ("GC", "GlobalMechanisms"): {"Promotion": 4, "Compaction, Promotio...": 30},
    ("GC", "PauseMode"): {"Interactive": 1},
    ("GC", "BucketKind"): {"PlugsInCondemned": 1},
    ("NgenBinder", "ReasonCode"): {"START_BIND": 0, "REJECT_IL_SIG": 9},
}
# What TraceEvent works out from other events, from tables of its own or from the record's header.
COMPUTED = {"BuildTime", "Rank", "ProcessorNumber", "Priority", "ExecutingDPC", "ExecutingISR",
            "ElapsedTimeMSec", "DiskServiceTimeMSec", "FileKey", "PayloadLength", "DurationNs"}
COMPUTED_IN = {
    "Windows Kernel/DiskIO/Read.FileName", "Windows Kernel/DiskIO/Write.FileName",
    "Windows Kernel/Memory/HardFault.FileName",
    "Microsoft-Windows-DotNETRuntime/GC/HeapStats.Depth",
    "Microsoft-Windows-DotNETRuntime/GC/HeapStats.TotalHeapSize",
    "Microsoft-Windows-DotNETRuntime/GC/HeapStats.TotalPromoted",
    "Microsoft-Windows-DotNETRuntime/GC/FinalizeObject.TypeName",
    "Microsoft-Windows-DotNETRuntime/Loader/ModuleLoad.ModuleILFileName",
    "Microsoft-Windows-DotNETRuntime/Loader/ModuleUnload.ModuleILFileName",
    "Microsoft-Windows-DotNETRuntimeRundown/Loader/ModuleDCStop.ModuleILFileName",
    # The parts of one array of structures, which kda has as one.
    "Microsoft-Windows-DotNETRuntime/Type/BulkType.TypeID_0",
    "Microsoft-Windows-DotNETRuntime/Type/BulkType.TypeName_0",
    # Fields of later versions, which TraceEvent shows as 0 in these records.
    "Microsoft-Windows-DotNETRuntime/Contention/Start.AssociatedObjectID",
    "Microsoft-Windows-DotNETRuntime/Contention/Start.LockID",
    "Microsoft-Windows-DotNETRuntime/Contention/Start.LockOwnerThreadID",
    "Microsoft-Windows-DotNETRuntime/GC/AllocationTick.ObjectSize",
    "Microsoft-Windows-DotNETRuntime/GC/HeapStats.GenerationSize4",
    "Microsoft-Windows-DotNETRuntime/GC/HeapStats.TotalPromotedSize4",
    "Microsoft-Windows-DotNETRuntime/Method/LoadVerbose.OptimizationTier",
    "Microsoft-Windows-DotNETRuntime/Method/LoadVerbose.ReJITID",
    "Microsoft-Windows-DotNETRuntime/Method/UnloadVerbose.OptimizationTier",
    "Microsoft-Windows-DotNETRuntime/Method/UnloadVerbose.ReJITID",
    # Session -1 is none: kda leaves it out. The header's ids are the thread's creator or nothing.
    "Windows Kernel/Process/DCStart.SessionID", "Windows Kernel/Process/DCStop.SessionID",
    "Windows Kernel/Thread/Stop.ParentProcessID", "Windows Kernel/Thread/Stop.ParentThreadID",
    # TraceEvent reads version 2 of these records by the layout of version 0.
    "Windows Kernel/UdpIp/Recv.context", "Windows Kernel/UdpIp/Recv.dsize",
    "Windows Kernel/UdpIp/Send.context", "Windows Kernel/UdpIp/Send.dsize",
}
# No description of this event was at hand: its payload stays hex.
NOT_DESCRIBED = {"Microsoft-Windows-DotNETRuntimePrivate/GC/PerHeapHistory"}
# TraceEvent splits these numbers and gives the parts names of its own.
DIFFERENT = {
    "Microsoft-Windows-Kernel-File/Create.CreateOptions",
    "Microsoft-Windows-Kernel-File/Create.CreateDisposition",
    "Microsoft-Windows-Kernel-File/Create.FileAttributes",
    "Microsoft-Windows-Kernel-File/Create.ShareAccess",
    "PerfView/KernelEnableParameters.keywords", "PerfView/KernelEnableParameters.stacks",
    # The record's own process is 4, and so says the baseline's PID.
    "KernelTraceControl/ImageID.ProcessID",
    # TraceEvent cuts the fraction off in another place.
    "solar_system/PrimitiveTypesTest.system_time_type",
    # The process table's name of process 0, and a name without its ending.
    "Windows Kernel/SystemConfig/Services.ProcessName",
}
MINIMUM = {"primitive-types": 75, "gcevents": 270, "net.4.5.2.x86": 2300}
HEAD = re.compile(r"EVENT ([0-9,.]+): (.*?) PID=(-?\d+); TID=(-?\d+); PName=(.*?); ProceNum=(\d+);"
                  r" DataLen=(\d+); (.*)$")


class Row:
    def __init__(self, text):
        found = HEAD.match(text)
        self.text = text
        self.ms = float(found.group(1).replace(",", ""))
        self.name = found.group(2)
        self.pid, self.tid = int(found.group(3)), int(found.group(4))
        self.cpu = int(found.group(6))
        self.size = int(found.group(7))
        self.fields = []
        for part in re.findall(r"(\w+)=(.*?); (?=\w+=|$)", found.group(8)):
            self.fields.append(part)


def read_baseline(name):
    path = common.need_data("etl/perfview_%s.baseline.txt" % name)
    with open(path, encoding="utf-8-sig") as f:
        return [Row(line.rstrip("\n")) for line in f if line.startswith("EVENT ")]


def ticks(text):
    """100 ns since 1601 of a time of the schema."""
    whole, part = text[:-1].split(".")
    when = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    return (when - datetime.datetime(1601, 1, 1)) // datetime.timedelta(seconds=1) * 10**7 + int(
        part)


def number(text):
    text = text.replace(",", "")
    try:
        return int(text, 16) if text.startswith("0x") else int(text)
    except ValueError:
        return None


def as_number(value):
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, dict) and set(value) == {"ip", "port"}:
        value = ("[%s]:%d" if ":" in value["ip"] else "%s:%d") % (value["ip"], value["port"])
    if isinstance(value, str) and re.fullmatch(r"0x[0-9a-f]+", value):
        return int(value, 16)
    return None


def same_time(expected, value):
    """Local time with two digits of a second against UTC: whole quarters of an hour apart."""
    local = datetime.datetime.strptime(expected[:20], "%y/%m/%d %H:%M:%S.%f")
    units = (local - datetime.datetime(1601, 1, 1)) // datetime.timedelta(milliseconds=10)
    if local.year < 1980:
        units = (local.replace(year=local.year) - datetime.datetime(1601, 1, 1)) // (
            datetime.timedelta(milliseconds=10))
    return (ticks(value) // 10**5 - units) % (15 * 60 * 100) == 0


def same_text(expected, value):
    text = value.strip("{}")
    if expected.endswith("..."):
        return text.startswith(expected[:-3]) or text.replace("|", ", ").startswith(expected[:-3])
    return text == expected or text.replace("|", ", ") == expected


def same(expected, value):
    """Do text of the baseline and value of kda say the same?"""
    if isinstance(value, bool):
        return expected == str(value)
    if isinstance(value, dict) and set(value) == {"ip", "port"}:
        value = ("[%s]:%d" if ":" in value["ip"] else "%s:%d") % (value["ip"], value["port"])
    if isinstance(value, str) and re.fullmatch(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d\.\d\d\.\.\.",
                                               expected):
        return same_time(expected, value)
    if re.fullmatch(r"-?\d[\d,]*\.\.\.", expected) and as_number(value) is not None:
        signed = as_number(value) - (2**64 if expected[0] == "-" else 0)
        return "{:,}".format(signed).startswith(expected[:-3])
    want, got = number(expected), as_number(value)
    if want is not None and isinstance(value, str) and len(value) == 1 and got is None:
        got = ord(value)
    if want is not None and got is not None:
        return want == got or (want < 0 and any(want % 2**bits == got for bits in (32, 64)))
    if isinstance(value, str):
        return same_text(expected, value)
    return False


class Baseline(unittest.TestCase):
    def load(self, name):
        path = common.need_data("etl/" + FILES[name])
        result = common.kda("events", "-f", "jsonl", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def compare(self, name):
        events = self.load(name)
        header = next(e for e in events if e.get("event_name") == "EventTrace")
        start = ticks(header["fields"]["StartTime"])
        self.volumes = [(e["fields"]["NtPath"], e["fields"]["DosPath"]) for e in events
                        if e.get("event_name") == "SysConfig/VolumeMapping"]
        by_time = {}
        for event in events:
            key = round((ticks(event["time"]) - start) / 10**4, 3)
            by_time.setdefault((key, event.get("cpu")), []).append(event)
        self.same, self.wrong = 0, []
        for row in read_baseline(name):
            self.compare_row(row, by_time)
        return self.same, self.wrong

    def friendly(self, path):
        """The path as TraceEvent shows it, by the volumes that the trace names."""
        for nt, dos in sorted(self.volumes, key=lambda pair: -len(pair[0])):
            if path.startswith(nt):
                return dos + path[len(nt):]
        return "C:" + path if path.startswith("\\Windows\\") else path

    def agrees(self, row, key, text, value):
        part = row.name.split("/")[-2] if "/" in row.name else ""
        names = NAMED.get((part, key), {})
        if text in names:
            want, got = names[text], as_number(value)
            if want == value or (got is not None and (got & want == want if want else got == 0)):
                return True
        if same(text, value):
            return True
        return isinstance(value, str) and same(text, self.friendly(value))

    def compare_row(self, row, by_time):
        best, best_score = None, -1
        for ms in (row.ms, round(row.ms - 0.001, 3), round(row.ms + 0.001, 3)):
            for event in by_time.get((ms, row.cpu), []):
                score = event.get("provider_name") == row.name.split("/")[0]
                score += 9 * (len(event.get("payload", "")) == 2 * row.size)
                score += 2 * ((event.get("event_name") or "") == row.name.split("/", 1)[-1])
                for key, text in row.fields:
                    found, value = self.lookup(event, key)
                    score += found and self.agrees(row, key, text, value)
                if score > best_score:
                    best, best_score = event, score
        if best is None:
            self.wrong.append("no event at this time on this CPU: " + row.text[:120])
        elif row.name in NOT_DESCRIBED:
            self.check(row, "payload", "payload" in best and "why" in best, best)
        else:
            self.compare_fields(row, best)

    def check(self, row, key, fine, value):
        if fine:
            self.same += 1
        else:
            self.wrong.append("%s.%s: %r, not %r (%.3f ms)" % (
                row.name, key, value, dict(row.fields).get(key), row.ms))

    def compare_fields(self, row, event):
        mine = [event[k] for k in ("pid", "target_pid", "creator_pid") if k in event]
        if row.pid > 0 and mine and "SystemConfig" not in row.name:
            self.check(row, "PID", row.pid in mine, mine)
        for key, text in row.fields:
            full = "%s.%s" % (row.name, key)
            found, value = self.lookup(event, key)
            if not found:
                # An empty text is a field that the record's version does not have.
                if text != "" and key not in COMPUTED and full not in COMPUTED_IN | DIFFERENT:
                    self.check(row, key, False, None)
            elif full not in DIFFERENT and full not in COMPUTED_IN and text != "":
                self.check(row, key, self.agrees(row, key, text, value), value)

    @staticmethod
    def lookup(event, key):
        fields = {k.lower(): v for k, v in event.get("fields", {}).items()}
        low = key.lower()
        for name in (low, OTHER_NAMES.get(low, "")):
            if name in fields:
                return True, fields[name]
        for place in PLACES.get(low, []):
            if place in event:
                return True, event[place]
        return False, None

    def check_file(self, name):
        count, wrong = self.compare(name)
        self.assertEqual(len(wrong), 0, "\n" + "\n".join(wrong))
        self.assertGreaterEqual(count, MINIMUM[name])

    def test_primitive_types(self):
        self.check_file("primitive-types")

    def test_gcevents(self):
        self.check_file("gcevents")

    def test_net(self):
        self.check_file("net.4.5.2.x86")


if __name__ == "__main__":
    unittest.main()
