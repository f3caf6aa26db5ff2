-- The physical limit: the rows that firing writes, into tables equal to ours, with every decision given.
CREATE SCHEMA physical;
CREATE TABLE physical.ledger (LIKE sched.ledger INCLUDING ALL);
CREATE TABLE physical.ready (LIKE sched.ready INCLUDING ALL);
CREATE TABLE physical.timer (LIKE sched.timer INCLUDING ALL);
-- LIKE leaves the storage parameters out
DO $$
DECLARE
    name    text;
    options text;
BEGIN
    FOR name, options IN
        SELECT relname, array_to_string(reloptions, ', ') FROM pg_class
         WHERE relnamespace = 'sched'::regnamespace AND relname IN ('ledger', 'ready', 'timer') AND reloptions IS NOT NULL
    LOOP
        EXECUTE format('ALTER TABLE physical.%I SET (%s)', name, options);
    END LOOP;
END
$$;
CREATE TABLE physical.decision (
    batch          integer     NOT NULL,
    schedule_id    bigint      NOT NULL,
    key            uuid        NOT NULL,
    schedule_name  text        NOT NULL,
    plan_time      timestamptz NOT NULL,
    next_plan_time timestamptz NOT NULL
);
CREATE INDEX decision_batch ON physical.decision (batch);

CREATE PROCEDURE physical.prepare(how_many integer, batch_size integer) LANGUAGE sql AS $$
    TRUNCATE physical.ledger, physical.ready, physical.timer, physical.decision;
    INSERT INTO physical.timer (schedule_id, version, next_plan_time, fire_at, cursor_at)
    SELECT i, 1, now(), now(), now() FROM generate_series(1, how_many) AS i;
    INSERT INTO physical.decision
    SELECT (i - 1) / batch_size, i, md5('s' || i)::uuid, 's' || i, now(), now() + interval '1 day'
      FROM generate_series(1, how_many) AS i;
$$;

CREATE PROCEDURE physical.fire() LANGUAGE plpgsql AS $$
DECLARE
    last_batch integer := (SELECT max(batch) FROM physical.decision);
BEGIN
    FOR this IN 0 .. last_batch LOOP
        WITH fired AS (
            INSERT INTO physical.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts,
                                         allow_stale_reentry, awaited, origin, owner, schedule_id, schedule_name)
            SELECT d.key, 'bench', 'schedule', d.schedule_name, d.plan_time, 'default', 0, '{"n": 1}', 3, true, false,
                   'schedule', 10::oid, d.schedule_id, d.schedule_name
              FROM physical.decision d
             WHERE d.batch = this
            RETURNING id, queue, priority, plan_time, owner
        ), claimable AS (
            INSERT INTO physical.ready (queue, priority, plan_time, execution_id, owner)
            SELECT f.queue, f.priority, f.plan_time, f.id, f.owner FROM fired f
        )
        UPDATE physical.timer t
           SET next_plan_time = d.next_plan_time, fire_at = d.next_plan_time, cursor_at = d.plan_time,
               last_plan_time = d.plan_time, last_fired_at = clock_timestamp()
          FROM physical.decision d
         WHERE d.batch = this AND t.schedule_id = d.schedule_id;
        COMMIT;
    END LOOP;
END
$$;
