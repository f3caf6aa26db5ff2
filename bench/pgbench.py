"""Client loops in C, so that no interpreter is measured: pgbench with prepared statements."""

import os
import pathlib
import re

import processes

HERE = pathlib.Path(__file__).parent


def run(server, database: str, script: str, clients: int, *, seconds=None, transactions=None, scale=1, threads=None, **variables):
    """Runs sql/`script`; {"value": operations per second, "wal": bytes of WAL per operation, "cpu": microseconds of
    the server's CPU per operation}. `scale`: operations in one run of
    the script; `threads`: pgbench's own, as many as there are clients or processors unless told."""
    before, cpu = server.wal(), server.cpu()
    words = [
        str(server.bin / "pgbench"), "-h", str(server.folder), "-U", "app", "-n", "-M", "prepared", "-c", str(clients),
        "-j", str(threads or min(clients, os.cpu_count() or 1)), "-f", str(HERE / "sql" / script), database,
    ]
    words += ["-T", str(seconds)] if seconds else ["-t", str(transactions)]
    for name, value in ({"n": 0} | variables).items():
        words += ["-D", f"{name}={value}"]
    done = processes.run(words)
    speed = re.search(r"tps = ([\d.]+) \(without", done.stdout)
    count = re.search(r"actually processed: (\d+)", done.stdout)
    if done.returncode or not speed or not count or int(count[1]) == 0:
        raise RuntimeError(f"{script}: {done.stderr.strip()[-600:]}")
    operations = int(count[1]) * scale
    cpu = (server.cpu() - cpu) * 1e6 / operations
    return {"value": float(speed[1]) * scale, "wal": (server.wal() - before) / operations, "cpu": cpu, "count": operations}
