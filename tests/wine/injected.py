"""What the injector's numbers mean as lines of the log; drivers/fire.c says the same as arguments."""
import json


def hexadecimal(number):
    return "0x%08x" % number


def round_of(n):
    """The nine lines of number `n`, in order, with what has to be in them."""
    pid, tid = 0x100000 + 4 * n, 0x40000000 + 4 * n
    image = "\\Device\\HarddiskVolume3\\Inject\\p%d.exe" % n
    key = "\\REGISTRY\\MACHINE\\SOFTWARE\\Inject\\k%d" % n
    base = 0x7FF600000000 + 0x10000 * n
    status = "0xc0000022" if n % 3 == 0 else "0x00000000"
    created = {"key": key, "status": status}
    if n % 3:
        created["disposition"] = "created"
    flow = {"pid": pid, "image": image, "transport": "tcp", "local_port": 1024 + n % 60000,
            "remote_port": 443, "direction": "outbound"}
    if n % 2 == 0:
        flow.update(ip_version=4, local_ip="192.168.0.1",
                    remote_ip="10.%d.%d.%d" % (n >> 16 & 255, n >> 8 & 255, n & 255))
    else:
        tail = ["%x" % group for group in (n >> 16, n & 0xFFFF)]
        flow.update(ip_version=6, local_ip="fd00::1",
                    remote_ip="fd01::" + (":".join(tail) if n >> 16 else tail[1]))
    return [
        ("process.create", {"pid": pid, "image": image, "command_line": "p%d --run \u00e4\u4e2d" % n,
                            "parent_pid": 4}),
        ("thread.create", {"new_tid": tid, "target_pid": pid, "remote": False,
                           "start_address": "0x%x" % (base + 0x1000)}),
        ("image.load", {"target_pid": pid, "size": 0x8000, "base": "0x%x" % base,
                        "module": "\\Device\\HarddiskVolume3\\Inject\\m%d.dll" % n}),
        ("registry.key_create", created),
        ("registry.value_set", {"key": key, "value": "v%d" % n, "value_type": "REG_DWORD",
                                "data": n, "status": status}),
        ("registry.value_delete", {"key": key, "value": "v%d" % n, "status": status}),
        ("network.connect", flow),
        ("thread.exit", {"pid": pid, "tid": tid, "exit_code": n, "image": image}),
        ("process.exit", {"pid": pid, "exit_code": n, "image": image}),
    ]


def number_of(line):
    """The number that a line is about, or None."""
    kind = line["kind"]
    if kind.startswith("registry.") and line.get("key", "").startswith(
            "\\REGISTRY\\MACHINE\\SOFTWARE\\Inject\\k"):
        return int(line["key"].rsplit("k", 1)[1])
    if kind in ("thread.create", "image.load"):
        pid = line["target_pid"]
    elif kind == "process.existing":
        return None
    else:
        pid = line.get("pid", 0)
    return (pid - 0x100000) // 4 if 0x100000 <= pid < 0x40000000 else None


def read(files):
    lines = []
    for path in files:
        with open(path, encoding="utf-8") as f:
            lines += [json.loads(line) for line in f]
    return lines


def by_number(lines):
    found = {}
    for line in lines:
        n = number_of(line)
        if n is not None:
            found.setdefault(n, []).append(line)
    return found


def unfinished(line):
    """Announced when the sensor stopped, and not reported any more: told at the end, no result."""
    return line["kind"].startswith("registry.") and "status" not in line


def differences(lines, numbers, whole=True):
    """Sentences that say what is in the log and should not be, or the other way round. Not `whole`:
    the sensors stopped meanwhile, each at its time; what is there has to be right and in order."""
    wrong = []
    found = by_number(lines)
    for n in sorted(set(found) - set(numbers)):
        wrong.append("%d was not injected" % n)
    for n in numbers:
        expected, have = round_of(n), found.get(n, [])
        wanted = [kind for kind, _ in expected]
        kinds = [line["kind"] for line in have if whole or not unfinished(line)]
        if kinds != wanted if whole else kinds != [k for k in wanted if k in kinds]:
            wrong.append("%d: %r" % (n, [line["kind"] for line in have]))
            continue
        fields = dict(expected)
        for line in have:
            for name, value in fields[line["kind"]].items():
                if not whole and unfinished(line) and name in ("status", "disposition"):
                    continue
                if line.get(name) != value:
                    wrong.append("%d, %s: %s is %r and not %r" % (n, line["kind"], name,
                                                                  line.get(name), value))
        if len({line["kind"] for line in have}) != len(have):
            wrong.append("%d: told twice: %r" % (n, [line["kind"] for line in have]))
    return wrong
