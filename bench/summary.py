"""The section on speed of docs/benchmarks.md, made of the JSON of a run alone, so that a check can make it again and compare."""

import goals
from board import OURS, number, spread

NOTHING = "Not measured yet: `make bench` measures it beside its peers in 70 minutes, and writes this section.\n"
# what is shown: label, section, case, unit behind the number
SHOWN = (
    ("1,000 schedules due at once", "firing", "1,000 due at once", "fires a second"),
    ("10,000 schedules due at once", "firing", "10,000 due at once", "fires a second"),
    ("100,000 schedules due at once", "firing", "100,000 due at once", "fires a second"),
    ("1,000,000 schedules due at once", "firing", "1,000,000 due at once", "fires a second"),
    ("how late, 1,000 spread over 30 s: p50", "lateness", "1,000 spread over 30 s: p50", "ms"),
    ("how late, 1,000 spread over 30 s: p99", "lateness", "1,000 spread over 30 s: p99", "ms"),
    ("how late, 1,000 fires a second: p99", "lateness", "1,000 fires a second for 10 s: p99", "ms"),
    ("claim → heartbeat → finish, 8 clients, fsync on", "leases", "cycle, 8 clients, fsync on", "a second"),
    ("enqueue one, 8 clients, from SQL", "queue", "enqueue one, 8 clients, from SQL", "jobs a second"),
    ("claim one + finish, 8 workers, backlog 1,000,000, from SQL", "queue",
     "claim one + finish, 8 workers, backlog 1,000,000, from SQL", "jobs a second"),
    ("claim 100 + finish, 8 workers, backlog 1,000,000, from SQL", "queue",
     "claim 100 + finish, 8 workers, backlog 1,000,000, from SQL", "jobs a second"),
    ("claim 100 + finish, 8 workers, backlog 1,000,000, from Node", "queue",
     "claim 100 + finish, 8 workers, backlog 1,000,000, from Node", "jobs a second"),
    ("enqueued for later, from Node: p50", "delayed", "1,000 enqueued for later, spread over 5 s, from Node: p50", "ms"),
    ("enqueued for later, from Node: p99", "delayed", "1,000 enqueued for later, spread over 5 s, from Node: p99", "ms"),
    ("SQL jobs, 10,000 due at once", "sql", "10,000 SELECT 1 due at once: runs a second", "runs a second"),
    ("SQL jobs, from plan time to the command: p50", "sql", "from plan time to the command, 200 at intervals of 100 ms: p50", "ms"),
    ("SQL jobs, from plan time to the command: p99", "sql", "from plan time to the command, 200 at intervals of 100 ms: p99", "ms"),
)


def section(run) -> str:
    """Markdown; run is None when there are no results."""
    return "".join(f"{line}\n" for line in _lines(run)) if run else NOTHING


def _lines(run):
    facts = run["facts"]
    rounds = sorted({part["rounds"] for part in run["parts"].values() if "rounds" in part})
    yield (f"{facts['machine']}; PostgreSQL {facts['PostgreSQL']}; {facts['date']}; medians of {' or '.join(map(str, rounds))} round{'s' * (rounds != [1])},"
           " contestants in turn. [All cases](../bench/RESULTS.md), [how they")
    yield ("are measured](../bench/README.md), and [what was tried where we lose](../bench/NOTES.md). Figures are those of that machine;"
           " ratios carry over.")
    yield ""
    yield from goals.table(run)
    yield ""
    yield "![Firing: fires per second against the number of schedules that are due at once](../bench/charts/firing.svg)"
    yield ""
    yield "| | scheduler | the fastest other |"
    yield "| --- | ---: | --- |"
    for label, name, title, unit in SHOWN:
        case = next((case for case in run["cases"] if (case["section"], case["case"]) == (name, title)), None)
        if case and OURS in case["samples"]:
            yield f"| {label} | {number(_median(case, OURS))} {unit} | {_other(case)} |"


def _median(case, name):
    return spread([sample["value"] for sample in case["samples"][name]])[1]


def _other(case) -> str:
    """The best of the others, and its figure. Not of those whom nobody could use; the goals have them."""
    others = {
        name: _median(case, name) for name in case["samples"]
        # (Also ourselves, under other settings.)
        if name.split(",")[0] != OURS and name not in (goals.LIMIT, goals.PREPARED)
    }
    if not others:
        return ""
    name, value = (max if case["more_is_better"] else min)(others.items(), key=lambda item: item[1])
    return f"{number(value)}: {name}"
