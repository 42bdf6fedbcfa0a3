"""kda.exe and the driver: installed, started, watched, set, stopped and removed by it alone."""
import json
import os
import pty
import select
import shutil
import subprocess
import time
import unittest

import common
import machine
import wine_host
from machine import Machine

EXE = os.path.join(wine_host.WINDOWS, "kda.exe")
CYCLES = 50


def setUpModule():
    machine.build()


class Sensor(unittest.TestCase):
    """Each test has a machine of its own, where kda.exe has installed the driver."""

    def setUp(self):
        self.machine = self.enterContext(Machine("exe-" + self.id().rsplit(".", 1)[1]))
        # Wine finds what the driver is linked to beside it; the driver itself kda.exe brings.
        os.remove(os.path.join(self.machine.prefix, machine.DRIVERS, "kdamonitor.sys"))
        self.say(0, "installed as", "driver", "install",
                 wine_host.windows_path(os.path.join(machine.BUILD, "bin/kdamonitor.sys")))
        # Wine's kernel does not know the name \SystemRoot.
        self.machine.set("LogDirectory", "\\??\\C:\\kda", "REG_SZ")

    def kda(self, *args):
        return subprocess.run(wine_host.command(EXE, *args), env=self.machine.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", timeout=machine.TIMEOUT)

    def say(self, code, text, *args):
        result = self.kda(*args)
        self.assertEqual(result.returncode, code,
                         result.stdout + result.stderr + self.machine.trouble())
        self.assertIn(text, result.stdout + result.stderr)
        return result.stdout

    def status(self):
        return json.loads(self.say(0, "", "driver", "status", "-f", "json"))

    def wait_for(self, condition):
        """Asks until it holds; what is waited for is an answer, not a time."""
        end = time.monotonic() + machine.TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), end, "does not happen\n" + self.machine.trouble())

    def watch(self, *args):
        process = subprocess.Popen(wine_host.command(EXE, "watch", *args),
                                   env=self.machine.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def verified(self, files):
        """kda.exe says of the log what the tool of this system says: its account holds."""
        result = self.kda("verify", *[wine_host.windows_path(p) for p in files])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout, common.kda("verify", *files).stdout)

    def log_lines(self):
        lines = []
        for path in self.machine.files():
            with open(path, encoding="utf-8") as f:
                lines += f.read().splitlines()
        return lines


class Life(Sensor):
    def test_life(self):
        self.say(3, "installed already", "driver", "install", EXE)
        self.say(0, "exclude", "driver", "filter", "list")
        self.say(0, "", "driver", "filter", "add", "exclude", "pid=4242", "image=\\a b.exe")
        self.say(0, "", "driver", "set", "thread", "off")
        self.say(0, "", "driver", "start")
        self.say(0, "runs already", "driver", "start")
        status = self.status()
        self.assertEqual((status["state"], status["version"], status["writing"]),
                         ("running", "0.1.0", True))
        self.assertEqual(status["start"], "demand")
        self.assertEqual(status["kinds"]["thread.create"]["on"], False)
        self.assertEqual(status["kinds"]["process.create"]["on"], True)
        self.say(3, "0.1.0 is installed and runs", "driver", "install", EXE)
        # At once, and after the next start too.
        self.say(0, "", "driver", "set", "image.load", "off")
        self.assertFalse(self.status()["kinds"]["image.load"]["on"])
        self.say(0, "", "driver", "stop")
        self.say(3, "stopped", "driver", "status")
        self.say(0, "", "driver", "start")
        self.assertFalse(self.status()["kinds"]["image.load"]["on"])
        self.say(0, "removed", "driver", "remove")  # which stops it
        self.say(3, "not installed", "driver", "status")
        self.assertFalse(os.path.exists(os.path.join(self.machine.prefix, machine.DRIVERS,
                                                     "kdamonitor.sys")))
        self.machine.check()
        lines = [json.loads(line) for line in self.log_lines()]
        starts = [line for line in lines if line["kind"] == "sensor.start"]
        self.assertEqual(len(starts), 2)
        for start in starts:
            self.assertNotIn("rejected", start)
            rules = start["settings"]["Rules"]
            self.assertEqual(rules[0], "exclude pid=4242 image=\"\\a b.exe\"")
            self.assertEqual(rules[1], "exclude kind=registry.* key=\\REGISTRY\\A\\")
            self.assertNotIn("thread.create", start["settings"]["Kinds"])
        self.verified(self.machine.files())

    def test_cycles(self):
        """Each start begins a log of its own that names the one before."""
        before = None
        for _ in range(CYCLES):
            self.say(0, "", "driver", "start")
            self.say(0, "", "driver", "stop")
            self.machine.check()
            last = self.machine.files()[-1]
            result = common.kda("verify", last)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            with open(last, encoding="utf-8") as f:
                start = json.loads(f.readline())
            self.assertEqual(start.get("previous_log"), before)
            before = start["log"]
        # The default number of files is kept, the others were removed.
        self.assertEqual(len(self.machine.files()), 16)


class Watch(Sensor):
    def test_watch_until_stop(self):
        """Two readers get the very lines of the log, and end with it."""
        self.machine.set("StatusSeconds", 1)
        self.machine.client.expect("group", "kdamonitor", machine.GROUP)
        self.machine.injector()
        self.say(0, "", "driver", "start")
        self.machine.pin()
        whole, picked = self.watch("-f", "jsonl"), self.watch("-f", "jsonl", "--kind", "network")
        self.wait_for(lambda: self.status()["readers"] == 2)
        first = whole.stdout.readline().decode().rstrip("\n")
        self.say(0, "", "driver", "stop")
        out, err = whole.communicate(timeout=machine.TIMEOUT)
        self.assertEqual((whole.returncode, err), (0, b""))
        seen = [first] + out.decode().splitlines()
        self.assertEqual(seen, self.log_lines()[-len(seen):])
        self.assertEqual(json.loads(seen[-1])["kind"], "sensor.stop")
        out, err = picked.communicate(timeout=machine.TIMEOUT)
        self.assertEqual((picked.returncode, err), (0, b""))
        self.assertEqual(out.decode().splitlines(), seen[-1:])
        self.machine.check()

    def test_watch_until_interrupt(self):
        """Ctrl-C on a console: the file is complete, the device is closed, the driver goes on."""
        self.machine.set("StatusSeconds", 1)
        self.say(0, "", "driver", "start")
        target = os.path.join(self.machine.folder, "watched.jsonl")
        pid, terminal = pty.fork()
        if pid == 0:
            # Wine makes a terminal that it knows a console.
            os.execve(wine_host.find(), wine_host.command(EXE, "watch", "-f", "jsonl", "-o", target),
                      dict(self.machine.environment(), TERM="xterm"))
        self.addCleanup(os.close, terminal)
        written = [self.status()["next_id"]]
        self.wait_for(lambda: self.drain(terminal) or self.status()["readers"] == 1)
        written[0] = self.status()["next_id"]
        self.wait_for(lambda: self.drain(terminal) or self.status()["next_id"] > written[0])
        os.write(terminal, b"\x03")
        ended = []

        def has_ended():
            self.drain(terminal)
            found, status = os.waitpid(pid, os.WNOHANG)
            ended.append(status)
            return found == pid
        self.wait_for(has_ended)
        self.assertEqual(ended[-1], 0)
        with open(target, encoding="utf-8") as f:
            seen = f.read().splitlines()
        self.assertGreaterEqual(len(seen), 1)
        self.assertEqual([n for n in os.listdir(self.machine.folder) if "watched" in n],
                         ["watched.jsonl"])
        self.wait_for(lambda: self.status()["readers"] == 0)
        self.say(0, "", "driver", "stop")
        log = self.log_lines()
        at = log.index(seen[0])
        self.assertEqual(seen, log[at:at + len(seen)])
        self.machine.check()

    @staticmethod
    def drain(terminal):
        """Takes what the console shows, so that it does not wait; always false."""
        while select.select([terminal], [], [], 0)[0]:
            try:
                if not os.read(terminal, 65536):
                    break
            except OSError:
                break
        return False

    def test_killed_watch(self):
        self.say(0, "", "driver", "start")
        watch = self.watch()
        self.wait_for(lambda: self.status()["readers"] == 1)
        watch.kill()
        watch.communicate()
        self.wait_for(lambda: self.status()["readers"] == 0)
        self.say(0, "", "driver", "stop")
        self.machine.check()


class Refusals(Sensor):
    def test_module_is_missing(self):
        """Without the filtering platform the system refuses; nothing of the driver stays."""
        path = os.path.join(self.machine.prefix, machine.DRIVERS, "fwpkclnt.sys")
        os.rename(path, path + ".away")
        self.say(3, "cannot start the driver", "driver", "start")
        self.say(3, "stopped", "driver", "status")
        self.say(3, "the driver does not run", "watch")
        os.rename(path + ".away", path)
        self.say(0, "", "driver", "start")
        self.say(0, "", "driver", "stop")
        self.machine.check()
        self.verified(self.machine.files())

    def test_what_is_no_driver(self):
        """A file that Windows cannot load: said, and it can be removed again."""
        self.say(0, "removed", "driver", "remove")
        text = os.path.join(self.machine.folder, "kdamonitor.sys")
        with open(text, "w", encoding="utf-8") as f:
            f.write("no driver\n")
        self.say(3, "", "driver", "install", wine_host.windows_path(text + ".none"))
        self.say(3, "not installed", "driver", "status")
        self.say(0, "installed as", "driver", "install", wine_host.windows_path(text))
        self.say(3, "cannot start the driver", "driver", "start")
        self.say(3, "stopped", "driver", "status")
        self.say(0, "removed", "driver", "remove")
        self.say(3, "not installed", "driver", "start")
        self.say(3, "not its folder", "driver", "install",
                 wine_host.windows_path(self.machine.folder))

    def test_rules_as_long_as_the_driver_reads(self):
        """What the tool takes, the driver takes; a byte more is refused, with what to do."""
        room = 65536 - 12 - 2 * 2
        self.machine.set("Rules", "", "REG_MULTI_SZ")
        rule = "exclude image="
        # Two rules: in all with their NULs and the last one, as many bytes as there are.
        half = room // 4
        self.say(0, "", "driver", "filter", "add", rule + "a" * (half - 1 - len(rule)))
        second = rule + "b" * (room // 2 - half - len(rule))
        self.say(3, "up to 64 KiB", "driver", "filter", "add", second + "b")
        self.say(0, "", "driver", "filter", "add", second)
        self.say(0, "", "driver", "start")
        self.say(0, "", "driver", "stop")
        self.assertNotIn("rejected", json.loads(self.log_lines()[0]))

    def test_rules_that_are_no_text(self):
        """Half of a surrogate pair would be another character when it is written back."""
        self.machine.set("Rules", "exclude image=\\a\ud800.exe", "REG_MULTI_SZ")
        for words in (["add", "exclude pid=2"], ["list"], ["remove", "1"]):
            self.say(3, "half of a surrogate pair", "driver", "filter", *words)

    def test_remove_leaves_what_is_not_its_own(self):
        """A service of that name with a file elsewhere: the file in the drivers' folder stays."""
        self.say(0, "removed", "driver", "remove")
        drivers = os.path.join(self.machine.prefix, machine.DRIVERS)
        shutil.copy(os.path.join(machine.BUILD, "bin/kdamonitor.sys"), drivers)
        self.machine.client.expect("create", "kdamonitor", "C:\\windows\\temp\\other.sys",
                                   machine.GROUP)
        self.say(0, "its file is left", "driver", "remove")
        self.assertTrue(os.path.exists(os.path.join(drivers, "kdamonitor.sys")))

    def test_folder_cannot_be_made(self):
        """Recording goes on without a disk; the status says that lines do not reach it."""
        self.machine.set("LogDirectory", "\\??\\Q:\\none", "REG_SZ")
        self.say(0, "", "driver", "start")
        self.wait_for(lambda: "0xc" in self.kda("driver", "status").stdout)
        self.say(4, "Writing    no", "driver", "status")
        self.say(0, "", "driver", "stop")
        self.machine.check()

    def test_wrong_settings_do_not_stop_it(self):
        self.machine.set("RingShards", 3)
        self.machine.set("FileCount", "many", "REG_SZ")
        self.machine.set("Rules", "include nonsense", "REG_MULTI_SZ")
        self.say(0, "", "driver", "start")
        self.say(0, "", "driver", "stop")
        self.machine.check()
        self.assertEqual(set(json.loads(self.log_lines()[0])["rejected"]),
                         {"RingShards", "FileCount", "Rules"})
        self.verified(self.machine.files())


if __name__ == "__main__":
    unittest.main()
