"""kda symbols where the image names no PDB: the built-in table does, by PE time stamp and size."""
import json
import struct
import unittest

from common import kda, need_data, rows, unpack, work

TRIAGE = "dumps/1_IRQL_NOT_LESS_OR_EQUAL.dmp"
STAMP, SIZE = 0x4473D78D, 21299200  # of the kernel in that dump


def truth(name):
    with open(unpack("images/%s.truth.json.xz" % name), encoding="utf-8") as f:
        return json.load(f)["kernel"]


class TablePdb(unittest.TestCase):
    def check(self, row, kernel):
        guid = row["pdb_guid"].strip("{}").replace("-", "").upper()
        self.assertEqual((row["pdb_name"], guid, row["pdb_age"]),
                         (kernel["pdb"], kernel["guid"], kernel["age"]))
        self.assertEqual(row["store_path"], "%s/%s%x/%s" % (kernel["pdb"], kernel["guid"],
                                                            kernel["age"], kernel["pdb"]))
        self.assertEqual((row["version"], row["pdb_source"]), (kernel["version"], "table"))

    def test_triage_dump_of_a_known_kernel(self):
        kernel = truth("win11-22000.795")
        with open(need_data(TRIAGE), "rb") as f:
            dump = f.read()
        for old, new in ((STAMP, kernel["timestamp"]), (SIZE, kernel["size"])):
            self.assertIn(struct.pack("<I", old), dump)
            dump = dump.replace(struct.pack("<I", old), struct.pack("<I", new))
        image = work("triage-known.dmp")
        with open(image, "wb") as f:
            f.write(dump)
        result = kda("symbols", image, "-f", "jsonl")
        self.assertEqual(result.returncode, 0, result.stderr)
        row = rows(result, "symbols")[0]
        self.check(row, kernel)
        self.assertEqual((row["found"], row["source"]), (True, "profile"))
        self.assertNotIn("missing", row)

    def test_triage_dump_of_another(self):
        result = kda("symbols", need_data(TRIAGE), "-f", "jsonl")
        self.assertEqual(result.returncode, 5)
        row = rows(result, "symbols")[0]
        self.assertNotIn("pdb_name", row)
        self.assertNotIn("pdb_source", row)
        self.assertEqual((row["found"], row["version"], row["build_known"]),
                         (False, "10.0.26100.8036", "some globals known, layout not"))
        self.assertIn("does not hold the kernel's PDB identity", row["missing"])

    def test_image_without_its_debug_record(self):
        kernel = truth("server2016-14393.4583")
        with open(unpack("images/server2016-14393.4583.raw.xz"), "rb") as f:
            raw = bytearray(f.read())
        at = raw.find(b"RSDS")
        raw[at:at + 4] = bytes(4)
        image = work("without-rsds.raw")
        with open(image, "wb") as f:
            f.write(raw)
        row = rows(kda("symbols", image, "-f", "jsonl"), "symbols")[0]
        self.check(row, kernel)
        self.assertTrue(row["found"])
        off = kda("symbols", image, "-f", "jsonl", "--symbols", "none")
        self.assertEqual(off.returncode, 5)
        row = rows(off, "symbols")[0]
        self.check(row, kernel)
        self.assertEqual((row["found"], row["build_known"]), (False, "layout and globals known"))

    def test_its_own_record_is_no_table(self):
        row = rows(kda("symbols", unpack("images/server2016-14393.4583.raw.xz"), "-f", "jsonl"),
                   "symbols")[0]
        self.assertIn("pdb_name", row)
        self.assertNotIn("pdb_source", row)
        self.assertNotIn("build_known", row)


if __name__ == "__main__":
    unittest.main()
