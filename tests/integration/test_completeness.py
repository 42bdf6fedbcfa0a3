"""kda info: which anchors and lists are whole, and the kernel's counts beside what was found."""
import json
import unittest

from common import hexint, kda, rows, unpack
from test_truth import IMAGES

WHOLE = [name for name in IMAGES if "holes" not in name and "tampered" not in name]


def truth_of(path):
    with open(unpack(path + ".truth.json.xz"), encoding="utf-8") as f:
        return json.load(f)


def items(image, *args):
    result = kda("info", image, "-f", "jsonl", *args)
    info = rows(result, "info")[0]
    return info["completeness"], info, result


def one(items_, name, of=None):
    found = [x for x in items_ if x["name"] == name and (of is None or x.get("of") == of)]
    assert len(found) == 1, (name, of, found)
    return found[0]


class Whole(unittest.TestCase):
    """Images without holes: everything is complete, every count is what was found."""

    def test_every_list_is_complete(self):
        self.assertGreaterEqual(len(WHOLE), 6)
        for name in WHOLE:
            with self.subTest(name=name):
                truth = truth_of("images/" + name)
                got, info, _ = items(unpack("images/%s.%s.xz" % (name, IMAGES[name])))
                self.assertEqual(info["gap_count"], 0)
                for item in got:
                    self.assertEqual(item.get("state", "complete"), "complete", item)
                    self.assertEqual(item.get("lists"), item.get("whole"))
                    if "counted" in item:
                        self.assertEqual(item["counted"], item["found"], item)
                    self.assertNotIn("broken_at", item)
                listed = [x for x in truth["processes"] if x["linked"]]
                self.assertEqual(one(got, "PsActiveProcessHead")["found"], len(listed))
                self.assertEqual(one(got, "PsLoadedModuleList")["found"], len(truth["modules"]))
                counts = truth["callback_counts"]
                process = one(got, "PspCreateProcessNotifyRoutine")
                self.assertEqual(process["counted"], counts["process"] + counts["process_ex"])
                consumers = one(got, "WMI_LOGGER_CONTEXT.Consumers")
                self.assertEqual(consumers["counted"],
                                 sum(len(x["consumers"]) for x in truth["loggers"]))


class Damaged(unittest.TestCase):
    def setUp(self):
        self.image = unpack("evidence/removed-callback-14393.dmp.xz")
        self.items, self.info, self.result = items(self.image)

    def test_broken_lists_name_the_place(self):
        pages = {hexint(x["va"]) >> 12 for x in rows(self.result, "gap")}
        broken = [x for x in self.items if x.get("state") == "broken"]
        self.assertGreaterEqual(len(broken), 4)
        for item in broken:
            self.assertIn(hexint(item["broken_at"]) >> 12, pages, item)

    def test_other_witnesses_are_counted(self):
        processes = rows(kda("processes", self.image, "-f", "jsonl"), "process")
        listed = [x for x in processes if "list" in x["found_by"]]
        item = one(self.items, "PsActiveProcessHead")
        self.assertEqual((item["found"], item["by_others"]),
                         (len(listed), len(processes) - len(listed)))
        self.assertGreater(item["by_others"], 0)

    def test_counts_beside_what_was_found(self):
        item = one(self.items, "PspCreateProcessNotifyRoutine")
        self.assertEqual((item["counted"], item["found"]), (6, 5))
        thread = one(self.items, "PspCreateThreadNotifyRoutine")
        self.assertNotIn("counted", thread)
        self.assertEqual(thread["uncounted"], "the count is not in the image")
        self.assertIn("count_va", thread)
        # Pages of the id table: as many are missing as gaps were met in it.
        table = one(self.items, "PspCidTable")
        gaps = [x for x in rows(self.result, "gap") if x["what"] == "handle_table" and
                "of the table at " + table["va"] in x["text"]]
        self.assertEqual(table["counted"] - table["found"], len(gaps))

    def test_a_session_that_differs(self):
        sessions = {x["va"]: x for x in rows(kda("sessions", self.image, "-f", "jsonl"), "session")}
        differ = {va for va, x in sessions.items()
                  if x.get("num_consumers", -1) != len(x["consumers"])}
        told = [x for x in self.items if x["name"] == "WMI_LOGGER_CONTEXT.NumConsumers"]
        self.assertEqual({x["va"] for x in told}, differ)
        self.assertTrue(told)

    def test_people_ask_for_it(self):
        self.assertNotIn("Completeness", kda("info", self.image).stdout)
        text = kda("info", self.image, "-v").stdout
        item = one(self.items, "PsActiveProcessHead")
        self.assertIn("PsActiveProcessHead: broken, %d found, %d by others only, breaks at %s" % (
            item["found"], item["by_others"], item["broken_at"]), text)

    def test_without_symbols_what_is_not_known_says_so(self):
        got, info, _ = items(self.image, "--symbols", "none")
        self.assertEqual(info["layout"], "fitted")
        self.assertEqual(one(got, "CallbackListHead")["state"], "unknown")
        self.assertEqual(one(got, "PsLoadedModuleList")["state"], "complete")


if __name__ == "__main__":
    unittest.main()
