"""This build beside that of another revision: is anything slower than before?  `make bench AGAINST=REVISION` calls it.
Or beside itself with another setting: what does that cost?  `make bench AGAINST=sched.fast_path=off`.

Each has a cluster of its own, both run all the time, and they are measured in turn, so that a ratio holds when the machine's speed
drifts. Ratios are over 1 where this build, as it is, is better.
against.py BIN OTHER_BIN FOLDER RUN_AS [--rounds N] [--only leases,…] [--setting NAME=VALUE]"""

import argparse
import pathlib
import statistics

import contestants as them
import firing
import lateness
import leases
import snapshot
import tick
from server import Server

BACKLOG = 20_000


def lease(script, clients, transactions):
    def prepare(server):
        them.OURS_SQL.ready(server)
        side = leases.Side(server, "ours", f"ours-{script}", 100_000)
        length = {"transactions": transactions // max(clients, 4), "threads": max(clients // 4, 1)}
        return lambda: side.run(clients, length, "5 min")
    return prepare


def drain(batch, jobs):
    def prepare(server):
        them.OURS_SQL.ready(server)

        def once():
            them.OURS_SQL.empty(server)
            them.OURS_SQL.fill(server, BACKLOG)
            return them.OURS_SQL.drain(server, 8, batch, jobs)
        return once
    return prepare


def enqueue(batch):
    def prepare(server):
        them.OURS_SQL.ready(server)
        return lambda: them.OURS_SQL.enqueue(server, 8, batch, 1)
    return prepare


def fires(count):
    return lambda server: lambda: firing.ours(server, count)


def late(share):
    return lambda server: lambda: {"value": lateness.steady(server, 1_000, 3)[share]}


def a_tick(count):
    def prepare(server):
        def once():
            tick.far(server, count)
            return {"value": tick.tick(server, count)}
        return once
    return prepare


# part → [(case, how often in a round, more is better, prepare)]
CASES = {
    "leases": [
        ("won, 1 client", 6, True, lease("won", 1, 16_000)),
        ("won, 8 clients", 6, True, lease("won", 8, 16_000)),
        ("claim, heartbeat, finish, 1 client", 3, True, lease("cycle", 1, 6_000)),
        ("claim, heartbeat, finish, 8 clients", 3, True, lease("cycle", 8, 6_000)),
    ],
    "queue": [
        ("enqueue one, 8 clients", 3, True, enqueue(1)),
        ("enqueue 100, 8 clients", 3, True, enqueue(100)),
        ("claim one + finish, 8 workers", 3, True, drain(1, 5_000)),
        ("claim 100 + finish, 8 workers", 3, True, drain(100, BACKLOG)),
    ],
    "firing": [
        ("1,000 due at once", 3, True, fires(1_000)),
        ("10,000 due at once", 2, True, fires(10_000)),
    ],
    "lateness": [
        ("1,000 a second: p50", 2, False, late(0.5)),
        ("1,000 a second: p99", 2, False, late(0.99)),
    ],
    "tick": [("100 due among 10,000", 1, False, a_tick(10_000))],
    "many": [
        ("300,000 due at once", 1, True, fires(300_000)),
        ("100 due among 300,000", 1, False, a_tick(300_000)),
    ],
}


def idle(servers):
    """Transactions and queries of an idle dispatcher in 5 s, of both."""
    for side, server in servers.items():
        server.start(*tick.STATISTICS)
        them.OURS_SQL.ready(server)
        tick.far(server, 1_000)
        found = tick.idle(server, 5)
        print(f"| idle: {side} | {found['transactions']:.0f} transactions, {found['queries']:.0f} queries, {found['cpu']:.0f} ms CPU a minute |", flush=True)


def differ(ours, theirs, name, value):
    """Has theirs another value of this setting, of which a restart knows as well."""
    theirs.set(**{name.replace(".", "__"): value})
    as_it_is, other = (server.sql("postgres", "SELECT current_setting(%s)", name)[0][0] for server in (ours, theirs))
    if as_it_is == other:
        raise SystemExit(f"{name} is {other} as it is: give it another value")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bin", "other", "folder"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("run_as", nargs="?", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=int, default=0, help="of the part snapshot: so long as a service runs, in place of as fast as can be")
    parser.add_argument("--setting", default="", help="NAME=VALUE that the other has in place of other sources")
    options = parser.parse_args()
    ours, theirs = ("as it is", options.setting) if options.setting else ("now", "before")
    servers = {
        ours: Server(options.folder / "bench-now", options.bin, options.run_as),
        theirs: Server(options.folder / "bench-before", options.other, options.run_as),
    }
    chosen = [part for part in CASES if not options.only or part in options.only.split(",")]
    try:
        for server in servers.values():
            server.create()
            server.start()
        if options.setting:
            differ(*servers.values(), *options.setting.split("=", 1))
        print(f"| part | case | {ours} / {theirs} | ± | CPU of an operation, {theirs} / {ours} | runs of each |\n"
              "| --- | --- | ---: | ---: | ---: | ---: |", flush=True)
        for part in chosen:
            for case, many, more, prepare in CASES[part]:
                sides = {name: prepare(server) for name, server in servers.items()}
                found = {name: [] for name in servers}
                for number in range(options.rounds * many):
                    # who goes first changes: what one run leaves to do is not always the same one's
                    for name in list(servers)[:: 1 if number % 2 else -1]:
                        found[name].append(sides[name]())
                pairs = list(zip(found[ours], found[theirs]))
                ratios = [now["value"] / before["value"] for now, before in pairs]
                ratios = ratios if more else [1 / ratio for ratio in ratios]
                error = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else 0
                # Which hardly moves when other programs share the machine.
                cpu = [before["cpu"] / now["cpu"] for now, before in pairs if now.get("cpu") and before.get("cpu")]
                cpu = f"{statistics.median(cpu):.3f}" if cpu else ""
                print(f"| {part} | {case} | {statistics.median(ratios):.3f} | {error:.3f} | {cpu} | {len(ratios)} |", flush=True)
        if not options.only or "idle" in options.only.split(","):
            idle(servers)
        if "snapshot" in options.only.split(","):
            snapshot.tables(servers, options.minutes)
    finally:
        for server in servers.values():
            server.close()


main()
