"""The side-by-side benchmark; `make bench` calls it.  run.py [--quick] [--only leases,queue,…] [--rounds N]"""

import argparse
import importlib
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time

import report
from board import Board
from server import SETTINGS, Server

HERE = pathlib.Path(__file__).parent
SECTIONS = ["leases", "queue", "firing", "lateness", "tick"]
MODULES = {"queue": "queues"}  # `queue` is a module of Python


def facts(server, quick):
    """What a reader has to know about this run."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal"))) // 1024 // 1024
    revision = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "quick": quick,
        "machine": f"{os.cpu_count()} × {cpu}, {memory} GB, {platform.system()} {platform.release()}",
        "load at the start": " ".join(f"{value:.1f}" for value in os.getloadavg()),
        "scheduler": revision.stdout.strip() + ", release build",
        "PostgreSQL": server.sql("postgres", "SHOW server_version")[0][0],
        "Python": platform.python_version(),
        "settings": SETTINGS,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="only draw and write from the JSON of the last run")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name] or SECTIONS
    if unknown := set(chosen) - set(SECTIONS):
        sys.exit(f"no such section: {', '.join(unknown)} (there are {', '.join(SECTIONS)})")

    results = pathlib.Path(os.environ["BENCH_RESULTS"])
    if options.report:
        return report.write(results, HERE)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))  # so that the server is removed
    server = Server(
        pathlib.Path(os.environ["SCHEDULER_CLUSTERS"]) / "bench",
        pathlib.Path(os.environ["BENCH_SERVER"]),
        os.environ.get("SCHEDULER_RUNAS", ""),
    )
    board = Board(options.rounds, results)
    try:
        server.create()
        server.start()
        board.facts = facts(server, options.quick)
        for name in chosen:
            importlib.import_module(MODULES.get(name, name)).measure(server, board, options.quick)
        board.facts["load at the end"] = " ".join(f"{value:.1f}" for value in os.getloadavg())
        board.facts["minutes"] = round((time.monotonic() - board.started) / 60, 1)
        board.save()
    finally:
        server.close()
    if set(chosen) == set(SECTIONS) and not options.quick:
        report.write(results, HERE)
    print(f"JSON: {results}")


if __name__ == "__main__":
    main()
