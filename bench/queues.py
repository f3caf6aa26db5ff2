"""Enqueue, and claim + finish, one and in batches of 100, against graphile-worker, pg-boss and pgmq's statements.

Each is measured by the client that is fair to it: SQL by pgbench, Node libraries by Node, and ours by both."""

import pathlib

import node
import pgbench
from board import OURS

HERE = pathlib.Path(__file__).parent
PGMQ = "pgmq's statements"
ARCHIVE, DELETE = f"{PGMQ}, archive", f"{PGMQ}, delete"
GRAPHILE, BOSS = "graphile-worker", "pg-boss"
EMPTY = {
    "ours": "TRUNCATE sched.ledger, sched.ready, sched.retry, sched.lease, sched.awaited",
    "pgmq": "TRUNCATE pgmq.q_bench, pgmq.a_bench",
    "graphile": "TRUNCATE graphile_worker._private_jobs",
    "boss": "TRUNCATE pgboss.job",
}
# every contestant's backlog is made by one statement of its own
FILL = {
    "ours": "SELECT count(sched.enqueue('bench', '{{\"n\": 1}}')) FROM generate_series(1, {0})",
    "pgmq": "INSERT INTO pgmq.q_bench (vt, message) SELECT clock_timestamp(), '{{\"n\": 1}}' FROM generate_series(1, {0})",
    "graphile": "SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(SELECT ROW('bench', '{{\"n\": 1}}'::json, NULL, NULL, NULL,"
    " NULL, NULL, NULL)::graphile_worker.job_spec FROM generate_series(1, {0})))",
}


def measure(server, board, quick):
    """Adds the cases of this section to the board."""
    server.start()
    server.database("ours", (HERE / "sql/ours.sql").read_text())
    server.database("pgmq", (HERE / "sql/pgmq.sql").read_text())
    for peer in ("graphile", "boss"):
        server.database(peer)
        server.sql("postgres", f"ALTER DATABASE {peer} OWNER TO app")
        try:
            node.call(server, peer, "setup", peer, workers=1)
        except Exception as error:  # noqa: BLE001 - each of its cases will say the same
            print(f"{peer}: {error}")
    board.facts |= node.call(server, "", "versions", "")
    enqueue(server, board, quick)
    drain(server, board, quick)


def enqueue(server, board, quick):
    seconds = 1 if quick else 3
    for batch in (1, 100):
        name = "one" if batch == 1 else "100"

        def by_sql(database, clients):
            reset(server, database)
            return pgbench.run(
                server, database, f"queue/{database}-enqueue-{name}.sql", clients, seconds=seconds, scale=batch
            )

        def by_node(peer, clients):
            reset(server, peer)
            return rate(node.call(server, peer, "enqueue", peer, workers=clients, batch=batch, seconds=seconds))

        for clients in (1, 8) if quick else (1, 4, 8):
            case = f"enqueue {name}, {clients} client{'s' * (clients > 1)}"
            board.compare("queue", f"{case}, from SQL", "jobs per second", {
                OURS: lambda: by_sql("ours", clients),
                PGMQ: lambda: by_sql("pgmq", clients),
                GRAPHILE: lambda: by_sql("graphile", clients),
            }, group=f"enqueue {name}")
            if clients == 8:
                board.compare("queue", f"{case}, from Node", "jobs per second", {
                    OURS: lambda: by_node("ours", clients),
                    BOSS: lambda: by_node("boss", clients),
                }, group=f"enqueue {name}")


def drain(server, board, quick):
    backlogs = (10_000,) if quick else (1_000, 10_000, 100_000)
    for backlog in backlogs:
        for batch in (1, 100):
            name = "one" if batch == 1 else "100"
            jobs = min(backlog, (2_000 if quick else 5_000) if batch == 1 else 20_000)

            def by_sql(database, script, clients):
                refill(server, database, backlog)
                # a few are left over, so that nobody finds nothing
                times = max(1, jobs * 19 // 20 // clients // batch)
                return pgbench.run(server, database, f"queue/{script}-{name}.sql", clients, transactions=times, scale=batch)

            def by_node(peer, clients, **more):
                refill(server, peer, jobs)
                return rate(node.call(server, peer, "drain", peer, workers=clients, jobs=jobs, batch=batch, **more))

            for workers in (1, 8) if quick else (1, 4, 8):
                case = f"claim {name} + finish, {workers} worker{'s' * (workers > 1)}, backlog {backlog:,}"
                if backlog > 1_000 or batch == 1:
                    board.compare("queue", f"{case}, from SQL", "jobs per second", {
                        OURS: lambda: by_sql("ours", "ours", workers),
                        ARCHIVE: lambda: by_sql("pgmq", "pgmq-archive", workers),
                        DELETE: lambda: by_sql("pgmq", "pgmq-delete", workers),
                    }, group=f"claim {name} + finish")
                if backlog > 20_000 or (quick and workers == 1):
                    continue
                contestants = {OURS: lambda: by_node("ours", workers), BOSS: lambda: by_node("boss", workers)}
                if batch == 1:
                    contestants[f"{GRAPHILE} (default)"] = lambda: by_node("graphile", workers, preset="default")
                else:
                    contestants[f"{GRAPHILE} (tuned)"] = lambda: by_node("graphile", workers, preset="tuned")
                    if workers == 8:
                        contestants[f"{GRAPHILE} (tuned, 24 at once)"] = lambda: by_node(
                            "graphile", 24, preset="tuned"
                        )
                board.compare("queue", f"{case}, from Node", "jobs per second", contestants, group=f"claim {name} + finish")


def rate(result):
    return {"value": result["jobs"] / result["seconds"], "count": result["jobs"]}


def reset(server, database):
    server.sql(database, EMPTY[database])
    server.settled()


def refill(server, database, jobs):
    server.sql(database, EMPTY[database])
    if database == "boss":
        node.call(server, "boss", "fill", "boss", workers=1, jobs=jobs)
    else:
        with server.connect(database, "app") as connection:
            connection.execute(FILL[database].format(jobs))
    server.sql(database, "VACUUM ANALYZE")
    server.settled()
