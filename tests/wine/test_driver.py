"""The shipping kdamonitor.sys in Wine, asked by a program that may ask anything: its device, requests
right and wrong, readers. What people do with it, test_exe_sensor.py does with kda.exe.

Only the name of the kernel in the import directory differs from what ships (drivers/CMakeLists.txt).
What Wine does not do (levels, security of the device, names below it, cleanup, shutdown) is tested
in the simulator (tests/sim).
"""
import json
import os
import struct
import unittest

import common
import machine
from machine import (FLUSH, KINDS, READ, READ_WRITE, RUNNING, STATUS, STATUS_BYTES, STOPPED,
                     VERSION, Machine, status_of)

DEVICE = "\\\\.\\KDAMonitor"


def setUpModule():
    machine.build()


def head(size, version=1, rest=b""):
    return (struct.pack("<II", version, size) + rest).hex()


class Driver(unittest.TestCase):
    """Each test has a machine of its own, with the driver installed."""

    def setUp(self):
        self.machine = self.enterContext(Machine(self.id().rsplit(".", 1)[1]))
        self.client = self.machine.client
        self.machine.install()
        self.machine.set("LogDirectory", "\\??\\C:\\kda", "REG_SZ")

    def verified(self, files, lines=1):
        """The log's account holds: says the tool of this system."""
        result = common.kda("verify", *files)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(files[-1], encoding="utf-8") as f:
            text = f.read().splitlines()
        self.assertGreaterEqual(len(text), lines)
        self.assertEqual(json.loads(text[-1])["kind"], "sensor.stop")
        return [json.loads(line) for line in text]

    def flush(self, handle=1):
        """The lines of the start are in the file; a reader that begins now gets what comes now."""
        self.client.expect("ioctl", handle, FLUSH, 0, head(8))

    def status(self, handle=1):
        return status_of(self.client.data("ioctl", handle, STATUS, STATUS_BYTES))


class Life(Driver):
    def test_life(self):
        self.assertEqual(int(self.client("state", "kdamonitor")), STOPPED)
        self.machine.start()
        self.assertEqual(int(self.client("state", "kdamonitor")), RUNNING)
        self.assertEqual(self.client("start", "kdamonitor"), 1056)
        self.client.expect("open", 1, DEVICE, READ_WRITE)
        version = struct.unpack("<8I", self.client.data("ioctl", 1, VERSION, 32))
        self.assertEqual(version[:3], (1, 32, 1))
        self.assertGreater(version[3], 20)
        status = self.status()
        self.assertEqual((status["version"], status["size"]), (1, STATUS_BYTES))
        self.assertEqual((status["write_status"], status["readers"]), (0, 0))
        self.flush()
        status = self.status()
        self.assertEqual((status["writing"], status["queued"], status["file_number"]), (1, 0, 1))
        self.assertEqual(status["file_bytes"], os.path.getsize(self.machine.files()[0]))
        self.client.expect("close", 1)
        self.machine.stop()
        self.assertEqual(int(self.client("state", "kdamonitor")), STOPPED)
        lines = self.verified(self.machine.files(), 5)
        # The processes of this machine were running: this program's client is one of them.
        existing = [line for line in lines if line["kind"] == "process.existing"]
        self.assertTrue(any(line["image"].endswith("\\client.exe") for line in existing))
        self.assertTrue(any(line["image"].endswith("\\services.exe") for line in existing))
        self.assertEqual(lines[0]["log"].strip("{}").replace("-", "")[:8],
                         "%08x" % struct.unpack("<I", status["log"][:4]))
        self.client.expect("delete", "kdamonitor")
        self.assertEqual(self.client("state", "kdamonitor"), 1060)
        self.assertEqual(self.client("open", 1, DEVICE, READ), 2)

    def test_stop_with_open_handle_and_parked_read(self):
        self.machine.injector()
        self.machine.start()
        self.machine.pin()
        self.client.expect("open", 1, DEVICE, READ_WRITE)
        self.flush()
        self.client.expect("wait", 1, 4096)
        self.machine.stop()
        # What was parked ends with the last line; after that there is no device.
        lines = [json.loads(line) for line in self.client.data("got", 1).splitlines()]
        self.assertEqual(lines[-1]["kind"], "sensor.stop")
        self.assertIsInstance(self.client("read", 1, 100), int)
        self.client.expect("close", 1)
        self.verified(self.machine.files())
        self.machine.start()
        self.machine.stop()


class Requests(Driver):
    def test_right_and_wrong(self):
        self.machine.start()
        self.client.expect("open", 1, DEVICE, READ_WRITE)
        before = self.status()
        all_kinds = before["kinds"]
        BUFFER, REVISION, PARAMETER, FUNCTION = 1784, 1306, 87, 1
        big = "00" * 40000
        for code, out, text, error in (
                (VERSION, 31, "", BUFFER), (VERSION, 33, "", BUFFER), (VERSION, 0, "", BUFFER),
                (VERSION, 32, head(8), BUFFER), (VERSION, 60000, big, BUFFER),
                (STATUS, STATUS_BYTES - 1, "", BUFFER), (STATUS, STATUS_BYTES + 1, "", BUFFER),
                (STATUS, 0, "", BUFFER), (STATUS, STATUS_BYTES, "00", BUFFER),
                (KINDS, 24, head(24), BUFFER), (KINDS, 24, "", BUFFER), (KINDS, 0, "", BUFFER),
                (KINDS, 24, head(24, 1, bytes(17)), BUFFER), (KINDS, 25, head(24, 1, bytes(16)), BUFFER),
                (KINDS, 24, head(24, 2, bytes(16)), REVISION),
                (KINDS, 24, head(23, 1, bytes(16)), REVISION),
                (KINDS, 24, head(0xFFFFFFFF, 1, bytes(16)), REVISION),
                (KINDS, 24, head(24, 1, struct.pack("<QQ", 1 << 63, 0)), PARAMETER),
                (KINDS, 24, head(24, 1, struct.pack("<QQ", 0, 1)), PARAMETER),
                (FLUSH, 0, head(8, 0), REVISION), (FLUSH, 0, head(9), REVISION),
                (FLUSH, 1, head(8), BUFFER), (FLUSH, 0, head(8) + "00", BUFFER), (FLUSH, 0, "", BUFFER),
                (0x226010, 0, "", BUFFER), (0x226014, 0, "", FUNCTION),
                (0x22E000, 64, "00", FUNCTION), (0, 0, "", FUNCTION),
                (VERSION | 3, 32, "", FUNCTION), (STATUS | 1, STATUS_BYTES, "", FUNCTION)):
            with self.subTest(code=hex(code), out=out, text=text[:64]):
                self.assertEqual(self.client("ioctl", 1, code, out, text), error)
        self.assertEqual(self.status()["kinds"], all_kinds)
        bit = all_kinds & -all_kinds
        off = self.client.data("ioctl", 1, KINDS, 24,
                               head(24, 1, struct.pack("<QQ", 0, bit)))
        self.assertEqual(struct.unpack_from("<Q", off, 8)[0], all_kinds & ~bit)
        self.assertEqual(self.status()["kinds"], all_kinds & ~bit)
        # Off wins where a kind is in both; then on again.
        self.client.expect("ioctl", 1, KINDS, 24, head(24, 1, struct.pack("<QQ", bit, bit)))
        self.assertEqual(self.status()["kinds"], all_kinds & ~bit)
        self.client.expect("ioctl", 1, KINDS, 24, head(24, 1, struct.pack("<QQ", bit, 0)))
        self.assertEqual(self.status()["kinds"], all_kinds)
        self.client.expect("close", 1)
        self.machine.stop()
        self.verified(self.machine.files())

    def test_flush_without_a_disk(self):
        """Recording goes on; who wants the lines on the disk learns that they do not get there."""
        self.machine.set("LogDirectory", "\\??\\Q:\\none", "REG_SZ")
        self.machine.start()
        self.client.expect("open", 1, DEVICE, READ_WRITE)
        self.assertIsInstance(self.client("ioctl", 1, FLUSH, 0, head(8)), int)
        status = self.status()
        self.assertEqual((status["writing"], status["file_number"]), (0, 0))
        self.assertLess(status["write_status"], 0)
        self.client.expect("close", 1)
        self.machine.stop()


class Readers(Driver):
    def setUp(self):
        super().setUp()
        # Something to read: a line of the sensor's own each second.
        self.machine.set("StatusSeconds", 1)
        self.machine.set("IdleMilliseconds", 10)

    def test_two_readers_read_what_is_in_the_file(self):
        self.machine.start()
        clients = [self.machine.connect() for _ in range(2)]
        for client in clients:
            client.expect("open", 1, DEVICE, READ)
            client.expect("wait", 1, 1)
        self.client.expect("open", 1, DEVICE, READ_WRITE)
        self.assertEqual(self.status()["readers"], 2)
        texts = []
        for client in clients:
            client.send("got", 1)
        firsts = [bytes.fromhex(client.answer()) for client in clients]
        for first, client in zip(firsts, clients):
            self.assertEqual(first, b"{")
            texts.append(first + client.data("until", 1, b'"sensor.status"'.hex()))
        for client in clients:
            client.expect("close", 1)
        self.machine.wait_for(lambda: self.status()["readers"] == 0)
        self.client.expect("close", 1)
        self.machine.stop()
        self.verified(self.machine.files())
        with open(self.machine.files()[0], "rb") as f:
            whole = f.read()
        for text in texts:
            self.assertIn(text, whole)
            for line in text.splitlines():
                json.loads(line)

    def test_one_byte_at_a_time(self):
        self.machine.start()
        self.client.expect("open", 1, DEVICE, READ)
        text = b""
        while not text.endswith(b"\n"):
            got = self.client.data("read", 1, 1)
            self.assertEqual(len(got), 1)
            text += got
        json.loads(text)
        self.client.expect("close", 1)
        self.machine.stop()

    def test_read_is_taken_back(self):
        self.machine.set("StatusSeconds", 86400)
        self.machine.start()
        self.client.expect("open", 1, DEVICE, READ_WRITE)
        self.flush()
        self.client.expect("wait", 1, 4096)
        self.client.expect("cancel", 1)
        self.assertEqual(self.client("got", 1), 995)
        self.client.expect("wait", 1, 4096)
        self.client.expect("close", 1)
        self.client.expect("open", 2, DEVICE, READ_WRITE)
        self.machine.wait_for(lambda: self.status(2)["readers"] == 0)
        self.client.expect("close", 2)
        self.machine.stop()

    def test_client_is_killed_while_it_reads(self):
        self.machine.start()
        self.client.expect("open", 1, DEVICE, READ_WRITE)
        for _ in range(5):
            victim = self.machine.connect()
            victim.expect("open", 1, DEVICE, READ)
            victim.expect("wait", 1, 65536)
            victim.send("until", 1, b"no line has this".hex())
            self.machine.wait_for(lambda: self.status()["readers"] == 1)
            victim.kill()
            self.machine.wait_for(lambda: self.status()["readers"] == 0)
        self.client.expect("close", 1)
        self.machine.stop()
        self.verified(self.machine.files())

    def test_ninth_reader_is_refused(self):
        self.machine.start()
        for handle in range(1, 9):
            self.client.expect("open", handle, DEVICE, READ)
            self.client.expect("wait", handle, 10)
        self.client.expect("open", 9, DEVICE, READ_WRITE)
        self.assertIsInstance(self.client("read", 9, 10), int)
        self.assertEqual(self.status(9)["readers"], 8)
        self.client.expect("close", 8)
        self.machine.wait_for(lambda: self.status(9)["readers"] == 7)
        self.assertEqual(self.client.data("read", 9, 1), b"{")
        for handle in (1, 2, 3, 4, 5, 6, 7, 9):
            self.client.expect("close", handle)
        self.machine.stop()


if __name__ == "__main__":
    unittest.main()
