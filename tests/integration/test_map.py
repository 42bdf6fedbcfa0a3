"""The view for people: `kda map` as text, in a pipe and on a terminal."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from common import KDA, forge, kda, rows

# One consumer is off its list, one belongs to no session, one provider is enabled for none.
EXTRA = ["--add", "consumer session=17 pid=5140 unlinked", "--add", "consumer session=40 pid=5140",
         "--add", "provider {00000001-0000-0000-0000-000000000000} enable=41,level=2"]


class Map(unittest.TestCase):
    def setUp(self):
        self.image = forge("win11", "map-win11.raw", *EXTRA)

    def text(self, *args, code=0):
        result = kda("map", self.image, *args)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout

    def test_who_listens_and_who_speaks(self):
        text = self.text()
        session = text[text.index("\n[17] ExampleEdrSession"):text.index("\n[18] ")]
        self.assertIn("2 counted by the kernel, 3 found", session)
        self.assertIn("powershell.exe (5140)  found by its handle only", session)
        self.assertIn("by exampleedr.sys, edrsensor.exe (2400)", session)
        self.assertIn("filter: event ids 3008 3020", session)
        group = text[text.index("\n[5] Diagtrack-Listener"):text.index("\n[6] ")]
        self.assertIn("[group]", group)
        self.assertIn("dwm.exe (1112 x3)", group)
        self.assertNotIn("\x1b", text)
        self.assertNotIn("Incomplete", text)

    def test_of_no_living_session(self):
        text = self.text()
        lost = text[text.index("\nProviders enabled for no living session\n"):]
        self.assertIn("session id 41", lost)
        self.assertIn("{00000001-0000-0000-0000-000000000000}", lost)
        self.assertIn("not registered", lost)
        lost = text[text.index("\nConsumers of no living session\n"):]
        self.assertIn("powershell.exe (5140)  session id 40", lost)
        self.assertNotIn("no living session", self.text("--session", "2"))

    def test_gaps_are_summed_up(self):
        image = forge("holes", "map-holes.dmp", "--format", "dmp-bitmap")
        result = kda("map", image, "-f", "jsonl")
        gaps = rows(result, "gap")
        self.assertIn("\nIncomplete: %d gaps" % len(gaps), kda("map", image).stdout)

    def test_rows_of_every_kind_in_order(self):
        image = forge("holes", "map-holes.dmp", "--format", "dmp-bitmap")
        kinds = []
        for row in rows(kda("map", image, "-f", "jsonl")):
            if row["row"] not in kinds[-1:]:
                kinds.append(row["row"])
        self.assertEqual(kinds, ["info", "session", "consumer", "provider", "process", "gap"])

    def on_terminal(self, columns, *args):
        """What a terminal of this width gets, by line."""
        master, slave = pty.openpty()
        try:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            process = subprocess.Popen([KDA, "map", self.image, "-q"] + list(args),
                                       stdin=subprocess.DEVNULL, stdout=slave,
                                       stderr=subprocess.PIPE,
                                       env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})
            os.close(slave)
            slave = -1
            got = b""
            while True:
                try:
                    part = os.read(master, 65536)
                except OSError:  # how Linux tells the end
                    break
                if not part:
                    break
                got += part
            error = process.stderr.read()
            process.stderr.close()
            self.assertEqual((process.wait(), error), (0, b""))
        finally:
            os.close(master)
            if slave >= 0:
                os.close(slave)
        return got.decode("utf-8").replace("\r\n", "\n")

    def test_fits_a_terminal(self):
        """Lists are broken behind commas, what cannot be broken is cut."""
        text = self.on_terminal(62, "--no-color")
        self.assertEqual([line for line in text.split("\n") if len(line) > 62], [])
        group = text[text.index("[5] Diagtrack-Listener"):text.index("[6] ")]
        self.assertRegex(group, r"by RuntimeBroker\. \(4480\),\n {36}\S")
        self.assertIn("…", text)
        self.assertNotIn("\x1b", text)

    def test_colours_are_only_for_terminals(self):
        text = self.on_terminal(200)
        self.assertIn("\x1b[", text)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
        self.assertNotIn("\x1b", plain)
        self.assertEqual(plain, self.on_terminal(200, "--no-color"))


if __name__ == "__main__":
    unittest.main()
