"""A Windows machine for the driver: a Wine prefix of its own, the driver's files in it, services, and
a client that does what a test orders (drivers/client.c)."""
import os
import shutil
import signal
import struct
import subprocess
import time
import unittest

import wine_host

ROOT = wine_host.ROOT
BUILD = os.path.join(wine_host.WORK, "wine-drivers")
DRIVERS = "drive_c/windows/system32/drivers"
# One group: Wine runs the services of a group in one process, with one instance of each module.
GROUP = "KDAMonitorTest"
REGISTRY_TYPES = {"REG_SZ": 1, "REG_DWORD": 4, "REG_MULTI_SZ": 7}
REGISTRY_ENDS = {"REG_SZ": "\0", "REG_MULTI_SZ": "\0\0"}
SERVICE = "SYSTEM\\CurrentControlSet\\Services\\kdamonitor"
# Far above what a loaded machine needs; nothing waits for it to pass.
TIMEOUT = 300
# What Wine prints when code in the driver's process fails.
FAULTS = ("Unhandled", "unimplemented function", "page fault", "stack overflow", "Assertion failed")

VERSION, STATUS, KINDS, FLUSH = 0x226000, 0x226004, 0x22A008, 0x22A00C
INJECT = 0x22E000
LEDGER = ("blocks", "objects", "names", "routines", "callouts", "engines", "wrong tags")
STATUS_BYTES = 72 + 4 * 8 * 64
READ_WRITE, READ = 0xC0000000, 0x80000000
STOPPED, RUNNING = 1, 4


def build():
    """The driver as it ships, and the modules around it. Skips where the tools are missing."""
    for tool in ("clang-19", "lld-link-19", "llvm-rc-19", "llvm-dlltool-19",
                 "x86_64-w64-mingw32-gcc-win32", "cmake"):
        if not shutil.which(tool):
            raise unittest.SkipTest("needs " + tool)
    if not wine_host.find():
        raise unittest.SkipTest("needs wine64")
    driver = os.path.join(BUILD, "driver")
    for source, folder, extra in (
            ("driver", driver, []),
            ("tests/wine/drivers", BUILD,
             ["-DKDA_DRIVER=" + os.path.join(driver, "x64/kdamonitor.sys")])):
        for args in (["cmake", "-S", os.path.join(ROOT, source), "-B", folder] + extra,
                     ["cmake", "--build", folder]):
            result = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True)
            if result.returncode:
                raise AssertionError(result.stdout)


class Crash(AssertionError):
    pass


class Client:
    """Orders go in, answers come out; a number as answer is the system's error."""

    def __init__(self, machine):
        self.machine = machine
        self.process = subprocess.Popen(
            [wine_host.find(), os.path.join(BUILD, "bin/client.exe")], env=machine.environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.alarm(TIMEOUT * 4))

    def send(self, *words):
        self.process.stdin.write((" ".join(str(w) for w in words) + "\n").encode())
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline().decode().split()
        if not line:
            raise Crash("the client ended\n" + self.machine.trouble())
        if line[0] == "error":
            return int(line[1])
        return line[1] if len(line) > 1 else ""

    def __call__(self, *words):
        self.send(*words)
        return self.answer()

    def expect(self, *words):
        """The answer, which is no error."""
        found = self(*words)
        if isinstance(found, int):
            raise Crash("%s: error %d\n%s" % (" ".join(str(w) for w in words), found,
                                              self.machine.trouble()))
        return found

    def data(self, *words):
        return bytes.fromhex(self.expect(*words))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(timeout=TIMEOUT)
        elif not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.stdout.close()


class Machine:
    """`with Machine("name") as m`: Wine has started, and is gone afterwards."""

    def __init__(self, name):
        self.folder = os.path.join(wine_host.WORK, "wine-" + name)
        self.prefix = os.path.join(self.folder, "prefix")
        self.noise = os.path.join(self.folder, "wine.txt")
        self.clients = []

    def environment(self):
        return wine_host.environment({"WINEPREFIX": self.prefix,
                                      "WINEDEBUG": "-all,err+seh,err+ntoskrnl,err+module"})

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.log = open(self.noise, "wb")
        wine_host.begin(self.environment(), self.log)
        # Services live as long as a program does, and their errors go where its errors go.
        self.keeper = subprocess.Popen([wine_host.find(), "cmd.exe"], env=self.environment(),
                                       stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                       stderr=self.log)
        for name in os.listdir(os.path.join(BUILD, "bin")):
            if name.endswith(".sys"):
                shutil.copy(os.path.join(BUILD, "bin", name), os.path.join(self.prefix, DRIVERS))
        self.client = self.connect()
        # What failed in Wine's own programs while it made the prefix is not the driver's.
        self.begun = os.path.getsize(self.noise)
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.end()
        self.keeper.stdin.close()
        self.keeper.wait(timeout=TIMEOUT)
        for option in ("-k", "-w"):
            wine_host.server(option, self.environment())
        self.log.close()
        # A prefix takes 150 MB, and each test has its own.
        shutil.rmtree(self.prefix, ignore_errors=True)

    def connect(self):
        client = Client(self)
        self.clients.append(client)
        return client

    def trouble(self):
        with open(self.noise, encoding="utf-8", errors="replace") as f:
            return f.read()[-4000:]

    def check(self):
        """Nothing in the driver's process has failed."""
        with open(self.noise, encoding="utf-8", errors="replace") as f:
            f.seek(self.begun)
            text = f.read()
        if any(fault in text for fault in FAULTS):
            raise Crash(text)

    def wait_for(self, condition):
        """Asks until it holds; what is waited for is an answer, not a time."""
        end = time.monotonic() + TIMEOUT
        while not condition():
            if time.monotonic() > end:
                raise Crash("does not happen\n" + self.trouble())

    # --- the driver -----------------------------------------------------------------------------

    def install(self, name="kdamonitor"):
        self.client.expect("create", name, "C:\\windows\\system32\\drivers\\%s.sys" % name, GROUP)

    def pin(self):
        """The driver's image stays mapped. For tests that hold a handle while the driver, which runs,
        stops: Windows unloads a driver at its last handle, Wine at once, and closes handles in an
        image that it has just unmapped. The injector has to be there, in the same process."""
        if self.order("pin") != "1":
            raise Crash("the driver is not in the injector's process\n" + self.trouble())

    def set(self, value, data, kind="REG_DWORD"):
        """A value of the driver's parameters, before it starts."""
        if kind == "REG_DWORD":
            text = struct.pack("<I", data)
        else:
            text = (data + REGISTRY_ENDS[kind]).encode("utf-16-le", "surrogatepass")
        self.client.expect("registry", SERVICE + "\\Parameters", value, REGISTRY_TYPES[kind],
                           text.hex())

    def start(self, name="kdamonitor"):
        self.client.expect("start", name)

    def stop(self, name="kdamonitor"):
        """232: the driver's process is gone, that is, it has crashed."""
        self.client.expect("stop", name)
        self.check()

    def files(self, folder="drive_c/kda"):
        """Files of logs, the last one that was written to at the end. (Names have the second of the
        start: not enough where a test starts twice a second.)"""
        path = os.path.join(self.prefix, folder)
        return sorted((os.path.join(path, n) for n in os.listdir(path) if n.endswith(".jsonl")),
                      key=lambda p: os.stat(p).st_mtime_ns)

    # --- the injector ---------------------------------------------------------------------------

    def injector(self):
        self.install("kdainject")
        self.start("kdainject")
        self.client.expect("open", 15, "\\\\.\\KDAInject", READ_WRITE)

    def order(self, text):
        return self.client.data("ioctl", 15, INJECT, 512, text.encode().hex()).decode()

    def switches(self, fail_from=0, fail_once=0, busy=0, newer=0, plain=0, refuse=0):
        self.order("switches %d %d %d %d %d %d" % (fail_from, fail_once, busy, newer, plain,
                                                   refuse))

    def ledger(self):
        """What the driver has at the moment."""
        return dict(zip(LEDGER, (int(n) for n in self.order("ledger").split())))

    def allocations(self):
        """How often it asked for memory since the switches were set."""
        return int(self.order("ledger").split()[-1])


def status_of(data):
    head = struct.unpack_from("<II16sQQQQiIII", data)
    names = ("version", "size", "log", "next_id", "queued", "file_bytes", "kinds", "write_status",
             "writing", "readers", "file_number")
    return dict(zip(names, head))
