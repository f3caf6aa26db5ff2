"""bench/RESULTS.md and the charts, from the JSON of a run."""

import json
import pathlib
import statistics

from board import OURS, number, ratios, spread

TITLES = {
    "leases": "Leases against hand-written prepared statements",
    "queue": "Queue: enqueue, claim and finish",
    "firing": "Firing: schedules that are due at once",
    "lateness": "Lateness",
    "tick": "One tick, and idling",
}


def write(results: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes `folder`/RESULTS.md and `folder`/charts/*.svg."""
    run = json.loads(results.read_text())
    charts = folder / "charts"
    charts.mkdir(exist_ok=True)
    text = list(head(run))
    for section, title in TITLES.items():
        cases = [case for case in run["cases"] if case["section"] == section]
        if cases:
            draw(section, title, cases, charts / f"{section}.svg")
            text += ["", f"## {title}", "", f"![{title}](charts/{section}.svg)", "", *table(cases)]
    (folder / "RESULTS.md").write_text("\n".join(text) + "\n")
    print(f"written: {folder / 'RESULTS.md'}")


def head(run):
    facts = run["facts"]
    yield "# Results"
    yield ""
    yield f"Written by `make bench`; do not edit. {run['rounds']} rounds, contestants in turn: minimum, median and maximum of each, and"
    yield "the ratio in each round (ours over theirs, or theirs over ours where less is better: over 1 is better for ours)."
    yield "Absolute figures say little about another machine; ratios do, within their spread. Where the spread is over 20 %, two"
    yield "runs will not agree within 20 %. WAL and CPU (of the server's processes) are medians for each operation."
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    for name, value in facts.items():
        if name == "settings":
            value = ", ".join(f"`{key} = {setting}`" for key, setting in value.items())
        yield f"| {name} | {value} |"


def table(cases):
    yield "| case | contestant | unit | min | median | max | ours × (min … max) | WAL | CPU |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for case in cases:
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
            yield f"| {case['case']} | {name} | {case['unit']} | {low} | {middle} | {high} | {ratio} | {extra[0]} | {extra[1]} |"
        for name, reason in case["unable"].items():
            yield f"| {case['case']} | {name} | | | | | not run: {reason.replace('|', '/')} | | |"


def draw(section, title, cases, path):
    """A bar for each contestant of each case, with its minimum and maximum."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "scheduler"
    from matplotlib import pyplot

    names = list(dict.fromkeys(name for case in cases for name in case["samples"]))
    colors = {name: "#1f6feb" if name == OURS else f"C{index + 1}" for index, name in enumerate(names)}
    height = sum(len(case["samples"]) + 1 for case in cases)
    figure, axes = pyplot.subplots(figsize=(10, 0.5 + 0.2 * height))
    place, labels = 0, []
    for case in cases:
        labels.append((place, f"{case['case']} ({case['unit']})"))
        for name, samples in case["samples"].items():
            low, middle, high = spread([sample["value"] for sample in samples])
            axes.barh(place, middle, color=colors[name], xerr=[[middle - low], [high - middle]], ecolor="#555", height=0.8)
            place += 1
        place += 1
    axes.set_xscale("log")
    axes.set_yticks([at for at, _ in labels], [label for _, label in labels], fontsize=7)
    axes.invert_yaxis()
    axes.set_title(title)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colors[name]) for name in names]
    axes.legend(handles, names, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.04), ncols=3)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
