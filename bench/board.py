"""What was measured: contestants take turns, so that a ratio holds when the machine's speed drifts."""

import json
import statistics
import sys
import time

OURS = "scheduler"
SPENT = "this part's minutes were used up (slower machine than it was planned for)"


class Unable(Exception):
    """A contestant that cannot run here; the text says why."""


class Board:
    """All cases of a run. A case has one list of samples for each contestant, in the order of the rounds."""

    def __init__(self, rounds: int, path):
        self.rounds, self.path = rounds, path
        self.cases, self.facts, self.parts = [], {}, []
        self.part, self.deadline, self.last_line = "", None, 0.0
        self.started = time.monotonic()

    def resume(self, facts: dict) -> None:
        """Takes over the cases of an interrupted run, which must have been of the same sources and of the same length."""
        run = json.loads(self.path.read_text())
        for name in ("scheduler", "quick", "machine"):
            if run["facts"].get(name) != facts[name]:
                raise SystemExit(f"cannot resume: {name} was {run['facts'].get(name)!r} and is {facts[name]!r}")
        self.parts = run["parts"]
        self.cases = [case for case in run["cases"] if case["part"] in self.parts]
        self.rounds = run["rounds"]

    def begin(self, part: str, minutes: float) -> None:
        """Starts a part, which may take half as long again as planned."""
        self.part, self.deadline = part, time.monotonic() + minutes * 60 * 1.5

    def spent(self) -> bool:
        """Whether the part has used up its minutes."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def end(self) -> None:
        """The part is whole: a resumed run need not repeat it."""
        self.parts.append(self.part)
        self.save()

    def compare(
        self, section, case, unit, contestants, *, rounds=None, more_is_better=True, group=None, note=None, unable=None,
    ):
        """Runs each contestant (name → function that returns {"value": …} or a number) once a round, in turn. `unable`:
        name → why it is not even tried."""
        entry = {
            "part": self.part, "section": section, "case": case, "unit": unit, "more_is_better": more_is_better, "group": group,
            "note": note, "samples": {}, "unable": dict(unable or {}),
        }
        rounds = rounds or self.rounds
        names = list(contestants)
        for turn in range(rounds):
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                if name in entry["unable"]:
                    continue
                if self.spent():
                    if not entry["samples"].get(name):
                        entry["unable"][name] = SPENT
                    continue
                self.progress(f"{section}: {case} · round {turn + 1}/{rounds} · {name}")
                try:
                    got = contestants[name]()
                except Unable as reason:
                    entry["unable"][name] = str(reason)
                    continue
                except Exception as error:  # noqa: BLE001 - one contestant's failure must not end the run
                    entry["unable"][name] = f"failed: {str(error)[:300]}"
                    continue
                entry["samples"].setdefault(name, []).append(got if isinstance(got, dict) else {"value": got})
        self.add(entry)

    def add(self, entry) -> None:
        self.cases.append(entry)
        self.save()
        self.print_case(entry)

    def several(self, section, name, contestants, measures, *, rounds=None, more_is_better=False, group=None, unable=None):
        """As `compare`, for contestants whose one run gives more than one figure: measures is label → (unit, key of the run)."""
        runs = {}

        def kept(contestant, key):
            turns = iter(range(10**6))

            def value():
                turn, found = next(turns), runs.setdefault(contestant, [])
                if turn == len(found):
                    try:
                        found.append(contestants[contestant]())
                    except Exception as error:  # noqa: BLE001 - its other figures say the same, without a second run
                        found.append(error)
                if isinstance(found[turn], Exception):
                    raise found[turn]
                return found[turn][key]
            return value

        for label, (unit, key) in measures.items():
            self.compare(
                section, f"{name}: {label}", unit, {contestant: kept(contestant, key) for contestant in contestants},
                rounds=rounds, more_is_better=more_is_better, group=group or name, unable=unable,
            )

    def progress(self, text: str) -> None:
        """A line that is written over on a terminal; elsewhere one now and then, so that a log shows life."""
        now = time.monotonic()
        seconds = int(now - self.started)
        text = f"{seconds // 60}:{seconds % 60:02} {text}"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text[:150]}")
            sys.stderr.flush()
        elif now - self.last_line > 30:
            self.last_line = now
            print(text, file=sys.stderr, flush=True)

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"facts": self.facts, "rounds": self.rounds, "parts": self.parts, "cases": self.cases}, indent=1)
        written = self.path.with_suffix(".new")
        written.write_text(text + "\n")
        written.replace(self.path)

    def print_case(self, entry) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
        for line in lines(entry):
            print(line, flush=True)


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


def lines(entry):
    """A case as text: a line for each contestant."""
    yield f"{entry['section']}: {entry['case']} ({entry['unit']})"
    for name, samples in entry["samples"].items():
        low, middle, high = spread([sample["value"] for sample in samples])
        text = f"    {name:<34}{number(middle):>10}  ({number(low)} … {number(high)})"
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
        yield f"    {name:<34}not run: {reason}"
