"""Writes the events of a log as a trace file, as the kernel's providers would have told them: kernel
records for processes, threads, images and TCP, Microsoft-Windows-Kernel-Registry for the registry.

Kinds that no such provider has (UDP flows, renames, listening sockets) are left out.
Source of the layouts: docs/etl.md and the pages it names.
"""
import datetime
import ipaddress
import struct
import uuid

BUFFER = 65536
REGISTRY = uuid.UUID("70eb4f03-c1de-4f73-a051-33d13d5413bd").bytes_le
EPOCH = datetime.datetime(1601, 1, 1)


def filetime(text):
    whole, fraction = text.rstrip("Z").split(".")
    moment = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    return (moment - EPOCH) // datetime.timedelta(seconds=1) * 10 ** 7 + int(fraction)


def wide(text):
    return text.encode("utf-16-le", "surrogatepass") + b"\0\0"


def narrow(text):
    return text.encode("latin-1") + b"\0"


def hexint(text):
    return int(text, 16)


def system(group, kind, version, pid, tid, time, payload):
    return struct.pack("<HBBHBBIIqII", version, 2, 0xC0, 32 + len(payload), kind, group, tid, pid,
                       time, 0, 0) + payload


def event(ident, pid, tid, time, payload):
    head = struct.pack("<HBBHHIIq16sHBBBBHQII16s", 80 + len(payload), 0x13, 0xC0, 0x40, 0, tid, pid,
                       time, REGISTRY, ident, 0, 0, 4, ident + 31, 0, 0, 0, 0, b"\0" * 16)
    return head + payload


def base_name(path):
    return path.rsplit("\\", 1)[-1]


def process(line, kind, time):
    pid = line["pid"]
    payload = struct.pack("<QIIIiQII", pid * 16, pid, line.get("parent_pid", 0),
                          line.get("session", 0), line.get("exit_code", 0) & 0x7fffffff, 0, 0, 0)
    payload += narrow(base_name(line.get("image", ""))) + wide(line.get("command_line", ""))
    payload += wide("") + wide("")
    return system(3, kind, 4, line.get("creator_pid", pid), line.get("creator_tid", 0), time,
                  payload)


def thread(line, kind, time):
    if kind == 1:
        pid, tid = line["target_pid"], line["new_tid"]
    else:
        pid, tid = line["pid"], line["tid"]
    payload = struct.pack("<II7QI4B", pid, tid, 0, 0, 0, 0, 0, 0, 0, 0, 8, 5, 2, 0)
    return system(5, kind, 3, line["pid"], line.get("tid", 0), time, payload)


def image(line, time):
    payload = struct.pack("<QQIIIBBHQ4I", hexint(line["base"]), line.get("size", 4096),
                          line.get("target_pid", line["pid"]), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    return system(3, 10, 3, line["pid"], line.get("tid", 0), time, payload + wide(line["module"]))


def tcp(line, time):
    remote, local = (ipaddress.ip_address(line[key]) for key in ("remote_ip", "local_ip"))
    kind = {"network.connect": 12, "network.accept": 15}[line["kind"]]
    kind += 16 if remote.version == 6 else 0
    payload = struct.pack("<II", line["pid"], 0) + remote.packed + local.packed
    payload += struct.pack(">HH", line["remote_port"], line["local_port"])
    payload += struct.pack("<HHHHIhhIQ", 0, 0, 0, 0, 0, 0, 0, 0, 0)
    return system(6, kind, 2, line["pid"], line.get("tid", 0), time, payload)


def registry(line, time):
    pid, tid, key = line["pid"], line.get("tid", 0), line["key"]
    status = hexint(line.get("status", "0x0"))
    if line["kind"] == "registry.key_create":
        body = struct.pack("<QQII", 0, 1, status, 1) + wide("") + wide(key)
        return event(1, pid, tid, time, body)
    body = struct.pack("<QI", 1, status)
    if line["kind"] == "registry.key_delete":
        return event(3, pid, tid, time, body + wide(key))
    if line["kind"] == "registry.value_delete":
        return event(6, pid, tid, time, body + wide(key) + wide(line["value"]))
    body += struct.pack("<II", 1, 0) + wide(key) + wide(line["value"]) + struct.pack("<H", 0)
    return event(5, pid, tid, time, body + struct.pack("<IIH", 0, 0, 0))


def record_of(line):
    """The record, or None for what no provider of the kernel tells."""
    kind, time = line["kind"], filetime(line["time"])
    if kind in ("process.create", "process.exit"):
        return process(line, 1 if kind == "process.create" else 2, time)
    if kind in ("thread.create", "thread.exit"):
        return thread(line, 1 if kind == "thread.create" else 2, time)
    if kind == "image.load":
        return image(line, time)
    if kind in ("network.connect", "network.accept") and line.get("protocol") == 6:
        return tcp(line, time)
    if kind in ("registry.key_create", "registry.key_delete", "registry.value_set",
                "registry.value_delete"):
        return registry(line, time)
    return None


def buffer(kind, sequence, time, records, size=BUFFER):
    body = b"".join(r + b"\0" * (-len(r) % 8) for r in records)
    used = 72 + len(body)
    head = struct.pack("<IIIiqqQHHIIHH16s", size, used, used, 0, time, sequence, 0, 0, 1, 3, used,
                       0x21 if kind == 4 else 0x20, kind, b"\0" * 16)
    return head + body + b"\xff" * (size - used)


def write(path, lines, lost=0):
    """Writes the records of `lines`; `lost` is what the trace header says was lost. Returns the
    lines that became records."""
    told = [(line, record_of(line)) for line in lines]
    told = [(line, record) for line, record in told if record]
    times = [filetime(line["time"]) for line, _ in told]
    first = min(times)
    header = struct.pack("<IBBBBIIqIIIIIIII", BUFFER, 10, 0, 5, 1, 19041, 1, max(times), 156250, 0,
                         1, 0, 1, 8, lost, 3000)
    header += struct.pack("<QQ", 0, 0) + b"\0" * 176 + struct.pack("<qqqII", first, 10 ** 7, first,
                                                                  2, 0)
    header += wide("Test") + wide("test.etl")
    out = [buffer(4, 0, first, [system(0, 0, 2, 4, 4, first, header)])]
    batch, size, sequence = [], 72, 1
    for line, record in told:
        padded = len(record) + -len(record) % 8
        if size + padded > BUFFER:
            out.append(buffer(0, sequence, filetime(line["time"]), batch))
            batch, size, sequence = [], 72, sequence + 1
        batch.append(record)
        size += padded
    out.append(buffer(0, sequence, max(times), batch))
    with open(path, "wb") as f:
        f.write(b"".join(out))
    return [line for line, _ in told]
