"""What is to be reached, whether it was, and by how much it was missed: from the JSON of a run alone."""

import dataclasses
import statistics

from board import OURS, number, ratios, spread

LIMIT = "physical limit (set-based SQL)"
ROWS, ROWS_GIVEN = "row-by-row dispatcher (Python)", "row-by-row dispatcher, told the next times"
HAND = "hand-written SQL"
LOOP = "loop by hand, with the same driver"
CRON_WORKERS, CRON_CONNECTIONS = "pg_cron (background workers)", "pg_cron (connections)"
FRESH, BUSY, DEFAULT = "scheduler, a process for each run", "scheduler, all runners busy", "scheduler, 4 at once"
# pgmq's statements without its functions: nothing that somebody could use, and so no peer. What lies between the two is planning.
PREPARED = "pgmq's statements, prepared by the client"
# Their fires call a function in their own process, or reach a broker in memory: nothing is durable that was not before.
IN_PROCESS = ("APScheduler", "celery beat", "pgqueuer")

SHOWN = 4  # of what is missed, the worst


@dataclasses.dataclass
class Verdict:
    """A goal, what was measured, and whether that reaches it; `missed` says by how much not. None: it was not measured."""

    goal: str
    measured: str
    reached: bool | None
    missed: str = ""

    def text(self) -> str:
        return "not measured" if self.reached is None else "reached" if self.reached else f"**missed** {self.missed}".strip()


def verdicts(run) -> list:
    """Of all goals, in the order in which a reader would ask."""
    cases = run["cases"]
    return [judge(cases) for judge in (peers, rows, limit, late, tick, idle, leases, batches, delayed, libraries, runs, starts, all_start, grows, beside, watched, newest, read)]


def _median(case, name=OURS):
    return statistics.median(sample["value"] for sample in case["samples"][name])


def _ratio(case, name):
    """The median of the rounds' ratios, or None."""
    found = ratios(case, name)
    return spread(found)[1] if found else None


def _by(measured, wanted):
    return f"by {100 * (1 - measured / wanted):.0f} %"


def _at_once(cases, group="due at once"):
    """How many were due at once → the case."""
    return {
        int(case["case"].split(" ")[0].replace(",", "")): case
        for case in cases if case["section"] == "firing" and case["group"] == group and OURS in case["samples"]
    }


def peers(cases):
    goal = "10,000 schedules due at once: 10 × as fast as the fastest peer"
    found = _at_once(cases)
    if 10_000 not in found:
        return Verdict(goal, "", None)
    ours, best = found[10_000], {}
    for count, case in sorted(found.items()):
        if count > 10_000:
            continue
        for name in case["samples"].keys() - {OURS, LIMIT, ROWS, ROWS_GIVEN}:
            # one that takes fewer at most is compared by its rate at that
            best[name] = count, (_ratio(case, name) if case is ours else _median(ours) / _median(case, name))
    if not best:
        return Verdict(goal, "", None)
    name, (count, times) = min(best.items(), key=lambda item: item[1][1])
    text = f"{number(_median(ours))} a second, × {number(times)} ({name}" + (f", of {count:,})" if count != 10_000 else ")")
    durable = {other: value for other, value in best.items() if not other.startswith(IN_PROCESS)}
    if name not in durable and durable:
        other, (count, further) = min(durable.items(), key=lambda item: item[1][1])
        text += f"; of those that enqueue in a database × {number(further)} ({other}" + (f", of {count:,})" if count != 10_000 else ")")
    return Verdict(goal, text, times >= 10, _by(times, 10))


def rows(cases):
    goal = "10,000 schedules due at once: 30 × as fast as a row-by-row dispatcher, both with fsync on"
    found, texts = {}, []
    for disk, group in (("on", "fsync on"), ("off", "due at once")):
        case = _at_once(cases, group).get(10_000)
        if not case or ROWS not in case["samples"]:
            continue
        found[disk] = _ratio(case, ROWS)
        told = f" (× {number(_ratio(case, ROWS_GIVEN))} were it told the next times)" if ROWS_GIVEN in case["samples"] else ""
        texts.append(f"× {number(found[disk])}{told}" + (" with fsync off" if disk == "off" else ""))
    if "on" not in found:
        return Verdict(goal, "", None)
    return Verdict(goal, "; ".join(texts), found["on"] >= 30, _by(found["on"], 30))


def limit(cases):
    goal = "Firing: 0.7 of the physical limit, from 1,000 to 1,000,000"
    found = {count: _ratio(case, LIMIT) for count, case in sorted(_at_once(cases).items()) if LIMIT in case["samples"]}
    if not found:
        return Verdict(goal, "", None)
    worst = min(found.values())
    return Verdict(goal, ", ".join(f"{value:.2f} ({count:,})" for count, value in found.items()), worst >= 0.7, _by(worst, 0.7))


def late(cases):
    goal = "Lateness: p99 below the p50 of every peer"
    found = {
        part: next((case for case in cases if case["section"] == "lateness" and " spread over " in case["case"]
                    and case["case"].endswith(part)), None)
        for part in ("p50", "p99")
    }
    if not all(case and OURS in case["samples"] for case in found.values()):
        return Verdict(goal, "", None)
    ours = _median(found["p99"])
    theirs = {name: _median(found["p50"], name) for name in found["p50"]["samples"] if name != OURS}
    if not theirs:
        return Verdict(goal, "", None)
    name, least = min(theirs.items(), key=lambda item: item[1])
    text = f"p99 {number(ours)} ms; least p50 of a peer {number(least)} ms ({name})"
    durable = {other: value for other, value in theirs.items() if not other.startswith(IN_PROCESS)}
    if name not in durable and durable:
        other, value = min(durable.items(), key=lambda item: item[1])
        text += f", of those that enqueue in a database {number(value)} ms ({other})"
    return Verdict(goal, text, ours < least, f"by × {number(ours / least)}")


def tick(cases):
    goal = "A tick with 100 due: at most 1.3 × the time from 1,000 to 1,000,000 schedules"
    found = {
        case["case"].split(" among ")[1]: _median(case)
        for case in cases if case["section"] == "tick" and case["group"] == "tick" and ", after" not in case["case"]
        and OURS in case["samples"]
    }
    if len(found) < 2:
        return Verdict(goal, "", None)
    times = max(found.values()) / min(found.values())
    text = f"× {times:.2f}: " + ", ".join(f"{number(value)} ms ({count})" for count, value in found.items())
    return Verdict(goal, text, times <= 1.3, f"by × {times / 1.3:.2f}")


def idle(cases):
    goal = "Idle: no queries"
    found = {
        (case["case"].split(": ")[0].removeprefix("idle, ").rsplit(", ", 1)[0], case["case"].split(": ")[1]): _median(case)
        for case in cases if case["section"] == "tick" and case["group"] == "idle" and OURS in case["samples"]
    }
    asked = {key: value for key, value in found.items() if key[1] in ("queries", "transactions")}
    if not asked:
        return Verdict(goal, "", None)
    text = "; ".join(
        f"{how_many}: " + ", ".join(
            f"{number(value)} {what}" + (" ms" if what == "CPU" else "") for (other, what), value in found.items() if other == how_many
        ) for how_many in dict.fromkeys(key[0] for key in found)
    )
    return Verdict(goal, f"a minute, with {text}", not any(asked.values()), f"by {number(max(asked.values()))} a minute")


def leases(cases):
    goal = "Leases: 1.0 × hand-written prepared statements"
    found = {case["case"]: value for case in cases if case["section"] == "leases" and HAND in case["samples"]
             and (value := _ratio(case, HAND))}
    return _all_of(goal, found, 1.0)


def batches(cases):
    goal = "Claim 100 + finish: as fast as the fastest of the peers"
    found, prepared = {}, []
    for case in cases:
        if case["section"] == "queue" and case["group"] == "claim 100 + finish":
            theirs = {name: value for name in case["samples"] if name != OURS and (value := _ratio(case, name))}
            if value := theirs.pop(PREPARED, None):
                prepared.append(value)
            if theirs:
                name, value = min(theirs.items(), key=lambda item: item[1])
                found[f"{case['case'].removeprefix('claim 100 + finish, ')}, {name}"] = value
    told = f". ({PREPARED}, who are no peer: × {min(prepared):.2f} … {max(prepared):.2f})" if prepared else ""
    verdict = _all_of(goal, found, 1.0)
    return dataclasses.replace(verdict, measured=verdict.measured + told)


def delayed(cases):
    goal = "Enqueued for later, 1,000 a second, also among 1,000,000 others: p99 < 10 ms"
    found = {
        case["case"].split(" among ")[1].split(" ")[0]: _median(case)
        for case in cases if case["section"] == "delayed" and case["case"].endswith(" others: p99") and OURS in case["samples"]
    }
    if not found:
        return Verdict(goal, "", None)
    worst = max(found.values())
    text = ", ".join(f"p99 {number(value)} ms (among {count})" for count, value in found.items())
    return Verdict(goal, text, worst < 10, f"by × {number(worst / 10)}")


def libraries(cases):
    goal = "Worker libraries: 0.8 of a loop by hand with the same driver"
    found = {case["case"]: _ratio(case, LOOP) for case in cases if case["section"] == "clients" and LOOP in case["samples"] and OURS in case["samples"]}
    if not found:
        return Verdict(goal, "", None)

    def short(case):
        _, transaction, _, language = case.split(", ")
        return f"{language}, {transaction}"

    worst = min(found.values())
    return Verdict(goal, ", ".join(f"{value:.2f} ({short(case)})" for case, value in found.items()), worst >= 0.8, _by(worst, 0.8))


def _answers(cases, goal, which, limit, section="seen"):
    """Whether all p99 of these questions stay within so many milliseconds."""
    found = {
        case["case"]: _median(case)
        for case in cases if case["section"] == section and case["case"].endswith(", p99") and OURS in case["samples"] and which(case["case"])
    }
    if not found:
        return Verdict(goal, "", None)
    name, worst = max(found.items(), key=lambda item: item[1])
    return Verdict(goal, f"at most {number(worst)} ms ({name.removesuffix(', p99')})", worst <= limit, f"by × {number(worst / limit)}")


def watched(cases):
    goal = "metrics() and health() with 10,000,000 executions and 1,000,000 schedules: p99 ≤ 5 ms"
    return _answers(cases, goal, lambda case: "()," in case, 5)


def newest(cases):
    goal = "The newest 20 of history, of a job, of a schedule, the first 20 of a queue, with 10,000,000 executions: p99 ≤ 10 ms"
    passed = _answers(cases, goal, lambda case: "wait: newest 20" in case and "schedule, p99" not in case, 10)
    verdict = _answers(cases, goal, lambda case: " 20" in case and "wait: newest" not in case, 10)
    # what is newer and has not ended is read past
    return dataclasses.replace(verdict, measured=f"{verdict.measured}; behind a backlog of 1,000,000 newer ones {passed.measured}") if passed.measured else verdict


def _sql(cases, ending):
    """The case of SQL jobs whose title ends so, or None."""
    return next((case for case in cases if case["section"] == "sql" and case["case"].endswith(ending) and OURS in case["samples"]), None)


def runs(cases):
    goal = "SQL jobs: 10 × as many runs a second as pg_cron in the faster of its modes, fsync on"
    case = _sql(cases, "runs a second")
    theirs = case and {name: _ratio(case, name) for name in case["samples"] if name not in (OURS, DEFAULT)}
    if not theirs:
        return Verdict(goal, "", None)
    name, times = min(theirs.items(), key=lambda item: item[1])
    text = f"{number(_median(case))} a second, 32 at once, × {number(times)} ({name})"
    if DEFAULT in case["samples"]:
        text += f"; {number(_median(case, DEFAULT))} a second, 4 at once"
    return Verdict(goal, text, times >= 10, _by(times, 10))


def starts(cases):
    goal = "SQL jobs: a command begins after its plan time: p50 < 3 ms, p99 < 10 ms; in a fresh process < 50 ms"
    p50, p99 = (_sql(cases, f" 100 ms: {share}") for share in ("p50", "p99"))
    if not p50 or FRESH not in p50["samples"]:
        return Verdict(goal, "", None)
    found = [(_median(p50), 3), (_median(p99), 10), (_median(p50, FRESH), 50)]
    text = "p50 {} ms, p99 {} ms; fresh p50 {} ms".format(*(number(value) for value, _ in found))
    text += f", p99 {number(_median(p99, FRESH))} ms"
    worst = max(value / wanted for value, wanted in found)
    return Verdict(goal, text, worst < 1, f"by × {number(worst)}")


def all_start(cases):
    goal = "SQL jobs: 10,000 due at once all start within 61 s"
    case = _sql(cases, "10,000 SELECT 1 due at once: started within 61 s")
    if not case:
        return Verdict(goal, "", None)
    text = ", ".join(f"{number(_median(case, name))} ({name})" for name in case["samples"])
    return Verdict(goal, text, _median(case) >= 10_000, f"by {number(10_000 - _median(case))}")


def grows(cases):
    goal = "SQL jobs: a runner grows by less than 64 MB in a SELECT of 10,000,000 rows and 1 MB of notices"
    case = _sql(cases, "1 MB of notices")
    return Verdict(goal, f"{number(_median(case))} MB", _median(case) < 64, f"by × {number(_median(case) / 64)}") if case else Verdict(goal, "", None)


def beside(cases):
    goal = "SQL jobs: all runners busy, the p99 of other jobs within 20 %"
    case = next((case for case in cases if case["section"] == "sql" and " of other jobs " in case["case"] and case["case"].endswith("p99")
                 and {OURS, BUSY} <= case["samples"].keys()), None)
    if not case:
        return Verdict(goal, "", None)
    quiet, busy = _median(case), _median(case, BUSY)
    return Verdict(goal, f"p99 {number(busy)} ms, otherwise {number(quiet)} ms", busy <= 1.2 * quiet, f"by × {number(busy / quiet / 1.2)}")


def _all_of(goal, found, wanted):
    """A goal that each of these ratios has to reach."""
    if not found:
        return Verdict(goal, "", None)
    missed = sorted((value, title) for title, value in found.items() if value < wanted)
    low, middle, high = spread(list(found.values()))
    text = f"× {low:.2f} … {high:.2f}, half of them over {middle:.2f}; {len(found) - len(missed)} of {len(found)} reached"
    if missed:
        text += ". Missed: " + "; ".join(f"{value:.2f} {title}" for value, title in missed[:SHOWN])
        text += f"; and {len(missed) - SHOWN} more" if len(missed) > SHOWN else ""
    return Verdict(goal, text, not missed, _by(low, wanted) + " at the worst")


def table(run):
    """Lines of Markdown."""
    yield "| goal | measured (medians) | reached? |"
    yield "| --- | --- | --- |"
    for verdict in verdicts(run):
        yield f"| {verdict.goal} | {verdict.measured.replace('|', '/')} | {verdict.text()} |"


def read(cases):
    goal = "An application's joins by id, and executions by scope or schedule in a time, with 10,000,000 executions: p99 ≤ 10 ms"
    return _answers(cases, goal, lambda case: "LIMIT" not in case, 10, section="reads")
