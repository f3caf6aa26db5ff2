# The handlers of the conformance worker, below the program of docs/guides/write-a-worker.md.

from datetime import timedelta

INSERT = "insert into effect (execution_id, attempt, what) values (%s, %s, %s)"


def insert(db, run, what=None, result=None):
    db.execute(INSERT, (run.execution_id, run.attempt, what))
    return result


def fail(db, run):
    insert(db, run)
    raise ValueError("told to fail")


def retry(db, run):
    if run.attempt == 1:
        error = Retry("once more")
        error.after = timedelta(seconds=0.2)
        raise error


def discard(db, run):
    raise Discard("of no use")


def slow(db, run):
    db.execute("select pg_sleep(%s)", (run.payload.get("seconds", 60),))
    insert(db, run)


main("conformance", {
    "effect": lambda db, run: insert(db, run, None, {"done": run.payload.get("number")}),
    "typed": lambda db, run: insert(db, run, run.payload["to"]),
    "fail": fail, "retry": retry, "discard": discard, "slow": slow, "batch": insert,
})
