"""Trace buffers: what `kda buffers` lists and writes against the truth of memory images, real layouts
of ../shared/data and images of the project's own generator. The trace files are read by a reader of
this test that shares no code with the project and accepts no damage."""
import glob
import json
import os
import struct
import unittest

from common import DATA, ROOT, forge, kda, rows, unpack, work

SHORT = {1: "system32", 2: "system64", 3: "compact32", 4: "compact64", 16: "perfinfo32",
         17: "perfinfo64"}
LONG = {10: "full32", 20: "full64", 11: "instance32", 21: "instance64", 18: "event32",
        19: "event64", 13: "error"}
BUILDS = ["6.1.7601.24540", "6.3.9600.19913", "10.0.14393.4583", "10.0.17763.379",
          "10.0.17763.5933", "10.0.18362.30", "10.0.19041.1466", "10.0.20348.825",
          "10.0.22000.318"]


def guid_text(b):
    a = struct.unpack("<IHH", b[:8])
    return "%08x-%04x-%04x-%s-%s" % (a[0], a[1], a[2], b[8:10].hex(), b[10:16].hex())


def read_record(data, at):
    """(header name, pid, tid, raw time, hook or GUID, size) of the record at `at`."""
    kind, mark = data[at + 2], data[at + 3]
    if mark == 0x90:
        size, flags = struct.unpack_from("<H4xH", data, at)
        assert flags & 2 and flags & 8, "a message without GUID or time"
        place = at + 8 + (4 if flags & 1 else 0)
        time, = struct.unpack_from("<Q", data, place + 16)
        return ("message", None, None, time, guid_text(data[place:place + 16]), size)
    assert mark == 0xC0, "no record at %d" % at
    if kind in SHORT:
        size, = struct.unpack_from("<H", data, at + 4)
        hook = data[at + 7] * 256 + data[at + 6]
        if kind in (16, 17):
            time, = struct.unpack_from("<Q", data, at + 8)
            return (SHORT[kind], None, None, time, hook, size)
        tid, pid, time = struct.unpack_from("<IIQ", data, at + 8)
        return (SHORT[kind], pid, tid, time, hook, size)
    size, = struct.unpack_from("<H", data, at)
    tid, pid, time = struct.unpack_from("<IIQ", data, at + 8)
    return (LONG[kind], pid, tid, time, guid_text(data[at + 24:at + 40]), size)


def read_header(data):
    """TRACE_LOGFILE_HEADER of a 64-bit logger."""
    h = 72 + 32
    (size, _, _, layout, _, build, cpus, end, _, _, mode, written, start, pointer, lost,
     mhz) = struct.unpack_from("<I4BIIQIIIIIIII", data, h)
    _, frequency, begin, clock, buffers_lost = struct.unpack_from("<QQQII", data, h + 248)
    names = data[h + 280:].decode("utf-16-le", "replace").split("\0")
    return {"buffer_size": size, "layout": layout, "build": build, "cpus": cpus, "end": end,
            "mode": mode, "written": written, "start_buffers": start, "pointer": pointer,
            "events_lost": lost, "mhz": mhz, "frequency": frequency, "start": begin,
            "clock": clock, "buffers_lost": buffers_lost, "name": names[0], "file": names[1]}


def read_trace(path):
    """(header, records with their CPU). Anything that a careful reader would call damage fails."""
    with open(path, "rb") as f:
        data = f.read()
    header = read_header(data)
    at, sequence, out, last = 0, 0, [], {}
    while at < len(data):
        (size, saved, current, references, _, number, link, cpu, _, state, used, flags,
         kind) = struct.unpack_from("<IIIiQQQHHIIHH", data, at)
        assert size == header["buffer_size"] and at + size <= len(data)
        assert saved == current == used and 72 <= used <= size and references == 0 and state == 3
        assert number == sequence and kind == (4 if sequence == 0 else 0) and flags & 0x20
        assert link == 0 and data[at + 0x38:at + 72] == bytes(16), "a pointer of the kernel"
        assert data[at + used:at + size] == b"\xff" * (size - used)
        place = at + 72
        while place < at + used:
            record = read_record(data, place)
            assert record[5] >= 8
            if sequence == 0:
                assert place == at + 72 and record[0] == "system64" and record[4] == 0
                header["raw"] = record[3]
            else:
                out.append((cpu,) + record)
            place += (record[5] + 7) & ~7
        assert place == at + used, "the last record reaches over the end"
        if sequence > 0:
            first = out[-1][4]
            assert last.get(cpu, 0) <= first, "buffers of a CPU out of order"
            last[cpu] = first
            assert cpu < header["cpus"]
        assert bool(flags & 1) == (sequence == 0 or at + size == len(data))
        at += size
        sequence += 1
    assert sequence == header["written"], "the count of buffers is wrong"
    return header, out


def to_100ns(header, raw):
    """Raw clock to FILETIME, rounded down."""
    if header["clock"] == 2:
        return raw
    speed = header["mhz"] * 1000000 if header["clock"] == 3 else header["frequency"]
    return header["start"] + (raw - header["raw"]) * 10000000 // speed


def extract(image, session, silo, free, name):
    target = work(name)
    args = ["buffers", image, str(session), "--silo", silo, "-o", target]
    result = kda(*args, *(["--free"] if free else []))
    return target, result


class RealLayouts(unittest.TestCase):
    """Done means 4 of the trace buffers: exactly the events of the truth, with zero damage."""

    def check_image(self, name):
        with open(unpack("images/%s.truth.json.xz" % name), encoding="utf-8") as f:
            truth = json.load(f)
        packed = [p for p in glob.glob(os.path.join(DATA, "images", name + ".*.xz"))
                  if ".truth." not in p]
        image = unpack("images/" + os.path.basename(packed[0]))
        holes = bool(truth["hole_pages"])
        listed = {}
        for row in rows(kda("buffers", image, "-f", "jsonl", "-q"), "buffer"):
            listed[row["va"]] = row
        for logger in truth["loggers"]:
            self.check_list(logger, listed, holes)
            for free in (False, True):
                self.check_session(truth, image, logger, free, holes)
        self.assertEqual(listed, {}, "buffers that the truth does not have")

    def check_list(self, logger, listed, holes):
        """Takes the buffers of one session from `listed`."""
        for b in logger["buffers"]:
            row = listed.pop(hex(b["va"]), None)
            if row is None or "state" not in row:
                self.assertTrue(holes)
                self.assertFalse(b["readable"] and b["reachable"], hex(b["va"]))
                continue
            self.assertEqual((row["cpu"], row["used"], row["size"], row["session_id"]),
                             (b["cpu"], b["used"], b["size"], logger["index"]))
            self.assertEqual((row["state"] == "free", row["old"]), (b["state"] == 0, b["state"] == 0))
            self.assertEqual(int(row["time_raw"], 16), b["timestamp"])
            self.assertNotIn("damaged", row)
            self.assertNotIn("unwritten", row)
            if not b["readable"]:
                continue
            self.assertEqual(row["records"], len(b["events"]))
            if b["events"]:
                times = [e["timestamp"] for e in b["events"]]
                self.assertEqual((int(row["oldest_raw"], 16), int(row["newest_raw"], 16)),
                                 (min(times), max(times)))

    def check_session(self, truth, image, logger, free, holes):
        silo = "host" if logger["silo"] == 0 else hex(truth["silos"][logger["silo"]]["state"])
        target, result = extract(image, logger["index"], silo, free, "real.etl")
        where = "%s session %d: %s" % (os.path.basename(image), logger["index"], result.stderr)
        self.assertEqual(result.returncode, 4 if holes else 0, where)
        header, found = read_trace(target)
        gone = missing_pages(truth)
        expected = []
        for b in logger["buffers"]:
            lost = b["va"] & ~0xFFF in gone or not b["reachable"]
            if lost or (b["state"] == 0 and not free):
                self.assertTrue(holes or b["state"] == 0)
                continue
            expected += [(b["cpu"], e["type"], e["pid"], e["tid"], e["timestamp"],
                          e.get("hook", e.get("provider")), e["size"], e["time"])
                         for e in b["events"] if not touches(b["va"] + e["offset"], e["size"], gone)]
        self.assertEqual(sorted(map(str, found)), sorted(str(e[:7]) for e in expected), where)
        by_raw = {e[4]: e[7] for e in expected}
        for record in found:
            self.assertLessEqual(abs(to_100ns(header, record[4]) - by_raw[record[4]]), 1, where)
        self.check_header(header, logger, truth)

    def check_header(self, header, logger, truth):
        reference = logger["reference_time"]
        self.assertEqual((header["clock"], header["name"], header["build"], header["pointer"]),
                         (logger["clock_type"], logger["name"], truth["build"], 8))
        self.assertEqual((header["raw"], header["start"]),
                         (reference["start_perf_clock"], reference["start_time"]))
        self.assertEqual((header["events_lost"], header["buffers_lost"], header["cpus"]),
                         (logger["events_lost"], logger["log_buffers_lost"],
                          len(truth["processors"])))
        self.assertEqual((header["file"], header["end"], header["frequency"]),
                         (logger["file"] or "", truth["system_time"],
                          truth["clock"]["qpc_frequency"]))


def missing_pages(truth):
    return {page["va"] for page in truth["hole_pages"] if page["kind"] != "transition"}


def touches(va, size, pages):
    return any(page in pages for page in range(va & ~0xFFF, va + size, 0x1000))


STATES = ["free", "logging", "cswitch", "flush", "pending_compression", "compressed", "placeholder"]


class Scenario(unittest.TestCase):
    """The scenario of trace buffers, and what its truth says."""

    def build(self, name, lines="", build=None, image_format="raw"):
        with open(os.path.join(ROOT, "tests/images/scenarios/buffers.txt"), encoding="utf-8") as f:
            text = f.read() + lines
        if build:
            text = text.replace("build 10.0.22000.795", "build " + build + (
                "\nrvas invented" if build.endswith(".x") else ""))
        if build and build.startswith("6."):  # no containers yet
            text = "\n".join(line for line in text.split("\n") if "silo" not in line)
        scenario, truth = work("buffers-%s.txt" % name), work("buffers-%s.json" % name)
        with open(scenario, "w", encoding="utf-8") as f:
            f.write(text)
        image = forge(scenario, "buffers-%s.img" % name, "--truth", truth, "--format", image_format)
        with open(truth, encoding="utf-8") as f:
            return image, json.load(f)

    @staticmethod
    def events(buffer):
        """What a reader must find of one buffer, as read_trace gives it."""
        names = {**SHORT, **LONG}
        out = []
        for e in buffer["events"]:
            if not e["readable"]:
                continue
            name = names.get(e["header"], "message")
            what = e["hook"] if "hook" in e else e["guid"].strip("{}")
            ids = (None, None) if name == "message" else (e.get("pid"), e.get("tid"))
            out.append((buffer["cpu"], name) + ids + (e["time"], what, e["size"]))
        return out

    @staticmethod
    def is_old(buffer):
        return buffer["state"] == 0 or buffer["space"]


class Forged(Scenario):
    """Every list, state and kind of copy, on the structures of each build."""

    def check_row(self, row, b, has_slots, has_compression):
        self.assertEqual((row["cpu"], row["state"], row["used"] if b["state"] != 5 else b["used"],
                          row["sequence"], row["old"], row["copy"]),
                         (b["cpu"], STATES[b["state"]], b["used"], b["sequence"],
                          self.is_old(b), b["copy"]))
        self.assertEqual(row["records"], len(b["events"]))
        self.assertEqual(row.get("unwritten", 0), b["unwritten"] + b["leftover"])
        self.assertNotIn("damaged", row)
        self.assertEqual(row.get("pid", 0) if not b["linked"] or b["user"] else b["user"],
                         b["user"])
        ways = set(row["found_by"])
        if b["user"]:
            expected = {"consumer_space"} if b["space"] else {"consumer", "consumer_space"}
            self.assertEqual(ways, expected)
        else:
            self.assertEqual("global" in ways, b["linked"])
        if has_slots and "cpu" in ways:
            self.assertEqual(row["slot_cpu"], b["cpu"])
        self.assertTrue(has_compression or "compression" not in ways)

    def check_list(self, image, truth, build):
        found = {(r["va"], r.get("pid", 0) if int(r["va"], 16) < 1 << 47 else 0): r
                 for r in rows(kda("buffers", image, "-f", "jsonl", "-q"), "buffer")}
        places = set()
        for b in truth["buffers"]:
            if not b["linked"] and build.startswith("6."):
                continue  # no compression in memory yet: nothing names that buffer
            row = found.pop((b["va"], b["user"]))
            self.check_row(row, b, int(build.split(".")[2]) >= 17763,
                           not build.startswith("6."))
            places |= set(row["found_by"])
        self.assertEqual(found, {})
        wanted = {"global", "current", "undelivered", "consumer", "consumer_space"}
        if not build.startswith("6.1"):
            wanted |= {"free", "overflow"}
        if not build.startswith("6."):
            wanted |= {"compression", "placeholder"}
        if int(build.split(".")[2]) >= 17763:
            wanted.add("cpu")
        self.assertEqual(places, wanted)

    def check_traces(self, image, truth, sessions=None, code=0, skip=lambda b: False):
        for s in truth["sessions"]:
            if sessions and (s["silo"], s["id"]) not in sessions:
                continue
            silo = truth["silos"][s["silo"]]["state"] if s["silo"] else "host"
            for free in (False, True):
                target, result = extract(image, s["id"], silo, free, "forged.etl")
                self.assertEqual(result.returncode, code, result.stderr)
                header, found = read_trace(target)
                expected = []
                for b in truth["buffers"]:
                    if (b["silo"], b["session"]) == (s["silo"], s["id"]) and not b["copy"] and \
                            (free or not self.is_old(b)) and not skip(b):
                        expected += self.events(b)
                self.assertEqual(sorted(map(str, found)), sorted(map(str, expected)))
                self.assertEqual((header["name"], header["clock"]), (s["name"], s["clock"]))
                info = kda("etl", "info", target, "-f", "jsonl")
                self.assertEqual(info.returncode, 0, info.stdout)
                self.assertEqual(rows(info, "trace_damage"), [])

    def test_lost_events_are_flagged(self):
        image, _ = self.build("plain")
        target, _ = extract(image, 3, "host", False, "flags.etl")
        with open(target, "rb") as f:
            data = f.read()
        flags = [data[at + 0x34] for at in range(0, len(data), 8192)]
        self.assertEqual(sum(1 for flag in flags if flag & 2), 1)

    def test_holes(self):
        """Headers, tails and links that are not there; what is there still comes out."""
        lines = "".join("hole what=%s kind=%s\n" % line for line in (
            ("buffer:3", "absent"), ("buffertail:12", "paged"), ("buffer:10", "transition"),
            ("buffertail:14", "absent")))
        image, truth = self.build("holes", lines, image_format="dmp-bitmap")
        self.check_traces(image, truth, [(0, 3), (0, 7)], code=4)
        self.check_traces(image, truth, [(0, 5), (0, 14), (1, 3)])
        listed = {r["va"]: r for r in rows(kda("buffers", image, "-f", "jsonl"), "buffer")}
        headless, cut = truth["buffers"][3], truth["buffers"][12]
        self.assertNotIn("state", listed[headless["va"]])
        row = listed[cut["va"]]
        self.assertEqual(row["missing"], 4096)
        self.assertEqual(row["records"], sum(e["readable"] for e in cut["events"]))
        self.assertGreater(row["records"], 50)
        packed = listed[truth["buffers"][14]["va"]]
        self.assertTrue(0 < packed["records"] < 100, packed)
        self.assertGreater(packed["missing"], 0)

    def test_hostile(self):
        """Lists that lead astray end, and end with a gap; what stands before is listed."""
        for lie in ("cycle=buffers:3", "self=buffers:3", "wild=buffers:3", "wild=queue:3",
                    "wild=current:5@0xffff800000001000", "count=bufferbytes:1@0xfffffff0",
                    "count=bufferstate:1@77", "count=bufferbytes:1@16"):
            image, _ = self.build("hostile", "hostile %s\n" % lie)
            result = kda("buffers", image, "-f", "jsonl")
            self.assertEqual(result.returncode, 4, lie)
            self.assertTrue(rows(result, "gap"), lie)
            self.assertGreater(len(rows(result, "buffer")), 10, lie)

    def test_offsets_that_lie(self):
        """The records end where they end, whatever the header says about it."""
        for lie in ("count=buffercurrent:0@0xffffffff", "count=buffercurrent:0@3",
                    "count=buffercurrent:0@8192"):
            image, truth = self.build("offsets", "hostile %s\n" % lie)
            target, result = extract(image, 3, "host", False, "offsets.etl")
            self.assertIn(result.returncode, (0, 4), lie)
            _, found = read_trace(target)
            for event in self.events(truth["buffers"][0]):
                self.assertIn(event, found, lie)


def add_builds():
    # The last has no symbols: its layout is fitted from the image.
    for build in BUILDS + ["10.0.22000.795", "10.0.26100.x"]:
        def test(self, build=build):
            image, truth = self.build("build", build=build)
            self.check_list(image, truth, build)
            skipped = build.startswith("6.")
            self.check_traces(image, truth, skip=lambda b: skipped and not b["linked"])
        setattr(Forged, "test_" + build.replace(".", "_"), test)


class MemoryEvents(Scenario):
    """`kda events IMAGE`: the same events as the trace file, straight from memory."""

    def events_of(self, *args):
        result = kda("events", *args, "-f", "jsonl")
        return result, [json.loads(line) for line in result.stdout.splitlines()]

    def test_events(self):
        image, truth = self.build("events")
        for free in (False, True):
            result, events = self.events_of(image, "--raw", *(["--free"] if free else []))
            self.assertEqual(result.returncode, 4)  # the sessions count lost events
            losses = [e for e in events if e["kind"] == "sensor.loss"]
            self.assertEqual([(e["lost_events"], e["lost_buffers"], e["file"]) for e in losses],
                             [(7, 1, "EventLog-System")])
            events = [e for e in events if e["kind"] != "sensor.loss"]
            wanted = [(b["cpu"], e.get("pid"), e["size"], self.is_old(b))
                      for b in truth["buffers"] if not b["copy"] and (free or not self.is_old(b))
                      for e in b["events"]]
            self.assertEqual(len(events), len(wanted))
            self.assertEqual({e["source"] for e in events}, {"memory"})
            self.assertEqual(sum(1 for e in events if "buffer" in e.get("extended", {})),
                             sum(1 for w in wanted if w[3]))
            times = [e["time"] for e in events]
            self.assertEqual(times, sorted(times))
            self.assertEqual(sorted((e["cpu"], e["pid"]) for e in events if "pid" in e),
                             sorted(w[:2] for w in wanted if w[1] is not None))

    def test_same_as_the_file(self):
        image, truth = self.build("events")
        for s in truth["sessions"]:
            silo = truth["silos"][s["silo"]]["state"] if s["silo"] else "host"
            target, _ = extract(image, s["id"], silo, True, "same.etl")
            _, direct = self.events_of(image, "--session", str(s["id"]), "--silo", silo, "--free")
            _, filed = self.events_of(target)
            filed = [e for e in filed if e.get("event_name") != "EventTrace"]
            for e in direct + filed:
                for key in ("id", "source", "file", "why"):
                    e.pop(key, None)
                e.get("extended", {}).pop("buffer", None)
                if e.get("extended") == {}:
                    del e["extended"]
            self.assertEqual(direct, filed)
            self.assertTrue(direct)

    def test_story(self):
        """Kernel records in memory become the events that the sensor writes."""
        image, _ = self.build("events")
        result, events = self.events_of(image, "--session", "20")
        self.assertEqual(result.returncode, 0)
        self.assertEqual([e["kind"] for e in events],
                         ["process.create", "image.load", "network.connect", "process.create"])
        start, load, connect, child = events
        self.assertEqual((start["pid"], start["parent_pid"], start["creator_pid"],
                          start["command_line"], start["user_sid"]),
                         (4242, 772, 772, "beacon.exe -k 7", "S-1-5-18"))
        self.assertEqual((load["target_pid"], load["module"], load["base"]),
                         (4242, "\\Device\\HarddiskVolume3\\Temp\\stage.dll", "0x7ff812340000"))
        self.assertEqual((connect["pid"], connect["remote_ip"], connect["remote_port"],
                          connect["local_ip"], connect["local_port"]),
                         (4242, "203.0.113.9", 443, "192.0.2.7", 49152))
        self.assertEqual((child["pid"], child["parent_pid"]), (4250, 4242))
        self.assertEqual({e["source"] for e in events}, {"memory"})
        _, only = self.events_of(image, "--kind", "network", "--pid", "4242")
        self.assertEqual([e["kind"] for e in only if e["kind"] != "sensor.loss"],
                         ["network.connect"])

    def test_output_is_a_log(self):
        """Gaps are told beside the events, not among them."""
        image, _ = self.build("events-holes", "hostile cycle=buffers:3\n")
        result = kda("events", image, "-f", "jsonl")
        self.assertEqual(result.returncode, 4)
        self.assertIn("gap", result.stderr)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertGreater(len(lines), 10)
        self.assertEqual([line for line in lines if "kind" not in line], [])

    def test_usage(self):
        image, _ = self.build("events")
        target, _ = extract(image, 5, "host", False, "usage.etl")
        for args in (["events", target, "--session", "3"], ["events", target, "--free"],
                     ["events", image, target], ["events", image, "--session", "77"],
                     ["buffers", image, "77"], ["buffers", image, "-o", work("none.etl")],
                     ["buffers", image, "5", "-f", "csv", "-o", work("none.etl")]):
            self.assertEqual(kda(*args).returncode, 2, args)
        self.assertFalse(os.path.exists(work("none.etl")))
        for args, words in ((["buffers", image, "3", "--session", "5"], "named twice"),
                            (["buffers", image, "-o", work("none.etl")], "name it behind the image"),
                            (["buffers", image, "3", "-o", work("none.etl")], "choose with --silo"),
                            (["events", target, "--free"], "is a trace file")):
            self.assertIn(words, kda(*args).stderr)
        _, result = extract(image, 3, "host", False, "usage3.etl")
        self.assertIn("50 events of 5 buffers written", result.stderr)
        self.assertIn("2 more buffers hold events that were delivered before", result.stderr)
        result = kda("buffers", target)
        self.assertEqual(result.returncode, 3)
        self.assertIn("kda events", result.stderr)
        plain = work("usage.bin")  # a trace file is known by its first bytes too
        with open(target, "rb") as f, open(plain, "wb") as out:
            out.write(f.read())
        self.assertEqual(kda("events", plain).returncode, 0)


def add_images():
    for path in sorted(glob.glob(os.path.join(DATA, "images", "*.truth.json.xz"))):
        name = os.path.basename(path)[:-len(".truth.json.xz")]

        def test(self, name=name):
            self.check_image(name)
        setattr(RealLayouts, "test_" + name.replace("-", "_").replace(".", "_"), test)
    if not hasattr(RealLayouts, "test_win11_22000_795"):
        def skipped(self):
            self.skipTest("needs ../shared/data/images")
        RealLayouts.test_images = skipped


add_images()
add_builds()

if __name__ == "__main__":
    unittest.main()
