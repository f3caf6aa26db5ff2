"""The worker libraries in clients/, each beside a loop by hand in its language: the same driver, and the same transactions."""

import contestants as them
from board import OURS
from goals import LOOP

SLOTS = 4
# some seconds of work, beside which the start does not count
TAKEN = {1: 20_000, 100: 300_000}


def measure(server, board, quick):
    """Adds the cases of this part to the board."""
    server.start()
    for language, library, loop in (("Python", them.CLIENT_PYTHON, them.LOOP_PYTHON), ("TypeScript", them.CLIENT_NODE, them.LOOP_NODE)):
        for batch, jobs in TAKEN.items():
            if quick:
                jobs //= 10

            def drained(one):
                one.fill(server, jobs)
                return one.drain(server, SLOTS, batch, jobs)

            what = f"{jobs:,} empty runs, {f'{batch} in a transaction' if batch > 1 else 'each in a transaction of its own'}, {SLOTS} slots, {language}"
            board.compare("clients", what, "runs per second", {
                OURS: lambda: drained(library), LOOP: lambda: drained(loop),
            }, note="scheduler is the library here")
        library.empty(server)
