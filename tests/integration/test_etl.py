"""Trace files: kda etl info and kda etl stats over real files, whole and damaged."""
import glob
import os
import re
import unittest

import common


def samples():
    common.need_data("etl/expected-counts.tsv")
    return sorted(glob.glob(os.path.join(common.DATA, "etl/*.etl")))


def expected():
    """The rows of expected-counts.tsv by file; its first line starts with '#'."""
    rows = {}
    with open(common.need_data("etl/expected-counts.tsv"), encoding="utf-8") as f:
        for line in f:
            if not line.startswith("#"):
                cells = line.rstrip("\n").split("\t")
                rows.setdefault(cells[0], set()).add(tuple(cells))
    return rows


def counted():
    """The files that expected-counts.tsv has; later ones come with their number of records alone."""
    return [path for path in samples() if os.path.basename(path) in expected()]


def damaged(path, name, change):
    """A copy of a file in the work folder, changed; returns its path."""
    target = common.work(name)
    with open(path, "rb") as f:
        data = bytearray(f.read())
    data = change(data) or data
    with open(target, "wb") as f:
        f.write(data)
    return target


class Counts(unittest.TestCase):
    def test_every_file_every_row(self):
        wanted = expected()
        self.assertEqual({os.path.basename(path) for path in counted()}, set(wanted))
        for path in counted():
            with self.subTest(path=path):
                result = common.kda("etl", "stats", "-f", "tsv", path)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                lines = result.stdout.split("\n")
                self.assertEqual(lines[0], "file\tcount\theader\tgroup_or_provider\ttype_or_id\t"
                                           "version\trest")
                self.assertEqual(lines[-1], "")
                got = {tuple(line.split("\t")) for line in lines[1:-1]}
                self.assertEqual(got, wanted[os.path.basename(path)])
                self.assertEqual(len(got), len(lines) - 2)

    def test_all_files_at_once(self):
        result = common.kda("etl", "stats", "-f", "tsv", *counted())
        got = {tuple(line.split("\t")) for line in result.stdout.split("\n")[1:-1]}
        self.assertEqual(got, set().union(*expected().values()))

    def test_later_files_by_their_number_of_records(self):
        """../shared/data/etl/README-2.md, from an independent walk; the header record counts."""
        for name, count in (("KernelNetwork", 8924), ("Process", 10344)):
            path = common.need_data("etl/microsoft_Tx__%s.etl" % name)
            rows = common.rows(common.kda("etl", "stats", "-f", "jsonl", path))
            self.assertEqual([r["count"] for r in rows if r["header"] == "TOTAL"], [count])

    def test_other_formats_say_the_same(self):
        path = counted()[0]
        rows = common.rows(common.kda("etl", "stats", "-f", "jsonl", path))
        self.assertTrue(all(row["row"] == "trace_count" for row in rows))
        keys = ("file", "count", "header", "group_or_provider", "type_or_id", "version", "rest")
        self.assertEqual({tuple(str(row.get(key, "")) for key in keys) for row in rows},
                         expected()[os.path.basename(path)])
        text = common.kda("etl", "stats", path).stdout
        for row in rows:
            self.assertIn(row.get("group_or_provider", "TOTAL"), text)


class Info(unittest.TestCase):
    def row(self, name):
        result = common.kda("etl", "info", "-f", "jsonl", common.need_data("etl/" + name))
        self.assertEqual(result.returncode, 0, result.stderr)
        return common.rows(result, "trace")[0], common.rows(result)

    def test_kernel_written(self):
        row, rows = self.row("airbus-cert_etl-parser__AMSITrace.etl")
        self.assertEqual(row["session"], "AMSITraceSession")
        self.assertEqual(row["log_file"], "c:\\work\\AMSITrace.etl")
        self.assertEqual(row["os_version"], "10.0.18362")
        self.assertEqual(row["clock"], "qpc")
        self.assertEqual(row["events_lost"], 3)
        self.assertEqual(row["start_time"], "2020-02-17T12:48:30.4203138Z")
        self.assertEqual(row["first_time"], row["start_time"])
        self.assertLessEqual(row["last_time"], row["end_time"])
        self.assertEqual((row["buffers"], row["buffers_written"]), (6, 6))
        cpus = [r["cpu"] for r in rows if r["row"] == "trace_cpu"]
        self.assertEqual(cpus, [0, 2, 3, 5, 7])

    def test_compressed(self):
        row, _ = self.row("microsoft_demikernel__PktMon.etl")
        self.assertEqual(row["compression"], "xpress")
        self.assertEqual(row["compressed_buffers"], 2)
        self.assertEqual(row["buffer_size"], 16 << 20)
        self.assertIn("compressed", row["mode_flags"])

    def test_windows_7(self):
        row, rows = self.row("google_sawbuck__image_data_32_v0.etl")
        self.assertEqual(row["os_version"], "6.1.7600")
        self.assertEqual(row["pointer_size"], 4)
        self.assertEqual([r["cpu"] for r in rows if r["row"] == "trace_cpu"], [0, 12, 15])

    def test_text(self):
        path = common.need_data("etl/airbus-cert_etl-parser__AMSITrace.etl")
        text = common.kda("etl", "info", path).stdout
        self.assertIn("AMSITraceSession", text)
        self.assertIn("Events lost", text)


class Damage(unittest.TestCase):
    def setUp(self):
        self.path = common.need_data("etl/airbus-cert_etl-parser__ShutdownPerfDiagLogger.etl")

    def info(self, path):
        result = common.kda("etl", "info", "-f", "jsonl", path)
        self.assertEqual(result.returncode, 4, result.stderr)
        return (common.rows(result, "trace")[0], common.rows(result, "trace_damage"),
                result.stderr)

    def test_bad_marker(self):
        def change(data):
            data[0x30000 + 75] = 0x11
        row, places, note = self.info(damaged(self.path, "marker.etl", change))
        self.assertEqual(row["records"], 17078 - 1)
        self.assertEqual(len(places), 1)
        self.assertEqual((places[0]["damage"], places[0]["offset"], places[0]["lost"]),
                         ("record", "0x30048", True))
        self.assertIn("1 damaged place", note)

    def test_cut(self):
        row, places, _ = self.info(damaged(self.path, "cut.etl", lambda d: d[:0x301234]))
        self.assertEqual(row["buffers"], 49)
        self.assertEqual(places[0]["why"], "the file ends within this buffer")
        self.assertGreater(row["records"], 16000)

    def test_header_zeroed(self):
        def change(data):
            data[:0x10000] = bytes(0x10000)
        row, places, note = self.info(damaged(self.path, "zeroed.etl", change))
        self.assertNotIn("clock", row)
        self.assertNotIn("first_time", row)
        self.assertTrue(places)
        self.assertIn("no clock", note)

    def test_stats_too(self):
        path = damaged(self.path, "cut2.etl", lambda d: d[:0x301234])
        result = common.kda("etl", "stats", path)
        self.assertEqual(result.returncode, 4)
        self.assertIn("'kda etl info' lists them", result.stderr)

    def test_no_trace(self):
        path = common.work("noise.etl")
        with open(path, "wb") as f:
            f.write(b"this is no trace file\n" * 5000)
        result = common.kda("etl", "info", path)
        self.assertEqual(result.returncode, 3)
        self.assertIn("no trace file", result.stderr)


class CommandLine(unittest.TestCase):
    def test_verbs(self):
        result = common.kda("etl", "show", "x.etl")
        self.assertEqual(result.returncode, 2)
        self.assertIn("'info' or 'stats'", result.stderr)
        self.assertEqual(common.kda("etl", "info").returncode, 2)
        self.assertEqual(common.kda("etl", "info", "/no/such/file").returncode, 3)

    def test_evidence_is_not_replaced(self):
        source = common.need_data("etl/microsoft_perfview__smallEtlFile.etl")
        path = damaged(source, "evidence.etl", lambda d: None)
        result = common.kda("etl", "info", path, "-o", path)
        self.assertEqual(result.returncode, 2)
        with open(path, "rb") as a, open(source, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_memory(self):
        """One buffer of each CPU is held, however long the file is."""
        path = damaged(common.need_data("etl/microsoft_ebpf-for-windows__ebpforwindows.etl"),
                       "large.etl", lambda d: d + d[0x40000:] * 40)
        peaks = []
        for name in (self.small, path):
            result = common.kda("etl", "stats", "-v", "-f", "jsonl", name)
            self.assertIn(result.returncode, (0, 4))
            peaks.append(int(re.search(r"stat peak_kib (\d+)", result.stderr).group(1)))
        rows = common.rows(result)
        self.assertEqual(rows[0]["header"], "TOTAL")
        self.assertGreater(rows[0]["count"], 40 * 13000)
        self.assertGreater(os.path.getsize(path), 100 << 20)
        self.assertLess(peaks[1] - peaks[0], 16 << 10)

    @property
    def small(self):
        return common.need_data("etl/microsoft_perfview__smallEtlFile.etl")


if __name__ == "__main__":
    unittest.main()
