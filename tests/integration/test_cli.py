"""The tool as a person or a script meets it: exit codes, messages, options, output that fails."""
import csv
import io
import json
import os
import shutil
import subprocess
import unittest

from common import KDA, WORK, forge, kda, need_data, rows, work

ADVICE = "this is a triage dump (DumpType 4): it holds no tracing memory"


class NeedsWindows(unittest.TestCase):
    def test_commands_for_windows_say_so(self):
        for args in (["driver", "status"], ["driver", "install", "x.sys"], ["watch"],
                     ["live-dump", work("never.dmp")], ["map", "--live"],
                     ["map", "--live", "--dump", work("never.dmp")]):
            result = kda(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertIn("needs Windows", result.stderr)
        self.assertFalse(os.path.exists(work("never.dmp")))
        text = kda("completions", "bash").stdout
        for name in ("driver", "watch", "live-dump"):
            self.assertIn("        %s) " % name, text)
            self.assertIn("  %s " % name, kda("--help").stdout)


class Usage(unittest.TestCase):
    def usage(self, *args, says):
        result = kda(*args)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertIn(says, result.stderr)

    def test_wrong_command_lines(self):
        image = forge("tiny", "cli-tiny.raw")
        self.usage("sesions", image, says="did you mean 'sessions'")
        self.usage("xyzzy", image, says="see 'kda --help'")
        self.usage("sessions", says="too few arguments; usage: kda sessions IMAGE")
        self.usage("sessions", "--formt", "json", image, says="did you mean '--format'")
        self.usage("sessions", image, "-Z", says="unknown option '-Z'")
        self.usage("sessions", image, "--all", says="--all does not apply to 'kda sessions'")
        self.usage("info", image, "--silo", "host", says="--silo does not apply to 'kda info'")
        self.usage("providers", image, "--all=1", says="--all takes no value")
        self.usage("sessions", "-f", "yaml", image, says="unknown format 'yaml'; formats are")
        self.usage("sessions", "-f", "jsonk", image, says="did you mean 'json'")
        self.usage("sessions", image, "--limit", "many", says="wants a number")
        self.usage("symbols", "put", image, says="unknown subcommand 'put'")
        self.usage("sessions", image, "2", "--session", "3", says="named twice")
        self.usage("sessions", "-f", says="wants a value")
        self.usage("sessions", image, "no such session", says="no session")
        self.usage("sessions", image, "--silo", "0x123", says="silo")
        self.usage("sessions", image, "--dtb", "twelve", says="dtb")
        self.usage("sessions", image, "--limit", "-1", says="limit")
        self.usage("sessions", image, "--limit", "0", says="above 0")
        self.usage("sessions", image, "--dtb", "0x0", says="above 0")
        self.usage("info", image, "extra", "more", says="too many arguments")

    def test_help_and_version(self):
        for args in (["--help"], ["sessions", "--help"], ["map", "-h"], ["--version"],
                     ["symbols", "get", "--help"]):
            result = kda(*args)
            self.assertEqual((result.returncode, result.stderr), (0, ""), args)
            self.assertTrue(result.stdout)

    def test_help_as_a_command(self):
        self.assertEqual(kda("help").stdout, kda("--help").stdout)
        self.assertEqual(kda("help", "map").stdout, kda("map", "--help").stdout)
        self.usage("help", "sesions", says="unknown command 'sesions'; did you mean 'sessions'?")
        self.usage("help", "xyzzy", says="unknown command 'xyzzy'; see 'kda --help'")
        self.usage("help", "map", "sessions", says="too many arguments")
        # More than a buffer, so that the end of it alone does not tell; less than one.
        for args in (["help"], ["--help"], ["help", "info"], ["completions", "zsh"], ["--version"]):
            with open("/dev/full", "w") as full:
                result = subprocess.run([KDA] + args, stdin=subprocess.DEVNULL, stdout=full,
                                        stderr=subprocess.PIPE)
                self.assertEqual(result.returncode, 6, args)

    def test_formats_lists_every_table(self):
        result = kda("formats")
        self.assertEqual(result.returncode, 0)
        for word in ("dmp-bitmap", "elf", "lime", "profile", "isf", "jsonl", "10.0.22000.795"):
            self.assertIn(word, result.stdout)
        exits = [row["name"] for row in rows(kda("formats", "-f", "jsonl"), "format")
                 if row["table"] == "exit"]
        self.assertEqual(exits, [str(n) for n in range(7)])


class ExitCodes(unittest.TestCase):
    def code(self, expected, *args, says=None):
        result = kda(*args)
        self.assertEqual(result.returncode, expected, (args, result.stderr))
        if says:
            self.assertIn(says, result.stderr)
        return result

    def file(self, name, content):
        path = work(name)
        with open(path, "wb") as f:
            f.write(content)
        return path

    def test_3_no_file_no_format_no_kernel(self):
        self.code(3, "info", work("does-not-exist"), says="cannot open")
        self.code(3, "info", WORK, says="directory")
        self.code(3, "info", self.file("empty.bin", b""), says="empty")
        self.code(3, "sessions", self.file("zeros.raw", bytes(1 << 20)), says="no Windows")
        self.code(3, "sessions", self.file("mini.dmp", b"MDMP" + bytes(8192)), says="minidump")
        self.code(3, "sessions", self.file("disk.E01", b"EVF\x09\x0d\x0a\xff\x00" + bytes(8192)),
                  says="EWF")
        self.code(3, "sessions", self.file("hiber.sys", b"HIBR" + bytes(8192)), says="hibernation")

    def test_4_holes_are_listed_and_counted(self):
        image = forge("holes", "cli-holes.dmp", "--format", "dmp-bitmap")
        result = self.code(4, "map", image, says="incomplete")
        verbose = self.code(4, "sessions", image, "-v")
        listed = self.code(4, "sessions", image, "-f", "jsonl")
        gaps = rows(listed, "gap")
        self.assertTrue(gaps)
        self.assertIn("%d gaps" % len(gaps), listed.stderr)
        self.assertIn(gaps[0]["va"], verbose.stdout)
        self.assertTrue(result.stdout)
        whole = json.loads(self.code(4, "sessions", image, "-f", "json").stdout)
        self.assertEqual(whole["gaps"], gaps)
        # What is filtered are rows, not what is missing.
        filtered = self.code(4, "sessions", image, "-f", "jsonl", "--grep", "nothing-has-this")
        self.assertEqual(rows(filtered), gaps)
        info = json.loads(self.code(4, "info", image, "-f", "json").stdout)
        self.assertEqual(info["rows"][0]["gap_count"], len(info["gaps"]))
        # Without -v they are a number, and with -q not even that.
        plain = self.code(4, "sessions", image, says="(-v lists them)")
        self.assertNotIn("not in the image", plain.stdout)
        self.assertIn("not in the image", verbose.stdout)
        self.assertIn("stat peak_kib ", verbose.stderr)
        self.assertEqual(self.code(4, "sessions", image, "-q").stderr, "")

    def test_0_is_quiet(self):
        image = forge("win11", "cli-win11.raw")
        self.assertEqual(self.code(0, "sessions", image).stderr, "")

    def test_info_says_what_is_missing(self):
        zeros = self.file("zeros.raw", bytes(1 << 20))
        self.assertIn("No kernel", self.code(3, "info", zeros).stdout)
        image = forge("new-24h2", "cli-24h2.raw")
        info = rows(self.code(5, "info", image, "-f", "jsonl", "--symbols", "pdb"))[0]
        self.assertIn("ntkrnlmp.pdb", info["symbols_missing"])
        image = forge("win11", "cli-win11.raw")
        dtb = rows(self.code(0, "info", image, "-f", "jsonl"))[0]["dtb"]
        told = rows(self.code(0, "info", image, "-f", "jsonl", "--dtb", dtb))[0]
        self.assertEqual((told["dtb"], told["dtb_source"]), (dtb, "option"))
        self.assertRegex(self.code(0, "info", image).stdout, r"\nFields known +\d+ of \d+\n")
        wrong = self.code(3, "info", image, "--dtb", "0x1234000")
        self.assertIn("--dtb 0x1234000", wrong.stdout)

    def test_symbols_lists_what_is_wanted(self):
        image = forge("win11", "cli-win11.raw")
        row = rows(self.code(0, "symbols", image, "-f", "jsonl"))[0]
        self.assertEqual((row["found"], row["source"]), (True, "profile"))
        key = row["pdb_guid"].strip("{}").replace("-", "").upper()
        self.assertEqual(row["isf_name"], "windows/ntkrnlmp.pdb/%s-1.json.xz" % key)
        self.assertEqual(row["store_path"], "ntkrnlmp.pdb/%s1/ntkrnlmp.pdb" % key)
        missing = self.code(5, "symbols", forge("new-24h2", "cli-24h2.raw"), "--symbols", "pdb")
        self.assertIn("ntkrnlmp.pdb", missing.stdout)

    def test_5_symbols_missing_names_file_places_command(self):
        image = forge("new-24h2", "cli-24h2.raw")
        result = self.code(5, "sessions", image, "--symbols", "pdb", says="ntkrnlmp.pdb/")
        self.assertIn("kda symbols get", result.stderr)
        self.assertIn("looked in", result.stderr)
        self.assertEqual(result.stdout, "")
        info = self.code(5, "info", image, "-f", "jsonl", "--symbols", "pdb")
        self.assertIn("kernel_base", rows(info)[0])

    def test_6_output_that_cannot_be_written(self):
        image = forge("win11", "cli-win11.raw")
        with open("/dev/full", "w") as full:
            for output_format in ("text", "csv", "json", "jsonl"):
                command = "sessions" if output_format == "csv" else "map"
                result = subprocess.run([KDA, command, image, "-q", "-f", output_format],
                                        stdin=subprocess.DEVNULL, stdout=full,
                                        stderr=subprocess.PIPE, text=True)
                self.assertEqual(result.returncode, 6, result.stderr)
                self.assertIn("cannot write", result.stderr)
        target = work("no-such-folder/out.json")
        self.code(6, "map", image, "-o", target, says=target)
        self.code(6, "map", image, "-o", "/dev/full", says="cannot write '/dev/full'")
        self.code(2, "map", image, "-o", image)

    def test_output_file_is_whole_or_not_there(self):
        image = forge("win11", "cli-win11.raw")
        target = work("out.json")
        self.code(0, "map", image, "-q", "-f", "json", "-o", target)
        with open(target) as f:
            self.assertTrue(json.load(f)["rows"])
        before = sorted(os.listdir(WORK))
        self.code(3, "map", work("zeros.raw") if os.path.exists(work("zeros.raw")) else
                  self.file("zeros.raw", bytes(1 << 20)), "-f", "json", "-o", target)
        with open(target) as f:
            self.assertTrue(json.load(f)["rows"], "the old file was harmed")
        self.assertEqual([n for n in sorted(os.listdir(WORK)) if n not in before
                          and n != "zeros.raw"], [])

    def test_closed_pipe_is_quiet(self):
        image = forge("win11", "cli-win11.raw")
        process = subprocess.Popen([KDA, "map", image, "-q"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        error = process.stderr.read()
        self.assertEqual((process.wait(), error), (6, b""))
        process.stderr.close()

    def test_triage_dump(self):
        dump = need_data("dumps/1_IRQL_NOT_LESS_OR_EQUAL.dmp")
        for command in ("sessions", "consumers", "providers", "processes", "map"):
            self.code(4, command, dump, says=ADVICE)
        whole = json.loads(self.code(4, "sessions", dump, "-f", "json").stdout)
        self.assertEqual((whole["rows"], len(whole["gaps"])), ([], 1))
        self.assertEqual(whole["gaps"][0]["what"], "image")
        self.assertNotIn("\nhal.dll ", self.code(0, "info", dump).stdout)
        self.assertIn("hal.dll", self.code(0, "info", dump, "-v").stdout)


class TriageDumps(unittest.TestCase):
    NAMES = ["1_IRQL_NOT_LESS_OR_EQUAL.dmp", "2_PAGE_FAULT_IN_NONPAGED_AREA.dmp",
             "3_SYSTEM_THREAD_EXCEPTION_NOT_HANDLED.dmp"]

    def test_info_names_build_kernel_drivers_process(self):
        for name in self.NAMES:
            with self.subTest(name=name):
                result = kda("info", need_data("dumps/" + name), "-f", "jsonl")
                self.assertEqual(result.returncode, 0, result.stderr)
                info = rows(result)[0]
                self.assertEqual(info["build"], 26100)
                self.assertTrue(info["version"].startswith("10.0.26100"), info["version"])
                self.assertEqual(info["pe_timestamp"], "0x4473d78d")
                self.assertEqual(info["pe_size"], 0x1450000)
                kernel = info["drivers"][0]
                self.assertEqual((kernel["name"], kernel["base"]),
                                 ("ntoskrnl.exe", info["kernel_base"]))
                self.assertGreater(len(info["drivers"]), 100)
                self.assertTrue(info["process"])


class Selection(unittest.TestCase):
    """The generated Windows 11 machine: session 17 is the EDR's, 3 and 4 exist in two silos."""

    def setUp(self):
        self.image = forge("win11", "cli-win11.raw")

    def rows(self, *args):
        result = kda(*args, "-f", "jsonl", "-q")
        self.assertEqual(result.returncode, 0, result.stderr)
        return rows(result)

    def test_session_by_id_or_name_in_every_silo(self):
        by_name = self.rows("sessions", self.image, "exampleedrsession")
        self.assertEqual([(r["id"], r["name"]) for r in by_name], [(17, "ExampleEdrSession")])
        self.assertEqual(self.rows("sessions", self.image, "17"), by_name)
        self.assertEqual(self.rows("sessions", self.image, "--session", "17"), by_name)
        both = self.rows("sessions", self.image, "4")
        self.assertEqual(len(both), 2)
        host = self.rows("sessions", self.image, "4", "--silo", "host")
        self.assertEqual([r["silo"] for r in host], ["host"])
        other = [r["silo"] for r in both if r["silo"] != "host"][0]
        self.assertEqual([r["silo"] for r in
                          self.rows("sessions", self.image, "4", "--silo", other)], [other])

    def refused(self, *args, says, code=2):
        result = kda(*args)
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        for text in says:
            self.assertIn(text, result.stderr)

    def test_names_that_do_not_fit(self):
        self.refused("sessions", self.image, "eventlog-securty",
                     says=["did you mean 'Eventlog-Security'", "\nkda:   [5] Diagtrack-Listener\n"])
        self.refused("sessions", self.image, "circular",
                     says=["did you mean 'Circular Kernel Context Logger'"])
        self.refused("sessions", self.image, "--silo", "0x1", says=["no silo '0x1'", "  host\n"])
        self.refused("providers", self.image, "microsoft-windows-kernel-proces",
                     says=["did you mean 'Microsoft-Windows-Kernel-Process'"])
        # A name that is a number, and one that would steer a terminal or a spreadsheet.
        image = forge("win11", "cli-names.raw", "--add", "session 21 name=3 mode=0x01800080",
                      "--add", 'session 22 name="=cmd|\'/c calc\'!A1 \\u001b[2J" mode=0x01800080')
        self.refused("sessions", image, "3", says=["fits more than one session", "[21] 3\n",
                                                   "[3] Eventlog-Security\n"])
        shown = "=cmd|'/c calc'!A1 \\x1b[2J"
        self.refused("sessions", image, "eventlog-securty", says=["[22] %s\n" % shown])
        table = list(csv.DictReader(io.StringIO(
            kda("sessions", image, "--grep", "CALC", "-f", "csv").stdout)))
        self.assertEqual([row["name"] for row in table], ["'" + shown])

    def test_names_of_what_may_be_missing(self):
        """Where memory is missing, a session that is not found is no mistake of who asks."""
        image = forge("win11", "cli-hole.raw", "--add", "hole what=session:3")
        unsure = ["may be in memory that is missing", " gaps ('kda map -v' lists them)"]
        self.refused("sessions", image, "Eventlog-Security", code=4,
                     says=["no session 'Eventlog-Security'", "  [3] ?\n"] + unsure)
        self.refused("providers", image, "none-of-them", code=4, says=["no provider"] + unsure)
        self.refused("sessions", image, "--silo", "0x1", code=4, says=["no silo '0x1'"] + unsure)
        self.assertEqual(len(self.rows("sessions", self.image, "Eventlog-Security")), 1)

    def test_consumers_and_providers_of_a_session(self):
        consumers = self.rows("consumers", self.image, "--session", "17")
        self.assertEqual({r["process"] for r in consumers}, {"edrsensor.exe", "MsSense.exe"})
        providers = self.rows("providers", self.image, "--session", "ExampleEdrSession")
        self.assertEqual(len(providers), 14)
        for row in providers:
            self.assertIn(17, [e["session_id"] for e in row["enables"] if e["enabled"]])

    def test_provider_by_name_or_guid(self):
        by_name = self.rows("providers", self.image, "microsoft-windows-threat-intelligence")
        guid = "{f4e1897c-bb5d-5668-f1d8-040f4d8dd344}"
        self.assertEqual([r["guid"] for r in by_name], [guid])
        for text in (guid, guid.strip("{}"), guid.upper()):
            self.assertEqual(self.rows("providers", self.image, text), by_name)
        self.assertIn("symbol", by_name[0]["found_by"])

    def test_default_list_of_providers_is_what_is_in_use(self):
        used = self.rows("providers", self.image)
        everything = self.rows("providers", self.image, "--all")
        self.assertLess(len(used), len(everything))
        self.assertIn("group", {row["type"] for row in everything})
        registry = [row for row in used if row.get("name") == "Microsoft-Windows-Kernel-Registry"][0]
        self.assertEqual([(e["session_id"], e["enabled"]) for e in registry["enables"]],
                         [(17, True), (15, False)])
        for row in used:
            self.assertTrue(row["registrations"] or any(e["enabled"] for e in row["enables"]) or
                            row["provider_enable"]["enabled"])

    def test_grep_and_limit(self):
        hits = self.rows("processes", self.image, "--grep", "SVCHOST")
        self.assertTrue(hits)
        self.assertTrue(all("svchost" in json.dumps(row).lower() for row in hits))
        self.assertEqual(len(self.rows("processes", self.image, "--limit", "3")), 3)
        result = kda("sessions", self.image, "--limit", "2", "-f", "csv")
        self.assertEqual(len(list(csv.reader(io.StringIO(result.stdout)))), 1 + 2)
        self.assertIn("%d more rows were kept back by --limit" % (
            len(self.rows("sessions", self.image)) - 2), result.stderr)

    def test_processes_of_a_silo(self):
        everybody = self.rows("processes", self.image)
        silos = {row["silo"] for row in everybody}
        self.assertEqual(len(silos), 2)
        for silo in silos:
            self.assertEqual(self.rows("processes", self.image, "--silo", silo),
                             [row for row in everybody if row["silo"] == silo])

    def test_csv_has_one_heading_and_equal_width(self):
        for command in ("sessions", "consumers", "providers", "processes"):
            result = kda(command, self.image, "-f", "csv", "-q")
            table = list(csv.reader(io.StringIO(result.stdout)))
            self.assertGreater(len(table), 1)
            self.assertEqual({len(line) for line in table}, {len(table[0])})
            self.assertEqual(len(set(table[0])), len(table[0]))

    def test_json_and_jsonl_agree(self):
        whole = json.loads(kda("map", self.image, "-f", "json", "-q").stdout)
        self.assertEqual(whole["rows"], self.rows("map", self.image))
        self.assertEqual(whole["gaps"], [])

    def test_names_from_the_image_cannot_steer_a_terminal(self):
        image = forge("hostile-strings", "cli-hostile-strings.raw")
        for command in ("map", "sessions", "processes", "consumers", "providers"):
            result = kda(command, image, "-q")
            self.assertIn(result.returncode, (0, 4))
            bad = [c for c in result.stdout if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]
            self.assertEqual(bad, [], command)
            for row in rows(kda(command, image, "-q", "-f", "jsonl")):
                self.assertIn("row", row)


class Tables(unittest.TestCase):
    """csv of several kinds of rows: a folder with a file for each."""

    def setUp(self):
        self.image = forge("audit", "cli-tables.raw", "--add", "hole what=session:9")
        self.folder = work("cli-tables")
        shutil.rmtree(self.folder, ignore_errors=True)

    def refused(self, *args):
        result = kda(*args)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def test_folder(self):
        lines = rows(kda("map", self.image, "-f", "jsonl"))
        for output_format, separator in (("csv", ","), ("tsv", "\t")):
            shutil.rmtree(self.folder, ignore_errors=True)
            result = kda("map", self.image, "-f", output_format, "-o", self.folder)
            self.assertEqual(result.returncode, 4, result.stderr)
            kinds = {row["row"] for row in lines}
            self.assertEqual(sorted(os.listdir(self.folder)),
                             sorted(kind + "." + output_format for kind in kinds))
            self.assertIn("gap", kinds)
            for kind in kinds:
                path = os.path.join(self.folder, kind + "." + output_format)
                with open(path, encoding="utf-8", newline="") as f:
                    table = list(csv.reader(f, delimiter=separator))
                self.assertEqual({len(line) for line in table}, {len(table[0])}, kind)
                wanted = [row for row in lines if row["row"] == kind]
                self.assertEqual(len(table) - 1, len(wanted), kind)
                for key in ("va", "guid", "what"):
                    if key in table[0] and kind != "gap":
                        at = table[0].index(key)
                        self.assertEqual([line[at] for line in table[1:]],
                                         [row.get(key, "") for row in wanted])

    def test_kinds_that_come_again_go_on(self):
        image = forge("buffers", "cli-tables-buffers.raw")
        trace = work("cli-tables.etl")
        self.assertIn(kda("buffers", image, "3", "--silo", "host", "-o", trace).returncode, (0, 4))
        self.assertEqual(kda("etl", "info", "-f", "csv", "-o", self.folder, trace, trace).returncode,
                         0)
        for name, count in (("trace.csv", 2), ("trace_session.csv", 2)):
            with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                self.assertEqual(sum(line.startswith("row,") for line in f), 1)
            with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                self.assertEqual(len(list(csv.DictReader(f))), count)

    def test_one_file_is_refused(self):
        other = forge("audit", "cli-tables-other.raw")
        target = work("cli-tables.csv")
        with open(target, "w") as f:
            f.write("mine")
        for args in (["map", self.image], ["audit", self.image], ["verify", target],
                     ["compare", self.image, other], ["etl", "info", target]):
            for more in ([], ["-o", "-"], ["-o", target]):
                self.assertIn("-o FOLDER", self.refused(*args, "-f", "csv", *more))
        with open(target) as f:
            self.assertEqual(f.read(), "mine")

    def test_commands_of_one_kind(self):
        result = kda("sessions", self.image, "-f", "csv", "-v")
        self.assertEqual(len({len(line) for line in csv.reader(io.StringIO(result.stdout))}), 1)
        self.assertIn("gap: session at 0x", result.stderr)
        kda("sessions", self.image, "-f", "csv", "-o", self.folder + "/")
        self.assertEqual(sorted(os.listdir(self.folder)), ["gap.csv", "session.csv"])
        with open(os.path.join(self.folder, "session.csv"), encoding="utf-8") as f:
            self.assertEqual(f.read(), result.stdout)

    def test_what_stays_and_what_is_not_written(self):
        kda("map", self.image, "-f", "csv", "-o", self.folder)
        result = kda("processes", self.image, "-f", "csv", "-o", self.folder)
        self.assertIn("keeps tables of an earlier run", result.stderr)
        self.assertIn("session", result.stderr)
        before = sorted(os.listdir(self.folder))
        os.rename(os.path.join(self.folder, "session.csv"), work("cli-session.csv"))
        os.symlink(self.image, os.path.join(self.folder, "session.csv"))
        with open(self.image, "rb") as f:
            image = f.read()
        result = kda("map", self.image, "-f", "csv", "-o", self.folder)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("is the image itself", result.stderr)
        with open(self.image, "rb") as f:
            self.assertEqual(f.read(), image)
        self.assertEqual(sorted(os.listdir(self.folder)), before)  # and no temporary file
        os.remove(os.path.join(self.folder, "session.csv"))
        os.mkdir(os.path.join(self.folder, "session.csv"))
        result = kda("map", self.image, "-f", "csv", "-o", self.folder)
        self.assertEqual(result.returncode, 6)
        self.assertIn("cannot write", result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


if __name__ == "__main__":
    unittest.main()
