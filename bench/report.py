"""bench/RESULTS.md, the charts and results.json beside it, and docs/benchmarks.md, from the JSON of a run."""

import json
import pathlib
import shutil
import statistics
import sys

import goals
import measured
from board import OURS, lacking, number, ratios, spread
from parts import ALL, PARTS

TITLES = {
    "firing": "Firing: schedules that are due at once",
    "lateness": "Lateness",
    "tick": "One tick, and idling",
    "leases": "Leases against hand-written prepared statements",
    "queue": "Queue: enqueue, claim and finish",
    "delayed": "What was enqueued for later: from its time until its work begins",
    "clients": "Worker libraries beside loops by hand",
    "size": "Size of an execution",
    "memory": "Memory of the workers",
    "loading": "Loading through create_schedules",
    "sql": "SQL jobs beside pg_cron",
    "seen": "Answers to those who watch",
    "reads": "Reads of an application",
}
# one chart each
CHARTS = ("firing", "lateness", "tick", "leases", "queue")
STEADY = 1.2  # the ratios of one run lie within this factor of their median, or the report says that they do not


def publish(results: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes all that tells of a run, in `folder` and in docs/benchmarks.md."""
    if json.loads(results.read_text())["facts"]["quick"]:
        sys.exit("that was a quick run, whose figures nobody should quote: make bench measures the whole")
    write(results, folder)
    measured.fill(folder.parent / "docs" / "benchmarks.md")
    print("written: bench/RESULTS.md, bench/results.json, bench/charts, docs/benchmarks.md")


def write(results: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes `folder`/RESULTS.md, `folder`/charts/*.svg, and keeps the JSON as `folder`/results.json."""
    import drawing  # not needed by those who only check

    run = json.loads(results.read_text())
    charts = folder / "charts"
    charts.mkdir(exist_ok=True)
    text = list(head(run)) + list(judged(run)) + list(steadiness(run))
    for section, title in TITLES.items():
        cases = [case for case in run["cases"] if case["section"] == section]
        if not cases:
            continue
        text += ["", f"## {title}", ""]
        if section in CHARTS:
            drawing.draw(title, section, cases, charts / f"{section}.svg")
            text += [f"![{title}](charts/{section}.svg)", ""]
        text += table(cases)
    (folder / "RESULTS.md").write_text("\n".join(text) + "\n")
    if results.resolve() != (folder / "results.json").resolve():
        shutil.copyfile(results, folder / "results.json")


def head(run):
    yield "# Results"
    yield ""
    yield "Written by `make bench`; do not edit. Contestants take turns in each round (the table says how many rounds): minimum,"
    yield "median and maximum of each, and the ratio in each round (ours over theirs, or theirs over ours where less is"
    yield "better: over 1 is better for ours). Absolute figures say little about another machine; ratios do, within their spread."
    yield "WAL and CPU (of the server's processes) are medians for each operation."
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    for name, value in run["facts"].items():
        if name == "settings":
            value = ", ".join(f"`{key} = {setting}`" for key, setting in value.items())
        elif name == "quick":
            name, value = "length", "quick: fewer and smaller cases" if value else "whole"
        yield f"| {name} | {cell(value)} |"
    yield ""
    yield "| part | measured | of | rounds | minutes | load (1, 5, 15 minutes) before | |"
    yield "| --- | --- | --- | ---: | ---: | --- | --- |"
    for name in [name for name in ALL if name in PARTS or name in run["parts"]]:
        part = run["parts"].get(name, {"failed": "not measured"})
        values = [part.get(key, "") for key in ("date", "scheduler", "rounds", "minutes", "load", "failed")]
        yield f"| {name} | {' | '.join(cell(str(value)) for value in values)} |"


def judged(run):
    yield ""
    yield "## Goals"
    yield ""
    yield from goals.table(run)
    yield ""
    yield "[NOTES.md](NOTES.md) says of each goal that is missed what was tried, and what the profile shows."


def steadiness(run):
    """Which ratios moved by more than 20 % from round to round: two runs will not agree on these."""
    measured, moved = 0, []
    for case in run["cases"]:
        for name in case["samples"]:
            found = ratios(case, name) if name != OURS else []
            if len(found) > 1:
                measured += 1
                low, middle, high = spread(found)
                if max(high / middle, middle / low) > STEADY:
                    moved.append(f"{case['section']}: {case['case']}: {name}, {middle:.2f} ({low:.2f} … {high:.2f})")
    if not measured:
        return
    yield ""
    yield "## Steadiness"
    yield ""
    yield f"{measured - len(moved)} of {measured} ratios stayed within 20 % of their median in all rounds."
    yield "`bench/compare.py` compares two runs."
    if moved:
        yield "These did not:"
        yield ""
        yield from (f"- {cell(line)}" for line in moved)


def cell(text) -> str:
    return str(text).replace("|", "/")


def table(cases):
    yield "| case | contestant | unit | rounds | min | median | max | ours × (min … max) | WAL | CPU |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for case in cases:
        title = cell(case["case"]) + (f" ({cell(case['note'])})" if case["note"] else "")
        for name, samples in case["samples"].items():
            low, middle, high = (number(value) for value in spread([sample["value"] for sample in samples]))
            found = ratios(case, name) if name != OURS else []
            ratio = "{1:.2f} ({0:.2f} … {2:.2f})".format(*spread(found)) if found else ""
            extra = [
                number(statistics.median(values)) + unit if values else ""
                for values, unit in (
                    ([sample["wal"] for sample in samples if "wal" in sample], " B"),
                    ([sample["cpu"] for sample in samples if "cpu" in sample], " µs"),
                )
            ]
            yield (f"| {title} | {cell(name)} | {case['unit']} | {len(samples)} | {low} | {middle} | {high} | {ratio}"
                   f" | {extra[0]} | {extra[1]} |")
        for name, reason in case["unable"].items():
            yield f"| {title} | {cell(name)} | | | | | | {lacking(case, name)}: {cell(reason)} | | |"
