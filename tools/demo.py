"""The two SQL parts of tools/demo.sh, connected by its PG* variables: `setup CRONTABS` fills the database, `show` shows what happens in it."""

import csv
import os
import signal
import sys
import textwrap
import time
from pathlib import Path

import psycopg
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

SHOW_SECONDS = 20
PATIENCE_SECONDS = 30

EXPLANATION = (
    "A schedule says when a job is due. At each plan time the extension writes an execution into a table; a worker claims it "
    "(a lease: nobody else may run it), does the work, and finishes it in the transaction that wrote its results."
)

# name, clock (the first that this version knows), payload, settings of the job
SCHEDULES = [
    ("greeting", ["every 1 second"], {"message": "hello"}, {}),
    ("report", ["every 2 seconds"], {"message": "a report", "seconds": 0.3}, {}),
    ("cleanup", ["*/3 * * * * *", "every 3 seconds"], {"message": "cleaned up"}, {}),
    ("backup", ["every 5 seconds"], {"message": "a backup", "seconds": 2}, {"stale_timeout": "3 seconds"}),
    ("shaky", ["every 6 seconds"], {"message": "second attempt", "failing_attempts": 1}, {"max_attempts": 2, "retry_backoff": ["1 second"]}),
]
OWN = [name for name, *_ in SCHEDULES]


def connect(user, database=None):
    options = {} if database is None else {"dbname": database}
    db = psycopg.connect(user=user, autocommit=True, row_factory=namedtuple_row, application_name="demo", **options)
    db.execute("set timezone = 'UTC'")
    return db


def setup(crontabs):
    with connect("postgres", "postgres") as db:
        db.execute("create role app login")
        db.execute("create database demo")
    with connect("postgres") as db:
        db.execute("create extension scheduler")
        db.execute("select sched.grant_use('app')")
        db.execute("create schema app authorization app")
    with connect("app") as db:
        db.execute("create table work_done (execution_id uuid, attempt integer, what text, at timestamptz default clock_timestamp())")
        import_crontabs(db, Path(crontabs))
        for name, clocks, payload, job in SCHEDULES:
            define_job(db, name, **job)
            create_schedule(db, name, clocks, payload)


def import_crontabs(db, folder):
    """The tables that Debian packages ship; those under user/ were written for tests."""
    packages, schedules, unread = set(), 0, []
    with open(folder / "MANIFEST.tsv", encoding="utf-8") as manifest:
        for file in csv.DictReader(manifest, delimiter="\t"):
            if file["package"] == "user":
                continue
            text = (folder / file["package"] / Path(file["path"]).name).read_text(encoding="utf-8", errors="replace")
            lines = db.execute("select * from sched.import_crontab(%s, system => %s)", (text, file["style"] == "system")).fetchall()
            packages.add(file["package"])
            schedules += sum(line.schedule_name is not None for line in lines)
            unread += [f"{file['package']}, line {line.line}: {line.note}" for line in lines if line.schedule_name is None]
    say(f"==> the role \"app\" imported the cron tables of {len(packages)} Debian packages: {schedules} lines became schedules")
    for reason in unread:
        say(f"    not read: {reason}")


def define_job(db, name, **options):
    arguments = "".join(f", {option} => %s{'::interval[]' if option == 'retry_backoff' else ''}" for option in options)
    db.execute(f"select sched.define_job(%s{arguments})", (name, *options.values()))


def create_schedule(db, name, clocks, payload):
    for clock in clocks:
        try:
            db.execute("select sched.create_schedule(%s, %s, %s, payload => %s)", (name, clock, name, Jsonb(payload)))
            return
        except psycopg.errors.InvalidParameterValue:
            if clock == clocks[-1]:
                raise


TOTALS = """
select count(*) as fired, count(*) filter (where attempt > 0) as claimed,
       count(*) filter (where status = 'SUCCESS') as succeeded, count(*) filter (where status = 'SUCCESS' and attempt > 1) as after_retry,
       count(*) filter (where status in ('SUCCESS', 'CANCELLED') or status = 'FAILED' and next_retry_at is null) as finished,
       count(*) filter (where status = 'RUNNING') as running, count(*) filter (where status = 'PENDING') as pending,
       coalesce(percentile_cont(0.5) within group (order by late), 0) as p50, coalesce(max(late), 0) as latest,
       (select count(*) from sched.schedules where state = 'armed') as armed, (select count(*) from work_done) as written
  from (select *, extract(epoch from created_at - plan_time)::float8 * 1000 as late from sched.execution where origin = 'schedule') as e"""

SCHEDULES_NOW = """
select s.schedule_name, s.clock, s.state, s.next_plan_time, s.last_error, s.schedule_name = any (%(own)s) as own,
       count(e.id) as fired, count(e.id) filter (where e.status = 'SUCCESS') as succeeded
  from sched.schedules s left join sched.execution e on e.schedule_name = s.schedule_name
 group by 1, 2, 3, 4, 5 order by array_position(%(own)s, s.schedule_name), s.next_plan_time, s.schedule_name"""

NEWEST = """
select schedule_name, plan_time, status, attempt, next_retry_at, (extract(epoch from created_at - plan_time) * 1000)::int as fired_ms,
       (extract(epoch from started_at - plan_time) * 1000)::int as claimed_ms, (extract(epoch from finished_at - plan_time) * 1000)::int as finished_ms
  from sched.execution where origin = 'schedule' order by created_at desc, id desc limit %s"""


def clock_time(at):
    return f"{at:%H:%M:%S}" if at else "-"


def after(ms):
    return "-" if ms is None else f"+{ms} ms"


def status(execution):
    if execution.status == "FAILED" and execution.next_retry_at:
        return f"FAILED, retry {clock_time(execution.next_retry_at)}"
    return execution.status + (f", attempt {execution.attempt}" if execution.attempt > 1 else "")


def totals_line(totals):
    return (
        f"fired {totals.fired}, claimed {totals.claimed}, finished {totals.finished}, running {totals.running}, waiting {totals.pending}"
        f"; late: median {totals.p50:.1f} ms, most {totals.latest:.1f} ms"
    )


def frame(db, seconds, width, height):
    """The lines of the table, at most `height`."""
    totals = db.execute(TOTALS).fetchone()
    schedules = db.execute(SCHEDULES_NOW, {"own": OWN}).fetchall()
    name_width = max(16, min(40, width - 64))

    def schedule_line(s):
        at = s.next_plan_time
        when = "-" if at is None else f"{at:%H:%M:%S}" if s.own else f"{at:%d %b %H:%M:%S}"
        clock = s.clock if len(s.clock) <= 20 else s.clock[:18] + ".."
        name = s.schedule_name if len(s.schedule_name) <= name_width else s.schedule_name[: name_width - 2] + ".."
        return f"{name:{name_width}} {clock:20} {s.state:8} {when:15}  {s.fired:5}  {s.succeeded:5}"

    title = "scheduler demo"
    head = [f"{title}{f'{min(seconds, SHOW_SECONDS):.0f} of {SHOW_SECONDS} seconds':>{max(1, min(width, 100) - len(title))}}"]
    if height >= 22:
        head += textwrap.wrap(EXPLANATION, width=min(width, 100)) + [""]
    head += [f"{'SCHEDULE':{name_width}} {'CLOCK':20} {'STATE':8} {'NEXT PLAN (UTC)':15}  FIRED  DONE"]
    head += [schedule_line(s) for s in schedules if s.own]
    others = [s for s in schedules if not s.own]
    if height >= 24:
        head.append(f"... and {len(others)} from cron tables of Debian packages; the next of them:")
        head += [schedule_line(s) for s in others[: 2 + max(0, height - 24) // 4]]
    head += ["", f"{'EXECUTION OF':{name_width}} {'PLAN TIME':10} {'FIRED':>9} {'CLAIMED':>9} {'FINISHED':>9}  STATUS"]
    body = [
        f"{e.schedule_name[:name_width]:{name_width}} {clock_time(e.plan_time):10} {after(e.fired_ms):>9} {after(e.claimed_ms):>9}"
        f" {after(e.finished_ms):>9}  {status(e)}"
        for e in db.execute(NEWEST, (max(1, height - len(head) - 2),))
    ]
    lines = (head + body)[: height - 2]
    lines += [""] * (height - 2 - len(lines)) + ["", totals_line(totals)]
    return [line[:width] for line in lines]


def show_table(db, started):
    """Redrawn in place, on the terminal's second screen, so that resizing leaves no traces; the last picture stays on the first."""
    size = None
    sys.stdout.write("\x1b[?1049h\x1b[?25l")
    try:
        while (seconds := time.monotonic() - started) < SHOW_SECONDS:
            new_size = os.get_terminal_size(sys.stdout.fileno())
            lines = frame(db, seconds, max(new_size.columns, 20), max(new_size.lines, 6))
            clear = "" if new_size == size else "\x1b[2J"
            size = new_size
            # written at once, line over line, without clearing first: nothing flickers
            sys.stdout.write(f"\x1b[?2026h{clear}\x1b[H" + "\r\n".join(line + "\x1b[K" for line in lines) + "\x1b[?2026l")
            sys.stdout.flush()
            time.sleep(0.2)
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()
    say("\n".join(frame(db, SHOW_SECONDS, max(size.columns, 20), max(size.lines - 4, 6))) + "\n")


def show_lines(db, started):
    say("\n" + textwrap.fill(EXPLANATION, width=100) + "\n")
    for s in db.execute(SCHEDULES_NOW, {"own": OWN}).fetchall()[: len(OWN)]:
        say(f"    schedule {s.schedule_name:10} {s.clock:18} {s.state}, next plan time {clock_time(s.next_plan_time)} UTC")
    say("")
    for second in range(1, SHOW_SECONDS + 1):
        time.sleep(max(0, started + second - time.monotonic()))
        totals = db.execute(TOTALS).fetchone()
        say(f"{second:3} s: armed {totals.armed}, {totals_line(totals)}")
    say("")


def summary(db):
    """True when the demo has shown what it should."""
    totals = db.execute(TOTALS).fetchone()
    say(f"In {SHOW_SECONDS} seconds {totals.fired} executions were fired, {totals.claimed} claimed, {totals.finished} finished")
    say(f"({totals.succeeded} succeeded, {totals.after_retry} of them at a second attempt; what is left is running or waiting for a worker).")
    say(f"Fired late (created_at - plan_time): median {totals.p50:.1f} ms, at most {totals.latest:.1f} ms.")
    say(f"The workers wrote {totals.written} rows of their own, each in the transaction that finished its execution.")
    return 0 < totals.succeeded == totals.written


def show():
    with connect("app") as db:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not db.execute("select bool_and(state <> 'arming') from sched.schedules").fetchone()[0]:
            if time.monotonic() > give_up:
                sys.exit("error: the schedules are not armed: is the extension's background worker running?")
            time.sleep(0.05)
        on_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        (show_table if on_terminal else show_lines)(db, time.monotonic())
        if not summary(db):
            sys.exit("error: this is not what the demo should show")


def say(text):
    print(text, flush=True)


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        if sys.argv[1] == "setup":
            setup(sys.argv[2])
        else:
            show()
    except BrokenPipeError:  # nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
