"""What was measured: contestants take turns, so that a ratio holds when the machine's speed drifts."""

import json
import os
import re
import statistics
import sys
import time

from parts import PARTS

OURS = "scheduler"
SPENT = "this part's minutes were used up (slower machine than it was planned for)"


SAME = ("quick", "machine", "PostgreSQL", "settings", "scheduler")  # what two runs must have in common to make one


class Different(Exception):
    """Two runs that cannot be made one; the text says why."""


def differs(one: dict, other: dict, *, but=()) -> str | None:
    """What keeps two runs with these facts from being parts of one."""
    return next((
        f"{name} was {one.get(name)!r} and is {other.get(name)!r}" for name in SAME if name not in but and one.get(name) != other.get(name)
    ), None)


def load() -> str:
    """How many processes wanted to run in the last minute, five and fifteen."""
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


class Unable(Exception):
    """A contestant that cannot run here; the text says why."""


def why(error: Exception) -> str:
    """What kept a contestant from being measured, without the names of this machine's folders."""
    text = re.sub(r"(/[\w.+-]+){2,}", "…", " ".join(str(error).split()))[:300]
    return text if isinstance(error, Unable) else f"failed: {text}"


class Board:
    """All cases of a run. A case has one list of samples for each contestant, in the order of the rounds."""

    def __init__(self, rounds: int, path):
        self.rounds, self.path = rounds, path
        # part → when it was measured, for how many minutes, what else ran, of which sources; why it failed, if it did
        self.cases, self.facts, self.parts = [], {}, {}
        self.part, self.deadline, self.last_line = "", None, 0.0
        self.started = self.part_started = time.monotonic()

    def take_over(self, facts: dict, *, but=()) -> None:
        """Keeps the parts of the last run that were measured whole, but for those. It must have been of the same sources, on the
        same machine, and as long."""
        run = json.loads(self.path.read_text())
        if different := differs(run["facts"], facts):
            raise Different(different)
        self.parts = {name: part for name, part in run["parts"].items() if "failed" not in part and name not in but}
        self.cases = [case for case in run["cases"] if case["part"] in self.parts]

    def begin(self, part: str, minutes: float) -> None:
        """Starts a part, which may take that many minutes."""
        self.part, self.part_started = part, time.monotonic()
        self.deadline = self.part_started + minutes * 60
        self.parts[part] = {
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "load": load(), "rounds": self.rounds,
            "scheduler": self.facts.get("scheduler"), "failed": "interrupted",
        }

    def spent(self) -> bool:
        """Whether the part has used up its minutes."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def at_least(self, minutes: float) -> None:
        """What follows is short and worth it: that many minutes are left in any case."""
        self.deadline = max(self.deadline, time.monotonic() + minutes * 60)

    def end(self, failed: str | None = None) -> None:
        """The part is whole, and a resumed run need not repeat it; or says why it is not."""
        part = self.parts[self.part]
        part["minutes"] = round((time.monotonic() - self.part_started) / 60, 1)
        if failed:
            part["failed"] = failed
        else:
            del part["failed"]
        self.save()

    def compare(
        self, section, case, unit, contestants, *, rounds=None, more_is_better=True, group=None, note=None, unable=None,
    ):
        """Runs each contestant (name → function that returns {"value": …} or a number) once a round, in turn. `unable`:
        name → why it is not even tried."""
        samples, reasons = self.take(f"{section}: {case}", contestants, rounds or self.rounds, unable)
        self.add(section, case, unit, samples, reasons, more_is_better, group, note)

    def several(self, section, case, contestants, measures, *, rounds=None, group=None, note=None, unable=None):
        """As `compare`, for contestants whose one run gives several figures. measures: label → (unit, key, more is better)."""
        runs, reasons = self.take(f"{section}: {case}", contestants, rounds or self.rounds, unable)
        for label, (unit, key, more_is_better) in measures.items():
            samples = {name: [{"value": run[key]} for run in found] for name, found in runs.items()}
            self.add(section, f"{case}: {label}", unit, samples, reasons, more_is_better, group or case, note)

    def take(self, title, contestants, rounds, unable):
        """(name → what each round returned, name → why there is less), with the order turned by one in each round. Who fails once
        may try again in the next round; who is unable, or fails twice, is asked no more."""
        samples, reasons, names, given_up = {}, dict(unable or {}), list(contestants), set(unable or {})
        for turn in range(rounds):
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                if name in given_up:
                    continue
                if self.spent():
                    reasons.setdefault(name, SPENT)
                    continue
                self.progress(f"{title} · round {turn + 1}/{rounds} · {name}")
                try:
                    got = contestants[name]()
                except Exception as error:  # noqa: BLE001 - one contestant's failure must not end the run
                    if name in reasons or isinstance(error, (Unable, TimeoutError)):
                        given_up.add(name)
                    reasons[name] = why(error)
                    print(f"{title}: {name}: {reasons[name]}", flush=True)
                    continue
                samples.setdefault(name, []).append(got if isinstance(got, dict) else {"value": got})
        return {name: samples[name] for name in names if name in samples}, reasons

    def add(self, section, case, unit, samples, unable, more_is_better, group, note) -> None:
        entry = {
            "part": self.part, "section": section, "case": case, "unit": unit, "more_is_better": more_is_better, "group": group,
            "note": note, "samples": samples, "unable": unable,
        }
        self.cases.append(entry)
        self.save()
        self.print_case(entry)

    def progress(self, text: str) -> None:
        """A line that is written over on a terminal; elsewhere one now and then, so that a log shows life."""
        now = time.monotonic()
        seconds = int(now - self.started)
        text = f"{seconds // 60}:{seconds % 60:02}  {text}"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text[:150]}")
            sys.stderr.flush()
        elif now - self.last_line > 30:
            self.last_line = now
            print(text, file=sys.stderr, flush=True)

    def save(self) -> None:
        write({"facts": self.facts, "rounds": self.rounds, "parts": self.parts, "cases": self.cases}, self.path)

    def print_case(self, entry) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
        for line in lines(entry):
            print(line, flush=True)


def write(run: dict, path) -> None:
    """The JSON of a run, parts and their cases in the order in which they are reported; whoever reads it finds it whole."""
    order = {name: index for index, name in enumerate(PARTS)}
    parts = dict(sorted(run["parts"].items(), key=lambda item: order.get(item[0], len(order))))
    cases = sorted(run["cases"], key=lambda case: order.get(case["part"], len(order)))
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".new")
    written.write_text(json.dumps(run | {"parts": parts, "cases": cases}, indent=1) + "\n")
    written.replace(path)


def spread(values):
    """(minimum, median, maximum)."""
    return min(values), statistics.median(values), max(values)


def ratios(entry, name):
    """Ours over theirs in each round (theirs over ours where less is better): over 1 means that ours is better."""
    ours, theirs = entry["samples"].get(OURS, []), entry["samples"].get(name, [])
    pairs = [(a["value"], b["value"]) for a, b in zip(ours, theirs)]
    return [(a / b if entry["more_is_better"] else b / a) for a, b in pairs if a > 0 and b > 0]


def number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def lacking(entry, name) -> str:
    """What the reason is a reason for."""
    rounds = len(entry["samples"].get(name, ()))
    return f"only {rounds} round{'s' * (rounds > 1)}" if rounds else "not run"


def lines(entry):
    """A case as text: a line for each contestant."""
    yield f"{entry['section']}: {entry['case']} ({entry['unit']})"
    for name, samples in entry["samples"].items():
        low, middle, high = spread([sample["value"] for sample in samples])
        text = f"    {name:<42}{number(middle):>10}  ({number(low)} … {number(high)})"
        for label, key, unit in (("WAL", "wal", "B"), ("CPU", "cpu", "µs")):
            values = [sample[key] for sample in samples if key in sample]
            if values:
                text += f"  {label} {number(statistics.median(values))} {unit}"
        found = ratios(entry, name) if name != OURS else []
        if found:
            low, middle, high = spread(found)
            text += f"  ours × {middle:.2f} ({low:.2f} … {high:.2f})"
        yield text
    for name, reason in entry["unable"].items():
        yield f"    {name:<42} {lacking(entry, name)}: {reason}"
