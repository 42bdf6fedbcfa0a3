"""Real recordings, a storm and a script through the driver on the simulated kernel: every log
verifies, and what was fired is in the log with the recorded values."""
import collections
import glob
import json
import os
import shutil
import subprocess
import unittest
import zipfile

import common

SIM = os.path.join(common.BIN, "kda-sim")
RECORDINGS = ["auditpol_system_user_auditpolicy_modification",
              "cmd_wevtutil_modify_security_eventlog_path",
              "covenant_dcom_executeexcel4macro_allowed",
              "empire_dllinjection_LoadLibrary_CreateRemoteThread",
              "rdp_interactive_taskmanager_lsass_dump"]
EVERYTHING = ["--set", "RecordEverything=1", "--set", "DataBytes=32768"]
NULL_GUID = "{00000000-0000-0000-0000-000000000000}"
KNOWN_SIDS = {"nt authority\\system": "S-1-5-18", "nt authority\\local service": "S-1-5-19",
              "nt authority\\network service": "S-1-5-20"}


def sim(*args, timeout=600):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    for key in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        if key in os.environ:
            env[key] = os.environ[key]
    return subprocess.run([SIM] + list(args), env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout)


def fresh(name):
    folder = common.work(name)
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def log_files(folder):
    return sorted(glob.glob(os.path.join(folder, "log", "*.jsonl")))


def lines_of(folder):
    out = []
    for path in log_files(folder):
        with open(path, encoding="utf-8") as f:
            out += [json.loads(line) for line in f]
    return sorted(out, key=lambda line: line["id"])


def recorded(path):
    """Sysmon records of a recording, by host."""
    hosts = collections.defaultdict(list)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("__MACOSX/") or not name.endswith(".json"):
                continue
            with archive.open(name) as f:
                for text in f:
                    row = json.loads(text)
                    if row.get("SourceName") == "Microsoft-Windows-Sysmon":
                        hosts[row["Hostname"]].append(row)
    return hosts


# ---- what a record says, in the words of the schema ----

def nt_path(path):
    if len(path) > 2 and path[1:3] == ":\\":
        path = "\\Device\\HarddiskVolume3" + path[2:] if path[0] in "cC" else "\\??\\" + path
    return path.lower()


def nt_key(path):
    for shown, real in (("HKLM", "\\registry\\machine"), ("HKU", "\\registry\\user"),
                        ("HKCR", "\\registry\\machine\\software\\classes")):
        if path == shown or path.startswith(shown + "\\"):
            path = real + path[len(shown):]
    return one_set(path)


def one_set(path):
    """The current control set is a link: both names are the same key."""
    path = path.lower()
    current = "\\registry\\machine\\system\\currentcontrolset"
    if path == current or path.startswith(current + "\\"):
        path = path.replace("\\currentcontrolset", "\\controlset001", 1)
    return path


def known(value):
    return value not in (None, "", "-", "<unknown process>", NULL_GUID)


def data_of(details):
    number = details[7:-1].replace("-0x", "") if details[:7] in ("DWORD (", "QWORD (") else None
    if number is not None:
        value = int(number, 16)
        return ("REG_" + details[:5], value if value < 2 ** 53 else hex(value))
    if details == "Binary Data":
        return ("REG_BINARY", "")
    return ("REG_SZ", "" if details == "(Empty)" else details)


def kind_of(row):
    event = row["EventID"]
    if event == 12:
        return {"CreateKey": "registry.key_create", "DeleteKey": "registry.key_delete",
                "DeleteValue": "registry.value_delete"}.get(row.get("EventType"))
    if event == 3:
        return "network.connect" if row["Initiated"] == "true" else "network.accept"
    return {1: "process.create", 5: "process.exit", 6: "image.load", 7: "image.load",
            8: "thread.create", 13: "registry.value_set", 14: "registry.key_rename"}.get(event)


def ends(a, b):
    return tuple(sorted([a, b]))


class Host:
    """The records of one host: who is who, and which fields the recording has."""

    def __init__(self, rows):
        self.pids = {}
        self.images = {}
        for row in rows:
            for guid, pid, image in (("ProcessGuid", "ProcessId", "Image"),
                                     ("SourceProcessGuid", "SourceProcessId", "SourceImage"),
                                     ("TargetProcessGuid", "TargetProcessId", "TargetImage"),
                                     ("ParentProcessGuid", "ParentProcessId", "ParentImage")):
                if row["EventID"] not in (1, 3, 5, 7, 8, 12, 13, 14) or not known(row.get(guid)):
                    continue
                if known(row.get(pid)):
                    self.pids[row[guid]] = int(row[pid])
                if known(row.get(image)):
                    self.images.setdefault(row[guid], nt_path(row[image]))
        self.recorded_pids = set(self.pids.values()) | {
            int(row["ParentProcessId"]) for row in rows if known(row.get("ParentProcessId"))}

    def pid(self, pid):
        """A pid of the log as far as the recording could know it."""
        return pid if pid in self.recorded_pids else None

    def actor(self, row, guid="ProcessGuid"):
        return (self.pids.get(row.get(guid)), self.images.get(row.get(guid)))

    def expected(self, row):
        """Key that the log's line must have too; None for what cannot be fired."""
        kind = kind_of(row)
        if kind is None or not known(row.get("ProcessGuid", row.get("SourceProcessGuid"))):
            return None
        event = row["EventID"]
        actor = self.actor(row, "SourceProcessGuid" if event == 8 else "ProcessGuid")
        if event == 1:
            parent = row.get("ParentProcessId")
            # An application container runs at low integrity.
            integrity = row["IntegrityLevel"].lower().replace("appcontainer", "low")
            rest = (row["CommandLine"], int(parent) if known(parent) else None,
                    int(row["TerminalSessionId"]), integrity)
        elif event == 3:
            rest = (row["Protocol"], 6 if row["SourceIsIpv6"] == "true" else 4,
                    ends((address(row["SourceIp"]), int(row["SourcePort"])),
                         (address(row["DestinationIp"]), int(row["DestinationPort"]))))
        elif event == 5:
            rest = ()
        elif event in (6, 7):
            rest = (nt_path(row["ImageLoaded"]),)
        elif event == 8:
            rest = (self.pids.get(row["TargetProcessGuid"]), int(row["NewThreadId"]), int(row["StartAddress"], 16))
        elif kind == "registry.value_set":
            rest = (nt_key(row["TargetObject"]), data_of(row["Details"]))
        else:
            rest = (nt_key(row["TargetObject"]),)
        return (kind,) + actor + rest

    def seen(self, line):
        """The same key from a line of the log."""
        kind = line["kind"]
        if kind.startswith("sensor."):
            return None
        # No image file stands behind the System process; Sysmon prints its name.
        image = line["image"].lower() if "image" in line else "system"
        actor = (self.pid(line["pid"]), image)
        if kind == "process.create":
            rest = (line.get("command_line"), self.pid(line["parent_pid"]), line["session"],
                    line["integrity"])
        elif kind in ("network.connect", "network.accept"):
            rest = (line["transport"], line["ip_version"],
                    ends((address(line["local_ip"]), line["local_port"]),
                         (address(line["remote_ip"]), line["remote_port"])))
        elif kind == "process.exit":
            rest = ()
        elif kind == "image.load":
            rest = (line["module"].lower(),)
        elif kind == "thread.create":
            rest = (self.pid(line["target_pid"]), line["new_tid"],
                    int(line.get("start_address", "0"), 16))
        elif kind == "registry.value_set":
            rest = (joined(line), (line["value_type"], line.get("data")))
        elif kind == "registry.value_delete":
            rest = (joined(line),)
        elif kind.startswith("registry."):
            rest = (one_set(line["key"]),)
        else:
            return None
        return (kind,) + actor + rest


def address(text):
    import ipaddress
    return str(ipaddress.ip_address(text.split("%")[0]))


def joined(line):
    return one_set(line["key"] + "\\" + (line["value"] or "(Default)"))


class Replayed(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(SIM):
            self.skipTest("needs kda-sim")

    def verify(self, folder):
        files = log_files(folder)
        self.assertTrue(files, "no log in %s" % folder)
        result = common.kda("verify", "-v", *reversed(files))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def replay(self, name, folder, *more):
        path = common.need_data("activity/%s.zip" % name)
        result = sim("replay", path, "-o", folder, *more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return path, result.stdout

    def hosts(self, folder):
        return sorted(os.path.join(folder, host) for host in os.listdir(folder))


class TestReplay(Replayed):
    def test_everything_is_there(self):
        """At full speed with four threads every fired record is in the log, value for value."""
        for name in RECORDINGS:
            with self.subTest(recording=name):
                folder = fresh("replay-" + name)
                path, told = self.replay(name, folder, "--threads", "4", *EVERYTHING,
                                         "--set", "RingShardBytes=16777216")
                rows_by_host = recorded(path)
                total = 0
                for host_folder in self.hosts(folder):
                    self.verify(host_folder)
                    rows = rows_by_host[os.path.basename(host_folder)]
                    total += self.compare(Host(rows), rows, lines_of(host_folder))
                self.assertIn("fired %d," % total, told)

    def compare(self, host, rows, lines):
        wanted = collections.defaultdict(list)
        for row in rows:
            key = host.expected(row)
            if key is not None:
                wanted[key].append(row["UtcTime"].replace(" ", "T"))
        found = collections.defaultdict(list)
        for line in lines:
            key = host.seen(line)
            if key is not None:
                found[key].append(line["time"][:23])  # to the millisecond
        exact = moved = 0
        for key, times in wanted.items():
            self.assertGreaterEqual(len(found.get(key, ())), len(times), "not in the log: %r" % (
                key,))
            same = sum((collections.Counter(times) & collections.Counter(found[key])).values())
            exact += same
            moved += len(times) - same
        # What was not recorded does not appear; processes and threads that the recording lacks do.
        for key in found:
            if key[0].split(".")[0] not in ("process", "thread"):
                self.assertEqual(len(found[key]), len(wanted.get(key, ())),
                                 "invented: %r" % (key,))
        # Times that a kernel could not have shown are moved: few, apart from network events that
        # one machine dated by another clock.
        flows = sum(1 for row in rows if row["EventID"] == 3)
        self.assertLessEqual(moved, flows + (exact + moved) // 25 + 5)
        self.users(host, rows, lines)
        self.order(lines)
        return exact + moved

    def users(self, host, rows, lines):
        """One SID for each user, the well-known ones where there are some."""
        sids = collections.defaultdict(set)
        by_command = collections.defaultdict(set)
        for line in lines:
            if line["kind"] == "process.create":
                by_command[line.get("command_line")].add(line.get("user_sid"))
        for row in rows:
            if row["EventID"] == 1 and known(row.get("User")):
                sids[row["User"].lower()] |= by_command[row["CommandLine"]]
        for user, have in sids.items():
            if user in KNOWN_SIDS:
                self.assertIn(KNOWN_SIDS[user], have)
            self.assertNotIn(None, have)

    def order(self, lines):
        """process.create, or process.existing, precedes everything of that process."""
        self.assertEqual(lines[0]["kind"], "sensor.start")
        self.assertEqual(lines[-1]["kind"], "sensor.stop")
        self.assertEqual(sum(lines[-1]["written"].values()), lines[-1]["id"] + 1)
        alive, last = set(), ""
        for line in lines:
            self.assertGreaterEqual(line["time"], last)
            last = line["time"]
            if line["kind"].startswith("sensor."):
                continue
            who = (line["pid"], line.get("process_key"))
            if line["kind"] in ("process.create", "process.existing"):
                self.assertNotIn(who, alive)
                alive.add(who)
            elif line["pid"] not in (0, 4):
                self.assertIn(who, alive, "before its process: %r" % line)
            if line["kind"] == "process.exit":
                alive.discard(who)

    def test_default_settings_verify(self):
        """With rules, rates and the default ring: the account holds, whatever was taken."""
        for name in RECORDINGS:
            with self.subTest(recording=name):
                folder = fresh("default-" + name)
                self.replay(name, folder, "--threads", "4")
                for host in self.hosts(folder):
                    self.verify(host)

    def test_recorded_speed_loses_nothing(self):
        """Much faster than recorded, with the default ring, nothing is lost."""
        for name in RECORDINGS:
            with self.subTest(recording=name):
                folder = fresh("recorded-" + name)
                self.replay(name, folder, "--threads", "4", "--speed", "100", *EVERYTHING)
                for host in self.hosts(folder):
                    self.verify(host)
                    lines = lines_of(host)
                    self.assertEqual(sum(lines[-1].get("lost", {}).values()), 0)
                    self.assertEqual([l for l in lines if l["kind"] == "sensor.loss"], [])

    def test_one_host(self):
        folder = fresh("one-host")
        _, told = self.replay(RECORDINGS[4], folder, "--host", "WORKSTATION6.theshire.local")
        self.assertEqual(os.listdir(folder), ["WORKSTATION6.theshire.local"])
        self.assertIn("other host", told)

    def test_small_files(self):
        """A log in many files verifies as a whole, and a missing file is found."""
        folder = fresh("rotated")
        self.replay(RECORDINGS[1], folder, *EVERYTHING, "--set", "FileMegabytes=1",
                    "--set", "FileCount=1000")
        host = self.hosts(folder)[0]
        self.verify(host)
        files = log_files(host)
        self.assertGreater(len(files), 3)
        result = common.kda("verify", *(files[:1] + files[2:]))
        self.assertEqual(result.returncode, 1)
        self.assertIn("is a file of the log missing?", result.stdout)
        self.assertEqual(common.kda("verify", *files[:-1]).returncode, 4)
        self.assertEqual(common.kda("verify", *files[1:]).returncode, 4)

    def test_damage_is_found(self):
        """A log with one line less, or with the end gone, is not called complete."""
        folder = fresh("damaged")
        self.replay(RECORDINGS[4], folder, *EVERYTHING)
        files = log_files(self.hosts(folder)[0])
        with open(files[0], encoding="utf-8") as f:
            lines = f.readlines()
        path = common.work("damaged.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(lines[:7] + lines[8:])
        result = common.kda("verify", "-f", "jsonl", path)
        self.assertEqual(result.returncode, 1)
        checks = [row["check"] for row in common.rows(result, "finding")]
        self.assertEqual(checks[0], "id")
        self.assertEqual(set(checks[1:]), {"account"})
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(lines[:9] + [lines[9][:-10]])
        result = common.kda("verify", "-f", "jsonl", path)
        self.assertEqual(result.returncode, 4)
        self.assertEqual(common.rows(result, "log")[0]["ending"], "cut_off")
        self.assertEqual(common.rows(result, "log")[0]["last_id"], 8)
        shown = common.kda("log", "show", "-f", "jsonl", path)
        self.assertEqual(shown.returncode, 4)
        self.assertEqual(shown.stdout, "".join(lines[:9]))


GUID = "{11112222-%04x-5f63-0000-000000000000}"


def row(event, pid, guid=None, host="HOST", **fields):
    """A Sysmon record as a recording has it."""
    made = {"SourceName": "Microsoft-Windows-Sysmon", "EventID": event, "Hostname": host,
            "UtcTime": "2020-09-17 21:45:41.433", "ProcessId": pid}
    if guid is not None:
        made["ProcessGuid"] = GUID % guid
    made.update(fields)
    return made


def value_row(pid, value="b", **fields):
    return row(13, pid, TargetObject="HKLM\\SOFTWARE\\a\\" + value, Details="text", **fields)


def thread_row(tid, **fields):
    made = row(8, 0, SourceProcessId=500, SourceProcessGuid=GUID % 1, TargetProcessId=504,
               TargetProcessGuid=GUID % 2, NewThreadId=tid, StartAddress="0x1000")
    made.update(fields)
    return made


class TestHostileRecordings(Replayed):
    """A recording is input from somewhere: no record may end the program, be fired with other
    values than it has, or take the others with it."""

    def fire(self, rows, name="hostile", code=0, more=()):
        path = common.work(name + ".json")
        with open(path, "wb") as f:
            for text in rows:
                text = text if isinstance(text, bytes) else json.dumps(text).encode()
                f.write(text + b"\n")
        folder = fresh(name)
        result = sim("replay", path, "-o", folder, *more)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        hosts = self.hosts(folder) if os.path.isdir(folder) else []
        for host in hosts:
            self.verify(host)
        return hosts, result.stdout

    def values(self, host):
        return [(line["pid"], line["value"]) for line in lines_of(host)
                if line["kind"] == "registry.value_set"]

    def test_contradictions_are_skipped(self):
        """A guid with another pid, pids that differ in their lowest bits, a system that ends."""
        hosts, told = self.fire([
            value_row(700, "one", guid=3), value_row(704, "two", guid=3), value_row(5, "three"),
            value_row(6, "four"), row(5, 4, guid=9, Image="System"), thread_row(8)])
        self.assertIn("read 6, fired 2, skipped 4: contradicts other records 4", told)
        self.assertEqual(sorted(self.values(hosts[0])), [(5, "three"), (700, "one")])

    def test_large_pids(self):
        hosts, _ = self.fire([value_row(0xfffffff8, "one"), value_row(0x1000000, "two"),
                              value_row(0xfffffff8, "three"), value_row("0x10", "four"),
                              value_row("010", "five")])
        self.assertEqual(sorted(self.values(hosts[0])), [
            (10, "five"), (16, "four"), (0x1000000, "two"), (0xfffffff8, "one"),
            (0xfffffff8, "three")])

    def test_thread_ids_come_back(self):
        """Ends of threads are not recorded; ids may lie where the replay has its own."""
        tids = [9000, 0x100000, 9000, 0x100004, 0x100000, 0x7ffffffc]
        hosts, _ = self.fire([thread_row(tid) for tid in tids])
        seen = [line["new_tid"] for line in lines_of(hosts[0])
                if line["kind"] == "thread.create" and line["remote"]]
        self.assertEqual(seen, tids)

    def test_host_names(self):
        """Names become folders of their own inside the output, whatever they are."""
        names = ["..", "../../out", "a/b", "a_b", "A_B", "\u009b31m", "\x1b[31m", "x" * 240]
        hosts, told = self.fire([value_row(600, host=name) for name in names] +
                                [value_row(600, host="x" * 241)])
        self.assertIn("read 9, fired 8, skipped 1: field missing or malformed 1", told)
        self.assertEqual(len(hosts), 8)
        self.assertNotIn("\x1b", told)
        # The driver keeps what can be the name of a computer.
        self.assertEqual({lines_of(host)[0].get("host") for host in hosts},
                         set(names[:-1]) | {None})

    def test_many_hosts(self):
        rows = [value_row(0xfffff8, host="h%d" % n) for n in range(1030)]
        path = common.work("many.json")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)
        result = sim("replay", path, "-o", fresh("many"), "--host", "none")
        self.assertEqual(result.returncode, 3)
        result = sim("replay", path, "-o", fresh("many"), "--threads", "1")
        self.assertIn("read 1030, fired 1024, skipped 6: beyond a limit 6", result.stdout)

    def test_texts(self):
        """A NUL ends no text early, a byte order mark hides no record, years have four digits."""
        hosts, told = self.fire([
            b"\xef\xbb\xbf" + json.dumps(value_row(600, "marked")).encode(),
            value_row(600, "a\0b"), dict(value_row(600), Details="x\0y"),
            dict(value_row(600), UtcTime="9999-12-31 23:59:59.999"),
            json.dumps(value_row(600)).encode().replace(b'"text"', b'"\\ud800"'),
            dict(value_row(600, "long"), Details="\U0001f642" * 40000)])
        self.assertIn("fired 2, skipped 4: not JSON 1, field missing or malformed 3", told)
        self.assertEqual(sorted(v for _, v in self.values(hosts[0])), ["long", "marked"])

    def test_no_recordings(self):
        for data in (b"[" * 200000, b"\0" * 100000, b"{}", b"null", b"PK\x03\x04" + b"\xff" * 60,
                     b"\x1f\x8b\x08\x00" + b"\0" * 20):
            self.fire([data], code=3)
        self.assertEqual(sim("replay", common.WORK, "-o", fresh("none")).returncode, 3)

    def test_output(self):
        """Success means that there is a log of this run."""
        rows = [value_row(600)]
        folder = self.fire(rows, "again")[0][0]
        path = common.work("again.json")
        before = log_files(folder)
        result = sim("replay", path, "-o", os.path.dirname(folder))
        self.assertEqual(result.returncode, 6)
        self.assertIn("there is a log", result.stderr)
        self.assertEqual(log_files(folder), before)
        result = sim("replay", path, "-o", fresh("refused"), "--set",
                     "LogDirectory=\\??\\C:\\x\\..\\..\\y")
        self.assertEqual(result.returncode, 6)
        self.assertIn("not whole", result.stderr)
        for output in ("", path, common.WORK + "/x" * 600):
            self.assertIn(sim("replay", path, "-o", output).returncode, (2, 6))
        self.assertEqual(sim("storm", "-o", fresh("storm-no"), "--events", "1" * 24).returncode, 2)


class TestStorm(Replayed):
    def test_losses_are_counted(self):
        """A registry storm into a small ring: losses, all of them counted, no process among them."""
        folder = fresh("storm")
        result = sim("storm", "-o", folder, "--events", "200000", "--threads", "4", "--set",
                     "RecordEverything=1", "--set", "RingShards=1", "--set",
                     "RingShardBytes=65536")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.verify(folder)
        stop = lines_of(folder)[-1]
        self.assertEqual(stop["offered"]["registry.value_set"], 200000)
        self.assertGreater(stop["lost"]["registry.value_set"], 0)
        for kind in ("process.create", "process.exit"):
            self.assertEqual(stop["offered"][kind], 200)
            self.assertEqual(stop["lost"].get(kind, 0), 0)


class TestScript(Replayed):
    def test_demo(self):
        folder = fresh("script")
        script = os.path.join(common.ROOT, "tests/sim/scripts/demo.txt")
        result = sim("script", script, "-o", folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.verify(folder)
        lines = lines_of(folder)
        of = lambda kind: [line for line in lines if line["kind"] == kind]
        made = of("process.create")[0]
        self.assertTrue(made["image"].endswith("\\" + "x" * 260 + "\\обновление.exe"))
        self.assertTrue(made["command_line"].endswith("--режим тихий 🙂"))
        values = {line["value"]: line for line in of("registry.value_set")}
        self.assertEqual(values["Text"]["data"], 'line one, tab\tand "quotes"')
        self.assertEqual(values["Path"]["value_type"], "REG_EXPAND_SZ")
        self.assertEqual(values["List"]["data"], ["eins", "zwei", "drei vier"])
        self.assertEqual(values["Number"]["data"], 4294967295)
        self.assertEqual(values["Big"]["data"], "0xffffffffffffffff")
        self.assertEqual(values["Binary"]["data"], "00ff10203a7f80")
        self.assertEqual(values[""]["data"], "default")
        self.assertIn("n" * 300, values)
        self.assertIn("\ufffd", values)
        self.assertNotIn("status", values["Denied"])
        self.assertEqual(of("registry.key_rename")[0]["new_name"], "Einstellungen")
        self.assertEqual([line["kernel"] for line in of("image.load")], [False, False, True])
        self.assertEqual([line["transport"] for line in of("network.connect")],
                         ["tcp", "udp", "sctp"])
        self.assertEqual(of("network.connect")[1]["ip_version"], 6)
        self.assertEqual(of("network.accept")[0]["direction"], "inbound")
        self.assertEqual(of("network.listen")[0]["local_port"], 8443)
        self.assertTrue(any(line["remote"] for line in of("thread.create")))
        self.assertEqual(of("process.exit")[-1]["exit_code"], 3221225477)

    def test_mistakes_are_told(self):
        path = common.work("wrong.txt")
        for text, want in (("fly\n", "unknown action"), ("as 77\n", "no such process"),
                           ("create-key HKXX\\a\n", "a key begins with"),
                           ("set-value HKLM\\a b REG_BINARY 123\n", "hex digits"),
                           ("start\nstop\nstop\n", "nothing comes after"),
                           ("exit 4\n", "does not end"), ("wait 18446744073709551615\n", "too large"),
                           ("process 4294967296\n", "too large"),
                           ("process 1000 image={a*32768}\n", "longer than the kernel"),
                           ("create-key HKLM\\{a*32760}\n", "longer than the kernel"),
                           ("wait 1\0\n", "NUL")):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            result = sim("script", path, "-o", fresh("wrong"))
            self.assertEqual(result.returncode, 3, text)
            self.assertIn(want, result.stderr)
        self.assertEqual(sim("script", common.WORK, "-o", fresh("wrong")).returncode, 3)

    def test_longest_names(self):
        """What a UNICODE_STRING can hold is recorded whole."""
        path = common.work("longest.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write("process 1000 image={i*32767} command={c*32767}\nas 1000\n"
                    "create-key \\REGISTRY\\{k*32757}\nset-value HKLM\\a {v*32767} REG_SZ {d*10}\n")
        folder = fresh("longest")
        self.assertEqual(sim("script", path, "-o", folder).returncode, 0)
        self.verify(folder)
        made = {line["kind"]: line for line in lines_of(folder)}
        self.assertEqual(made["process.create"]["image"], "i" * 32767)
        self.assertEqual(made["process.create"]["command_line"], "c" * 32767)
        self.assertEqual(made["registry.value_set"]["value"], "v" * 32767)
        self.assertTrue(all("truncated" not in line for line in made.values()))


class TestLogCommands(Replayed):
    def test_filters(self):
        folder = fresh("filters")
        self.replay(RECORDINGS[3], folder, *EVERYTHING, "--host", "WORKSTATION5.mordor.local")
        files = log_files(self.hosts(folder)[0])
        lines = lines_of(self.hosts(folder)[0])
        show = lambda *args: common.rows(common.kda("log", "show", "-f", "jsonl", *args, *files))
        self.assertEqual(show(), lines)
        self.assertEqual(show("--kind", "network"),
                         [l for l in lines if l["kind"].startswith("network.")])
        remote = [l for l in lines if l.get("remote")]
        self.assertEqual([l["new_tid"] for l in remote], [5220])
        self.assertEqual(show("--kind", "thread.create", "--image", "powershell.exe", "--pid",
                              "6536"), remote)
        middle = lines[len(lines) // 2]["time"]
        self.assertEqual(show("--since", middle) + [], [l for l in lines if l["time"] >= middle])
        self.assertEqual(show("--until", middle), [l for l in lines if l["time"] < middle])
        counts = common.rows(common.kda("log", "stats", "-f", "jsonl", *files), "count")
        self.assertEqual({r["name"]: r["lines"] for r in counts if r["by"] == "kind"},
                         dict(collections.Counter(l["kind"] for l in lines)))
        text = common.kda("log", "show", *files)
        self.assertEqual(len(text.stdout.splitlines()), len(lines) + 1)
        table = common.kda("log", "show", "-f", "csv", *files)
        self.assertEqual(len(table.stdout.splitlines()), len(lines) + 1)

    def test_follow(self):
        """A log is shown as it grows, half lines only when they are whole, and ends with the stop."""
        line = lambda number, kind: json.dumps(
            {"v": 1, "id": number, "time": "2026-11-29T21:04:05.1234567Z", "kind": kind,
             "source": "driver", "pid": 4}) + "\n"
        path = common.work("follow.jsonl")
        with open(path, "w", encoding="utf-8") as log:
            log.write(line(0, "sensor.start"))
            log.flush()
            shown = subprocess.Popen([common.KDA, "log", "show", "--follow", "-f", "jsonl", path],
                                     stdout=subprocess.PIPE, text=True)
            try:
                self.assertEqual(shown.stdout.readline(), line(0, "sensor.start"))
                half = line(1, "process.create")
                log.write(half[:40])
                log.flush()
                log.write(half[40:] + line(2, "image.load"))
                log.flush()
                self.assertEqual(shown.stdout.readline(), half)
                self.assertEqual(shown.stdout.readline(), line(2, "image.load"))
                log.write(line(3, "sensor.stop"))
                log.flush()
                self.assertEqual(shown.stdout.read(), line(3, "sensor.stop"))
                self.assertEqual(shown.wait(timeout=60), 0)
            finally:
                shown.kill()
                shown.wait()
                shown.stdout.close()

    def follow(self, steps, path, code, says=""):
        """Starts to follow `path`; each step makes changes and says what is shown then."""
        shown = subprocess.Popen([common.KDA, "log", "show", "--follow", "-f", "jsonl", path],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            for change, lines in steps:
                change()
                for line in lines:
                    self.assertEqual(shown.stdout.readline(), line)
            self.assertEqual(shown.stdout.read(), "")
            self.assertEqual(shown.wait(timeout=60), code)
            self.assertIn(says, shown.stderr.read())
        finally:
            shown.kill()
            shown.wait()
            shown.stdout.close()
            shown.stderr.close()

    def test_follow_into_further_files(self):
        """The next file of the log is followed, one of another log is not; a file that was gone
        before it was seen is told."""
        line = lambda number, kind, log="a": json.dumps(
            {"v": 1, "id": number, "time": "2026-11-29T21:04:05.1234567Z", "kind": kind,
             "source": "driver", "log": "{%s}" % log}) + "\n"
        folder = fresh("follow")
        os.makedirs(folder)
        name = lambda number: os.path.join(folder, "kdamonitor-1-%06d.jsonl" % number)

        def write(number, *lines):
            with open(name(number), "a", encoding="utf-8") as f:
                f.write("".join(lines))

        first, load = line(0, "sensor.start"), [line(n, "image.load") for n in range(4)]
        write(1, first)

        def rotate():
            write(1, load[1])
            write(2, line(2, "sensor.file"), load[3])
            os.remove(name(1))

        def leave_some_out():
            write(3, line(0, "sensor.start", "b"))
            os.remove(name(3))
            write(12, line(9, "sensor.file"), line(10, "sensor.stop"))

        self.follow([(lambda: None, [first]), (rotate, [load[1], line(2, "sensor.file"), load[3]]),
                     (leave_some_out, [line(9, "sensor.file"), line(10, "sensor.stop")])],
                    name(1), 4, "5 lines are missing: a file was removed before")

    def test_follow_all_files(self):
        """Only the first file is named; all others of the log are found."""
        folder = fresh("follow-all")
        self.replay(RECORDINGS[1], folder, *EVERYTHING, "--set", "FileMegabytes=1",
                    "--set", "FileCount=1000")
        files = log_files(self.hosts(folder)[0])
        self.assertGreater(len(files), 3)
        result = common.kda("log", "show", "--follow", "-f", "jsonl", files[0])
        self.assertEqual(result.returncode, 0, result.stderr)
        whole = ""
        for path in files:
            with open(path, encoding="utf-8") as f:
                whole += f.read()
        self.assertEqual(result.stdout, whole)

    def test_wrong_options(self):
        path = common.work("options.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.write("{}\n")
        for args in (["log", "sow", path], ["log", "show", "--kind", "nothing", path],
                     ["log", "show", "--since", "noon", path], ["log", "show", "--pid", "x", path],
                     ["log", "stats", "--follow", path], ["verify", "--kind", "x", path]):
            self.assertEqual(common.kda(*args).returncode, 2, args)
        self.assertEqual(common.kda("verify", common.KDA).returncode, 3)
        self.assertEqual(common.kda("verify", path + ".none").returncode, 3)


if __name__ == "__main__":
    unittest.main()
