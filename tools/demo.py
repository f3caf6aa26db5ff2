"""What tools/demo.sh says and does in SQL, connected by its PG* variables: `explain` what one will see, `setup CRONTABS` fills the
database, `show` shows what happens in it."""

import csv
import logging
import os
import shutil
import signal
import sys
import textwrap
import time
from datetime import datetime, timezone
from pathlib import Path

import psycopg
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

SHOW_SECONDS = 20
PATIENCE_SECONDS = 30

EXPLANATION = (
    "A schedule says when a job is due. At each plan time the extension writes an execution into a table; a worker claims it "
    "(a lease: nobody else may run it), does the work, and finishes it in the transaction that wrote its results. "
    "The command of an SQL job is run by the server itself."
)

# name, clock (the first that this version knows), payload, settings of the job
SCHEDULES = [
    ("greeting", ["every 1 second"], {"message": "hello"}, {}),
    ("report", ["every 2 seconds"], {"message": "a report", "seconds": 0.3}, {}),
    ("cleanup", ["*/3 * * * * *", "every 3 seconds"], {"message": "cleaned up"}, {}),
    ("backup", ["every 5 seconds"], {"message": "a backup", "seconds": 2}, {"stale_timeout": "3 seconds"}),
    ("shaky", ["every 6 seconds"], {"message": "second attempt", "failing_attempts": 1}, {"max_attempts": 2, "retry_backoff": ["1 second"]}),
]
# name, clock, command, other arguments of schedule_sql
SQL_JOBS = [
    ("totals", "every 2 seconds", "insert into totals (runs) select count(*) from work_done; select max(runs) as most from totals", {}),
    ("vacuum", "every 5 seconds", "vacuum (analyze) work_done", {"own_transactions": True}),
    ("fails once", "every 6 seconds", "select 100 / (attempt - 1) as worked from sched.this_run()",
     {"max_attempts": 2, "retry_backoff": ["1 second"]}),
]
SQL = [name for name, *_ in SQL_JOBS]
OWN = SQL + [name for name, *_ in SCHEDULES]


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
        db.execute("create table totals (runs bigint, at timestamptz default clock_timestamp())")
        import_crontabs(db, Path(crontabs))
        for name, clock, command, options in SQL_JOBS:
            schedule_sql(db, name, clock, command, **options)
        say(f"==> it scheduled {len(SQL_JOBS)} SQL jobs, each in one call: {', '.join(SQL)}")
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
        paragraph(f"not read: {reason}", initial_indent="    ", subsequent_indent="    ")


def named(options):
    """The options of a call by their names."""
    return "".join(f", {option} => %s{'::interval[]' if option == 'retry_backoff' else ''}" for option in options)


def define_job(db, name, **options):
    db.execute(f"select sched.define_job(%s{named(options)})", (name, *options.values()))


def schedule_sql(db, name, clock, command, **options):
    db.execute(f"select sched.schedule_sql(%s, %s, %s{named(options)})", (name, clock, command, *options.values()))


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
       count(*) filter (where status = 'SUCCESS') as succeeded, count(*) filter (where status = 'SUCCESS' and runner_id !~ '^sql/') as by_workers,
       count(*) filter (where status = 'SUCCESS' and attempt > 1) as after_retry,
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

# The newest run of each SQL job that has ended, and how many there were.
SQL_RESULTS = """
select distinct on (array_position(%(sql)s, schedule_name))
       schedule_name, status, attempt, next_retry_at, rows_affected, error_code, error_msg,
       (select string_agg(concat_ws(' ', s->>'tag', s->>'rows'), ', ') from jsonb_array_elements(result->'statements') as s) as statements,
       result->'rows' as rows, count(*) filter (where status = 'SUCCESS') over of_job as succeeded, count(*) over of_job as runs
  from sched.execution
 where schedule_name = any (%(sql)s) and finished_at is not null
window of_job as (partition by schedule_name)
 order by array_position(%(sql)s, schedule_name), plan_time desc"""

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


def totals_line(t):
    return (
        f"{t.fired} fired, {t.claimed} claimed, {t.finished} finished, {t.running} running, {t.pending} waiting"
        f"; late {t.p50:.0f} ms, max {t.latest:.0f} ms"
    )


def cut(text, width):
    return f"{text if len(text) <= width else text[: width - 2] + '..':{width}}"


def schedule_line(s, width):
    at = s.next_plan_time
    soon = at and (at - datetime.now(timezone.utc)).days < 1
    when = "-" if at is None else f"{at:%H:%M:%S}" if soon else f"{at:%d %b}"
    return f"{cut(s.schedule_name.removeprefix('crontab:'), width)} {cut(s.clock, 18)} {s.state:7} {when:10} {s.fired:5} {s.succeeded:5}"


def execution_line(e, width):
    name = cut(e.schedule_name.removeprefix("crontab:"), width)
    return f"{name} {clock_time(e.plan_time):9} {after(e.fired_ms):>8} {after(e.claimed_ms):>8} {after(e.finished_ms):>8}  {status(e)}"


def frame(db, seconds, width, height):
    """The lines of the table, at most `height`."""
    totals = db.execute(TOTALS).fetchone()
    schedules = db.execute(SCHEDULES_NOW, {"own": OWN}).fetchall()
    wide = max(12, min(width, 110) - 50)  # what is left for a schedule's name
    narrow = max(12, min(width, 110) - 61)

    title = "scheduler demo"
    lines = [f"{title}{f'{min(seconds, SHOW_SECONDS):.0f} of {SHOW_SECONDS} seconds':>{max(1, min(width, 110) - len(title))}}"]
    if height >= 22:
        lines += textwrap.wrap(EXPLANATION, width=min(width, 110)) + [""]
    lines += [f"{'SCHEDULE':{wide}} {'CLOCK':18} {'STATE':7} {'NEXT (UTC)':10} FIRED  DONE"]
    lines += [schedule_line(s, wide) for s in schedules if s.own]
    others = [s for s in schedules if not s.own]
    if height >= 24:
        lines.append(f"... and {len(others)} from cron tables of Debian packages; the next of them:")
        lines += [schedule_line(s, wide) for s in others[: 2 + (height - 24) // 4]]
    lines += ["", f"{'EXECUTION OF':{narrow}} PLAN TIME {'FIRED':>8} {'CLAIMED':>8} {'FINISHED':>8}  STATUS"]
    lines += [execution_line(e, narrow) for e in db.execute(NEWEST, (max(1, height - len(lines) - 2),))]
    lines = lines[: height - 2]
    lines += [""] * (height - 1 - len(lines)) + [totals_line(totals)]
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
    say("")
    for s in db.execute(SCHEDULES_NOW, {"own": OWN}).fetchall()[: len(OWN)]:
        say(f"    schedule {s.schedule_name:10} {s.clock:18} {s.state}, next plan time {clock_time(s.next_plan_time)} UTC")
    say("")
    for second in range(1, SHOW_SECONDS + 1):
        time.sleep(max(0, started + second - time.monotonic()))
        totals = db.execute(TOTALS).fetchone()
        say(f"{second:3} s: armed {totals.armed}, {totals_line(totals)}")
    say("")


def summary(db):
    """Ends the program with an error when the demo has not shown what it should."""
    t = db.execute(TOTALS).fetchone()
    paragraph(
        f"In {SHOW_SECONDS} seconds {t.fired} executions were fired, {t.claimed} claimed and {t.finished} finished: {t.succeeded} succeeded, "
        f"{t.after_retry} of them at a second attempt; the rest ({t.fired - t.finished}) is running or waiting."
    )
    paragraph(f"They were fired {t.p50:.1f} ms after their plan time in the median, {t.latest:.1f} ms at most (created_at - plan_time).")
    paragraph(f"The workers wrote {t.written} rows of their own, each in the transaction that finished its execution.")
    sql_results(db)
    page(db)
    if t.succeeded == 0:
        sys.exit("error: no execution succeeded")
    if t.written != t.by_workers:
        sys.exit("error: there should be one row for each execution that a worker ended with success")


def sql_results(db):
    """What came of the SQL jobs, as sched.execution has it."""
    say("\nWhat the server ran itself; of each SQL job the newest run that has ended:")
    results = db.execute(SQL_RESULTS, {"sql": SQL}).fetchall()
    for e in results:
        came = f"{e.error_code}: {e.error_msg.splitlines()[0]}" if e.error_code else e.statements + (f", result {e.rows}" if e.rows else "")
        say(f"    {e.schedule_name:10}  {e.succeeded:2} of {e.runs:2} runs succeeded  {status(e)}: {came}")
    say("")
    if len(results) < len(SQL) or not all(e.succeeded for e in results):
        sys.exit("error: an SQL job has not succeeded")


def page(db):
    """The page of the last minute and the next, to be opened in a browser."""
    file = Path(os.environ["CARGO_TARGET_DIR"]) / "demo-report.html"
    file.write_text(db.execute("select sched.report(now() - interval '45 seconds', now() + interval '15 seconds')").fetchone()[0], encoding="utf-8")
    say(f"What became of each plan time is a page, made by sched.report(): {file}")


def show():
    with connect("app") as db:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not db.execute("select bool_and(state <> 'arming') from sched.schedules").fetchone()[0]:
            if time.monotonic() > give_up:
                sys.exit("error: the schedules are not armed: is the extension's background worker running?")
            time.sleep(0.05)
        on_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        (show_table if on_terminal else show_lines)(db, time.monotonic())
        summary(db)


def say(text):
    print(text, flush=True)


def paragraph(text, **indents):
    """Wrapped to the terminal, or to 100 columns."""
    say(textwrap.fill(text, width=min(100, shutil.get_terminal_size((100, 24)).columns), break_long_words=False, **indents))


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # no word about a query that a signal interrupted
    try:
        if sys.argv[1] == "explain":
            paragraph(EXPLANATION)
        elif sys.argv[1] == "setup":
            setup(sys.argv[2])
        elif sys.argv[1] == "show":
            show()
    except BrokenPipeError:  # nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
