"""bench/RESULTS.md, the charts and results.json beside it, from the JSON of a run."""

import json
import pathlib
import shutil
import statistics

from board import OURS, number, ratios, spread

TITLES = {
    "firing": "Firing: schedules that are due at once",
    "lateness": "Lateness",
    "tick": "One tick, and idling",
    "leases": "Leases against hand-written prepared statements",
    "queue": "Queue: enqueue, claim and finish",
    "size": "Size of an execution",
    "memory": "Memory of the workers",
    "loading": "Loading through create_schedules",
}
CHARTS = ("firing", "lateness", "tick", "leases", "queue")
STEADY = 1.2  # the ratios of one run lie within this factor of their median, or the report says that they do not


def write(results: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes `folder`/RESULTS.md, `folder`/charts/*.svg, and keeps the JSON as `folder`/results.json."""
    run = json.loads(results.read_text())
    charts = folder / "charts"
    charts.mkdir(exist_ok=True)
    text = list(head(run)) + list(steadiness(run))
    for section, title in TITLES.items():
        cases = [case for case in run["cases"] if case["section"] == section]
        if not cases:
            continue
        text += ["", f"## {title}", ""]
        if section in CHARTS:
            draw(title, cases, charts / f"{section}.svg")
            text += [f"![{title}](charts/{section}.svg)", ""]
        text += table(cases)
    (folder / "RESULTS.md").write_text("\n".join(text) + "\n")
    if results.resolve() != (folder / "results.json").resolve():
        shutil.copyfile(results, folder / "results.json")
    print("written: bench/RESULTS.md, bench/results.json, bench/charts")


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
        yield f"| {name} | {cell(value)} |"


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
            yield f"| {title} | {cell(name)} | | | | | | not run: {cell(reason)} | | |"


def draw(title, cases, path):
    """A bar for each contestant of each case, with its minimum and maximum; a panel for each unit."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "scheduler"
    from matplotlib import pyplot

    names = list(dict.fromkeys(name for case in cases for name in case["samples"]))
    palette = [f"C{index}" for index in range(10) if index != 0] + ["#444444", "#c49c94", "#98df8a", "#ffbb78", "#f7b6d2"]
    others = [name for name in names if name != OURS]
    colors = {OURS: "#1f6feb"} | {name: palette[index % len(palette)] for index, name in enumerate(others)}
    measured = [case for case in cases if case["samples"]]
    units = list(dict.fromkeys(case["unit"] for case in measured))
    panels = [[case for case in measured if case["unit"] == unit] for unit in units]
    heights = [sum(len(case["samples"]) + 1 for case in panel) + 2 for panel in panels]
    figure, all_axes = pyplot.subplots(
        len(panels), figsize=(10, 1 + 0.2 * sum(heights)), height_ratios=heights, squeeze=False, layout="constrained",
    )
    for axes, unit, panel in zip(all_axes[:, 0], units, panels):
        place, labels = 0, []
        for case in panel:
            labels.append((place, case["case"]))
            for name, samples in case["samples"].items():
                low, middle, high = spread([sample["value"] for sample in samples])
                axes.barh(place, middle, color=colors[name], xerr=[[middle - low], [high - middle]], ecolor="#555", height=0.8)
                axes.text(high, place, f" {number(middle)}", va="center", fontsize=6)
                place += 1
            place += 1
        if any(sample["value"] > 0 for case in panel for samples in case["samples"].values() for sample in samples):
            axes.set_xscale("log")
        axes.set_yticks([at for at, _ in labels], [label for _, label in labels], fontsize=7)
        axes.set_ylim(place - 1, -1)
        axes.set_xlabel(unit, fontsize=8)
    figure.suptitle(title)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colors[name]) for name in names]
    figure.legend(handles, names, fontsize=7, loc="outside lower center", ncols=3)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
