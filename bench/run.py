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
import traceback

import contestants
import report
from board import Board, Different, load, why
from parts import ALL, LONGEST, LONGEST_QUICK, PARTS, allowed, planned
from server import SETTINGS, Server

HERE = pathlib.Path(__file__).parent
SOURCES = ("src", "core/src", "sql", "Cargo.toml", "Cargo.lock", "core/Cargo.toml", "scheduler.control")
# All of them now: whoever edits one while the run is under way changes nothing of it.
MODULES = {name: importlib.import_module(module) for name, (module, *_) in ALL.items()}


def git(*words) -> str:
    return subprocess.run(["git", "-C", str(HERE.parent), *words], capture_output=True, text=True).stdout.strip()


def revision() -> str:
    """The last commit that changed what is measured: neither the results nor these measurements are part of that."""
    return git("log", "-1", "--format=%h", "--", *SOURCES) + ("-dirty" if git("status", "--porcelain", "--", *SOURCES) else "")


def facts(server, quick):
    """What a reader has to know about this run; no names of hosts or folders."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal"))) // 1024 // 1024
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "quick": quick,
        "machine": f"{os.cpu_count()} × {cpu}, {memory} GB, {platform.system()} {platform.release().split('-')[0]}",
        "disk": disk(server.folder.parent),
        "load at the start": load(),
        "scheduler": revision() + ", release build",
        "PostgreSQL": server.sql("postgres", "SHOW server_version")[0][0],
        "Python": platform.python_version(),
    } | contestants.versions(server) | {"settings": SETTINGS}


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="these parts, in place of what the last run of the same sources has of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--resume", action="store_true", help="the parts that an interrupted run has not ended")
    parser.add_argument("--report", action="store_true", help="only draw and write from the JSON of the last run")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name]
    if unknown := set(chosen) - set(ALL):
        sys.exit(f"no such part: {', '.join(sorted(unknown))} (there are {', '.join(ALL)})")

    results = pathlib.Path(os.environ["BENCH_RESULTS"])
    if options.report:
        return report.publish(results, HERE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
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
        found = facts(server, options.quick)
        keep(board, found, chosen, options.resume)
        board.facts = found
        print("; ".join(f"{name} {value}" for name, value in found.items() if name not in ("settings", "quick")))
        measure(server, board, [name for name in chosen or PARTS if chosen or name not in board.parts], options.quick)
        board.facts["load at the end"] = load()
        board.facts["minutes"] = round(sum(part.get("minutes", 0) for part in board.parts.values()), 1)
        board.save()
    finally:
        server.close()
    print(f"JSON: {results.name}")
    if set(board.parts) >= set(PARTS) and not options.quick:
        report.publish(results, HERE)
    if failed := {name: part["failed"] for name, part in board.parts.items() if "failed" in part}:
        sys.exit("not whole (RESUME=1 measures these parts again): " + "; ".join(f"{name} {text}" for name, text in failed.items()))


def keep(board, found, chosen, resume) -> None:
    """What of the last run becomes part of this one. Its JSON is kept beside in any case."""
    if not board.path.exists():
        return
    shutil.copyfile(board.path, board.path.with_suffix(".before.json"))
    if not (resume or chosen):
        return
    try:
        board.take_over(found, but=chosen)
    except (Different, KeyError, ValueError) as error:
        if resume:
            sys.exit(f"cannot resume: {error}")
        print(f"the last run cannot be completed, this one stands alone: {error}")


def measure(server, board, chosen, quick) -> None:
    """One part after the other; each is saved case by case, and one that fails takes nothing from the others."""
    plan, began = planned(chosen, quick), time.monotonic()
    longest = LONGEST_QUICK if quick else LONGEST
    print("minutes planned: " + ", ".join(f"{name} {value:g}" for name, value in plan.items()) + f"; {sum(plan.values()):g} in all")
    for name in chosen:
        board.begin(name, allowed(plan, name, (time.monotonic() - began) / 60, longest))
        try:
            MODULES[name].measure(server, board, quick)
            board.end()
        except Exception as error:  # noqa: BLE001 - the other parts are measured all the same
            board.end(failed=why(error))
            print(f"{name}: {why(error)}", flush=True)
            traceback.print_exc()
            anew(server)
        print(f"part {name}: {board.parts[name]['minutes']} minutes (planned {plan[name]:g})", flush=True)


def anew(server) -> None:
    """A fresh cluster: in whatever state that one is, no part is measured in it."""
    server.close()
    server.create()


if __name__ == "__main__":
    main()
