"""kda events over real traces (../shared/data/etl), and over files that are damaged or made here."""
import csv
import glob
import io
import json
import os
import re
import unittest

import common

MANIFEST = """<?xml version="1.0" encoding="UTF-8"?>
<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events">
 <instrumentation><events>
  <provider name="Test-Provider" guid="{9e5f9046-43c6-4f62-ba13-7b19896253ff}" symbol="T">
   <events>
    <event value="2" version="1" task="Stopped" template="Stop"/>
    <event value="5" version="0" symbol="Where" template="Machine"/>
   </events>
   <templates>
    <template tid="Stop">
     <data name="ProcessId" inType="win:UInt32"/>
     <data name="When" inType="win:UInt64" outType="win:HexInt64"/>
    </template>
    <template tid="Machine">
     <data name="Host" inType="win:UnicodeString"/>
     <data name="System" inType="win:UnicodeString"/>
     <data name="Known" inType="win:UInt32" map="YesNo"/>
    </template>
   </templates>
   <maps><valueMap name="YesNo"><map value="1" message="$(string.Yes)"/></valueMap></maps>
  </provider>
 </events></instrumentation>
 <localization><resources culture="en-US"><stringTable>
  <string id="Yes" value="yes"/></stringTable></resources></localization>
</instrumentationManifest>
"""


def events(test, path, *args, code=0):
    result = common.kda("events", "-f", "jsonl", path, *args)
    test.assertEqual(result.returncode, code, result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines()]


class RealTraces(unittest.TestCase):
    def test_as_many_events_as_records(self):
        """Every record is one event, whatever is known of it; no event lacks both fields and why."""
        expected = {}
        with open(common.need_data("etl/expected-counts.tsv"), encoding="utf-8") as f:
            for line in f:
                parts = line.rstrip("\n").split("\t")
                if len(parts) > 2 and parts[2] == "TOTAL":
                    expected[parts[0]] = int(parts[1])
        self.assertEqual(len(expected), 22)
        for name, count in sorted(expected.items()):
            result = common.kda("events", "-q", "-f", "jsonl", common.need_data("etl/" + name))
            self.assertIn(result.returncode, (0, 4), name)
            rows = [json.loads(line) for line in result.stdout.splitlines()]
            self.assertEqual(sum(row["kind"] != "sensor.loss" for row in rows), count, name)
            times = [row["time"] for row in rows if row["kind"] != "sensor.loss"]
            self.assertEqual(times, sorted(times), name)
            self.assertEqual([row["id"] for row in rows], list(range(len(rows))), name)
            for row in rows:
                if row["kind"] == "etw.event":
                    self.assertTrue("fields" in row or ("why" in row and "payload" in row), row)

    def test_packet_monitor_describes_itself(self):
        rows = events(self, common.need_data("etl/microsoft_demikernel__PktMon.etl"))
        own = [r for r in rows if r.get("provider_name") == "Microsoft-Windows-PktMon"]
        self.assertEqual(len(own), 114 + 111 + 50 + 44 + 44 + 18 + 5 + 5 + 5 + 3 + 3 + 1)
        self.assertEqual([r for r in own if "why" in r or not r.get("fields")], [])
        packet = next(r for r in own if r["event_id"] == 160)["fields"]
        self.assertEqual(packet["DirTag"], "Rx")
        self.assertEqual(packet["PacketType"], "Ethernet")
        self.assertEqual(len(packet["Payload"]), 2 * packet["LoggedPayloadSize"])
        component = next(r for r in own if r["event_id"] == 20 and r["fields"]["Id"] == 42)
        self.assertEqual(component["fields"]["Name"], "http.sys")

    def test_merged_trace_describes_itself(self):
        """TRACE_EVENT_INFO blocks and manifests of EventSources, both inside the file."""
        rows = events(self, common.need_data("etl/microsoft_perfview__net.4.5.2.x86.etl"))
        described = [r for r in rows if r["kind"] == "etw.event" and "event_id" in r]
        self.assertEqual(len({r["provider"] for r in described}), 10)
        left = {(r["provider_name"], r["event_id"]) for r in described if "why" in r}
        # Two are longer than their descriptions say; the third has none.
        self.assertEqual(left, {("Microsoft-Windows-DotNETRuntime", 82), ("PerfView", 13),
                                ("Microsoft-Windows-DotNETRuntimePrivate", 4)})
        perfview = [r for r in described if r.get("event_name") == "SessionParameters"]
        self.assertEqual(perfview[0]["fields"]["sessionName"], "NT Kernel Logger")
        self.assertEqual(perfview[0]["fields"]["bufferSizeMB"], 256)
        address = [r["fields"]["Address"] for r in described
                   if r["provider_name"] == "Microsoft-Windows-DNS-Client"]
        self.assertIn({"ip": "10.50.10.50", "port": 0}, address)

    def test_tracelogging_decodes(self):
        """Structures, arrays of structures, out types: nothing with metadata is left as hex."""
        for name in ("microsoft_ebpf-for-windows__ebpforwindows.etl",
                     "microsoft_perfview__SelfDescribingSingleEvent.etl",
                     "microsoft_perfview__primitive-types.etl",
                     "airbus-cert_etl-parser__AMSITrace.etl"):
            path = common.need_data("etl/" + name)
            result = common.kda("events", "-q", "-f", "jsonl", path)
            rows = [json.loads(line) for line in result.stdout.splitlines()]
            own = [r for r in rows if r["kind"] == "etw.event" and r.get("channel") == 11]
            self.assertTrue(own, name)
            self.assertEqual([r for r in own if "why" in r], [], name)
        rows = events(self, common.need_data("etl/microsoft_perfview__SelfDescribingSingleEvent.etl"))
        event = next(r for r in rows if r.get("event_name") == "TestEvent")
        self.assertEqual(event["fields"], {"a": {"b": "Hello", "c": "World!"}})

    def test_hand_made_traces(self):
        """Payloads of the other pointer size, and SIDs behind a null TOKEN_USER."""
        user = "S-1-5-21-753675414-103939432-3550797041-1000"
        seen = 0
        for path in sorted(glob.glob(os.path.join(common.DATA, "etl/google_sawbuck__process*"))):
            rows = events(self, path)
            create = [r for r in rows if r["kind"] == "process.create"]
            self.assertEqual([(r["pid"], r["parent_pid"], r["image"], r["user_sid"]) for r in create],
                             [(1776, 988, "notepad.exe", user)], path)
            exited = [r for r in rows if r["kind"] == "process.exit"]
            self.assertEqual([(r["pid"], r["exit_code"]) for r in exited], [(1776, 0)])
            if "_v1" not in path:
                self.assertEqual(create[0]["command_line"],
                                 '"C:\\Windows\\system32\\notepad.exe" ')
            seen += 1
        for path in sorted(glob.glob(os.path.join(common.DATA, "etl/google_sawbuck__image*"))):
            rows = events(self, path)
            program = "C:\\code\\sawbuck\\src\\sawbuck\\Debug\\test_program.exe"
            for kind in ("image.load", "image.unload"):
                self.assertEqual([(r["module"], r["size"], r["base"]) for r in rows
                                  if r["kind"] == kind], [(program, 1695744, "0x1160000")], path)
            listed = [r for r in rows if r.get("event_name") == "Image/DCStart"]
            self.assertEqual(len(listed), 24, path)
            self.assertEqual([r for r in listed if r["fields"]["FileName"][1:3] != ":\\"], [], path)
            seen += 1
        if seen == 0:
            self.skipTest("needs ../shared/data/etl")
        self.assertEqual(seen, 11)


class Command(unittest.TestCase):
    def setUp(self):
        self.path = common.need_data("etl/microsoft_perfview__net.4.5.2.x86.etl")

    def test_filters(self):
        rows = events(self, self.path, "--kind", "process")
        self.assertEqual({r["kind"] for r in rows},
                         {"process.create", "process.exit", "process.existing"})
        rows = events(self, self.path, "--pid", "3644", "--kind", "process,image.load")
        self.assertTrue(rows)
        for row in rows:
            self.assertIn(3644, [row.get(k) for k in ("pid", "target_pid", "parent_pid",
                                                      "creator_pid")])
        by_name = events(self, self.path, "--provider", "microsoft-windows-dns-client")
        by_guid = events(self, self.path, "--provider", "{1c95126e-7eea-49a9-a3fe-a378b03ddb4d}")
        self.assertEqual(len(by_name), 4)
        self.assertEqual(by_name, by_guid)
        classes = events(self, self.path, "--provider", "TcpIp")
        self.assertEqual({r["kind"] for r in classes},
                         {"etw.event", "network.accept", "network.disconnect"})
        rows = events(self, self.path, "--since", "2020-07-29T00:06:22.4151841Z", "--until",
                      "2020-07-29T00:06:22.4151847Z")
        self.assertEqual([r["kind"] for r in rows if r["kind"] != "etw.event"],
                         ["process.create", "process.create"])
        self.assertTrue(all(r["time"] < "2020-07-29T00:06:22.4151847Z" for r in rows))
        rows = events(self, self.path, "--image", "TEST.x86", "--kind", "process.create")
        self.assertEqual(len(rows), 2)

    def test_nothing_is_picked(self):
        """An empty answer says that there were events: the name may be mistyped."""
        for picked, args in ((0, ["--provider", "microsoft-windows-dns-clint"]),
                             (0, ["--image", "no such image"]), (4, ["--provider",
                             "microsoft-windows-dns-client"])):
            result = common.kda("events", "-f", "jsonl", self.path, *args)
            self.assertEqual((result.returncode, len(result.stdout.splitlines())), (0, picked))
            self.assertEqual(re.sub("[0-9]+", "N", result.stderr), "" if picked else
                             "kda: none of N events is what the options pick\n")

    def test_formats(self):
        args = ["--kind", "process.create,network", "-q"]
        rows = events(self, self.path, *args)
        table = common.kda("events", "-f", "csv", self.path, *args)
        cells = list(csv.DictReader(io.StringIO(table.stdout)))
        self.assertEqual(len(cells), len(rows))
        for cell, row in zip(cells, rows):
            self.assertEqual(cell["kind"], row["kind"])
            self.assertEqual(json.loads(cell["fields"]), row["fields"])
            self.assertEqual(cell["image"], row.get("image", ""))
        text = common.kda("events", self.path, *args)
        self.assertEqual(len(text.stdout.splitlines()), len(rows) + 1)
        self.assertIn("Test.x86.exe", text.stdout)
        tree = json.loads(common.kda("events", "-f", "json", self.path, *args).stdout)
        self.assertEqual([r["fields"] for r in tree["rows"]], [r["fields"] for r in rows])

    def test_raw(self):
        rows = events(self, self.path, "--raw", "--limit", "200")
        self.assertEqual({r["kind"] for r in rows}, {"etw.event"})
        self.assertEqual([r for r in rows if "fields" in r or "payload" not in r], [])

    def test_files_are_merged(self):
        other = common.need_data("etl/microsoft_perfview__gcevents.etl")
        one = events(self, self.path, "--kind", "process")
        both = events(self, other, self.path, "--kind", "process")
        self.assertEqual([r["time"] for r in both], [r["time"] for r in one])
        rows = events(self, self.path, other)
        times = [r["time"] for r in rows]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(rows), 168298 + 71)

    def test_manifest(self):
        hub = common.need_data("etl/microsoft_perfview__diaghub.user_injected.1.etl")
        folder = common.work("manifests")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "test.man")
        with open(path, "w", encoding="utf-8") as f:
            f.write(MANIFEST)
        for given in (path, folder):
            rows = events(self, hub, "--manifest", given)
            own = {r["event_id"]: r for r in rows if r.get("provider_name") == "Test-Provider"}
            self.assertEqual(own[2]["event_name"], "Stopped")
            self.assertEqual(own[2]["fields"], {"ProcessId": 2140, "When": "0x33bcac95e"})
            self.assertEqual(own[5]["fields"]["System"], "Windows (64-bit)")
            self.assertEqual(own[5]["fields"]["Known"], "yes")
            self.assertEqual(own[5]["event_name"], "Where")
        self.assertEqual(common.kda("events", hub, "--manifest", path, "-o", path).returncode, 2)
        with open(path, encoding="utf-8") as f:
            self.assertEqual(f.read(), MANIFEST)
        broken = common.work("broken.man")
        with open(broken, "w", encoding="utf-8") as f:
            f.write(MANIFEST.replace("</events></instr", "</instr"))
        result = common.kda("events", hub, "--manifest", broken)
        self.assertEqual(result.returncode, 3)
        self.assertIn("line 22", result.stderr)
        result = common.kda("events", hub, "--manifest", common.work("nowhere.man"))
        self.assertEqual(result.returncode, 3)
        bomb = common.work("bomb.man")
        with open(bomb, "w", encoding="utf-8") as f:
            f.write('<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">]><x>&a;</x>')
        result = common.kda("events", hub, "--manifest", bomb)
        self.assertEqual(result.returncode, 3)
        self.assertIn("document type", result.stderr)

    def test_damage_is_told(self):
        with open(self.path, "rb") as f:
            raw = bytearray(f.read())
        size = int.from_bytes(raw[0:4], "little")
        second = size + int.from_bytes(raw[size:size + 4], "little")
        for at in range(second + 80, second + 400):
            raw[at] ^= 0x5A
        path = common.work("damaged.etl")
        with open(path, "wb") as f:
            f.write(raw)
        rows = events(self, path, code=4)
        losses = [r for r in rows if r["kind"] == "sensor.loss"]
        self.assertTrue(losses)
        for loss in losses:
            self.assertEqual(loss["reason"], "damaged")
            self.assertEqual(loss["file"], "damaged.etl")
            self.assertIn("why", loss)
            self.assertGreaterEqual(int(loss["offset"], 16), second)
        self.assertGreater(len(rows), 160000)
        lost = events(self, common.need_data("etl/airbus-cert_etl-parser__AMSITrace.etl"), code=4)
        self.assertEqual([(r["reason"], r["lost_events"]) for r in lost
                          if r["kind"] == "sensor.loss"], [("buffer_lost", 3)])
        text = common.kda("events", common.need_data("etl/airbus-cert_etl-parser__AMSITrace.etl"))
        self.assertEqual(text.returncode, 4)
        self.assertIn("buffer_lost events 3", text.stdout)
        self.assertIn("incomplete", text.stderr)

    def test_wrong_use(self):
        for args in (["events"], ["events", self.path, "--follow"],
                     ["events", self.path, "--since", "yesterday"],
                     ["events", self.path, "--kind", "nothing"]):
            self.assertEqual(common.kda(*args).returncode, 2, args)
        self.assertEqual(common.kda("events", common.work("none.etl")).returncode, 3)
        with open(common.work("empty.etl"), "wb"):
            pass
        self.assertEqual(common.kda("events", common.work("empty.etl")).returncode, 3)
        pipe = common.work("events.pipe")  # nobody writes into it: to wait would be for ever
        if os.path.lexists(pipe):
            os.unlink(pipe)
        os.mkfifo(pipe)
        self.assertIn("is a pipe", common.kda("events", pipe).stderr)
        self.assertEqual(common.kda("compare", pipe, pipe).returncode, 3)


if __name__ == "__main__":
    unittest.main()
