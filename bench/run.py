"""The side-by-side benchmark; `make bench` calls it.  run.py [--quick] [--only leases,…] [--rounds N] [--resume] [--report]"""

import argparse
import importlib
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time

import contestants
import report
from board import Board, why
from server import SETTINGS, Server

HERE = pathlib.Path(__file__).parent
# part → (module, minutes planned for the whole, for a quick run)
PARTS = {
    "leases": ("leases", 5, 0.4),
    "queue": ("queues", 14, 0.8),
    "firing": ("firing", 14, 1.0),
    "lateness": ("lateness", 13, 0.9),
    "tick": ("tick", 3, 0.5),
    "size": ("size", 2, 0.2),
    "million": ("million", 9, 1.1),
}


def facts(server, quick):
    """What a reader has to know about this run; no names of hosts or folders."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal"))) // 1024 // 1024
    revision = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "quick": quick,
        "machine": f"{os.cpu_count()} × {cpu}, {memory} GB, {platform.system()} {platform.release()}",
        "disk": disk(server.folder.parent),
        "load at the start": load(),
        "scheduler": revision.stdout.strip() + ", release build",
        "PostgreSQL": server.sql("postgres", "SHOW server_version")[0][0],
        "Python": platform.python_version(),
    } | contestants.versions(server) | {"settings": SETTINGS}


def load():
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def disk(folder):
    """File system and size of where the cluster lies, and how long a write takes to reach the disk."""
    number = os.stat(folder).st_dev
    kind = next((
        line.split(" - ")[1].split()[0] for line in open("/proc/self/mountinfo")
        if line.split()[2] == f"{os.major(number)}:{os.minor(number)}"
    ), "unknown file system")
    probe = folder / "bench-probe"
    with probe.open("wb") as file:
        took = []
        for _ in range(20):
            file.write(b"x" * 8192)
            file.flush()
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - started)
    probe.unlink()
    return f"{kind}, {shutil.disk_usage(folder).total >> 30} GB, fdatasync of 8 kB {sorted(took)[10] * 1000:.2g} ms"


def plan(chosen, quick):
    """Says what will be done and how long that should take."""
    minutes = {name: PARTS[name][2 if quick else 1] for name in chosen}
    print("minutes: " + ", ".join(f"{name} {value:g}" for name, value in minutes.items()) + f"; {sum(minutes.values()):g} in all")
    return minutes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--resume", action="store_true", help="the parts that an interrupted run has not ended")
    parser.add_argument("--report", action="store_true", help="only draw and write from the JSON of the last run")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name] or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        sys.exit(f"no such part: {', '.join(sorted(unknown))} (there are {', '.join(PARTS)})")

    results = pathlib.Path(os.environ["BENCH_RESULTS"])
    if options.report:
        return report.write(results, HERE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))  # so that the server is removed
    server = Server(
        pathlib.Path(os.environ["SCHEDULER_CLUSTERS"]) / "bench",
        pathlib.Path(os.environ["BENCH_SERVER"]),
        os.environ.get("SCHEDULER_RUNAS", ""),
    )
    board = Board(options.rounds, results)
    failed = []
    try:
        server.create()
        server.start()
        found = facts(server, options.quick)
        if options.resume and results.exists():
            board.resume(found)
        board.facts = found
        print("; ".join(f"{name} {value}" for name, value in found.items() if name not in ("settings", "quick")))
        for name, minutes in plan([name for name in chosen if name not in board.parts], options.quick).items():
            board.begin(name, minutes)
            try:
                importlib.import_module(PARTS[name][0]).measure(server, board, options.quick)
                board.end()
            except Exception as error:  # noqa: BLE001 - the other parts are measured all the same
                failed.append(f"{name} {why(error)}")
                print(f"{failed[-1]}", flush=True)
                server.stop()  # whatever state it is in, the next part starts its own
        board.facts["load at the end"] = load()
        board.facts["minutes"] = round(board.facts.get("minutes", 0) + (time.monotonic() - board.started) / 60, 1)
        board.save()
    finally:
        server.close()
    if set(board.parts) == set(PARTS) and not options.quick:
        report.write(results, HERE)
    print(f"JSON: {results.name}")
    if failed:
        sys.exit("not whole (RESUME=1 measures these parts again): " + "; ".join(failed))


if __name__ == "__main__":
    main()
