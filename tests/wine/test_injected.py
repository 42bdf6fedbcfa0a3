"""The driver in Wine with callbacks: everything that is injected is in the log, once and right; and
everything that the driver took is given back, whatever fails."""
import unittest

import common
import injected
import machine
from machine import READ_WRITE, Machine

NOTHING = dict.fromkeys(machine.LEDGER, 0)
THREADS, ROUNDS = 6, 150


def setUpModule():
    machine.build()


class Injected(unittest.TestCase):
    def setUp(self):
        self.machine = self.enterContext(Machine(self.id().rsplit(".", 1)[1]))
        self.client = self.machine.client
        self.machine.install()
        self.machine.injector()
        self.machine.set("LogDirectory", "\\??\\C:\\kda", "REG_SZ")
        self.machine.set("RecordEverything", 1)

    def lines(self):
        """The lines of the newest log, whose account holds."""
        newest = self.machine.files()[-1]
        result = common.kda("verify", newest)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        lines = injected.read([newest])
        self.assertEqual(lines[-1]["kind"], "sensor.stop")
        return lines

    def stop(self):
        self.machine.stop()
        self.assertEqual(self.machine.ledger(), NOTHING)


class Storms(Injected):
    def storm(self, first=1):
        fired, refused, kept = (int(n) for n in self.machine.order(
            "storm %d %d %d" % (THREADS, ROUNDS, first)).split())
        self.assertEqual((fired, refused, kept), (9 * THREADS * ROUNDS, 0, 0))
        return range(first, first + THREADS * ROUNDS)

    def test_all_is_in_the_log(self):
        self.machine.start()
        numbers = self.storm()
        self.stop()
        lines = self.lines()
        self.assertEqual(injected.differences(lines, numbers), [])
        self.assertEqual(lines[-1]["lost"], {})
        # Of one process nothing comes before its creation, for every thread: ids are the order.
        self.assertEqual([line["id"] for line in lines], list(range(len(lines))))

    def test_large_numbers(self):
        """Addresses and names of more than 16 bits."""
        self.machine.start()
        numbers = self.storm(70000)
        self.stop()
        self.assertEqual(injected.differences(self.lines(), numbers), [])

    def test_functions_of_newer_kernels(self):
        self.machine.switches(newer=1)
        self.machine.start()
        numbers = self.storm()
        self.stop()
        lines = self.lines()
        self.assertEqual(injected.differences(lines, numbers), [])
        created = [line for line in lines if line["kind"] == "process.create"]
        self.assertEqual(len(created), len(numbers))
        for line in created:
            self.assertEqual(int(str(line["process_key"]), 0), 0x1000000000000 + line["pid"])
            self.assertIn("signature_level", line)

    def test_readers_see_all(self):
        """Two readers in a storm have the bytes of the file, or say what they missed."""
        self.machine.start()
        clients = [self.machine.connect() for _ in range(2)]
        for client in clients:
            client.expect("open", 1, "\\\\.\\KDAMonitor", READ_WRITE)
            client.expect("wait", 1, 1)
        self.storm()
        texts = []
        for client in clients:
            client.send("got", 1)
        for client in clients:
            text = bytes.fromhex(client.answer())
            texts.append(text + client.data("until", 1, (b'"kind":"process.exit"').hex()))
            client.expect("close", 1)
        self.stop()
        self.lines()
        with open(self.machine.files()[-1], "rb") as f:
            whole = f.read()
        for text in texts:
            self.assertIn(text, whole)

    def written(self):
        """Lines of this log so far."""
        return machine.status_of(self.client.data("ioctl", 1, machine.STATUS,
                                                  machine.STATUS_BYTES))["next_id"]

    def test_stop_in_the_storm(self):
        """Callbacks come while the sensors stop: all that were taken are accounted for."""
        for i in range(5):
            self.machine.start()
            self.client.expect("open", 1, "\\\\.\\KDAMonitor", READ_WRITE)
            self.machine.order("begin %d 0 %d" % (THREADS, 1))
            self.machine.wait_for(lambda: self.written() > 1000 * (i + 1))
            self.client.expect("close", 1)
            self.machine.stop()
            fired, _, kept = (int(n) for n in self.machine.order("end").split())
            self.assertEqual(self.machine.ledger(), NOTHING)
            self.assertEqual(kept, 0)
            lines = self.lines()
            numbers = sorted(injected.by_number(lines))
            self.assertEqual(injected.differences(lines, numbers, whole=False), [])
            written = sum(len(found) for found in injected.by_number(lines).values())
            self.assertGreater(written, 0)
            # Of each thread at most one operation was announced and not reported.
            self.assertLessEqual(sum(map(injected.unfinished, lines)), THREADS)
            lost = sum(lines[-1]["lost"].values())
            # A callback that found its sensor stopping is not offered.
            self.assertLessEqual(written + lost, fired)

    def test_nobody_is_called_after_the_stop(self):
        self.machine.start()
        self.stop()
        fired, refused, _ = (int(n) for n in self.machine.order("storm 2 10 1").split())
        self.assertEqual((fired, refused), (0, 180))


class Registry(Injected):
    def test_data_that_cannot_be_read(self):
        """A fault in the guarded copy is caught, in the driver's own code."""
        self.machine.start()
        self.assertEqual(self.machine.order("fault"), "1")
        self.stop()
        lines = [line for line in self.lines() if line.get("value") == "bad0"]
        self.assertEqual(len(lines), 1)
        self.assertNotIn("data", lines[0])
        self.assertEqual(lines[0]["omitted"]["data"], "fault")
        self.assertEqual(lines[0]["data_size"], 64)

    def test_operation_without_an_end(self):
        """Another driver refused it: announced, never reported, told without a status."""
        self.machine.start()
        for n in range(20):
            self.assertEqual(self.machine.order("unseen %d" % n), "1")
        self.stop()
        gone = [line for line in self.lines() if line["kind"] == "registry.key_delete"]
        self.assertEqual(sorted(line["key"] for line in gone), sorted(
            "\\REGISTRY\\MACHINE\\SOFTWARE\\Inject\\gone%d" % n for n in range(20)))
        self.assertFalse(any("status" in line for line in gone))


class Failures(Injected):
    def test_each_allocation_of_the_start(self):
        """The n-th fails: the driver starts or does not, and has nothing left when it is gone."""
        refused = started = 0
        for n in range(1, 1000):
            self.machine.switches(fail_from=n, fail_once=1)
            result = self.client("start", "kdamonitor")
            asked = self.machine.allocations()
            if isinstance(result, int):
                refused += 1
            else:
                started += 1
                self.machine.switches()
                self.machine.stop()
            self.assertEqual(self.machine.ledger(), NOTHING, "allocation %d" % n)
            self.machine.check()
            if asked < n:
                break
        else:
            self.fail("an allocation failed each time")
        self.assertGreater(refused, 5)
        self.assertGreater(started, 1)
        self.machine.start()
        self.stop()
        self.lines()

    def test_each_registration(self):
        """The n-th is refused: a sensor is off then, or there is no start; nothing is left of either."""
        refused = 0
        # Power, process, thread, image, registry, eight callouts, the filter engine's service; none.
        for n in range(1, 16):
            self.machine.switches(refuse=n)
            result = self.client("start", "kdamonitor")
            self.machine.switches()
            if isinstance(result, int):
                refused += 1
            else:
                self.machine.stop()
            self.assertEqual(self.machine.ledger(), NOTHING, "registration %d" % n)
        self.assertEqual(refused, 2)  # power and process
        self.machine.start()
        self.stop()

    def test_memory_runs_out_in_a_storm(self):
        """No record has memory of its own any more: what is cut is marked, what is lost counted."""
        self.machine.start()
        self.machine.switches(fail_from=1)
        fired, _, kept = (int(n) for n in self.machine.order(
            "storm %d %d 1" % (THREADS, ROUNDS)).split())
        self.assertEqual(kept, 0)
        self.machine.switches()
        self.stop()
        lines = self.lines()
        offered = lines[-1]["offered"]
        for kind in ("thread.create", "image.load", "registry.value_set", "network.connect"):
            self.assertEqual(offered[kind], THREADS * ROUNDS, kind)
        self.assertEqual(fired, 9 * THREADS * ROUNDS)


class Callouts(Injected):
    def test_busy_for_a_while(self):
        self.machine.start()
        self.machine.switches(busy=25)
        self.stop()
        self.lines()

    def test_busy_for_ever(self):
        """The driver keeps itself in memory, and what is classified afterwards does nothing."""
        self.machine.start()
        self.machine.pin()
        self.machine.order("storm 1 2 1")
        self.machine.switches(busy=-1)
        # The driver asks for longer than the service manager waits: 1053, and the stop goes on.
        self.assertIn(self.client("stop", "kdamonitor"), ("", 1053))
        # Its own driver object, the eight callouts, and the rundown that lets none of them in.
        kept = dict(NOTHING, blocks=1, objects=1, callouts=8)
        self.machine.wait_for(lambda: self.machine.ledger() == kept)
        for n in range(10):
            self.assertEqual(self.machine.order("classify %d" % n), "1")
        self.machine.check()
        self.assertEqual(injected.differences(self.lines(), range(1, 3)), [])


class Device(Injected):
    def test_descriptor_where_the_kernel_takes_no_text(self):
        """SYSTEM and Administrators, everything, nobody else; nothing is inherited from above."""
        self.machine.switches(plain=1)
        self.machine.start()
        descriptor = bytes.fromhex(self.machine.order("descriptor"))
        self.stop()
        self.assertEqual(len(descriptor), 104)
        control = int.from_bytes(descriptor[2:4], "little")
        self.assertEqual(control & 0x9004, 0x9004)  # self-relative, protected, with a DACL
        at = int.from_bytes(descriptor[16:20], "little")
        count = int.from_bytes(descriptor[at + 4:at + 6], "little")
        at += 8
        sids = []
        for _ in range(count):
            self.assertEqual(descriptor[at], 0)  # allows
            size = int.from_bytes(descriptor[at + 2:at + 4], "little")
            self.assertIn(int.from_bytes(descriptor[at + 4:at + 8], "little"),
                          (0x10000000, 0x1F01FF))
            sids.append(descriptor[at + 8:at + size])
            at += size
        system = bytes([1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0])
        administrators = bytes([1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0])
        self.assertEqual(sorted(sids), sorted([system, administrators]))


class Crashes(Injected):
    def test_crash_is_seen(self):
        """These tests can fail: a fault in the driver's process ends the test, with its text."""
        self.machine.start()
        with self.assertRaisesRegex(machine.Crash, "(?s)error 5.*page fault.*address"):
            self.machine.order("crash")
        with self.assertRaisesRegex(machine.Crash, "error (232|1053|1062)"):
            self.machine.stop()
        with self.assertRaisesRegex(machine.Crash, "page fault"):
            self.machine.check()


if __name__ == "__main__":
    unittest.main()
