"""How late: (time of the insert, or of the task's start) − plan time, for 1,000 schedules spread over 30 s and for 1,000 fires a
second."""

import time

import firing
import node
from board import OURS, Unable

BOSS, GRAPHILE = "pg-boss (polls every 0.5 s, its shortest)", "graphile-worker (polls every 0.1 s)"


def measure(server, board, quick):
    """Adds the cases of this section to the board: p50, p99 and worst of the same runs."""
    server.start()
    server.database("ours", (firing.HERE / "sql/ours.sql").read_text())
    for peer in ("graphile", "boss"):
        server.database(peer)
        server.sql("postgres", f"ALTER DATABASE {peer} OWNER TO app")
        try:
            node.call(server, peer, "setup", peer, workers=1)
        except Exception as error:  # noqa: BLE001 - its measurement will say the same
            print(f"{peer}: {error}")
    spread = 8 if quick else 30
    jobs = 250 if quick else 1_000

    def by_node(peer, database):
        server.sql(database, "TRUNCATE graphile_worker._private_jobs" if peer == "graphile" else "TRUNCATE pgboss.job")
        got = node.call(server, peer, "lateness", database, workers=4, jobs=jobs, lead=2, spread=spread)
        return sorted(value / 1000 for value in got["lateness"])

    def unable():
        raise Unable("fires at full minutes only")

    case(board, f"{jobs:,} spread over {spread} s", {
        OURS: lambda: spread_out(server, jobs, spread),
        GRAPHILE: lambda: by_node("graphile", "graphile"),
        BOSS: lambda: by_node("boss", "boss"),
        firing.CRON: unable,
    }, rounds=1 if quick else board.rounds)
    case(board, f"1,000 fires a second for {5 if quick else 20} s", {
        OURS: lambda: steady(server, 1_000, 5 if quick else 20),
    }, rounds=1 if quick else board.rounds)


def case(board, name, contestants, rounds):
    """One run of each contestant, shown as three cases."""
    kept = {}

    def percentile(contestant, share):
        def value():
            turn = len(kept.setdefault((contestant, share), []))
            runs = kept.setdefault(contestant, [])
            if turn == len(runs):
                runs.append(contestants[contestant]())
            kept[contestant, share].append(None)
            late = runs[turn]
            return max(1e-6, late[min(len(late) - 1, int(len(late) * share))]) * 1000
        return value

    for label, share in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0)):
        board.compare("lateness", f"{name}: {label}", "milliseconds", {
            contestant: percentile(contestant, share) for contestant in contestants
        }, rounds=rounds, more_is_better=False, group=name)


def spread_out(server, jobs, seconds):
    due = firing.instant(server, 4)
    firing.schedules(server, jobs, "every 1 day from {}", first=due, step=f"{seconds / jobs} seconds")
    return lateness(server, due, seconds, jobs)


def steady(server, rate, seconds):
    due = firing.instant(server, 4)
    firing.schedules(server, rate, "every 1 second from {}", first=due, step=f"{1 / rate} seconds")
    return lateness(server, due, seconds, rate * seconds)


def lateness(server, due, seconds, expected):
    with server.connect("ours") as connection:
        left = connection.execute("SELECT EXTRACT(epoch FROM %s - clock_timestamp())::float8", [due]).fetchone()[0]
        time.sleep(max(0, left) + seconds + 0.5)
        late = connection.execute(
            "SELECT EXTRACT(epoch FROM created_at - plan_time)::float8 FROM sched.ledger"
            " WHERE plan_time < %s + %s * interval '1 second' ORDER BY 1", [due, seconds]
        ).fetchall()
        connection.execute("TRUNCATE sched.schedule, sched.timer, sched.ledger, sched.ready, sched.schedule_change")
    if len(late) < expected:
        raise RuntimeError(f"{len(late)} of {expected} fired")
    return [value for (value,) in late]
