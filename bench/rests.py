"""Fires of a dispatcher that has ended because another one needed its worker slot: how late they are. More databases than slots, each with a
schedule that fires less than once a minute.
rests.py BIN FOLDER RUN_AS [--minutes N]"""

import argparse
import pathlib
import time

import lateness
from server import Server

DATABASES, SLOTS = 16, 10
PERIOD = 70  # seconds: a dispatcher rests where nothing is due within a minute


def measure(server, minutes):
    """The lateness of each fire, in seconds."""
    server.start(max_worker_processes=str(SLOTS))
    names = [f"rests_{number}" for number in range(DATABASES)]
    for name in names:
        server.database(name, "CREATE EXTENSION scheduler", "SELECT sched.define_job('bench')")
    for number, name in enumerate(names):
        server.sql(name, "SELECT sched.create_schedule('s', 'every %s seconds from ' || (clock_timestamp() + %s * interval '1 second')::text, 'bench')",
                   PERIOD, 15 + number * PERIOD / DATABASES)
    time.sleep(PERIOD + 20)  # the first fires come while nobody has rested yet
    began = server.sql("postgres", "SELECT clock_timestamp()")[0][0]
    time.sleep(minutes * 60)
    late = [row[0] for name in names for row in server.sql(
        name, "SELECT EXTRACT(epoch FROM created_at - plan_time)::float8 FROM sched.ledger WHERE plan_time >= %s", began)]
    return sorted(late)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bin", "folder"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("run_as", nargs="?", default="")
    parser.add_argument("--minutes", type=float, default=8)
    options = parser.parse_args()
    server = Server(options.folder / "bench-rests", options.bin, options.run_as)
    try:
        server.create()
        late = measure(server, options.minutes)
        share = lateness.percentiles(late)
        print(f"{len(late)} fires in {DATABASES} databases with {SLOTS} worker slots: p50 {share[0.5]:.1f} ms, p99 {share[0.99]:.1f} ms,"
              f" latest {late[-1] * 1000:.1f} ms")
    finally:
        server.close()


if __name__ == "__main__":
    main()
