"""The contestants that are Python libraries, one module each, and our own functions from the same driver.

A module has those of these functions that its library can do, each called in a process of its own with the same `Asked`:

    setup(asked)      creates its tables
    fill(asked)       enqueues `jobs`
    enqueue(asked)    enqueues for `seconds` in `workers` loops, `batch` at once      → {"jobs", "seconds"}
    drain(asked)      takes and finishes `jobs`, in `workers` loops, `batch` at once  → {"jobs", "seconds"}
    library, loop     as drain: a worker library of ours, and a loop by hand          → {"jobs", "seconds"}
    fires(asked)      schedules `jobs` from `lead` seconds on, spread over `spread`   → {"late": seconds of each}
"""

import asyncio
import time
import types


class Asked(types.SimpleNamespace):
    """What bench/contestants.py asks for: peer, task, host, database, workers, jobs, batch, seconds, lead, spread."""

    def dsn(self, scheme: str = "postgresql") -> str:
        """The database as a URL; the host is a folder of sockets."""
        return f"{scheme}://app@/{self.database}?host={self.host}"

    def instants(self) -> list[float]:
        """When each schedule is due, in seconds since 1970, on a full second first."""
        first = float(int(time.time() + self.lead) + 1)
        return [first + index * self.spread / self.jobs for index in range(self.jobs)]


class Countdown:
    """Knows when the last of `jobs` was done, and how long they took from the first on."""

    def __init__(self, jobs: int):
        self.jobs, self.done, self.started, self.ended = jobs, 0, None, None
        self.finished = asyncio.Event()

    def start(self) -> None:
        """The first task has come: neither start-up nor the first fetch counts, as our clients have connected before."""
        self.started = self.started or time.perf_counter()

    def tick(self, count: int = 1) -> None:
        self.done += count
        if self.done >= self.jobs and self.ended is None:
            self.ended = time.perf_counter()
            self.finished.set()

    def result(self) -> dict:
        # what came after the last of them is not counted: the clock had stopped
        return {"jobs": min(self.done, self.jobs), "seconds": (self.ended or time.perf_counter()) - self.started}


def in_time(instants: list[float]) -> None:
    """Raises when making the schedules took longer than they were given."""
    if time.time() > instants[0]:
        raise RuntimeError(f"making {len(instants)} schedules took {time.time() - instants[0]:.0f} s longer than planned for")


async def loops(asked: Asked, step) -> dict:
    """`workers` loops at once until `seconds` have passed; `step(worker)` does `batch` jobs."""
    started = time.perf_counter()

    async def loop(worker):
        done = 0
        while time.perf_counter() - started < asked.seconds:
            await step(worker)
            done += asked.batch
        return done

    counts = await asyncio.gather(*(loop(worker) for worker in range(asked.workers)))
    return {"jobs": sum(counts), "seconds": time.perf_counter() - started}
