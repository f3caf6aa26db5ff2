-- From 0.3.0. What is new stands here in the words of sql/schema and of the generated script (tools/release-sql.sh diff shows them); a test
-- compares the result with a new extension. docs/internals/updates.md says how to add to it.
\echo Use "ALTER EXTENSION scheduler UPDATE" to load this file. \quit

-- To the end of the transaction. What is named without a schema is Postgres' own.
SET LOCAL search_path = pg_catalog, pg_temp;

-- Whoever owns a schema of ours or something in it can have put code of his there, which what follows would run as the superuser who updates.
-- So this comes before all else, and looks at nothing but catalogs.
DO $$
DECLARE
    other record;
BEGIN
    SELECT pg_catalog.pg_describe_object(o.classid, o.objid, 0) AS object, o.owner::pg_catalog.regrole AS owner
      INTO other
      FROM (SELECT n.tableoid, n.oid, n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('sched', 'sched_internal')
            UNION ALL
            SELECT e.tableoid, e.oid, e.extowner FROM pg_catalog.pg_extension e WHERE e.extname = 'scheduler'
            UNION ALL
            SELECT c.tableoid, c.oid, c.relowner FROM pg_catalog.pg_class c WHERE c.relnamespace IN ('sched'::pg_catalog.regnamespace, 'sched_internal'::pg_catalog.regnamespace)
            UNION ALL
            SELECT p.tableoid, p.oid, p.proowner FROM pg_catalog.pg_proc p WHERE p.pronamespace IN ('sched'::pg_catalog.regnamespace, 'sched_internal'::pg_catalog.regnamespace)
           ) AS o (classid, objid, owner)
     WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
     ORDER BY o.classid = 'pg_catalog.pg_namespace'::pg_catalog.regclass DESC, o.classid = 'pg_catalog.pg_extension'::pg_catalog.regclass DESC
     LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = pg_catalog.format('%s belongs to %s, who is no superuser: the update would run what he may have put there', other.object, other.owner),
            HINT = pg_catalog.format('If %s is trusted with that, make a superuser its owner first (ALTER ... OWNER TO, or REASSIGN OWNED BY %s TO ...), then update again.', other.owner, other.owner);
    END IF;
END
$$;

-- The statements below lock what they alter. Without a limit they would wait for a transaction that has read one of these relations, and
-- each client would wait behind them. So the locks come first, and an error names the process that holds one. A lock_timeout of the session
-- is kept.
SELECT pg_catalog.set_config('lock_timeout', '5s', true) WHERE pg_catalog.current_setting('lock_timeout') = '0';
DO $$
DECLARE
    relation text;
    blockers text;
    hint     text;
BEGIN
    -- Each table and view that this script alters, drops or replaces.
    FOREACH relation IN ARRAY ARRAY[
        'sched.schedule', 'sched.job', 'sched.unique_scope', 'sched.timer', 'sched.paused_queue', 'sched.queues', 'sched.running'
    ]::pg_catalog.text[] LOOP
        BEGIN
            EXECUTE pg_catalog.format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
        EXCEPTION WHEN lock_not_available THEN
            SELECT pg_catalog.string_agg(DISTINCT pg_catalog.format('process %s (%s, transaction since %s)', l.pid, coalesce(a.usename, a.backend_type, 'a prepared transaction'),
                                                                    coalesce(pg_catalog.date_trunc('second', a.xact_start)::pg_catalog.text, 'an unknown time')), ', ')
                   FILTER (WHERE l.pid IS NOT NULL),
                   CASE WHEN pg_catalog.bool_and(l.pid IS NULL)
                        THEN 'Finish the prepared transactions in pg_prepared_xacts, then update again.'
                        ELSE pg_catalog.format('Wait for its end, or end it by pg_terminate_backend(%s), then update again. A higher lock_timeout in this session waits longer.', pg_catalog.min(l.pid))
                   END
              INTO blockers, hint
              FROM pg_catalog.pg_locks l
              LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
             WHERE l.granted AND l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
               AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
               AND EXISTS (SELECT FROM pg_catalog.pg_class c
                            WHERE c.oid = l.relation AND c.relnamespace IN ('sched'::pg_catalog.regnamespace, 'sched_internal'::pg_catalog.regnamespace));
            RAISE lock_not_available USING
                MESSAGE = pg_catalog.format('the update needs a lock on %s, which is held by %s', relation, coalesce(blockers, 'a prepared transaction')),
                HINT = coalesce(hint, 'Update again.');
        END;
    END LOOP;
END
$$;

-- Here comes what is new.

CREATE FUNCTION sched_internal.table_layout() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS 'SELECT 1';
COMMENT ON FUNCTION sched_internal.table_layout() IS 'internal: releases of one number have the same tables';

-- Where not all that is due fires at once, the owners take turns.
ALTER TABLE sched.timer ADD COLUMN owner oid NOT NULL DEFAULT 0;
COMMENT ON COLUMN sched.timer.owner IS 'who owned the job when a dispatcher last wrote this; owners take turns';
DROP INDEX sched.timer_fire_at;
UPDATE sched.timer t SET owner = j.owner FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = t.schedule_id;
CREATE INDEX timer_fire_at ON sched.timer (fire_at, owner) WHERE fire_at IS NOT NULL;
CREATE INDEX schedule_long_payload ON sched.schedule (schedule_id) WHERE pg_catalog.octet_length(payload::text) > 1048576;

CREATE FUNCTION sched_internal.alter_sql_job(
	"job_name" TEXT,
	"command" TEXT
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'alter_sql_job_wrapper';
COMMENT ON FUNCTION sched_internal.alter_sql_job IS 'internal: has an SQL job run another command, for scheduler_cron';

-- schedule_sql remembers its pairs. Those of before are a job of kind sql and a schedule of one name.
ALTER TABLE sched.job ADD COLUMN sql_pair boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN sched.job.sql_pair IS 'schedule_sql made the job, or found it with its schedule; what alter_job and drop_schedule change is put right by the next call';
ALTER TABLE sched.schedule ADD COLUMN sql_pair text;
COMMENT ON COLUMN sched.schedule.sql_pair IS 'the name by which schedule_sql finds the schedule and its job, whatever their names are now; NULL = never made or found by schedule_sql';
CREATE INDEX schedule_sql_pair ON sched.schedule (sql_pair) WHERE sql_pair IS NOT NULL;
-- That schedule_sql knows a schedule is no change of it.
DROP TRIGGER schedule_before_update ON sched.schedule;
-- `every day 05:15` was 5 hours 15 minutes, as PostgreSQL takes no notice of a unit without a number. From this release on it is refused. What
-- is stored is written as the interval that it is. No plan time changes, so no baseline does: the trigger that moves them is not there.
DO $$
DECLARE
    old    record;
    parts  text[];
    piece  text;
    span   interval;
    said   text;
    named  text[] := '{}';
    level  CONSTANT text := pg_catalog.current_setting('client_min_messages');
BEGIN
    FOR old IN
        SELECT c.clock
          FROM (SELECT s.clock FROM sched.schedule s UNION SELECT d.clock FROM sched.schedule_definition d) AS c
         WHERE c.clock ~* '^[ \t]*every[ \t]'
    LOOP
        parts := pg_catalog.regexp_match(old.clock, '^[ \t]*every[ \t]+(.*?)([ \t]+(?:from|after)[ \t].*)?[ \t]*$', 'i');
        piece := (pg_catalog.regexp_match(parts[1], '^[^a-z0-9.+-]*(?:d|days?|w|weeks?|mons?|months?|y|yrs?|years?|decs?|decades?|c|cent|century|centuries|mils?|millennia|millennium)[^a-z0-9.+-]*[^a-z0-9.+-]([0-9]+:[0-9:]+)[^a-z0-9.+-]*$', 'i'))[1];
        CONTINUE WHEN piece IS NULL;
        BEGIN
            span := piece::pg_catalog.interval;
        EXCEPTION WHEN data_exception THEN
            -- No clock of before either.
            CONTINUE;
        END;
        CONTINUE WHEN span >= '1 day';
        SELECT pg_catalog.concat('every ', pg_catalog.string_agg(pg_catalog.concat(pg_catalog.trim_scale(u.count), ' ', u.unit, CASE WHEN u.count <> 1 THEN 's' END), ' ' ORDER BY u.rank), parts[2])
          INTO said
          FROM (VALUES (1, EXTRACT(hour FROM span), 'hour'), (2, EXTRACT(minute FROM span), 'minute'), (3, EXTRACT(second FROM span), 'second')) AS u (rank, count, unit)
         WHERE u.count <> 0;
        named := named || ARRAY(SELECT pg_catalog.format('%s (%s)', s.schedule_name, said) FROM sched.schedule s WHERE s.clock = old.clock ORDER BY s.schedule_name);
        UPDATE sched.schedule SET clock = said WHERE clock = old.clock;
        UPDATE sched.schedule_definition SET clock = said WHERE clock = old.clock;
    END LOOP;
    IF named <> '{}' THEN
        -- CREATE and ALTER EXTENSION show warnings only.
        PERFORM pg_catalog.set_config('client_min_messages', 'notice', true);
        RAISE NOTICE USING
            MESSAGE = pg_catalog.concat('these clocks had a day and a time, and are written as the intervals that they are: ',
                                        pg_catalog.array_to_string(named[1:50], ', '), CASE WHEN pg_catalog.cardinality(named) > 50 THEN pg_catalog.format(' and %s more', pg_catalog.cardinality(named) - 50) END),
            HINT = 'Their plan times are as before. Where a time of day was meant write a crontab, for example 15 5 * * *.';
        PERFORM pg_catalog.set_config('client_min_messages', level, true);
    END IF;
END
$$;
CREATE TRIGGER schedule_before_update BEFORE UPDATE ON sched.schedule
    FOR EACH ROW WHEN (NEW.sql_pair IS NOT DISTINCT FROM OLD.sql_pair) EXECUTE FUNCTION sched_internal.schedule_before_update();
ALTER TABLE sched.schedule ENABLE ALWAYS TRIGGER schedule_before_update;
UPDATE sched.job j SET sql_pair = true
 WHERE j.kind = 'sql' AND EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_name = j.job_name AND s.job_name = j.job_name);
UPDATE sched.schedule s SET sql_pair = s.schedule_name
 WHERE EXISTS (SELECT FROM sched.job j WHERE j.job_name = s.job_name AND j.job_name = s.schedule_name AND j.sql_pair);

-- What dispatchers deliver waits in queues of its owner, so that a pause of that owner holds it.
WITH waiting AS (
    SELECT r.execution_id FROM sched.ready r WHERE r.queue LIKE '% that a dispatcher delivers when they are due, those of queue %'
    UNION ALL
    SELECT r.execution_id FROM sched.retry r WHERE r.queue LIKE '% that a dispatcher delivers when they are due, those of queue %'
), renamed AS (
    UPDATE sched.ledger e
       SET queue = left(e.queue, 10) || ' that a dispatcher delivers, for the role with oid ' || lpad(e.owner::oid::bigint::text, 10, '0') || ' ' || substr(e.queue, 73)
     WHERE e.id IN (SELECT w.execution_id FROM waiting w)
    RETURNING e.id, e.queue
), claimable AS (
    UPDATE sched.ready r SET queue = n.queue FROM renamed n WHERE r.execution_id = n.id
)
UPDATE sched.retry r SET queue = n.queue FROM renamed n WHERE r.execution_id = n.id;

-- One execution of an owner waits in a scope.
ALTER TABLE sched.unique_scope ADD COLUMN owner regrole NOT NULL DEFAULT 0;
UPDATE sched.unique_scope u SET owner = e.owner FROM sched.ledger e WHERE e.id = u.execution_id;
ALTER TABLE sched.unique_scope DROP CONSTRAINT unique_scope_pkey, ADD PRIMARY KEY (key, owner);
COMMENT ON COLUMN sched.unique_scope.owner IS 'the owner of its executions: a job that was never defined has some of several roles, of which none waits for another';
COMMENT ON FUNCTION sched.define_job IS
'Creates or replaces a job: how its executions are queued, leased and retried. max_attempts and retry_backoff left out mean 3 and 10 seconds, then 1 minute, for kind pull, whose worker may die; 1 and at once for the others. retry_backoff[i] is the wait after failed attempt i, the last entry repeats, empty means at once. Lengths of time have no months, days of 24 hours, and are at most 1000 years; run_timeout is shorter than stale_timeout: from then on heartbeat answers cancel. Of kind sql the server runs the command, as the owner, and ends a run at run_timeout; own_transactions and settings are for this kind. Errors: 22023 (a value that may not be), 42601 (a command that cannot be parsed), 0A000 (a statement that no command may have), 54000 (a command over 1 MiB), 42704 (unknown setting), 22008, 22004 (NULL), 42501 (another role''s job, also for a superuser who is no member of that role by a superuser''s GRANT; a setting that the caller may not set).';
COMMENT ON FUNCTION sched.alter_job IS
'Changes a job; NULL leaves an argument as it is, reset names arguments that go back to their default (of the kind that the job then has). What is stored with existing executions stays, as when it is defined anew. kind, command, settings and own_transactions of another role''s job are 42501 for a superuser who is no member of that role by a superuser''s GRANT. From PostgreSQL 16 on they are for a member who may not SET ROLE to it. A dropped role''s job that has a command is 42501 for a superuser unless the call replaces command and settings; then it is the superuser''s. Errors as define_job, and 42704 for an unknown job, 22023 for an argument that is both given and reset.';
COMMENT ON FUNCTION sched.schedule_sql IS
'Has the server run a command at the plan times of a clock, as the caller. Makes a job of kind sql and its schedule, both of this name, and returns the schedule''s number. The call states the whole: what is left out goes to its default, but a schedule that is paused stays so where enabled is left out. The same call again changes nothing. Calls of one name wait for one another. What drop_schedule, alter_schedule and alter_job have changed of job and schedule is put right. Errors: 42710 (a job or schedule of this name was made otherwise), 42501 (another role''s, also for a superuser who is no member of that role by a superuser''s GRANT), 40001 under REPEATABLE READ and SERIALIZABLE where another transaction has just made the same, 22023 and 42601 (clock, command, setting or another argument cannot be used), 0A000 (a statement that no command may have), 54000 (a clock over 1000 bytes, a command or payload over 1 MiB), 42704 (unknown setting), 22008, 22004 (NULL).';
COMMENT ON FUNCTION sched.unschedule IS
'Drops what is left of what sched.schedule_sql made, whatever edits have made of it; false where there was none. What waits is cancelled; a run that goes on ends by itself, and is not tried again. Errors: 42710 (a job or schedule of this name was made otherwise), 42501 (another role''s), 2BP01 (another schedule uses the job).';
COMMENT ON FUNCTION sched.fire_now IS
'Creates one extra execution of a schedule, whatever its state, and returns its id. The plan time is now, or the next that neither the ledger nor the clock has. The timer is untouched. A superuser may fire the schedule of another role: the owner of the job reads the payload and the result. Errors: 42704, 42501, 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.pause IS 'Stops a schedule from firing until sched.resume. A superuser may pause the schedule of another role: the owner of the job reads its payload as before. Errors: 42704, 42501.';
COMMENT ON FUNCTION sched.cancel IS
'Cancels an execution, and waits for no other transaction. One that waits is CANCELLED at once. Of one that runs the next heartbeat answers cancel, and a failure ends it as CANCELLED; LISTEN "sched:cancel" hears its id. One that an open transaction claims, ends or changes is CANCELLED when that transaction has ended, unless it commits a success. False when it is unknown or has ended. The owner of the job goes on reading the payload, also of what a superuser cancels. Error: 42501.';
COMMENT ON FUNCTION sched.enqueue IS
'Puts an execution into its job''s queue and returns its id; with run_at nobody can claim it before that time. unique_by says what is the same. By plan: one of this job, scope and plan time, whatever has become of it; a plan time that is not named is drawn so that nobody has it. By scope: one of this job, scope and owner that waits and that nobody has in hand. if_exists says what becomes of that: keep, replace (payload, run_at and priority, if it waits; it has all its attempts again) or error. By plan, replace and error need a scope and a plan time. A job that was never defined means queue default. The owner of the job reads the payload, also of what a superuser enqueues. Errors: 22023, 22004, 22008, 42501, 23505 (if_exists error), 53400 (a notify job, while the server''s queue of notifications is full).';

CREATE TABLE sched.cancel_request (
    request_id   uuid        PRIMARY KEY DEFAULT pg_catalog.gen_random_uuid(),
    execution_id uuid        NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    retry_at     timestamptz NOT NULL DEFAULT 'epoch'
);
CREATE INDEX cancel_request_execution_id ON sched.cancel_request (execution_id);
CREATE INDEX cancel_request_retry_at ON sched.cancel_request (retry_at);
COMMENT ON TABLE sched.cancel_request IS 'executions to be cancelled whose row another transaction had locked: nobody may claim them, and heartbeats answer cancel';
COMMENT ON COLUMN sched.cancel_request.retry_at IS 'when a dispatcher tries again';
SELECT pg_catalog.pg_extension_config_dump('sched.cancel_request', '');
-- Joined by id these are read by an index; a view with security_barrier is read whole.
CREATE OR REPLACE VIEW sched.execution AS
SELECT e.id, CASE WHEN r.reads THEN e.job_name END AS job_name, CASE WHEN r.reads THEN e.scope_kind END AS scope_kind,
       CASE WHEN r.reads THEN e.scope_id END AS scope_id, CASE WHEN r.reads THEN e.plan_time END AS plan_time,
       CASE WHEN NOT r.reads THEN NULL WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue,
       CASE WHEN r.reads THEN e.priority END AS priority,
       CASE WHEN r.owns THEN e.payload END AS payload,
       CASE WHEN NOT r.reads THEN NULL
            WHEN l.execution_id IS NOT NULL THEN 'RUNNING'
            -- a dispatcher will write that down
            WHEN (e.status = 'PENDING' OR e.next_retry_at IS NOT NULL)
                 AND e.schedule_id IN (SELECT d.schedule_id FROM sched.schedule_dropped d) THEN 'CANCELLED'
            ELSE e.status END AS status,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.attempt ELSE l.attempt END AS attempt,
       CASE WHEN r.reads THEN e.max_attempts END AS max_attempts,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.runner_id ELSE l.runner_id END AS runner_id,
       CASE WHEN NOT r.owns THEN NULL WHEN l.execution_id IS NULL THEN e.lease_token ELSE l.lease_token END AS lease_token,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.fence ELSE l.fence END AS fence,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.heartbeat_at ELSE l.heartbeat_at END AS heartbeat_at,
       CASE WHEN r.reads THEN NULLIF(l.stale_after, 'infinity') END AS stale_after,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.started_at ELSE l.started_at END AS started_at,
       CASE WHEN r.reads AND l.execution_id IS NULL THEN e.finished_at END AS finished_at,
       CASE WHEN r.reads AND l.execution_id IS NULL
            THEN (EXTRACT(epoch FROM e.finished_at - e.started_at) * 1000)::bigint END AS duration_ms,
       CASE WHEN r.reads AND l.execution_id IS NULL THEN e.rows_affected END AS rows_affected,
       CASE WHEN r.owns AND l.execution_id IS NULL THEN e.result END AS result,
       CASE WHEN r.reads AND l.execution_id IS NULL THEN e.error_code END AS error_code,
       CASE WHEN r.owns AND l.execution_id IS NULL THEN e.error_msg END AS error_msg,
       CASE WHEN r.reads AND l.execution_id IS NULL AND e.status = 'FAILED'
                 AND (e.schedule_id IN (SELECT d.schedule_id FROM sched.schedule_dropped d)) IS NOT TRUE
            THEN e.next_retry_at END AS next_retry_at,
       CASE WHEN NOT r.owns THEN NULL WHEN l.execution_id IS NULL THEN e.progress ELSE l.progress END AS progress,
       CASE WHEN r.reads THEN e.allow_stale_reentry END AS allow_stale_reentry, CASE WHEN r.reads THEN e.origin END AS origin,
       CASE WHEN r.reads THEN e.schedule_name END AS schedule_name, CASE WHEN r.reads THEN e.created_at END AS created_at,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.updated_at ELSE l.heartbeat_at END AS updated_at,
       CASE WHEN r.reads THEN NULLIF(e.run_at, 'infinity') END AS run_at
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns,
                            pg_catalog.pg_has_role(current_user, e.owner, 'USAGE')
                            OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')) AS reads) AS r
 WHERE r.reads;
CREATE OR REPLACE VIEW sched.running AS
SELECT e.id, CASE WHEN r.reads THEN e.job_name END AS job_name, CASE WHEN r.reads THEN e.scope_kind END AS scope_kind,
       CASE WHEN r.reads THEN e.scope_id END AS scope_id, CASE WHEN r.reads THEN e.plan_time END AS plan_time,
       CASE WHEN NOT r.reads THEN NULL WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue,
       CASE WHEN r.reads THEN l.attempt END AS attempt, CASE WHEN r.reads THEN e.max_attempts END AS max_attempts,
       CASE WHEN r.reads THEN l.runner_id END AS runner_id, CASE WHEN r.reads THEN l.started_at END AS started_at,
       CASE WHEN r.reads THEN pg_catalog.clock_timestamp() - l.started_at END AS age,
       CASE WHEN r.reads THEN l.heartbeat_at END AS heartbeat_at, CASE WHEN r.reads THEN NULLIF(l.stale_after, 'infinity') END AS stale_after,
       CASE WHEN r.reads THEN NULLIF(l.stale_after, 'infinity') - pg_catalog.clock_timestamp() END AS time_to_stale,
       CASE WHEN r.reads THEN l.cancel_requested OR l.execution_id IN (SELECT c.execution_id FROM sched.cancel_request c) END AS cancel_requested,
       CASE WHEN r.owns THEN l.progress END AS progress, CASE WHEN r.reads THEN e.schedule_name END AS schedule_name,
       CASE WHEN r.reads AND l.sweep_at = 'infinity' THEN pg_catalog.substring(l.runner_id, '^sql/([0-9]{1,9})$')::integer END AS pid,
       CASE WHEN r.reads THEN l.run_until END AS run_until
  FROM sched.lease l
  JOIN sched.ledger e ON e.id = l.execution_id
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns,
                            pg_catalog.pg_has_role(current_user, e.owner, 'USAGE')
                            OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')) AS reads) AS r
 WHERE r.reads;
CREATE OR REPLACE VIEW sched.failed AS
SELECT e.id, CASE WHEN r.reads THEN e.job_name END AS job_name, CASE WHEN r.reads THEN e.scope_kind END AS scope_kind,
       CASE WHEN r.reads THEN e.scope_id END AS scope_id, CASE WHEN r.reads THEN e.plan_time END AS plan_time,
       CASE WHEN NOT r.reads THEN NULL WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue,
       CASE WHEN r.reads THEN e.attempt END AS attempt, CASE WHEN r.reads THEN e.max_attempts END AS max_attempts,
       CASE WHEN r.reads THEN e.runner_id END AS runner_id, CASE WHEN r.reads THEN e.finished_at END AS finished_at,
       CASE WHEN r.reads THEN e.error_code END AS error_code, CASE WHEN r.owns THEN e.error_msg END AS error_msg,
       CASE WHEN r.reads THEN e.next_retry_at IS NOT NULL END AS retryable, CASE WHEN r.reads THEN e.next_retry_at END AS next_retry_at,
       CASE WHEN r.reads THEN e.schedule_name END AS schedule_name
  FROM sched.ledger e
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns,
                            pg_catalog.pg_has_role(current_user, e.owner, 'USAGE')
                            OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')) AS reads) AS r
 WHERE e.status = 'FAILED'
   AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
   AND r.reads;
CREATE OR REPLACE VIEW sched.history AS
SELECT e.id, CASE WHEN r.reads THEN e.job_name END AS job_name, CASE WHEN r.reads THEN e.scope_kind END AS scope_kind,
       CASE WHEN r.reads THEN e.scope_id END AS scope_id, CASE WHEN r.reads THEN e.plan_time END AS plan_time,
       CASE WHEN NOT r.reads THEN NULL WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue,
       CASE WHEN r.reads THEN e.status END AS status, CASE WHEN r.reads THEN e.attempt END AS attempt,
       CASE WHEN r.reads THEN e.max_attempts END AS max_attempts, CASE WHEN r.reads THEN e.runner_id END AS runner_id,
       CASE WHEN r.reads THEN e.started_at END AS started_at, CASE WHEN r.reads THEN e.finished_at END AS finished_at,
       CASE WHEN r.reads THEN (EXTRACT(epoch FROM e.finished_at - e.started_at) * 1000)::bigint END AS duration_ms,
       CASE WHEN r.reads THEN e.rows_affected END AS rows_affected,
       CASE WHEN r.owns THEN e.result END AS result, CASE WHEN r.reads THEN e.error_code END AS error_code,
       CASE WHEN r.owns THEN e.error_msg END AS error_msg,
       CASE WHEN r.reads THEN e.origin END AS origin, CASE WHEN r.reads THEN e.schedule_name END AS schedule_name
  FROM sched.ledger e
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns,
                            pg_catalog.pg_has_role(current_user, e.owner, 'USAGE')
                            OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')) AS reads) AS r
 WHERE (e.status IN ('SUCCESS', 'CANCELLED') OR (e.status = 'FAILED' AND e.next_retry_at IS NULL))
   AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
   AND r.reads;
CREATE OR REPLACE FUNCTION sched.grant_worker(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.home, sched.shard, sched.job, sched.schedule, sched.paused_queue, sched.imported TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.schedule_change, sched.timer, sched.ledger, sched.ready, sched.retry TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.lease TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.awaited TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.schedule_definition, sched.schedule_dropped, sched.cancel_request, sched.unique_scope TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.skip, sched.timer_state, sched.alert, sched.alert_watch, sched.alert_state TO %1$s;', sched_internal.grantee(role));
END
$$;

CREATE TABLE sched.crontab_secret (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret   bytea   NOT NULL
);
COMMENT ON TABLE sched.crontab_secret IS 'the key of the hashes in the names of imported crontab lines; empty before the first import';
SELECT pg_catalog.pg_extension_config_dump('sched.crontab_secret', '');

-- By which scheduler_cron finds it, whatever it is called here.
ALTER TABLE sched.imported ADD COLUMN source_name text;
COMMENT ON COLUMN sched.imported.source_name IS 'what it is called there, or what stands for that; NULL = an older release has imported it';

-- A pause holds for all executions of a queue, as those of before do, or for those of one owner.
ALTER TABLE sched.paused_queue ADD COLUMN owner regrole;
ALTER TABLE sched.paused_queue DROP CONSTRAINT paused_queue_pkey;
ALTER TABLE sched.paused_queue ADD CONSTRAINT paused_queue_key UNIQUE NULLS NOT DISTINCT (queue, owner);
ALTER TABLE sched.paused_queue ALTER COLUMN queue SET NOT NULL;
ALTER TABLE sched.paused_queue REPLICA IDENTITY FULL;
COMMENT ON COLUMN sched.paused_queue.owner IS 'whose executions are not claimed; NULL = all';
SELECT pg_catalog.pg_extension_config_dump('sched.paused_queue', 'WHERE owner IS NULL OR owner::text !~ ''^[0-9]''');
CREATE TABLE sched.queue_grant (
    queue text    NOT NULL,
    role  regrole NOT NULL,
    PRIMARY KEY (queue, role)
);
COMMENT ON TABLE sched.queue_grant IS 'roles whose pause of a queue holds for all executions (sched.grant_queue)';
SELECT pg_catalog.pg_extension_config_dump('sched.queue_grant', 'WHERE role::text !~ ''^[0-9]''');
CREATE OR REPLACE VIEW sched.queues WITH (security_barrier) AS
SELECT a.queue,
       -- Also where only executions of an owner are paused that the reader may see.
       EXISTS (SELECT
                 FROM sched.paused_queue p
                WHERE p.queue = a.queue
                  AND (p.owner IS NULL OR pg_catalog.pg_has_role(current_user, p.owner, 'USAGE')
                       OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')))) AS paused,
       count(*) FILTER (WHERE a.what = 'ready') AS ready, count(*) FILTER (WHERE a.what = 'delayed') AS delayed,
       count(*) FILTER (WHERE a.what = 'retrying') AS retrying, count(*) FILTER (WHERE a.what = 'running') AS running,
       min(a.since) FILTER (WHERE a.what = 'ready') AS oldest_ready_at
  FROM (SELECT j.queue, j.owner, 'defined', NULL::timestamptz FROM sched.job j
        UNION ALL
        SELECT p.queue, COALESCE(p.owner, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched')), 'paused', NULL FROM sched.paused_queue p
        UNION ALL
        SELECT r.queue, r.owner, 'ready', GREATEST(e.created_at, e.run_at, e.next_retry_at)
          FROM sched.ready r
          LEFT JOIN sched.ledger e ON e.id = r.execution_id
        UNION ALL
        SELECT r.queue, r.owner,
               CASE WHEN r.retry_at <= pg_catalog.clock_timestamp() THEN 'ready' WHEN e.status = 'PENDING' THEN 'delayed' ELSE 'retrying' END, r.retry_at
          FROM sched.retry r
          LEFT JOIN sched.ledger e ON e.id = r.execution_id
        UNION ALL
        SELECT e.queue, l.owner, 'running', NULL
          FROM sched.lease l
          JOIN sched.ledger e ON e.id = l.execution_id) AS w (waits_in, owner, what, since)
 CROSS JOIN LATERAL (
       SELECT CASE WHEN pg_catalog.octet_length(w.waits_in) > 57 THEN pg_catalog.substr(w.waits_in, 73) ELSE w.waits_in END AS queue, w.what, w.since) AS a
 WHERE (pg_catalog.pg_has_role(current_user, w.owner, 'USAGE') OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')))
   -- What waits in a bucket of another server waits for nobody here.
   AND (w.what = 'running' OR NOT (pg_catalog.octet_length(w.waits_in) > 57 AND pg_catalog.starts_with(w.waits_in, 'elsewhere:')))
 GROUP BY a.queue;
CREATE FUNCTION sched.grant_queue(queue text, role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF queue IS NULL OR queue = '' OR octet_length(queue) > 57 THEN
        RAISE USING ERRCODE = CASE WHEN queue IS NULL THEN '22004' ELSE '22023' END,
            MESSAGE = CASE WHEN queue IS NULL THEN 'queue must not be NULL' ELSE format('"%s" is no name of a queue', left(queue, 40)) END,
            HINT = 'Pass a name of 1 to 57 bytes.';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s; GRANT EXECUTE ON FUNCTION sched.pause_queue, sched.resume_queue TO %1$s;', sched_internal.grantee(role));
    INSERT INTO sched.queue_grant VALUES (grant_queue.queue, grant_queue.role) ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION sched.grant_queue IS
'Has a pause of this queue by a role hold for all executions, as one by a superuser does, and lets the role resume it. For superusers and the extension''s owner. Errors: 42501, 22004 (NULL), 22023 (a name that cannot be one).';
CREATE OR REPLACE FUNCTION sched.revoke_all(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('REVOKE ALL ON SCHEMA sched, sched_internal FROM %1$s;'
        'REVOKE ALL ON ALL TABLES IN SCHEMA sched, sched_internal FROM %1$s;'
        'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_internal FROM %1$s;', sched_internal.grantee(role, true));
    DELETE FROM sched.queue_grant g WHERE g.role = revoke_all.role;
END
$$;
COMMENT ON FUNCTION sched.revoke_all IS
'Takes back all that sched.grant_use, sched.grant_monitor, sched.grant_worker and sched.grant_queue gave to a role. For superusers and the extension''s owner; 42501 for others.';
COMMENT ON FUNCTION sched.pause_queue IS
'Has nobody claim anything of a queue until sched.resume_queue: claim returns no row, try_claim is conflicted, the server runs no SQL job of it. Runs and fires go on, and what a fire delivers at once (kinds notify and log) is delivered. Paused twice is paused once. A pause by a superuser, or by a role with sched.grant_queue, holds for all executions. A pause by another role holds for the executions of that role, and of the owners for whom it may act and who have a job or an execution there. Errors: 22004 (NULL), 22023 (a name that cannot be one).';
COMMENT ON FUNCTION sched.resume_queue IS
'Takes back the pauses of a queue that hold for owners for whom the caller may act. One that holds for all is taken back by a superuser, or a role with sched.grant_queue. A queue that is not paused stays as it is. Errors: 42501 (the only pause holds for all, and the caller may not take it back), 22004 (NULL), 22023 (a name that cannot be one).';

CREATE FUNCTION sched_internal.ids_of_scope(
    job_name text,
    scope_kind text,
    scope_id text,
    from_time timestamptz,
    to_time timestamptz
) RETURNS SETOF uuid
STABLE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'ids_of_scope_wrapper';
CREATE FUNCTION sched_internal.ids_of_schedule(
    schedule_name text,
    from_time timestamptz,
    to_time timestamptz
) RETURNS SETOF uuid
STABLE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'ids_of_schedule_wrapper';
-- Reads by the ledger's key, which is a hash: a condition on job_name, scope_kind and scope_id of a view reads the whole ledger. Their bodies
-- are parsed here, since their readers have no right on sched_internal. The view says what a reader sees of each row.
CREATE FUNCTION sched.executions_of(job_name text, scope_kind text, scope_id text, from_time timestamptz DEFAULT NULL, to_time timestamptz DEFAULT NULL)
    RETURNS SETOF sched.execution LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT e.*
      FROM sched_internal.ids_of_scope($1, $2, $3, $4, $5) AS i (id)
      JOIN sched.execution e ON e.id = i.id
     ORDER BY e.plan_time DESC;
END;

CREATE FUNCTION sched.runs_of(schedule_name text, from_time timestamptz DEFAULT NULL, to_time timestamptz DEFAULT NULL)
    RETURNS SETOF sched.execution LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT e.*
      FROM sched_internal.ids_of_schedule($1, $2, $3) AS i (id)
      JOIN sched.execution e ON e.id = i.id
     ORDER BY e.plan_time DESC;
END;
COMMENT ON FUNCTION sched.executions_of IS
'The executions of a job and a scope with a plan time in [from_time, to_time), newest first, as rows of sched.execution. NULL, the default, leaves an end open. It reads the ledger by its key, so that the cost grows with the rows found. A role sees what it sees in sched.execution. Errors: 22004 (NULL), 22023 (an empty range, a name that cannot be one), 22008 (infinite times).';
COMMENT ON FUNCTION sched.runs_of IS
'The executions of a schedule with a plan time in [from_time, to_time), newest first, as rows of sched.execution. NULL, the default, leaves an end open. It reads the ledger by its key, so that the cost grows with the rows found. Errors: 42704 (unknown schedule), 42501 (another role''s), 22004 (NULL), 22023 (an empty range), 22008 (infinite times).';
COMMENT ON FUNCTION sched_internal.ids_of_scope IS
'internal: the executions of a job and a scope; read them through sched.executions_of.';
COMMENT ON FUNCTION sched_internal.ids_of_schedule IS
'internal: the executions of a schedule; read them through sched.runs_of.';
CREATE OR REPLACE FUNCTION sched.grant_use(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.execution, sched.running, sched.failed, sched.history, sched.jobs, sched.schedules, sched.skipped, sched.queues, sched.late, sched.alerts, sched.last_runs, sched.waiting TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.define_job, sched.alter_job, sched.drop_job, sched.schedule_sql, sched.unschedule, sched.this_run, sched.test_job, sched.create_schedule, sched.create_schedules, sched.alter_schedule,'
        '  sched.fire_now, sched.backfill, sched.explain, sched.executions_of, sched.runs_of, sched_internal.skipped_so_far, sched_internal.skip_parts, sched_internal.next_open, sched_internal.ids_of_scope, sched_internal.ids_of_schedule,'
        '  sched.drop_schedule, sched.pause, sched.resume, sched.dispatch_due, sched.try_claim, sched.claim,'
        '  sched.heartbeat, sched.heartbeat_many, sched.finish_success, sched.finish_failure, sched.import_crontab, sched.import_from, sched.compare, sched.take_over, sched.hand_back, sched.report_fire, sched.next_time,'
        '  sched.preview, sched.validate, sched.enqueue, sched.enqueue_many, sched.finish_success_many, sched.assert_lease,'
        '  sched.cancel, sched.snooze, sched.cancel_many, sched.alter_execution, sched.pause_queue, sched.resume_queue, sched.mark_stale_as_failed, sched.latest_plan, sched.due_plans, sched.attempts_since_success,'
        '  sched.is_home, sched.bucket, sched.buckets, sched.health, sched.healthy, sched.metrics, sched.openmetrics, sched.acknowledge, sched.report, sched.timeline, sched.recent TO %1$s;', sched_internal.grantee(role));
END
$$;
CREATE OR REPLACE FUNCTION sched.grant_monitor(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.monitor, sched.execution, sched.running, sched.failed, sched.history, sched.jobs, sched.schedules, sched.skipped, sched.queues, sched.late, sched.alerts, sched.last_runs, sched.waiting TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.is_home, sched.bucket, sched.buckets, sched.health, sched.healthy, sched.metrics, sched.openmetrics, sched.report, sched.timeline, sched.recent, sched.explain, sched.executions_of, sched.runs_of, sched_internal.skipped_so_far, sched_internal.skip_parts, sched_internal.next_open, sched_internal.ids_of_scope, sched_internal.ids_of_schedule TO %1$s;', sched_internal.grantee(role));
END
$$;
-- It knows how each function is called.
CREATE OR REPLACE FUNCTION sched.router_sql(cluster text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$router$
DECLARE
    how jsonb := '{
        "everywhere": ["adopt", "define_job", "dispatch_due", "drop_elsewhere", "health", "healthy", "is_home",
            "mark_stale_as_failed", "pause_queue", "rebuild", "resume_queue"],
        "anywhere": ["next_time", "preview", "validate"],
        "scope": ["attempts_since_success", "create_schedule", "due_plans", "enqueue", "executions_of", "latest_plan", "schedule_sql", "try_claim"],
        "schedule": ["alter_schedule", "backfill", "drop_schedule", "explain", "fire_now", "pause", "report_fire", "resume", "runs_of", "timeline", "unschedule"],
        "job": ["alter_job"],
        "execution": ["alter_execution", "cancel", "finish_failure", "finish_success", "heartbeat", "snooze"],
        "server": ["acknowledge", "assert_lease", "compare", "grant_queue", "hand_back", "import_from", "metrics", "openmetrics", "report", "router_sql",
            "set_buckets", "take_over", "this_run"],
        "own": ["bucket", "buckets", "cancel_many", "claim", "create_schedules", "drop_job", "enqueue_many", "finish_success_many", "grant_monitor", "grant_use",
            "grant_worker", "heartbeat_many", "import_crontab", "recent", "revoke_all", "test_job"]
    }';
    -- The row that a call is about: of which argument, by which column of which view. All servers are asked, and the call is made where the
    -- row is. It gets the row's own column, so that no plan makes the call first.
    rows constant jsonb := '{
        "schedule": ["schedule_name", "schedule_name", "sched.schedules", " AND v.state <> ''elsewhere''"],
        "job": ["job_name", "job_name", "sched.jobs", ""],
        "execution": ["execution_id", "id", "sched.execution", ""]
    }';
    own jsonb := jsonb_build_object(
        'buckets', $$RETURN (SELECT range_agg(b.buckets::int4multirange) FROM sched_router.buckets_of_all() AS b);$$,
        'claim', $$IF $2 IS NULL OR $2 < 1 THEN
        RETURN QUERY SELECT * FROM sched_router.claim_at(sched_router.anywhere(), $1, $2, $3, $4);
        RETURN;
    END IF;
    -- One server after the other: no more are handed out than are asked for.
    FOR place IN SELECT s.place FROM sched_router.servers() AS s ORDER BY random() LOOP
        BEGIN
            RETURN QUERY SELECT * FROM sched_router.claim_at(place, $1, ($2 - done)::integer, $3, $4);
            GET DIAGNOSTICS got = ROW_COUNT;
        EXCEPTION WHEN OTHERS THEN
            -- What others have handed out is not lost for it.
            IF done = 0 THEN
                RAISE;
            END IF;
            got := 0;
        END;
        done := done + got;
        EXIT WHEN done >= $2;
    END LOOP;$$,
        'cancel_many', $$IF $4 IS NULL OR $4 < 1 THEN
        RETURN (SELECT a.r FROM sched_router.cancel_many_at(sched_router.anywhere(), $1, $2, $3, $4) AS a (r));
    END IF;
    FOR place IN SELECT s.place FROM sched_router.servers() AS s LOOP
        done := done + (SELECT a.r FROM sched_router.cancel_many_at(place, $1, $2, $3, ($4 - done)::integer) AS a (r));
        EXIT WHEN done >= $4;
    END LOOP;
    RETURN done;$$,
        'create_schedules', $$IF $1 IS NULL OR jsonb_typeof($1) <> 'array' THEN
        RETURN (SELECT a.r FROM sched_router.create_schedules_at(sched_router.anywhere(), $1) AS a (r));
    END IF;
    FOR part IN
        WITH elements AS MATERIALIZED (
            SELECT e.spec, e.number,
                   sched.bucket(COALESCE(e.spec ->> 'scope_kind', 'schedule'), COALESCE(e.spec ->> 'scope_id', e.spec ->> 'schedule_name')) AS bucket
              FROM jsonb_array_elements($1) WITH ORDINALITY AS e (spec, number))
        SELECT p.place, jsonb_agg(e.spec ORDER BY e.number) AS specs, array_agg(e.number ORDER BY e.number) AS numbers
          FROM elements AS e
          LEFT JOIN sched_router.places_of_buckets(ARRAY(SELECT DISTINCT e.bucket FROM elements AS e WHERE e.bucket IS NOT NULL)) AS p ON p.bucket = e.bucket
         GROUP BY p.place
         ORDER BY p.place NULLS FIRST
    LOOP
        BEGIN
            done := done + (SELECT a.r FROM sched_router.create_schedules_at(COALESCE(part.place, sched_router.anywhere()), part.specs) AS a (r));
        EXCEPTION WHEN OTHERS THEN
            -- The server counts in its part.
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
            words := regexp_match(message, '^(.*?\melement )([0-9]{1,9})\M(.*)$');
            IF words IS NULL THEN
                RAISE;
            END IF;
            RAISE USING ERRCODE = SQLSTATE, MESSAGE = concat(words[1], part.numbers[words[2]::integer], words[3]), HINT = hint;
        END;
    END LOOP;
    RETURN done;$$,
        'enqueue_many', $$IF $5 IS NULL OR $4 IS NULL OR $2 IS NULL OR cardinality($5) <> cardinality($2) OR array_position($5, NULL) IS NOT NULL
       OR cardinality($3) <> cardinality($2) OR cardinality($6) <> cardinality($2) THEN
        RETURN QUERY SELECT * FROM sched_router.enqueue_many_at(sched_router.anywhere(), $1, $2, $3, $4, $5, $6, $7, $8, $9);
        RETURN;
    END IF;
    ids := array_fill(NULL::uuid, ARRAY[cardinality($5)]);
    FOR part IN
        SELECT p.place, array_agg(i.number ORDER BY i.number) AS numbers, array_agg(i.payload ORDER BY i.number) AS payloads,
               array_agg(i.plan_time ORDER BY i.number) AS plan_times, array_agg(i.id ORDER BY i.number) AS scope_ids,
               array_agg(i.run_at ORDER BY i.number) AS run_ats
          FROM unnest($2, $3, $5, $6) WITH ORDINALITY AS i (payload, plan_time, id, run_at, number)
          JOIN sched_router.places_of_buckets(ARRAY(SELECT DISTINCT sched.bucket($4, u.id) FROM unnest($5) AS u (id))) AS p ON p.bucket = sched.bucket($4, i.id)
         GROUP BY p.place
         ORDER BY p.place
    LOOP
        SELECT array_agg(a.r ORDER BY a.n) INTO some_ids
          FROM sched_router.enqueue_many_at(part.place, $1, part.payloads, CASE WHEN $3 IS NOT NULL THEN part.plan_times END, $4, part.scope_ids,
                   CASE WHEN $6 IS NOT NULL THEN part.run_ats END, $7, $8, $9) WITH ORDINALITY AS a (r, n);
        FOR n IN 1 .. cardinality(part.numbers) LOOP
            ids[part.numbers[n]] := some_ids[n];
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT i.id FROM unnest(ids) WITH ORDINALITY AS i (id, n) ORDER BY i.n;$$,
        'drop_job', $$used_by := (SELECT a.r FROM sched_router.users_of_job($1) AS a (r) LIMIT 1);
    IF used_by IS NOT NULL THEN
        RAISE dependent_objects_still_exist USING MESSAGE = format('job "%s" is used by schedule "%s"', $1, used_by),
            HINT = 'Drop its schedules first, or give them another job.';
    END IF;
    RETURN (SELECT bool_or(a.r) FROM sched_router.drop_job_all($1) AS a (r));$$,
        'test_job', $$RETURN QUERY
    SELECT * FROM sched_router.test_job_at(COALESCE((SELECT min(p.place) FROM sched_router.places_of_job($1) AS p (place)), sched_router.anywhere()), $1, $2, $3);$$,
        'finish_success_many', $$-- Not held is what no server has.
    RETURN QUERY
    WITH servers AS MATERIALIZED (SELECT row_number() OVER () AS server, a.ids FROM sched_router.finish_success_many_all($1, $2) AS a (ids)),
         lost AS (SELECT u.id FROM servers AS s CROSS JOIN LATERAL unnest(s.ids) AS u (id)
                   GROUP BY u.id HAVING count(DISTINCT s.server) = (SELECT count(*) FROM servers))
    SELECT i.id FROM unnest($1) WITH ORDINALITY AS i (id, n) JOIN lost AS l ON l.id = i.id ORDER BY i.n;$$,
        'heartbeat_many', $$-- Lost is what no server has.
    RETURN QUERY
    SELECT a.execution_id, CASE WHEN bool_or(a.answer = 'cancel') THEN 'cancel' WHEN bool_or(a.answer = 'ok') THEN 'ok' ELSE 'lost' END
      FROM sched_router.heartbeat_many_all($1, $2) AS a
     GROUP BY a.number, a.execution_id
     ORDER BY a.number;$$,
        'import_crontab', $$place := (
        WITH servers AS MATERIALIZED (SELECT s.place, s.buckets::int4multirange AS buckets FROM sched_router.servers() AS s)
        SELECT min(lower(s.buckets * o.buckets)) FROM servers AS s JOIN servers AS o ON s.place < o.place AND s.buckets && o.buckets);
    IF place IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('bucket %s is on 2 servers', place),
            HINT = 'Nothing was written. sched.buckets() of each server says which ones it has.';
    END IF;
    -- Each server takes the lines that are its own; what is said of a line by all is an error of it.
    RETURN QUERY
    SELECT DISTINCT ON (a.line) a.* FROM sched_router.import_crontab_all($1, $2, $3) AS a
     ORDER BY a.line, a.note IS NOT NULL, a.note LIKE '%which is not one of this server''s%';$$,
        'recent', $$RETURN QUERY SELECT a.* FROM sched_router.recent_all($1, $2) AS a ORDER BY a.id DESC LIMIT $2;$$,
        'grant_use', $$PERFORM sched_router.grant_use_all($1);
    PERFORM sched_router.grant_stubs($1);$$,
        'grant_monitor', $$PERFORM sched_router.grant_monitor_all($1);
    PERFORM sched_router.grant_stubs($1);$$,
        'grant_worker', $$PERFORM sched_router.grant_worker_all($1);$$,
        'revoke_all', $$PERFORM sched_router.revoke_all_all($1);
    PERFORM sched_router.revoke_stubs($1);$$);
    declared constant text := 'DECLARE
    place integer;
    part record;
    done bigint := 0;
    got bigint;
    ids uuid[];
    some_ids uuid[];
    used_by text;
    message text;
    hint text;
    words text[];
    answer text;
';
    name      text;
    f         record;
    v         record;
    rule      text;
    script    text;
    stub      text;
    behind_views text := '';
    inner_result text;
    passed    text;
    called    text;
    place     text;
    found_by  text[];
    named     integer;
    calls     text;
    on_all    text;
    where_it_is text;
    anywhere  text;
    body      text;
BEGIN
    IF cluster IS NULL OR cluster = '' THEN
        RAISE null_value_not_allowed USING MESSAGE = 'cluster must not be NULL or empty', HINT = 'Pass the name of the PL/Proxy cluster.';
    END IF;
    -- It stands in comments and in bodies of functions.
    IF cluster ~ '[^[:alnum:]_. -]' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('"%s" cannot be the name of a cluster', regexp_replace(left(cluster, 40), '[[:cntrl:]]', '?', 'g')),
            HINT = 'Name the PL/Proxy cluster with letters, digits, underscores, points, hyphens and blanks.';
    END IF;
    script := format($$-- Made by sched.router_sql(%1$L), version %2$s. For a superuser, in a database of its own; it may be run again.
DO $do$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'scheduler') THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'this database has the extension itself',
            HINT = 'A router is a database without it: create one, and run this there.';
    END IF;
END
$do$;
CREATE EXTENSION IF NOT EXISTS plproxy;
CREATE SCHEMA IF NOT EXISTS sched;
CREATE SCHEMA IF NOT EXISTS sched_router;
REVOKE ALL ON SCHEMA sched, sched_router FROM PUBLIC;
-- What an earlier run has made.
DO $do$
DECLARE
    object text;
BEGIN
    -- Some of these return rows of views, which call those of sched_router.
    FOR object IN SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
                   WHERE p.pronamespace = 'sched'::pg_catalog.regnamespace AND pg_catalog.obj_description(p.oid, 'pg_proc') LIKE 'router: %%'
    LOOP
        EXECUTE 'DROP FUNCTION ' || object;
    END LOOP;
    FOR object IN SELECT c.oid::pg_catalog.regclass::text FROM pg_catalog.pg_class c
                   WHERE c.relkind = 'v' AND c.relnamespace = 'sched'::pg_catalog.regnamespace AND pg_catalog.obj_description(c.oid, 'pg_class') LIKE 'router: %%'
    LOOP
        EXECUTE 'DROP VIEW ' || object;
    END LOOP;
    FOR object IN SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
                   WHERE p.pronamespace = 'sched_router'::pg_catalog.regnamespace AND pg_catalog.obj_description(p.oid, 'pg_proc') LIKE 'router: %%'
    LOOP
        EXECUTE 'DROP FUNCTION ' || object;
    END LOOP;
END
$do$;
CREATE FUNCTION sched.bucket(scope_kind text, scope_id text) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$f$ SELECT ((pg_catalog.get_byte(h.hash, 0) << 8) + pg_catalog.get_byte(h.hash, 1)) & 1023
      FROM pg_catalog.sha256(pg_catalog.convert_to($1, 'UTF8') || '\x00'::bytea || pg_catalog.convert_to($2, 'UTF8')) AS h (hash) $f$;
CREATE FUNCTION sched_router.anywhere() RETURNS integer LANGUAGE sql VOLATILE AS $f$ SELECT pg_catalog.floor(pg_catalog.random() * 1024)::integer $f$;
-- One row for each server that has buckets: the first of them, by which it is called, and all.
CREATE FUNCTION sched_router.buckets_of_all() RETURNS TABLE (place integer, buckets text) LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT pg_catalog.lower(b.buckets) AS place, b.buckets::text AS buckets FROM sched.buckets() AS b (buckets) WHERE NOT pg_catalog.isempty(b.buckets); $f$;
CREATE FUNCTION sched_router.places_that_lead(places integer[]) RETURNS SETOF integer LANGUAGE plproxy AS
$f$ CLUSTER %1$L; SPLIT places; RUN ON places; SELECT pg_catalog.lower(b.buckets) FROM sched.buckets() AS b (buckets) WHERE pg_catalog.lower(b.buckets) = ANY (places); $f$;
-- The same, after a look whether the partition of that bucket is this server.
CREATE FUNCTION sched_router.servers() RETURNS TABLE (place integer, buckets text) LANGUAGE plpgsql AS
$f$
#variable_conflict use_column
DECLARE
    places integer[];
    ranges text[];
    wrong integer;
BEGIN
    SELECT pg_catalog.array_agg(b.place), pg_catalog.array_agg(b.buckets) INTO places, ranges FROM sched_router.buckets_of_all() AS b;
    IF places IS NOT NULL THEN
        wrong := (SELECT pg_catalog.min(w.place)
                    FROM (SELECT u.place FROM pg_catalog.unnest(places) AS u (place) EXCEPT ALL SELECT l.place FROM sched_router.places_that_lead(places) AS l (place)) AS w);
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = pg_catalog.format('partition p%%1$s is not the one server that has bucket %%1$s', wrong),
            HINT = 'Compare the PL/Proxy cluster with sched.buckets() of each server.';
    END IF;
    RETURN QUERY SELECT u.place, u.buckets FROM ROWS FROM (pg_catalog.unnest(places), pg_catalog.unnest(ranges)) AS u (place, buckets);
END
$f$;
-- The server of each bucket, for those who write to several.
CREATE FUNCTION sched_router.places_of_buckets(buckets integer[]) RETURNS TABLE (bucket integer, place integer) LANGUAGE plpgsql AS
$f$
#variable_conflict use_column
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT u.bucket, pg_catalog.count(s.place) AS count, pg_catalog.min(s.place) AS place
          FROM pg_catalog.unnest($1) AS u (bucket)
          LEFT JOIN sched_router.servers() AS s ON s.buckets::pg_catalog.int4multirange OPERATOR(pg_catalog.@>) u.bucket
         GROUP BY u.bucket
    LOOP
        IF found.count <> 1 THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = CASE found.count WHEN 0 THEN pg_catalog.format('no server has bucket %%s', found.bucket)
                                           ELSE pg_catalog.format('bucket %%s is on %%s servers', found.bucket, found.count) END,
                HINT = 'Nothing was written. sched.buckets() of each server says which ones it has.';
        END IF;
        bucket := found.bucket;
        place := found.place;
        RETURN NEXT;
    END LOOP;
END
$f$;
CREATE FUNCTION sched_router.places_of_job(text) RETURNS SETOF integer LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT pg_catalog.lower(sched.buckets()) FROM sched.jobs j WHERE j.job_name = $1; $f$;
CREATE FUNCTION sched_router.users_of_job(text) RETURNS SETOF text LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT s.schedule_name FROM sched.schedules s WHERE s.job_name = $1 OR s.alert_job = $1; $f$;
CREATE FUNCTION sched_router.finish_success_many_all(uuid[], uuid[]) RETURNS SETOF uuid[] LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT ARRAY(SELECT f.r FROM sched.finish_success_many($1, $2) AS f (r)); $f$;
CREATE FUNCTION sched_router.heartbeat_many_all(uuid[], uuid[]) RETURNS TABLE (number bigint, execution_id uuid, answer text) LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT f.number, f.execution_id, f.answer FROM sched.heartbeat_many($1, $2) WITH ORDINALITY AS f (execution_id, answer, number); $f$;
CREATE FUNCTION sched_router.schedules_named(text) RETURNS SETOF integer LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT 1 FROM sched.schedules s WHERE s.schedule_name = $1 AND s.state <> 'elsewhere'; $f$;
CREATE FUNCTION sched_router.has_schedule(name text) RETURNS boolean LANGUAGE plpgsql AS
$f$
DECLARE
    count bigint := (SELECT pg_catalog.count(*) FROM sched_router.schedules_named($1));
BEGIN
    IF count > 1 THEN
        RAISE cardinality_violation USING MESSAGE = pg_catalog.format('schedule "%%s" is on %%s servers', $1, count),
            HINT = 'Connect to the one that is meant: a name is unique on each server only.';
    END IF;
    RETURN count = 1;
END
$f$;
-- The right to the stubs, and to the PL/Proxy cluster, which PL/Proxy asks for where a foreign server is one.
CREATE FUNCTION sched_router.grant_stubs(role regrole) RETURNS void LANGUAGE plpgsql AS
$f$
BEGIN
    EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA sched, sched_router TO %%1$s; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sched, sched_router TO %%1$s;'
        'GRANT SELECT ON ALL TABLES IN SCHEMA sched TO %%1$s', $1);
    EXECUTE COALESCE((SELECT pg_catalog.format('GRANT USAGE ON FOREIGN SERVER %%I TO %%s', f.srvname, $1) FROM pg_catalog.pg_foreign_server f WHERE f.srvname = %1$L), '');
END
$f$;
CREATE FUNCTION sched_router.revoke_stubs(role regrole) RETURNS void LANGUAGE plpgsql AS
$f$
BEGIN
    EXECUTE pg_catalog.format('REVOKE ALL ON SCHEMA sched, sched_router FROM %%1$s; REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_router FROM %%1$s;'
        'REVOKE ALL ON ALL TABLES IN SCHEMA sched, sched_router FROM %%1$s', $1);
    EXECUTE COALESCE((SELECT pg_catalog.format('REVOKE ALL ON FOREIGN SERVER %%I FROM %%s', f.srvname, $1) FROM pg_catalog.pg_foreign_server f WHERE f.srvname = %1$L), '');
END
$f$;
$$, cluster, (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'scheduler'));
    FOR f IN
        SELECT p.oid, p.proname::text AS name, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_identity_arguments(p.oid) AS identity,
               -- The router has no view yet when it makes what a stub calls.
               COALESCE((SELECT 'TABLE(' || string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum) || ')'
                           FROM pg_type t
                           JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0
                          WHERE t.oid = p.prorettype AND p.proretset AND t.typnamespace = 'sched'::regnamespace),
                        pg_get_function_result(p.oid)) AS result, pg_get_function_result(p.oid) AS own_result, p.proretset AS is_set, p.prorettype = 'void'::regtype AS is_void, p.prorettype AS type, p.pronargs AS count,
               ARRAY(SELECT format_type(t.type, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS t (type, n) ORDER BY t.n) AS types,
               array_position(p.proargnames, 'scope_kind') AS scope_kind, array_position(p.proargnames, 'scope_id') AS scope_id,
               array_position(p.proargnames, 'schedule_name') AS schedule_name, p.proargnames AS names
          FROM pg_proc p
         WHERE p.pronamespace = 'sched'::regnamespace
         ORDER BY p.proname
    LOOP
        SELECT h.rule INTO rule FROM jsonb_each(how) AS h (rule, names) WHERE h.names ? f.name;
        IF rule IS NULL THEN
            RAISE internal_error USING MESSAGE = format('router_sql does not know how function %s is called', f.name);
        END IF;
        CONTINUE WHEN f.name = 'bucket';
        inner_result := CASE WHEN f.is_void THEN 'SETOF integer' WHEN f.is_set THEN f.result ELSE 'SETOF ' || f.result END;
        found_by := ARRAY(SELECT w.word FROM jsonb_array_elements_text(rows -> rule) AS w (word));
        named := array_position(f.names, found_by[1]);
        passed := array_to_string(ARRAY(SELECT '$' || n FROM generate_series(1, f.count) AS n), ', ');
        -- How PL/Proxy calls it: on all, where the row is, or at a place that is the first argument.
        FOREACH place IN ARRAY CASE WHEN rule = 'server' OR f.name IN ('buckets', 'finish_success_many', 'heartbeat_many') THEN '{}'::text[]
                                    WHEN rule = 'everywhere' OR f.name IN ('drop_job', 'grant_use', 'grant_monitor', 'grant_worker', 'revoke_all', 'recent', 'import_crontab')
                                    THEN '{all}'
                                    WHEN rows ? rule THEN '{at,where}' ELSE '{at}' END
        LOOP
            called := array_to_string(ARRAY(
                SELECT CASE WHEN place = 'where' AND n = named THEN 'v.' || found_by[2] ELSE format('$%s::%s', n + (place = 'at')::integer, f.types[n]) END
                  FROM generate_series(1, f.count) AS n), ', ');
            script := script || format(E'CREATE FUNCTION sched_router.%I(%s) RETURNS %s LANGUAGE plproxy AS\n$f$ CLUSTER %L; RUN ON %s; SELECT %s FROM %ssched.%I(%s) AS f%s%s; $f$;\n',
                f.name || '_' || place, array_to_string(CASE place WHEN 'at' THEN 'integer'::text || f.types ELSE f.types END, ', '), inner_result, cluster,
                CASE place WHEN 'at' THEN '$1' ELSE 'ALL' END,
                CASE WHEN f.is_void THEN '1' WHEN f.result LIKE 'TABLE(%' THEN 'f.*' ELSE 'f.r' END,
                CASE place WHEN 'where' THEN found_by[3] || ' AS v CROSS JOIN LATERAL ' ELSE '' END, f.name, called,
                CASE WHEN f.is_void OR f.result LIKE 'TABLE(%' THEN '' ELSE ' (r)' END,
                CASE place WHEN 'where' THEN format(' WHERE v.%s = $%s', found_by[2], named) || found_by[4] ELSE '' END);
        END LOOP;
        -- How the stub calls that. (A name that is NULL, and a job or an execution that is nowhere, gets the error or the answer of any server.)
        calls := CASE WHEN f.is_void THEN 'PERFORM * FROM %s;' WHEN f.is_set THEN 'RETURN QUERY SELECT * FROM %s;' ELSE 'RETURN (SELECT a.r FROM %s AS a (r) LIMIT 1);' END;
        on_all := format('sched_router.%I(%s)', f.name || '_all', passed);
        where_it_is := format('sched_router.%I(%s)', f.name || '_where', passed);
        anywhere := format(calls, format('sched_router.%I(%s)', f.name || '_at', concat_ws(', ', 'sched_router.anywhere()', NULLIF(passed, ''))));
        body := CASE rule
            WHEN 'own' THEN own ->> f.name
            WHEN 'server' THEN format($$RAISE feature_not_supported USING MESSAGE = %L, HINT = 'Connect to the server itself.';$$,
                format('sched.%s cannot be called through a router', f.name))
            WHEN 'anywhere' THEN anywhere
            WHEN 'everywhere' THEN CASE WHEN f.is_void OR f.is_set THEN format(calls, on_all)
                ELSE format('RETURN (SELECT %s(a.r) FROM %s AS a (r));',
                    CASE WHEN f.type <> 'boolean'::regtype THEN 'sum' WHEN f.name LIKE 'resume%' THEN 'bool_or' ELSE 'bool_and' END, on_all) END
            WHEN 'scope' THEN format(calls, format('sched_router.%I(COALESCE(sched.bucket(%s, %s), sched_router.anywhere()), %s)', f.name || '_at',
                COALESCE('$' || f.scope_kind, '''schedule'''),
                CASE WHEN f.scope_id IS NULL THEN '$' || f.schedule_name WHEN f.name = 'create_schedule' THEN format('COALESCE($%s, $%s)', f.scope_id, f.schedule_name)
                     ELSE '$' || f.scope_id END, passed))
            WHEN 'schedule' THEN format($$IF $%1$s IS NULL THEN
        %2$s
    ELSIF sched_router.has_schedule($%1$s) THEN
        %3$s
    ELSE
        %4$s
    END IF;$$, named, anywhere, format(calls, where_it_is),
                CASE f.type WHEN 'boolean'::regtype THEN 'RETURN false;'
                     ELSE format($$RAISE undefined_object USING MESSAGE = format('schedule "%%s" does not exist', $%s), HINT = 'Look for its name in the view sched.schedules.';$$, named) END)
            ELSE format(CASE WHEN f.is_void THEN $$PERFORM * FROM %1$s;
    IF NOT FOUND THEN
        %2$s
    END IF;$$ ELSE $$answer := (SELECT %3$s(a.r) FROM %1$s AS a (r));
    IF answer IS NULL THEN
        %2$s
    END IF;
    RETURN answer;$$ END, where_it_is, anywhere, CASE f.type WHEN 'boolean'::regtype THEN 'bool_or' ELSE 'min' END)
        END;
        -- PL/pgSQL knows no column of a result by the name of an argument, as claim has one.
        IF f.result LIKE 'TABLE(%' THEN
            script := script || format(E'CREATE FUNCTION sched_router.%I(%s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS\n$f$\n#variable_conflict use_column\n%sBEGIN\n    %s\nEND\n$f$;\n',
                f.name || '_stub', array_to_string(f.types, ', '), f.result, declared, body);
            stub := format(E'CREATE FUNCTION sched.%I(%s) RETURNS %s LANGUAGE sql AS $f$ SELECT * FROM sched_router.%I(%s) $f$;\n',
                f.name, f.arguments, f.own_result, f.name || '_stub', passed);
        ELSE
            stub := format(E'CREATE FUNCTION sched.%I(%s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS\n$f$\n#variable_conflict use_column\n%sBEGIN\n    %s\nEND\n$f$;\n',
                f.name, f.arguments, f.result, declared, body);
        END IF;
        stub := stub || format(E'COMMENT ON FUNCTION sched.%I(%s) IS %L;\n',
            f.name, f.identity, 'router: ' || rule || '. ' || COALESCE(obj_description(f.oid, 'pg_proc'), ''));
        script := script || CASE WHEN f.result = f.own_result THEN stub ELSE '' END;
        behind_views := behind_views || CASE WHEN f.result = f.own_result THEN '' ELSE stub END;
    END LOOP;
    FOR v IN
        SELECT c.relname::text AS name, string_agg(format('%I %s', a.attname, CASE a.atttypid WHEN 'regrole'::regtype THEN 'text' ELSE format_type(a.atttypid, a.atttypmod) END), ', ' ORDER BY a.attnum) AS columns,
               string_agg(format(CASE a.atttypid WHEN 'regrole'::regtype THEN 'v.%1$I::text AS %1$I' ELSE 'v.%1$I' END, a.attname), ', ' ORDER BY a.attnum) AS selected,
               obj_description(c.oid, 'pg_class') AS comment
          FROM pg_class c
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
         WHERE c.relnamespace = 'sched'::regnamespace AND c.relkind = 'v'
         GROUP BY c.oid, c.relname
         ORDER BY c.relname
    LOOP
        script := script || format(E'CREATE FUNCTION sched_router.%I() RETURNS TABLE (%s) LANGUAGE plproxy AS\n$f$ CLUSTER %L; RUN ON ALL; SELECT %s FROM sched.%I v%s; $f$;\n',
            'view_' || v.name, v.columns, cluster, v.selected, v.name, CASE v.name WHEN 'schedules' THEN ' WHERE v.state <> ''elsewhere''' ELSE '' END);
        script := script || CASE v.name
            WHEN 'queues' THEN E'CREATE VIEW sched.queues AS\nSELECT v.queue, bool_or(v.paused) AS paused, sum(v.ready)::bigint AS ready, sum(v.delayed)::bigint AS delayed, sum(v.retrying)::bigint AS retrying, sum(v.running)::bigint AS running, min(v.oldest_ready_at) AS oldest_ready_at\n  FROM sched_router.view_queues() AS v GROUP BY v.queue;\n'
            WHEN 'jobs' THEN E'CREATE VIEW sched.jobs AS\nSELECT DISTINCT ON (v.job_name) v.* FROM sched_router.view_jobs() AS v ORDER BY v.job_name, v.updated_at DESC;\n'
            ELSE format(E'CREATE VIEW sched.%I AS SELECT * FROM sched_router.%I();\n', v.name, 'view_' || v.name) END
            || format(E'COMMENT ON VIEW sched.%I IS %L;\n', v.name, 'router: of all servers. ' || COALESCE(v.comment, ''));
    END LOOP;
    RETURN script || behind_views || $$-- Not PUBLIC's; those who had it before have it again.
DO $do$
DECLARE
    object text;
    grantee text;
BEGIN
    FOR object IN SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
                   WHERE p.pronamespace = 'sched_router'::pg_catalog.regnamespace OR (p.pronamespace = 'sched'::pg_catalog.regnamespace AND p.proname = 'bucket')
    LOOP
        EXECUTE 'COMMENT ON FUNCTION ' || object || ' IS ''router: internal''';
    END LOOP;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_router FROM PUBLIC;
    REVOKE ALL ON ALL TABLES IN SCHEMA sched FROM PUBLIC;
    FOR grantee IN
        SELECT DISTINCT a.grantee::pg_catalog.regrole::text
          FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) AS a
         WHERE n.nspname = 'sched' AND a.grantee NOT IN (0, n.nspowner)
    LOOP
        PERFORM sched_router.grant_stubs(grantee::pg_catalog.regrole);
    END LOOP;
END
$do$;
$$;
END
$router$;
COMMENT ON FUNCTION sched.router_sql(text) IS
'The script that makes a database without the extension a router: a stub for each function and view, which PL/Proxy sends to the servers of this cluster. Run it there as a superuser, and again after each update. The PL/Proxy cluster has 1,024 partitions, one for each bucket. Errors: 22004 (NULL), 22023 (a name with other characters than letters, digits, underscores, points, hyphens and blanks).';

-- Limits of arguments, and shorter sentences.
COMMENT ON FUNCTION sched.bucket(text, text) IS
'The bucket of a scope, from 0 to 1023. SHA-256 is computed over the kind, a zero byte and the id, in UTF-8; the bucket is its first two bytes, big-endian, and 1023. NULL for NULL.';
COMMENT ON FUNCTION sched.compare IS
'What the clocks of schedules imported from a source say in [from_time, to_time), also before the import, beside what the source has written down that it ran. A line is both, late, only_here or only_there. A late run began more than tolerance later there. only_here has no run of theirs, only_there no plan time of ours. Nothing is said of what comes before its first run and after its last, as far as one day around the range is known. Nor is anything of what was fired here meanwhile. Of schedules that the caller may act for. Errors: 42P01, 42501 (tables of the source), 22023 (an unknown source, an empty range, a tolerance that may not be), 22008, 22004 (NULL), 54000 (over 100000 lines).';
COMMENT ON FUNCTION sched.create_schedule IS
'Creates a schedule and returns its number. It fires for the first time at the first plan time after its creation; a warning says that there is none. An alert (sched.alerts) opens where a run has not begun max_lateness after its plan time, or goes on for longer than max_duration. One opens where no run has succeeded within expect_success_within. alert_job gets an execution for each alert. The owner of the job reads the payload, also of what a superuser writes. Errors: 42710 (the name is taken), 42704 (unknown job or alert_job), 22023 (clock, zone or another argument cannot be used), 54000 (a clock over 1000 bytes, a payload over 1 MiB), 22008 (an infinite time, a length of time over 1000 years), 22004 (NULL), 42501 (another role''s job or alert_job).';
COMMENT ON FUNCTION sched.dispatch_due IS
'Applies changes and fires at most max_schedules due schedules in the caller''s transaction, as the worker does; returns how many executions it created. One call creates at most 10,000, with payloads of 64 MiB; the next call goes on. Any number of callers at once. Errors: 22023; 40001 under REPEATABLE READ and SERIALIZABLE.';
COMMENT ON FUNCTION sched.due_plans IS
'The plan times of a clock that an application''s own tick should claim now, oldest first, at most max_plans_per_tick (up to 10000). The ledger''s executions that the caller may act for count as claimed. Errors as next_time.';
COMMENT ON FUNCTION sched.explain IS
'What became of each plan time of a schedule in [from_time, to_time), under the definition that held then, with the execution and the reason. The verdict is fired, skipped, waiting, due, planned, external or forgotten. Errors: 42704, 42501, 22023 (an empty range), 22008 (infinite times), 54000 (over 100000 plan times).';
COMMENT ON FUNCTION sched.heartbeat IS
'Extends a lease by stale_timeout from now and stores progress. Returns ok, or cancel when the run was asked to stop or has lasted for the run_timeout that its job had at the claim. Errors: 55000 (lease lost), 42501, 22023.';
COMMENT ON FUNCTION sched.preview IS
'The next n (at most 10000) plan times of a clock, each with the zone''s wall clock and its offset from UTC. A note says where a clock change moved it or its reading comes twice. Errors as next_time.';
COMMENT ON FUNCTION sched.hand_back IS
'Undoes sched.take_over: dispatches what is due by now, makes these schedules external, and switches their rows on again in the other scheduler where they were on. Waits, and has to be committed, as take_over. Errors: 55000 (a schedule that was not taken over, or whose job is not there any more; no moment between plan times), 42704 (not imported), 42501 (another role''s), 40001, 0A000, 22004 (NULL).';
COMMENT ON FUNCTION sched.take_over IS
'Has imported schedules of a source fire here and no longer there, in one transaction. schedule_names NULL is all of them. Their rows are locked and switched off there, and ours are owned. What fell due since their last run is fired once. A trigger refuses (55006) to switch them on again there. last_theirs is when their last run began, first_ours the plan time of our first. An interval that counts from runs counts from their last. What is off there, or was imported so, is off here. Waits for up to 70 seconds for a moment that is far enough from all plan times; commit at once, for a commit that comes too late fails (40001). Errors: 55000 (in the last day they ran other than ours would have, unless force; edited since the import; fired here already; no such moment), 55P03 (a run of theirs goes on; without names such a schedule is left out, with a WARNING, and its first_ours is NULL), 42704 (not imported), 42501 (another role''s), 0A000 (what the source may run once more after it is off; a prepared transaction, or one that is not READ COMMITTED), 22023 (an unknown source), 22004 (NULL).';
COMMENT ON FUNCTION sched.next_time IS
'The least plan time of a clock strictly after an instant; NULL when it never fires again. anchor is where an every clock''s grid begins. Errors: 22023 (clock or zone cannot be used), 54000 (a clock over 1000 bytes), 22008 (infinite times).';
COMMENT ON FUNCTION sched.validate IS
'What is wrong (severity error) or probably not meant (warning) in a clock; no row when there is nothing to say. Errors: 22004 (NULL), 54000 (a clock over 1000 bytes).';
COMMENT ON FUNCTION sched.enqueue_many IS
'Puts one execution for each payload into the job''s queue and returns their ids in that order. plan_times, scope_ids and run_ats, where given, pair with payloads by position; NULL among run_ats means at once. The other arguments are as in sched.enqueue, and two that are the same within one call are as in two calls. Errors: 22023 (unequal lengths, NULL elements, a name, a word), 22004, 22008, 42501, 54000 (over 1000000 elements), 53200, 23505 (if_exists error), 40001 under REPEATABLE READ and SERIALIZABLE where another transaction has just enqueued the same, 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.heartbeat_many IS
'Extends these leases, each by its own stale_timeout from now, and returns a row for each pair, in their order: ok, cancel or lost. It waits for nobody: a lease that another transaction has locked holds as it is. Lost is an execution that is unknown, has another lease or none, or is not the caller''s to act for. Ids and tokens pair by position. Errors: 22023 (unequal lengths), 22004 (NULL, also as an element), 54000 (over 1000000 elements), 53200.';
COMMENT ON FUNCTION sched.finish_success_many IS
'Ends those of these runs as SUCCESS whose lease holds, and returns the ids of those whose lease does not. Ids and tokens pair by position. Errors: 22023 (unequal lengths, NULL elements), 22004, 54000 (over 1000000 elements), 53200.';
COMMENT ON FUNCTION sched.create_schedules IS
'Creates all schedules of a JSON array of objects with the arguments of create_schedule as keys, or none; returns how many. An error names the element and the key. The owner of the job reads the payload, also of what a superuser writes. Errors as create_schedule.';
COMMENT ON FUNCTION sched.alter_schedule IS
'Changes a schedule; NULL leaves an argument as it is, reset names arguments that go back to their default. A new clock, zone or starts_at/ends_at is a new baseline: only later plan times fire. The owner of the job reads the payload, also of what a superuser writes. Errors as create_schedule, and 42704 for an unknown schedule, 55000 (ownership external of what was taken over).';
COMMENT ON FUNCTION sched.alter_execution IS
'Changes payload, run_at (of a failed one: next_retry_at) or priority of an execution that waits; NULL leaves it as it is, a time that has come means at once. What returned true is what runs. The owner of the job reads the payload, also of what a superuser writes. False, without a wait, where it is unknown, runs, has ended or is in somebody''s hand. Errors: 22004, 22008, 42501.';
COMMENT ON FUNCTION sched.test_job IS
'Runs the command of a job of kind sql now, in this transaction, as the caller and with the job''s settings. Deferred constraints are checked, and all of it is taken back. A failure is a row with ok = false and its SQLSTATE in error_code. What no rollback takes back (sequences, session locks, prepared statements) stays. Errors: 0A000 (a job with own_transactions, or of another kind), 42704 (unknown job), 42501 (a dropped role''s job; another role''s, also for a superuser who is no member of that role by a superuser''s GRANT), 22004 (NULL), 22008 (an infinite time).';

-- What is new belongs to whoever runs the update, and all else to the schema's owner, whom the library takes for the owner of everything.
-- (What belongs to a column or table, as an identity's sequence does, follows it.) It comes before the rights, which name the owner.
DO $$
DECLARE
    keeper pg_catalog.regrole;
    object text;
BEGIN
    SELECT n.nspowner INTO STRICT keeper FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched';
    FOR object IN
        SELECT o.name
          FROM pg_catalog.pg_depend d
          JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND e.extname = 'scheduler'
          JOIN (SELECT n.tableoid, n.oid, n.nspowner, 'SCHEMA ' || n.oid::pg_catalog.regnamespace FROM pg_catalog.pg_namespace n
                UNION ALL
                SELECT c.tableoid, c.oid, c.relowner,
                       CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' WHEN 'v' THEN 'VIEW ' ELSE 'TABLE ' END || c.oid::pg_catalog.regclass
                  FROM pg_catalog.pg_class c
                 WHERE c.relkind <> 'S'
                    OR NOT EXISTS (SELECT FROM pg_catalog.pg_depend i WHERE i.classid = c.tableoid AND i.objid = c.oid AND i.deptype IN ('a', 'i'))
                UNION ALL
                SELECT p.tableoid, p.oid, p.proowner, 'FUNCTION ' || p.oid::pg_catalog.regprocedure FROM pg_catalog.pg_proc p
                UNION ALL
                SELECT t.tableoid, t.oid, t.typowner, 'TYPE ' || t.oid::pg_catalog.regtype FROM pg_catalog.pg_type t
                 WHERE t.typrelid = 0 AND t.typcategory <> 'A' -- those of rows and arrays go with what they are of
               ) AS o (classid, objid, owner, name) ON o.classid = d.classid AND o.objid = d.objid
         WHERE d.refclassid = e.tableoid AND d.deptype = 'e' AND o.owner <> keeper
    LOOP
        EXECUTE pg_catalog.format('ALTER %s OWNER TO %s', object, keeper);
    END LOOP;
END
$$;

-- New objects belong to nobody but the extension's owner: not to PUBLIC, and not to those whom ALTER DEFAULT PRIVILEGES has given
-- something. Each of them is named here, by its kind and name.
DO $$
DECLARE
    object  text;
    grantee text;
BEGIN
    FOREACH object IN ARRAY ARRAY[
        'FUNCTION sched_internal.table_layout',
        'FUNCTION sched_internal.alter_sql_job',
        'TABLE sched.cancel_request',
        'TABLE sched.crontab_secret',
        'TABLE sched.queue_grant',
        'FUNCTION sched.grant_queue',
        'FUNCTION sched_internal.ids_of_scope',
        'FUNCTION sched_internal.ids_of_schedule',
        'FUNCTION sched.executions_of',
        'FUNCTION sched.runs_of'
    ]::pg_catalog.text[] LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM PUBLIC', object);
        FOR grantee IN
            SELECT DISTINCT a.grantee::pg_catalog.regrole::text
              FROM pg_catalog.pg_default_acl AS d, pg_catalog.aclexplode(d.defaclacl) AS a
             WHERE a.grantee NOT IN (0, d.defaclrole, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched'))
        LOOP
            EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s CASCADE', object, grantee);
        END LOOP;
    END LOOP;
END
$$;
-- Users and monitors get the rights on what is new, and nobody the types of rows.
SELECT sched_internal.grant_again();
-- The dispatcher has waited for this.
SELECT sched_internal.wake_dispatcher();
