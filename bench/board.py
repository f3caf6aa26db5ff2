"""What was measured: contestants take turns, so that a ratio holds when the machine's speed drifts."""

import json
import statistics
import sys
import time

OURS = "scheduler"


class Unable(Exception):
    """A contestant that cannot run here; the text says why."""


class Board:
    """All cases of a run. A case has one list of samples for each contestant, in the order of the rounds."""

    def __init__(self, rounds: int, path):
        self.rounds, self.path = rounds, path
        self.cases, self.facts = [], {}
        self.started = time.monotonic()

    def compare(self, section, case, unit, contestants, *, rounds=None, more_is_better=True, show=None, group=None):
        """Runs each contestant (name → function that returns {"value": …} or a number) once a round, in turn."""
        entry = {
            "section": section, "case": case, "unit": unit, "more_is_better": more_is_better, "group": group,
            "samples": {}, "unable": {},
        }
        rounds = rounds or self.rounds
        names = list(contestants)
        for turn in range(rounds):
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                if name in entry["unable"]:
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
        self.cases.append(entry)
        self.save()
        self.print_case(entry)

    def progress(self, text: str) -> None:
        seconds = int(time.monotonic() - self.started)
        text = f"{seconds // 60}:{seconds % 60:02} {text}"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text[:150]}")
            sys.stderr.flush()

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"facts": self.facts, "rounds": self.rounds, "cases": self.cases}, indent=1))

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
        wal = [sample["wal"] for sample in samples if "wal" in sample]
        if wal:
            text += f"  WAL {statistics.median(wal):,.0f} B"
        cpu = [sample["cpu"] for sample in samples if "cpu" in sample]
        if cpu:
            text += f"  CPU {number(statistics.median(cpu))} µs"
        found = ratios(entry, name) if name != OURS else []
        if found:
            low, middle, high = spread(found)
            text += f"  ours × {middle:.2f} ({low:.2f} … {high:.2f})"
        yield text
    for name, reason in entry["unable"].items():
        yield f"    {name:<34}not run: {reason}"
