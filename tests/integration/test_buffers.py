"""Trace buffers: what `kda buffers` lists and writes against the truth of memory images, real layouts
of ../shared/data and images of the project's own generator. The trace files are read by a reader of
this test that shares no code with the project and accepts no damage."""
import glob
import json
import os
import struct
import unittest

from common import DATA, FORGE, ROOT, forge, kda, rows, unpack, work

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

if __name__ == "__main__":
    unittest.main()
