"""What a deployment does once, before its processes start: `python -m shop.migrate`. Again it changes nothing."""

import psycopg

from .database import DIRECT

TABLES = """
CREATE TABLE IF NOT EXISTS placed_order (id uuid PRIMARY KEY, item text NOT NULL, placed_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS reservation (order_id uuid NOT NULL, execution_id uuid NOT NULL, attempt integer NOT NULL);
CREATE TABLE IF NOT EXISTS payment (order_id uuid NOT NULL, execution_id uuid NOT NULL, attempt integer NOT NULL, receipt text NOT NULL);
CREATE TABLE IF NOT EXISTS sales_report (plan_time timestamptz NOT NULL, orders bigint NOT NULL);
"""

# A worker that is killed uses an attempt up once its lease has run out. With ten, a run outlives nine such workers.
JOBS = """
SELECT sched.define_job('shop reserve', queue => 'shop stock', max_attempts => 10, retry_backoff => '{1 s}', stale_timeout => '30 s');
SELECT sched.define_job('shop report', queue => 'shop stock', max_attempts => 10, retry_backoff => '{1 s}', stale_timeout => '30 s');
SELECT sched.define_job('shop charge', queue => 'shop charges', max_attempts => 10, retry_backoff => '{1 s}', stale_timeout => '30 s');
"""


def migrate() -> None:
    with psycopg.connect(DIRECT) as db:
        db.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        db.execute(TABLES)
        db.execute(JOBS)


if __name__ == "__main__":
    migrate()
