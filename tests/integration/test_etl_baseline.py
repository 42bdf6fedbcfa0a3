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
    "parentprocessid": ["parent_pid", "creator_pid"], "imagefilename": ["image"],
    "commandline": ["command_line"], "exitstatus": ["exit_code"], "exitcode": ["exit_code"],
    "imagename": ["image", "module"], "createtime": ["create_time"], "exittime": ["exit_time"],
    "imagebase": ["base"], "imagesize": ["size"], "filename": ["module"],
    "win32startaddr": ["start_address"], "daddr": ["remote_ip"], "saddr": ["local_ip"],
    "dport": ["remote_port"], "sport": ["local_port"], "parentthreadid": ["creator_tid"],
}
OTHER_NAMES = {
    "pagedirectorybase": "directorytablebase", "pdbfilename": "pdbfilename",
    "irpptr": "irp", "samplesource": "source", "memorycount": "pagefaultcount",
}
# What TraceEvent computes from other events, from tables of its own, or from the header.
COMPUTED = {"buildtime", "rank", "processornumber", "priority", "executingdpc", "executingisr",
            "elapsedtimemsec", "disk servicetimemsec", "diskservicetimemsec", "filekey",
            "payloadlength", "utcoffsetminutes", "durationns"}
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
    if isinstance(value, str) and re.fullmatch(r"0x[0-9a-f]+", value):
        return int(value, 16)
    return None


def same(expected, value):
    """True, False, or None where the two cannot be held against each other."""
    if isinstance(value, bool) and expected in ("True", "False"):
        return expected == str(value)
    want, got = number(expected), as_number(value)
    if want is not None and got is not None:
        return any(want % 2**bits == got % 2**bits for bits in (32, 64)) and (
            want < 0 or want == got)
    if isinstance(value, str):
        time = re.fullmatch(r"(\d\d)/(\d\d)/(\d\d) (\d\d:\d\d:\d\d\.\d\d)\.\.\.", expected)
        if time:
            return None if value[:2] not in ("20", "16", "19") else "local"
        plain = value.strip("{}")
        if expected.endswith("..."):
            return plain.startswith(expected[:-3])
        return plain == expected
    return None


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
        by_time = {}
        for event in events:
            key = round((ticks(event["time"]) - start) / 10**4, 3)
            by_time.setdefault(key, []).append(event)
        totals = {"same": 0, "missing": {}, "different": [], "no event": [], "unset": 0}
        for row in read_baseline(name):
            self.compare_row(row, by_time, totals)
        return totals

    def compare_row(self, row, by_time, totals):
        best, best_score = None, -1
        for ms in (row.ms, round(row.ms - 0.001, 3), round(row.ms + 0.001, 3)):
            for event in by_time.get(ms, []):
                if event.get("cpu") != row.cpu:
                    continue
                score = sum(1 for key, text in row.fields
                            if self.lookup(event, key)[0] and
                            same(text, self.lookup(event, key)[1]) in (True, "local"))
                score += event.get("provider_name") == row.name.split("/")[0]
                score += (event.get("event_name") or "") == row.name.split("/", 1)[-1]
                if score > best_score:
                    best, best_score = event, score
        if best is None:
            totals["no event"].append(row.text[:120])
            return
        for key, text in row.fields:
            found, value = self.lookup(best, key)
            if not found:
                if key.lower() in COMPUTED or text == "":
                    continue
                totals["missing"].setdefault("%s.%s" % (row.name, key), text)
                continue
            verdict = same(text, value)
            if verdict in (True, "local"):
                totals["same"] += 1
            elif verdict is None or text == "":
                totals["unset"] += 1
            else:
                totals["different"].append("%s.%s: %r, not %r" % (row.name, key, value, text))

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

    def test_show(self):
        for name in FILES:
            t = self.compare(name)
            print(name, t["same"], "unset", t["unset"], "no event", len(t["no event"]))
            for x in t["no event"][:10]: print("   NOEV", x)
            for k, v in sorted(t["missing"].items()): print("   MISS", k, v)
            for x in t["different"]: print("   DIFF", x)


if __name__ == "__main__":
    unittest.main()
