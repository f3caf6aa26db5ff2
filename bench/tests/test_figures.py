"""The arithmetic that the tables, the comparison of two runs and the check of documents rest on."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import board  # noqa: E402
import compare  # noqa: E402
import measured  # noqa: E402
import report  # noqa: E402


def case(ours, theirs, **more):
    return {
        "part": "p", "section": "queue", "case": "enqueue one", "unit": "jobs per second", "more_is_better": True, "group": None,
        "note": None, "unable": {},
        "samples": {board.OURS: [{"value": v, "wal": 100} for v in ours], "peer": [{"value": v} for v in theirs]},
    } | more


RUN = {"facts": {}, "rounds": 3, "parts": [], "cases": [case([15_312, 16_000, 14_000], [1_000, 1_000, 2_000])]}
KEY = "queue | enqueue one | scheduler |"


class Ratios(unittest.TestCase):
    def test_each_round_is_compared_with_itself(self):
        self.assertEqual(board.ratios(RUN["cases"][0], "peer"), [15.312, 16, 7])

    def test_less_may_be_better(self):
        self.assertEqual(board.ratios(case([2], [6], more_is_better=False), "peer"), [3])

    def test_two_runs_agree_within_a_fifth_or_it_is_said_by_how_much_they_do_not(self):
        one = compare.medians(RUN)
        other = {key: value * 1.5 for key, value in one.items()}
        self.assertEqual([round(row[3], 6) for row in compare.differences(one, one)], [0])
        self.assertEqual([round(row[3], 6) for row in compare.differences(one, other)], [0.5])
        self.assertEqual([round(row[3], 6) for row in compare.differences(other, one)], [0.5])

    def test_the_report_names_ratios_that_moved(self):
        text = "\n".join(report.steadiness(RUN))
        self.assertIn("0 of 1 ratios stayed", text)
        self.assertIn("enqueue one: peer", text)


class Contestants(unittest.TestCase):
    def board(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        made = board.Board(2, pathlib.Path(folder.name) / "run.json")
        made.print_case = made.progress = lambda *_: None
        return made

    def test_the_order_turns_from_round_to_round(self):
        order = []
        self.board().take("", {name: lambda name=name: order.append(name) or 1 for name in "ab"}, 2, None)
        self.assertEqual("".join(order), "abba")

    def test_who_fails_says_why_once_and_names_no_folder(self):
        def fail():
            raise RuntimeError("no such file: /home/me/bin/x")
        samples, unable = self.board().take("", {"a": fail, "b": lambda: 1}, 2, {"c": "too slow"})
        self.assertEqual(samples, {"b": [{"value": 1}, {"value": 1}]})
        self.assertEqual(unable, {"c": "too slow", "a": "failed: no such file: …"})

    def test_a_resumed_run_keeps_whole_parts_only(self):
        facts = {"scheduler": "1", "quick": False, "machine": "m"}
        first = self.board()
        first.facts = facts
        first.begin("whole", 1)
        first.compare("s", "kept", "u", {"a": lambda: 1})
        first.end()
        first.begin("broken", 1)
        first.compare("s", "lost", "u", {"a": lambda: 1})
        second = board.Board(9, first.path)
        second.resume(facts)
        self.assertEqual(([entry["case"] for entry in second.cases], second.parts, second.rounds), (["kept"], ["whole"], 2))
        with self.assertRaises(SystemExit):
            board.Board(9, first.path).resume(facts | {"scheduler": "2"})


class Documents(unittest.TestCase):
    def faults(self, text, run=RUN):
        return [fault for _, fault in measured.faults(text, run)]

    def test_a_number_may_be_rounded_but_not_changed(self):
        for shown in ("15,312", "15,310", "15,300", "15,000"):
            self.assertEqual(self.faults(f"{shown}<!-- bench: {KEY} median --> fires a second"), [], shown)
        for shown in ("15,400", "15,313", "20,000", "16,000", "9"):
            self.assertEqual(len(self.faults(f"{shown}<!-- bench: {KEY} median --> fires a second")), 1, shown)

    def test_other_figures_of_a_sample(self):
        for shown, figure in (("14,000", "min"), ("16,000", "max"), ("100", "wal")):
            self.assertEqual(self.faults(f"{shown}<!-- bench: {KEY} {figure} -->"), [])
        self.assertEqual(self.faults("15.3<!-- bench: queue | enqueue one | peer | ratio --> times as many"), [])
        self.assertEqual(len(self.faults("15.4<!-- bench: queue | enqueue one | peer | ratio --> times as many")), 1)

    def test_keys_that_name_nothing(self):
        for key in ("queue | enqueue two | scheduler | median", "queue", f"{KEY} cpu"):
            self.assertEqual(len(self.faults(f"15,312<!-- bench: {key} -->")), 1, key)
        self.assertEqual(len(self.faults(f"15,312<!-- bench: {KEY} median -->", run=None)), 1)

    def test_a_measured_number_has_a_key(self):
        for text in ("it fires 20,000 a second", "in 3 ms", "5 µs", "9 times faster", "2k/s"):
            self.assertEqual(len(self.faults(text)), 1, text)
        for text in ("for 20 seconds", "every 5 minutes", "```\n3 ms\n```", "at most 100 schedules"):
            self.assertEqual(self.faults(text), [], text)


if __name__ == "__main__":
    unittest.main()
