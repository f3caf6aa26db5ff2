"""The charts: one each for firing, lateness, tick, leases and queue, drawn from the cases of a run.

Dots and bars are medians; thin lines reach from the minimum to the maximum of the rounds."""

import re

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot, ticker  # noqa: E402 - after the choice of what draws

from board import OURS, number, spread  # noqa: E402
from goals import HAND, LIMIT, ROWS, ROWS_GIVEN  # noqa: E402

matplotlib.rcParams |= {
    "svg.hashsalt": "scheduler", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10,
    "axes.titlelocation": "left", "axes.grid": True, "axes.axisbelow": True, "grid.color": "#e4e4e4", "grid.linewidth": 0.6,
}
FIXED = {OURS: "#1f6feb", LIMIT: "#111111", HAND: "#8a8a8a", ROWS: "#8a8a8a", ROWS_GIVEN: "#b4b4b4"}
OTHERS = ("#d1495b", "#2e8b57", "#edae49", "#7a5195", "#00798c", "#b5651d", "#c06c9b", "#6b8e23", "#5f6caf", "#a05a2c")


def draw(title, section, cases, path) -> None:
    """Draws one section's cases to an SVG."""
    figure = SECTIONS[section]([case for case in cases if case["samples"]])
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)


def values(case, name):
    return spread([sample["value"] for sample in case["samples"][name]])


def colors(names) -> dict:
    rest = [name for name in names if name not in FIXED]
    return FIXED | {name: OTHERS[index % len(OTHERS)] for index, name in enumerate(rest)}


def count(text: str) -> int:
    """The first number in the name of a case."""
    return int(re.search(r"\d[\d,]*", text)[0].replace(",", ""))


def thousands(value, _) -> str:
    return f"{value / 1000:g} k" if value else "0"


def plain(axis) -> None:
    """1,000 and not 10³; a few marks between the powers of ten where there are few of those."""
    low, high = sorted(axis.get_view_interval())
    subs = (1.0, 2.0, 5.0) if low > 0 and high / low < 100 else (1.0,)
    axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=20))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def lines(axes, names, points, paint) -> None:
    """A line for each contestant. points: name → [(x, minimum, median, maximum)]."""
    for name in names:
        if name not in points:
            continue
        found = sorted(points[name])
        x, middle = [point[0] for point in found], [point[2] for point in found]
        reach = [[point[2] - point[1] for point in found], [point[3] - point[2] for point in found]]
        ours = name == OURS
        axes.errorbar(
            x, middle, yerr=reach, label=name, color=paint[name], marker="o", markersize=5 if ours else 4,
            linewidth=2.4 if ours else 1.3, linestyle="--" if name in (LIMIT, ROWS, ROWS_GIVEN) else "-", elinewidth=0.8, capsize=2,
            zorder=3 if ours else 2,
        )


def firing(cases):
    cases = [case for case in cases if case["group"] == "due at once"]
    names = list(dict.fromkeys(name for case in cases for name in case["samples"]))
    names.sort(key=lambda name: -max(values(case, name)[1] for case in cases if name in case["samples"]))
    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    lines(axes, names, {
        name: [(count(case["case"]), *values(case, name)) for case in cases if name in case["samples"]] for name in names
    }, colors(names))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("schedules due at the same instant")
    axes.set_ylabel("fires per second, until the last is enqueued")
    plain(axes.xaxis)
    plain(axes.yaxis)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8, title="fastest first")
    return figure


def lateness(cases):
    """p50, p99 and worst on one line for each contestant, a panel for each load."""
    loads = list(dict.fromkeys(case["group"] for case in cases))
    figure, all_axes = pyplot.subplots(
        len(loads), figsize=(9, 1.2 + sum(0.7 + 0.32 * len(_of(cases, load)[0]["samples"]) for load in loads)), squeeze=False,
        height_ratios=[1 + len(_of(cases, load)[0]["samples"]) for load in loads], layout="constrained", sharex=True,
    )
    marks = {"p50": ("o", "p50"), "p99": ("D", "p99"), "worst": ("|", "worst")}
    for axes, load in zip(all_axes[:, 0], loads):
        found = {case["case"].rsplit(": ", 1)[1]: case for case in _of(cases, load)}
        names = sorted(found["p99"]["samples"], key=lambda name: values(found["p99"], name)[1])
        for place, name in enumerate(names):
            color = FIXED[OURS] if name == OURS else "#777777"
            at = {label: values(found[label], name)[1] for label in marks}
            axes.plot([at["p50"], at["worst"]], [place, place], color=color, linewidth=1.2)
            for label, (marker, legend) in marks.items():
                axes.plot(at[label], place, marker, color=color, markersize=9 if label == "worst" else 6,
                          label=legend if place == 0 else None)
            axes.annotate(f"p50 {number(at['p50'])}, p99 {number(at['p99'])}, worst {number(at['worst'])}", (at["worst"], place),
                          xytext=(8, 0), textcoords="offset points", va="center", fontsize=7, color=color)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_title(load)
        axes.set_xscale("log")
        axes.grid(axis="y", visible=False)
    low, high = all_axes[-1, 0].get_xlim()
    all_axes[-1, 0].set_xlim(low, high * 40)  # room for the figures
    plain(all_axes[-1, 0].xaxis)
    all_axes[-1, 0].set_xlabel("milliseconds after the plan time")
    figure.legend(*all_axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False, fontsize=8)
    return figure


def tick(cases):
    ticks = sorted((case for case in cases if case["group"] == "tick"), key=lambda case: ("after" in case["case"], _among(case)))
    idle = [case for case in cases if case["group"] == "idle"]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.8), width_ratios=(3, 2), layout="constrained")
    fresh = [case for case in ticks if ", after" not in case["case"]]
    points = [(_among(case), *values(case, OURS)) for case in fresh]
    lines(left, [OURS], {OURS: points}, FIXED)
    if points:
        least = min(point[2] for point in points)
        left.axhspan(least, least * 1.3, color="#1f6feb", alpha=0.1, linewidth=0, label="1.3 × the least: what counts as flat")
    for case in ticks:
        if ", after" in case["case"]:
            left.plot(_among(case), values(case, OURS)[1], "^", color="#d1495b", label=case["case"].split(", ", 1)[-1].split(", ")[-1])
    left.set_xscale("log")
    left.set_ylim(bottom=0, top=left.get_ylim()[1] * 1.35)
    plain(left.xaxis)
    left.set_title("A tick that fires 100")
    left.set_xlabel("schedules in the table")
    left.set_ylabel("milliseconds")
    left.legend(frameon=False, fontsize=8, loc="upper left")
    labels = [case["case"].removeprefix("idle, ") for case in idle]
    texts = [re.sub(r", \d+ s: ", "\n", label) for label in labels]
    found = [values(case, OURS)[1] for case in idle]
    right.barh(range(len(idle)), found, color=FIXED[OURS], height=0.5)
    for place, (case, value) in enumerate(zip(idle, found)):
        right.annotate(number(value) + (" ms" if case["case"].endswith("CPU") else ""), (value, place), xytext=(4, 0),
                       textcoords="offset points", va="center", fontsize=8)
    right.set_yticks(range(len(idle)), texts, fontsize=7)
    right.set_ylim(len(idle) - 0.4, -0.6)
    right.set_xlim(0, max([*found, 1]) * 1.2)
    right.set_title("Nothing due: each minute")
    right.grid(axis="y", visible=False)
    return figure


def leases(cases):
    groups = list(dict.fromkeys(case["group"] for case in cases))
    figure, all_axes = pyplot.subplots(1, len(groups), figsize=(2.3 * len(groups) + 0.8, 3.6), squeeze=False, layout="constrained")
    for axes, group in zip(all_axes[0], groups):
        found = sorted(_of(cases, group), key=_clients)
        lines(axes, [OURS, HAND], {
            name: [(place, *values(case, name)) for place, case in enumerate(found) if name in case["samples"]]
            for name in (OURS, HAND)
        }, FIXED)
        axes.set_xticks(range(len(found)), [str(_clients(case)) for case in found])
        axes.set_xlim(-0.4, len(found) - 0.6)
        axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.05)
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(thousands))
        disk, operation = group.split(": ")
        axes.set_title(f"{operation}, {disk}")
        axes.set_xlabel("clients")
    all_axes[0, 0].set_ylabel("per second")
    figure.legend(*all_axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def queue(cases):
    """The cases with the most clients: bars by language, so that each library stands beside ours from the same language."""
    most = max(_clients(case) for case in cases)
    cases = [case for case in cases if _clients(case) == most]
    panels = list(dict.fromkeys(_panel(case) for case in cases))
    rows = (len(panels) + 1) // 2
    height = max(sum(len(case["samples"]) for case in cases if _panel(case) == panel) for panel in panels)
    figure, all_axes = pyplot.subplots(rows, 2, figsize=(12, 0.8 + rows * (0.7 + 0.24 * height)), squeeze=False, layout="constrained")
    for axes in all_axes.flat[len(panels):]:
        axes.set_axis_off()
    for axes, panel in zip(all_axes.flat, panels):
        labels, place, longest = [], 0, 0
        for case in (case for case in cases if _panel(case) == panel):
            language = case["case"].rsplit(", ", 1)[1]
            for name in sorted(case["samples"], key=lambda name: -values(case, name)[1]):
                low, middle, high = values(case, name)
                axes.barh(place, middle, color=FIXED[OURS] if name == OURS else "#b9b9b9", height=0.75,
                          xerr=[[middle - low], [high - middle]], error_kw={"ecolor": "#444444", "elinewidth": 0.8})
                axes.annotate(number(middle), (high, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7)
                labels.append((place, f"{name}, {language}"))
                longest = max(longest, high)
                place += 1
            place += 0.6
        axes.set_yticks([at for at, _ in labels], [text for _, text in labels], fontsize=7)
        axes.set_ylim(place - 0.9, -0.7)
        axes.set_xlim(0, longest * 1.18)
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(thousands))
        axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
        axes.set_title(panel)
        axes.set_xlabel(f"jobs per second, {most} clients", fontsize=8)
        axes.grid(axis="y", visible=False)
    return figure


def _of(cases, group):
    return [case for case in cases if case["group"] == group]


def _among(case) -> int:
    return count(case["case"].split(" among ")[1])


def _clients(case) -> int:
    return int(re.search(r", (\d+) (?:client|worker)", case["case"])[1])


def _panel(case) -> str:
    """What is done, and with which backlog."""
    what, _, rest = case["case"].partition(", ")
    backlog = re.search(r"backlog [\d,]+(?=, from)", rest)
    return what + (f", {backlog[0]}" if backlog else "")


SECTIONS = {"firing": firing, "lateness": lateness, "tick": tick, "leases": leases, "queue": queue}
