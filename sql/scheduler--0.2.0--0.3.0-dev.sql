-- From 0.2.0. What is new stands here in the words of sql/schema and of the generated script (tools/release-sql.sh diff shows them); a test
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

-- Jobs whose command the server runs itself.
CREATE FUNCTION sched.schedule_sql(
	schedule_name text,
	clock text,
	command text,
	time_zone text DEFAULT NULL,
	payload jsonb DEFAULT '{}',
	overlap text DEFAULT 'skip',
	catch_up text DEFAULT 'latest_only',
	run_timeout interval DEFAULT NULL,
	max_attempts integer DEFAULT 1,
	retry_backoff interval[] DEFAULT '{}',
	own_transactions boolean DEFAULT false,
	settings jsonb DEFAULT '{}',
	priority integer DEFAULT 0,
	enabled boolean DEFAULT NULL
) RETURNS bigint
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'schedule_sql_wrapper';
CREATE FUNCTION sched.unschedule(
	schedule_name text
) RETURNS boolean
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'unschedule_wrapper';
CREATE FUNCTION sched.this_run() RETURNS TABLE (
	execution_id uuid,
	job_name text,
	schedule_name text,
	scope_kind text,
	scope_id text,
	plan_time timestamptz,
	attempt integer,
	payload jsonb
)
STRICT STABLE PARALLEL RESTRICTED
LANGUAGE c
AS 'MODULE_PATHNAME', 'this_run_wrapper';
CREATE FUNCTION sched.test_job(
	job_name text,
	payload jsonb DEFAULT '{}',
	plan_time timestamptz DEFAULT clock_timestamp()
) RETURNS TABLE (
	ok boolean,
	duration_ms bigint,
	rows_affected bigint,
	result jsonb,
	error_code text,
	error_msg text
)
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'test_job_wrapper';
-- Rights are by name: grant_again() gives them on what replaces a function of this name.
ALTER FUNCTION sched.define_job RENAME TO define_job_replaced;
CREATE FUNCTION sched.define_job(
	job_name text,
	kind text DEFAULT 'pull',
	command text DEFAULT NULL,
	queue text DEFAULT 'default',
	max_attempts integer DEFAULT 1,
	retry_backoff interval[] DEFAULT '{}',
	run_timeout interval DEFAULT NULL,
	stale_timeout interval DEFAULT NULL,
	allow_stale_reentry boolean DEFAULT true,
	priority integer DEFAULT 0,
	own_transactions boolean DEFAULT false,
	settings jsonb DEFAULT '{}'
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'define_job_of_any_kind_wrapper';
ALTER TABLE sched.job DROP CONSTRAINT job_kind_check, ADD CONSTRAINT job_kind_check CHECK (kind IN ('pull', 'notify', 'log', 'sql')),
    ADD COLUMN own_transactions boolean NOT NULL DEFAULT false,
    ADD COLUMN settings jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN ready_queue text NOT NULL GENERATED ALWAYS AS (
        CASE WHEN kind = 'sql'
             THEN 'executions that the server runs itself, as the role with oid ' || pg_catalog.lpad(owner::oid::bigint::text, 10, '0')
             ELSE queue END) STORED;
COMMENT ON COLUMN sched.job.own_transactions IS 'of kind sql: each statement of the command is a transaction of its own';
COMMENT ON COLUMN sched.job.settings IS 'of kind sql: settings for a run, as an object of scalars';
COMMENT ON COLUMN sched.job.ready_queue IS 'where executions wait; those of kind sql in a queue for each owner, whose name is longer than one that claim takes';
ALTER TABLE sched.lease ADD COLUMN own_transactions boolean;
COMMENT ON COLUMN sched.lease.own_transactions IS 'what the run of an SQL job has done may be committed before its end; NULL for others';
CREATE OR REPLACE VIEW sched.execution WITH (security_barrier) AS
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time,
       CASE WHEN pg_catalog.octet_length(e.queue) > 57 THEN COALESCE((SELECT j.queue FROM sched.job j WHERE j.job_name = e.job_name), 'default') ELSE e.queue END AS queue, e.priority,
       CASE WHEN r.owns THEN e.payload END AS payload,
       CASE WHEN l.execution_id IS NOT NULL THEN 'RUNNING'
            -- a dispatcher will write that down
            WHEN (e.status = 'PENDING' OR e.next_retry_at IS NOT NULL)
                 AND e.schedule_id IN (SELECT d.schedule_id FROM sched.schedule_dropped d) THEN 'CANCELLED'
            ELSE e.status END AS status,
       CASE WHEN l.execution_id IS NULL THEN e.attempt ELSE l.attempt END AS attempt,
       e.max_attempts,
       CASE WHEN l.execution_id IS NULL THEN e.runner_id ELSE l.runner_id END AS runner_id,
       CASE WHEN NOT r.owns THEN NULL WHEN l.execution_id IS NULL THEN e.lease_token ELSE l.lease_token END AS lease_token,
       CASE WHEN l.execution_id IS NULL THEN e.fence ELSE l.fence END AS fence,
       CASE WHEN l.execution_id IS NULL THEN e.heartbeat_at ELSE l.heartbeat_at END AS heartbeat_at,
       NULLIF(l.stale_after, 'infinity') AS stale_after,
       CASE WHEN l.execution_id IS NULL THEN e.started_at ELSE l.started_at END AS started_at,
       CASE WHEN l.execution_id IS NULL THEN e.finished_at END AS finished_at,
       CASE WHEN l.execution_id IS NULL
            THEN (EXTRACT(epoch FROM e.finished_at - e.started_at) * 1000)::bigint END AS duration_ms,
       CASE WHEN l.execution_id IS NULL THEN e.rows_affected END AS rows_affected,
       CASE WHEN r.owns AND l.execution_id IS NULL THEN e.result END AS result,
       CASE WHEN l.execution_id IS NULL THEN e.error_code END AS error_code,
       CASE WHEN r.owns AND l.execution_id IS NULL THEN e.error_msg END AS error_msg,
       CASE WHEN l.execution_id IS NULL AND (e.schedule_id IN (SELECT d.schedule_id FROM sched.schedule_dropped d)) IS NOT TRUE
            THEN e.next_retry_at END AS next_retry_at,
       CASE WHEN NOT r.owns THEN NULL WHEN l.execution_id IS NULL THEN e.progress ELSE l.progress END AS progress,
       e.allow_stale_reentry, e.origin, e.schedule_name, e.created_at,
       CASE WHEN l.execution_id IS NULL THEN e.updated_at ELSE l.heartbeat_at END AS updated_at
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
CREATE OR REPLACE VIEW sched.running WITH (security_barrier) AS
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time,
       CASE WHEN pg_catalog.octet_length(e.queue) > 57 THEN COALESCE((SELECT j.queue FROM sched.job j WHERE j.job_name = e.job_name), 'default') ELSE e.queue END AS queue, l.attempt, e.max_attempts, l.runner_id,
       l.started_at, pg_catalog.clock_timestamp() - l.started_at AS age,
       l.heartbeat_at, NULLIF(l.stale_after, 'infinity') AS stale_after, NULLIF(l.stale_after, 'infinity') - pg_catalog.clock_timestamp() AS time_to_stale,
       l.cancel_requested, CASE WHEN r.owns THEN l.progress END AS progress, e.schedule_name,
       CASE WHEN l.sweep_at = 'infinity' THEN pg_catalog.substring(l.runner_id, '^sql/([0-9]{1,9})$')::integer END AS pid
  FROM sched.lease l
  JOIN sched.ledger e ON e.id = l.execution_id
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
CREATE OR REPLACE VIEW sched.failed WITH (security_barrier) AS
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time,
       CASE WHEN pg_catalog.octet_length(e.queue) > 57 THEN COALESCE((SELECT j.queue FROM sched.job j WHERE j.job_name = e.job_name), 'default') ELSE e.queue END AS queue, e.attempt, e.max_attempts, e.runner_id,
       e.finished_at, e.error_code, CASE WHEN r.owns THEN e.error_msg END AS error_msg,
       e.next_retry_at IS NOT NULL AS retryable, e.next_retry_at, e.schedule_name
  FROM sched.ledger e
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
 WHERE e.status = 'FAILED'
   AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
   AND (r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')));
CREATE OR REPLACE VIEW sched.history WITH (security_barrier) AS
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time,
       CASE WHEN pg_catalog.octet_length(e.queue) > 57 THEN COALESCE((SELECT j.queue FROM sched.job j WHERE j.job_name = e.job_name), 'default') ELSE e.queue END AS queue, e.status, e.attempt, e.max_attempts,
       e.runner_id, e.started_at, e.finished_at,
       (EXTRACT(epoch FROM e.finished_at - e.started_at) * 1000)::bigint AS duration_ms, e.rows_affected,
       CASE WHEN r.owns THEN e.result END AS result, e.error_code, CASE WHEN r.owns THEN e.error_msg END AS error_msg,
       e.origin, e.schedule_name
  FROM sched.ledger e
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
 WHERE (e.status IN ('SUCCESS', 'CANCELLED') OR (e.status = 'FAILED' AND e.next_retry_at IS NULL))
   AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
   AND (r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')));
COMMENT ON COLUMN sched.execution.id IS 'the execution; a UUID version 7, made in the database';
COMMENT ON COLUMN sched.execution.job_name IS 'its job, which need not be defined';
COMMENT ON COLUMN sched.execution.scope_kind IS 'what kind of thing it runs for: schedule, global, adhoc or a word of yours';
COMMENT ON COLUMN sched.execution.scope_id IS 'what it runs for; with the job, the kind and the plan time it is unique';
COMMENT ON COLUMN sched.execution.plan_time IS 'the nominal instant of this occurrence';
COMMENT ON COLUMN sched.execution.queue IS 'where claim finds it';
COMMENT ON COLUMN sched.execution.priority IS 'a higher one is claimed first';
COMMENT ON COLUMN sched.execution.payload IS 'what the worker is given; NULL for monitors';
COMMENT ON COLUMN sched.execution.status IS 'PENDING, RUNNING, SUCCESS, FAILED or CANCELLED';
COMMENT ON COLUMN sched.execution.attempt IS 'how often it was claimed; 0 before the first claim';
COMMENT ON COLUMN sched.execution.max_attempts IS 'how often it may be claimed';
COMMENT ON COLUMN sched.execution.runner_id IS 'who claimed it last';
COMMENT ON COLUMN sched.execution.lease_token IS 'the proof of its last lease; NULL for monitors';
COMMENT ON COLUMN sched.execution.fence IS 'a number that rises with each lease of its scope';
COMMENT ON COLUMN sched.execution.heartbeat_at IS 'when the runner was last heard of';
COMMENT ON COLUMN sched.execution.stale_after IS 'when the lease runs out; NULL unless it is RUNNING, and for kind sql';
COMMENT ON COLUMN sched.execution.started_at IS 'when its last attempt was claimed';
COMMENT ON COLUMN sched.execution.finished_at IS 'when its last attempt ended';
COMMENT ON COLUMN sched.execution.duration_ms IS 'how long its last attempt took, in milliseconds';
COMMENT ON COLUMN sched.execution.rows_affected IS 'what finish_success was told';
COMMENT ON COLUMN sched.execution.result IS 'what finish_success was told; NULL for monitors';
COMMENT ON COLUMN sched.execution.error_code IS 'why its last attempt failed, as a word for programs';
COMMENT ON COLUMN sched.execution.error_msg IS 'why its last attempt failed, for people; NULL for monitors';
COMMENT ON COLUMN sched.execution.next_retry_at IS 'when it can be claimed again; NULL where it has failed for good or not at all';
COMMENT ON COLUMN sched.execution.progress IS 'what the last heartbeat told; NULL for monitors';
COMMENT ON COLUMN sched.execution.allow_stale_reentry IS 'whether it may be claimed again when its lease has run out';
COMMENT ON COLUMN sched.execution.origin IS 'schedule, manual, backfill, enqueue or claim: what made it';
COMMENT ON COLUMN sched.execution.schedule_name IS 'the schedule that made it, under the name that it had then';
COMMENT ON COLUMN sched.execution.created_at IS 'when it was inserted';
COMMENT ON COLUMN sched.execution.updated_at IS 'when it last changed';
COMMENT ON COLUMN sched.running.id IS 'the execution';
COMMENT ON COLUMN sched.running.job_name IS 'its job';
COMMENT ON COLUMN sched.running.scope_kind IS 'what kind of thing it runs for';
COMMENT ON COLUMN sched.running.scope_id IS 'what it runs for';
COMMENT ON COLUMN sched.running.plan_time IS 'the nominal instant of this occurrence';
COMMENT ON COLUMN sched.running.queue IS 'where it was claimed';
COMMENT ON COLUMN sched.running.attempt IS 'which attempt this is, from 1';
COMMENT ON COLUMN sched.running.max_attempts IS 'how often it may be claimed';
COMMENT ON COLUMN sched.running.runner_id IS 'who runs it';
COMMENT ON COLUMN sched.running.started_at IS 'when it was claimed';
COMMENT ON COLUMN sched.running.age IS 'how long ago that was';
COMMENT ON COLUMN sched.running.heartbeat_at IS 'when the runner was last heard of';
COMMENT ON COLUMN sched.running.stale_after IS 'when the lease runs out; NULL for kind sql, where it lasts as long as the process';
COMMENT ON COLUMN sched.running.time_to_stale IS 'how long that is from now; negative where it has run out, NULL for kind sql';
COMMENT ON COLUMN sched.running.cancel_requested IS 'whether the next heartbeat answers cancel';
COMMENT ON COLUMN sched.running.progress IS 'what the last heartbeat told; NULL for monitors';
COMMENT ON COLUMN sched.running.schedule_name IS 'the schedule that made it';
COMMENT ON COLUMN sched.running.pid IS 'the process that runs it, of kind sql; NULL for other kinds';
COMMENT ON COLUMN sched.failed.id IS 'the execution';
COMMENT ON COLUMN sched.failed.job_name IS 'its job';
COMMENT ON COLUMN sched.failed.scope_kind IS 'what kind of thing it ran for';
COMMENT ON COLUMN sched.failed.scope_id IS 'what it ran for';
COMMENT ON COLUMN sched.failed.plan_time IS 'the nominal instant of this occurrence';
COMMENT ON COLUMN sched.failed.queue IS 'where it was claimed';
COMMENT ON COLUMN sched.failed.attempt IS 'which attempt failed last, from 1';
COMMENT ON COLUMN sched.failed.max_attempts IS 'how often it may be claimed';
COMMENT ON COLUMN sched.failed.runner_id IS 'who ran it last';
COMMENT ON COLUMN sched.failed.finished_at IS 'when that attempt ended';
COMMENT ON COLUMN sched.failed.error_code IS 'why, as a word for programs';
COMMENT ON COLUMN sched.failed.error_msg IS 'why, for people; NULL for monitors';
COMMENT ON COLUMN sched.failed.retryable IS 'whether it will be tried again';
COMMENT ON COLUMN sched.failed.next_retry_at IS 'when it can be claimed again; NULL where it has failed for good';
COMMENT ON COLUMN sched.failed.schedule_name IS 'the schedule that made it';
COMMENT ON COLUMN sched.history.id IS 'the execution';
COMMENT ON COLUMN sched.history.job_name IS 'its job';
COMMENT ON COLUMN sched.history.scope_kind IS 'what kind of thing it ran for';
COMMENT ON COLUMN sched.history.scope_id IS 'what it ran for';
COMMENT ON COLUMN sched.history.plan_time IS 'the nominal instant of this occurrence';
COMMENT ON COLUMN sched.history.queue IS 'where it was claimed';
COMMENT ON COLUMN sched.history.status IS 'SUCCESS, FAILED or CANCELLED';
COMMENT ON COLUMN sched.history.attempt IS 'how often it was claimed';
COMMENT ON COLUMN sched.history.max_attempts IS 'how often it might be claimed';
COMMENT ON COLUMN sched.history.runner_id IS 'who ran it last';
COMMENT ON COLUMN sched.history.started_at IS 'when its last attempt was claimed';
COMMENT ON COLUMN sched.history.finished_at IS 'when it ended';
COMMENT ON COLUMN sched.history.duration_ms IS 'how long its last attempt took, in milliseconds';
COMMENT ON COLUMN sched.history.rows_affected IS 'what finish_success was told';
COMMENT ON COLUMN sched.history.result IS 'what finish_success was told; NULL for monitors';
COMMENT ON COLUMN sched.history.error_code IS 'why it failed, as a word for programs';
COMMENT ON COLUMN sched.history.error_msg IS 'why it failed, for people; NULL for monitors';
COMMENT ON COLUMN sched.history.origin IS 'schedule, manual, backfill, enqueue or claim: what made it';
COMMENT ON COLUMN sched.history.schedule_name IS 'the schedule that made it, under the name that it had then';
COMMENT ON COLUMN sched.schedules.schedule_name IS 'its name';
COMMENT ON COLUMN sched.schedules.job_name IS 'the job that it runs';
COMMENT ON COLUMN sched.schedules.clock IS 'its clock, as it was written';
COMMENT ON COLUMN sched.schedules.time_zone IS 'the zone that its clock is read in';
COMMENT ON COLUMN sched.schedules.enabled IS 'false while it is paused';
COMMENT ON COLUMN sched.schedules.ownership IS 'owned, or external: another scheduler fires it';
COMMENT ON COLUMN sched.schedules.state IS 'parked, external, paused, copied, arming, waiting, failing, armed or done';
COMMENT ON COLUMN sched.schedules.next_plan_time IS 'its next plan time; NULL unless it is armed or failing';
COMMENT ON COLUMN sched.schedules.next_fire_at IS 'when that is dispatched: delay and jitter later';
COMMENT ON COLUMN sched.schedules.last_plan_time IS 'the last plan time that it fired';
COMMENT ON COLUMN sched.schedules.last_fired_at IS 'when that was';
COMMENT ON COLUMN sched.schedules.error_count IS 'how many attempts to fire it have failed in a row';
COMMENT ON COLUMN sched.schedules.last_error IS 'why the last one failed, or why it is parked; NULL for monitors';
COMMENT ON COLUMN sched.skipped.schedule_name IS 'the schedule';
COMMENT ON COLUMN sched.skipped.plan_from IS 'the first of these plan times';
COMMENT ON COLUMN sched.skipped.plan_to IS 'the last of them';
COMMENT ON COLUMN sched.skipped.count IS 'how many there are';
COMMENT ON COLUMN sched.skipped.reason IS 'why they did not run: missed, overlap, window, paused, parked or replaced';
CREATE OR REPLACE FUNCTION sched.grant_use(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.execution, sched.running, sched.failed, sched.history, sched.schedules, sched.skipped TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.define_job, sched.drop_job, sched.schedule_sql, sched.unschedule, sched.this_run, sched.test_job, sched.create_schedule, sched.create_schedules, sched.alter_schedule,'
        '  sched.fire_now, sched.backfill, sched.explain, sched_internal.skipped_so_far, sched_internal.skip_parts, sched_internal.next_open,'
        '  sched.drop_schedule, sched.pause, sched.resume, sched.dispatch_due, sched.try_claim, sched.claim,'
        '  sched.heartbeat, sched.finish_success, sched.finish_failure, sched.import_crontab, sched.next_time,'
        '  sched.preview, sched.validate, sched.enqueue, sched.enqueue_many, sched.finish_success_many, sched.assert_lease,'
        '  sched.cancel, sched.mark_stale_as_failed, sched.latest_plan, sched.due_plans, sched.attempts_since_success,'
        '  sched.is_home TO %1$s;', sched_internal.grantee(role));
END
$$;
COMMENT ON FUNCTION sched.define_job IS 'Creates or replaces a job: how its executions are queued, leased and retried. retry_backoff[i] is the wait after failed attempt i, the last entry repeats, empty means at once. Lengths of time have no months, days of 24 hours, and are at most 1000 years; run_timeout, shorter than stale_timeout, is for runners to keep to: only a lease that runs out ends a run. Of kind sql the server runs the command, as the owner, and ends a run at run_timeout; own_transactions and settings are for this kind. Errors: 22023 (a value that may not be), 42601 (a command that cannot be parsed), 0A000 (a statement that no command may have), 54000 (a command over 1 MiB), 42704 (unknown setting), 22008, 22004 (NULL), 42501 (another role''s job, a setting that the caller may not set).';
COMMENT ON FUNCTION sched.try_claim IS 'Claims the execution of (job_name, scope_kind, scope_id, plan_time), which need not exist yet: won, stole or conflicted. Never waits for another claimer. Times are intervals without months; the lease ends stale_timeout after the last heartbeat. Errors: 22023, 22004, 22008, 42501, 0A000 (a job of kind sql).';
COMMENT ON FUNCTION sched.schedule_sql IS 'Has the server run a command at the plan times of a clock, as the caller: a job of kind sql and its schedule, both of this name; returns the schedule''s number. The call states the whole: what is left out goes to its default, but a schedule that is paused stays so where enabled is left out. The same call again changes nothing. Errors: 42710 (a job or schedule of this name was made otherwise), 42501 (another role''s), 22023 and 42601 (clock, command, setting or another argument cannot be used), 0A000 (a statement that no command may have), 54000 (a command over 1 MiB), 42704 (unknown setting), 22008, 22004 (NULL).';
COMMENT ON FUNCTION sched.unschedule IS 'Drops what sched.schedule_sql made; false where there was none. What waits is cancelled; a run that goes on ends by itself, and is not tried again. Errors: 42710 (a job or schedule of this name was made otherwise), 42501 (another role''s), 2BP01 (another schedule uses the job).';
COMMENT ON FUNCTION sched.this_run IS 'The run that this session is on: one row inside the command of a job of kind sql, no row elsewhere. execution_id, schedule_name and scope are NULL in sched.test_job. Nothing that a command does can change it.';
COMMENT ON FUNCTION sched.test_job IS 'Runs the command of a job of kind sql now, in this transaction, as the caller and with the job''s settings, and takes all of it back; deferred constraints are checked. A failure is a row with ok = false and its SQLSTATE in error_code. What no rollback takes back (sequences, session locks, prepared statements) stays. Errors: 0A000 (a job with own_transactions, or of another kind), 42704 (unknown job), 42501 (another role''s job), 22004 (NULL), 22008 (an infinite time).';

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
        'FUNCTION sched.define_job', 'FUNCTION sched.schedule_sql', 'FUNCTION sched.unschedule', 'FUNCTION sched.this_run()',
        'FUNCTION sched.test_job'
    ] LOOP
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
DROP FUNCTION sched.define_job_replaced;
-- The dispatcher has waited for this.
SELECT sched_internal.wake_dispatcher();
