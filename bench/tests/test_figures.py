"""The arithmetic that the tables, the comparison of two runs and the check of documents rest on."""

import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import board  # noqa: E402
import compare  # noqa: E402
import goals  # noqa: E402
import measured  # noqa: E402
import merge  # noqa: E402
import parts  # noqa: E402
import report  # noqa: E402
import summary  # noqa: E402


def case(ours, theirs, **more):
    return {
        "part": "p", "section": "queue", "case": "enqueue one", "unit": "jobs per second", "more_is_better": True, "group": None,
        "note": None, "unable": {},
        "samples": {board.OURS: [{"value": v, "wal": 100} for v in ours], "peer": [{"value": v} for v in theirs]},
    } | more


RUN = {"facts": {}, "rounds": 3, "parts": {}, "cases": [case([15_312, 16_000, 14_000], [1_000, 1_000, 2_000])]}
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

    def test_who_fails_once_is_asked_again_and_who_is_unable_is_not(self):
        asked = {"once": 0, "unable": 0, "always": 0}

        def ask(name, error):
            asked[name] += 1
            if asked[name] == 1 or name == "always":
                raise error
            return 1
        made = self.board()
        samples, reasons = made.take("", {
            "once": lambda: ask("once", RuntimeError("a")), "unable": lambda: ask("unable", board.Unable("b")),
            "always": lambda: ask("always", RuntimeError("c")),
        }, 4, None)
        self.assertEqual(asked, {"once": 4, "unable": 1, "always": 2})
        self.assertEqual((len(samples["once"]), list(reasons)), (3, ["once", "unable", "always"]))
        self.assertEqual(board.lacking({"samples": samples}, "once"), "only 3 rounds")
        self.assertEqual(board.lacking({"samples": samples}, "unable"), "not run")

    def test_who_fails_says_why_once_and_names_no_folder(self):
        def fail():
            raise RuntimeError("no such file: /home/me/bin/x")
        samples, unable = self.board().take("", {"a": fail, "b": lambda: 1}, 2, {"c": "too slow"})
        self.assertEqual(samples, {"b": [{"value": 1}, {"value": 1}]})
        self.assertEqual(unable, {"c": "too slow", "a": "failed: no such file: …"})

    def run_of(self, facts, failed=None):
        made = self.board()
        made.facts = facts
        for part in ("leases", "queue"):
            made.begin(part, 1)
            made.compare("s", part, "u", {"a": lambda: 1})
            made.end(failed=failed if part == "queue" else None)
        return made

    FACTS = {"scheduler": "1", "quick": False, "machine": "m"}

    def test_a_run_goes_on_with_the_whole_parts_of_the_last_one(self):
        first = self.run_of(self.FACTS, failed="it broke")
        second = board.Board(9, first.path)
        second.take_over(self.FACTS)
        self.assertEqual(([entry["case"] for entry in second.cases], list(second.parts)), (["leases"], ["leases"]))
        with self.assertRaises(board.Different):
            second.take_over(self.FACTS | {"scheduler": "2"})

    def test_a_part_that_is_measured_anew_takes_the_place_of_the_last(self):
        first = self.run_of(self.FACTS)
        second = board.Board(9, first.path)
        second.take_over(self.FACTS, but=["leases"])
        self.assertEqual([entry["case"] for entry in second.cases], ["queue"])
        second.begin("leases", 1)
        second.compare("s", "newer", "u", {"a": lambda: 1}, rounds=1)
        second.end()
        self.assertEqual([entry["case"] for entry in json.loads(first.path.read_text())["cases"]], ["newer", "queue"])

    def test_files_are_merged_part_by_part_and_the_last_whole_one_counts(self):
        runs = [json.loads(self.run_of(self.FACTS, failed).path.read_text()) for failed in (None, "it broke")]
        for number, run in enumerate(runs):
            for case in run["cases"]:
                case["note"] = number
        whole = merge.merged(runs)
        self.assertEqual([(case["case"], case["note"]) for case in whole["cases"]], [("queue", 0), ("leases", 1)])
        self.assertNotIn("failed", whole["parts"]["queue"])
        with self.assertRaises(board.Different):
            merge.merged([runs[0], runs[1] | {"facts": self.FACTS | {"machine": "n"}}])
        later = json.loads(self.run_of(self.FACTS | {"scheduler": "2"}).path.read_text())
        del later["parts"]["queue"]
        whole = merge.merged([runs[0], later])
        self.assertEqual({name: part["scheduler"] for name, part in whole["parts"].items()}, {"leases": "2", "queue": "1"})
        self.assertEqual(set(whole["facts"]["scheduler"].split("; ")), {"1", "2"})

    def test_a_part_takes_its_reserve_and_nothing_from_those_that_follow(self):
        plan = {"a": 10, "b": 10, "c": 10}
        self.assertEqual(parts.allowed(plan, "a", 0, 60), 15)
        self.assertEqual(parts.allowed(plan, "a", 0, 32), 12)
        self.assertEqual(parts.allowed(plan, "c", 25, 32), 7)
        self.assertEqual(parts.allowed(plan, "c", 31, 32), 5)

    def test_a_whole_run_is_planned_for_little_more_than_an_hour(self):
        self.assertLessEqual(sum(parts.planned(parts.PARTS, False).values()), 70.5)
        self.assertLessEqual(sum(parts.planned(parts.PARTS, True).values()), 8.2)


class Goals(unittest.TestCase):
    def run_with(self, *cases):
        return {"facts": {}, "cases": list(cases)}

    def verdict(self, judge, *cases):
        return judge(list(cases))

    def fired(self, count, group="due at once", **samples):
        return case([1], [1]) | {
            "section": "firing", "case": f"{count:,} due at once", "group": group,
            "samples": {name: [{"value": value}] * 3 for name, value in ({board.OURS: 1_000} | samples).items()},
        }

    def test_the_fastest_peer_is_found_wherever_it_was_measured(self):
        found = self.verdict(goals.peers, self.fired(1_000, slow=10, fast=90), self.fired(10_000, slow=20))
        self.assertEqual((found.reached, "fast, of 1,000" in found.measured), (True, True))
        found = self.verdict(goals.peers, self.fired(1_000, slow=10, fast=200), self.fired(10_000, slow=20))
        self.assertEqual((found.reached, found.missed), (False, "by 50 %"))

    def test_one_count_below_the_limit_misses_the_goal(self):
        good, bad = (self.fired(count, **{goals.LIMIT: value}) for count, value in ((1_000, 1_250), (10_000, 2_000)))
        self.assertTrue(self.verdict(goals.limit, good).reached)
        self.assertFalse(self.verdict(goals.limit, good, bad).reached)

    def test_what_was_not_measured_is_neither_reached_nor_missed(self):
        for verdict in goals.verdicts(self.run_with()):
            self.assertEqual(verdict.text(), "not measured", verdict.goal)

    def test_idle_is_idle_when_nothing_at_all_is_asked(self):
        def idle(what, value):
            return case([value], []) | {
                "section": "tick", "case": f"idle, 10,000 schedules, 5 s: {what}", "group": "idle",
                "samples": {board.OURS: [{"value": value}]},
            }
        self.assertTrue(self.verdict(goals.idle, idle("CPU", 3), idle("transactions", 0), idle("queries", 0)).reached)
        self.assertFalse(self.verdict(goals.idle, idle("transactions", 2), idle("queries", 0)).reached)

    def test_a_tick_may_cost_a_third_more(self):
        def ticked(among, value):
            return case([value], []) | {"section": "tick", "case": f"100 due among {among}", "group": "tick"}
        self.assertTrue(self.verdict(goals.tick, ticked("1,000", 1), ticked("1,000,000", 1.3)).reached)
        self.assertFalse(self.verdict(goals.tick, ticked("1,000", 1), ticked("1,000,000", 1.4)).reached)

    def test_the_worst_case_decides(self):
        found = [
            case([1_000], [theirs]) | {"group": "claim 100 + finish", "case": f"claim 100 + finish, {theirs}"} for theirs in (900, 1_100)
        ]
        self.assertTrue(self.verdict(goals.batches, found[0]).reached)
        self.assertFalse(self.verdict(goals.batches, *found).reached)


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

    def test_the_section_that_is_made_of_the_results_stands_as_it_was_made(self):
        run = RUN | {"facts": {"machine": "m", "PostgreSQL": "15", "date": "d"}, "parts": {"queue": {"rounds": 3}}}
        for made, other in ((run, None), (None, run)):
            text = f"a\n{measured.BEGIN}\n{summary.section(made)}{measured.END}\nb"
            self.assertEqual(self.faults(text, made), [])
            self.assertEqual(len(self.faults(text, other)), 1)
            self.assertEqual(len(self.faults(text + "\nit fires 20,000 a second", made)), 1)

    def test_filling_a_document_leaves_the_rest_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "README.md"
            path.write_text(f"a\n{measured.BEGIN}\nold\n{measured.END}\nb\n")
            with unittest.mock.patch.object(measured, "load", lambda: None):
                measured.fill(path)
            self.assertEqual(path.read_text(), f"a\n{measured.BEGIN}\n{summary.NOTHING}{measured.END}\nb\n")

    def test_a_measured_number_has_a_key(self):
        for text in ("it fires 20,000 a second", "in 3 ms", "5 µs", "9 times faster", "2k/s"):
            self.assertEqual(len(self.faults(text)), 1, text)
        for text in ("for 20 seconds", "every 5 minutes", "```\n3 ms\n```", "at most 100 schedules"):
            self.assertEqual(self.faults(text), [], text)


if __name__ == "__main__":
    unittest.main()
