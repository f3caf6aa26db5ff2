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
	max_attempts integer DEFAULT NULL,
	retry_backoff interval[] DEFAULT NULL,
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
CREATE FUNCTION sched.alter_job(
	job_name text,
	kind text DEFAULT NULL,
	command text DEFAULT NULL,
	queue text DEFAULT NULL,
	max_attempts integer DEFAULT NULL,
	retry_backoff interval[] DEFAULT NULL,
	run_timeout interval DEFAULT NULL,
	stale_timeout interval DEFAULT NULL,
	allow_stale_reentry boolean DEFAULT NULL,
	priority integer DEFAULT NULL,
	own_transactions boolean DEFAULT NULL,
	settings jsonb DEFAULT NULL,
	reset text[] DEFAULT '{}'
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'alter_job_wrapper';
ALTER TABLE sched.job DROP CONSTRAINT job_kind_check, ADD CONSTRAINT job_kind_check CHECK (kind IN ('pull', 'notify', 'log', 'sql')),
    ADD COLUMN own_transactions boolean NOT NULL DEFAULT false,
    ADD COLUMN settings jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN ready_queue text NOT NULL GENERATED ALWAYS AS (
        CASE WHEN kind = 'sql'
             THEN 'executions that the server runs itself, as the role with oid ' || pg_catalog.lpad(owner::oid::bigint::text, 10, '0') || ' ' || queue
             ELSE queue END) STORED;
COMMENT ON COLUMN sched.job.own_transactions IS 'of kind sql: each statement of the command is a transaction of its own';
COMMENT ON COLUMN sched.job.settings IS 'of kind sql: settings for a run, as an object of scalars';
COMMENT ON COLUMN sched.job.ready_queue IS 'where executions wait; those of kind sql in one for each owner and queue, whose name is longer than one that claim takes';
ALTER FUNCTION sched.try_claim RENAME TO try_claim_replaced;
CREATE FUNCTION sched.try_claim(
	job_name text,
	plan_time timestamptz,
	scope_kind text DEFAULT 'global',
	scope_id text DEFAULT 'global',
	runner_id text DEFAULT NULL,
	stale_timeout interval DEFAULT NULL,
	max_attempts integer DEFAULT NULL,
	allow_stale_reentry boolean DEFAULT NULL
) RETURNS TABLE (
	outcome text,
	execution_id uuid,
	lease_token uuid,
	fence bigint,
	attempt integer,
	max_attempts integer,
	stale_after timestamptz,
	payload jsonb,
	run_timeout interval,
	queue text
)
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'try_claim_with_limits_wrapper';
ALTER FUNCTION sched.claim RENAME TO claim_replaced;
CREATE FUNCTION sched.claim(
	queue text DEFAULT 'default',
	max_claims integer DEFAULT 1,
	runner_id text DEFAULT NULL,
	stale_timeout interval DEFAULT NULL
) RETURNS TABLE (
	execution_id uuid,
	lease_token uuid,
	fence bigint,
	attempt integer,
	job_name text,
	scope_kind text,
	scope_id text,
	plan_time timestamptz,
	payload jsonb,
	stale_after timestamptz,
	max_attempts integer,
	run_timeout interval,
	queue text
)
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'claim_with_limits_wrapper';
CREATE FUNCTION sched.snooze(
	execution_id uuid,
	lease_token uuid,
	until timestamptz
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snooze_wrapper';
CREATE FUNCTION sched.heartbeat_many(
	execution_ids uuid[],
	lease_tokens uuid[]
) RETURNS TABLE (
	execution_id uuid,
	answer text
)
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'heartbeat_many_wrapper';
CREATE FUNCTION sched.pause_queue(
	queue text
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'pause_queue_wrapper';
CREATE FUNCTION sched.resume_queue(
	queue text
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'resume_queue_wrapper';
CREATE TABLE sched.paused_queue (
    queue     text        PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    paused_by text        NOT NULL
);
COMMENT ON TABLE sched.paused_queue IS 'queues of which nobody claims anything (sched.pause_queue)';
COMMENT ON COLUMN sched.paused_queue.paused_by IS 'the name that the role had which did it';
SELECT pg_catalog.pg_extension_config_dump('sched.paused_queue', '');
ALTER TABLE sched.ledger ADD COLUMN run_at timestamptz;
ALTER TABLE sched.lease ADD COLUMN own_transactions boolean;
COMMENT ON COLUMN sched.lease.own_transactions IS 'what the run of an SQL job has done may be committed before its end; NULL for others';
ALTER TABLE sched.lease ADD COLUMN run_until timestamptz;
COMMENT ON COLUMN sched.lease.run_until IS 'from then on heartbeats ask to stop; NULL without run_timeout';
-- Executions for later, by scope, and changes of what waits.
ALTER FUNCTION sched.enqueue RENAME TO enqueue_replaced;
CREATE FUNCTION sched.enqueue(
	job_name text,
	payload jsonb DEFAULT '{}',
	plan_time timestamptz DEFAULT NULL,
	scope_kind text DEFAULT 'adhoc',
	scope_id text DEFAULT NULL,
	run_at timestamptz DEFAULT NULL,
	priority integer DEFAULT NULL,
	unique_by text DEFAULT 'plan',
	if_exists text DEFAULT 'keep'
) RETURNS uuid
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'enqueue_at_wrapper';
ALTER FUNCTION sched.enqueue_many RENAME TO enqueue_many_replaced;
CREATE FUNCTION sched.enqueue_many(
	job_name text,
	payloads jsonb[],
	plan_times timestamptz[] DEFAULT NULL,
	scope_kind text DEFAULT 'adhoc',
	scope_ids text[] DEFAULT NULL,
	run_ats timestamptz[] DEFAULT NULL,
	priority integer DEFAULT NULL,
	unique_by text DEFAULT 'plan',
	if_exists text DEFAULT 'keep'
) RETURNS SETOF uuid
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'enqueue_many_at_wrapper';
CREATE FUNCTION sched.alter_execution(
	execution_id uuid,
	payload jsonb DEFAULT NULL,
	run_at timestamptz DEFAULT NULL,
	priority integer DEFAULT NULL
) RETURNS boolean
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'alter_execution_wrapper';
CREATE FUNCTION sched.cancel_many(
	job_name text DEFAULT NULL,
	queue text DEFAULT NULL,
	scope_id text DEFAULT NULL,
	max_executions integer DEFAULT 10000
) RETURNS bigint
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'cancel_many_wrapper';
COMMENT ON COLUMN sched.ledger.next_retry_at IS 'where it stands in sched.retry, or stood until that time: a retry, or PENDING until run_at';
COMMENT ON COLUMN sched.ledger.run_at IS 'when it is wanted to run, by who has enqueued or snoozed it; NULL = at once; infinity: it runs, and is not claimed again';
COMMENT ON TABLE sched.retry IS 'executions that wait for a time: a retry, or the run_at that they were enqueued for';
-- Schedules that came from other schedulers: which row of theirs each one stands for, and how that was when it was last looked at.
CREATE TABLE sched.imported (
    source        text        NOT NULL,
    source_schema text        NOT NULL,
    source_id     text        NOT NULL,
    schedule_id   bigint      NOT NULL,
    fingerprint   text        NOT NULL,
    job_name      text        NOT NULL,
    imported_at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    taken_over_at timestamptz,
    was_enabled   boolean,
    PRIMARY KEY (source, source_schema, source_id)
);
CREATE UNIQUE INDEX imported_schedule ON sched.imported (schedule_id);
-- What dispatchers look at.
CREATE INDEX imported_taken_over ON sched.imported (source, source_schema) WHERE taken_over_at IS NOT NULL;
COMMENT ON TABLE sched.imported IS 'schedules that came from other schedulers (sched.import_from)';
COMMENT ON COLUMN sched.imported.source_id IS 'what their scheduler knows it by, as text';
COMMENT ON COLUMN sched.imported.fingerprint IS 'a hash of what their row said when it was imported; another one is an edit';
COMMENT ON COLUMN sched.imported.job_name IS 'the job that was made of it: the only one that a later import writes';
COMMENT ON COLUMN sched.imported.taken_over_at IS 'since when it is fired here (sched.take_over); NULL while it is not, and once it was handed back';
COMMENT ON COLUMN sched.imported.was_enabled IS 'whether it was on there when it was taken over';

-- What another scheduler has run that writes nothing down itself.
CREATE TABLE sched.reported_fire (
    schedule_id bigint      NOT NULL,
    plan_time   timestamptz NOT NULL,
    fired_at    timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, plan_time)
);
COMMENT ON TABLE sched.reported_fire IS 'runs of other schedulers that they were reported to have had (sched.report_fire)';

-- Refuses to switch a row of another scheduler on whose schedule is fired here now. Arguments: the source, the column that says whether a row is
-- on, and those that are its id. A row whose schedule was dropped here is theirs again.
CREATE FUNCTION sched_internal.guard_taken_over() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    reading text;
    id      text;
    is_on   boolean;
    taken   text;
BEGIN
    -- Whoever has the table decides what its columns are made of, and so what runs when they are read: only numbers and booleans of Postgres' own are.
    SELECT format('SELECT concat_ws(''/'', %s), ($1).%I', string_agg(format('($1).%I', g.name), ', ' ORDER BY g.place) FILTER (WHERE g.place > 2), TG_ARGV[1])
      INTO reading
      FROM unnest(TG_ARGV) WITH ORDINALITY AS g (name, place)
      JOIN pg_attribute a ON a.attrelid = TG_RELID AND a.attname = g.name AND a.attnum > 0 AND NOT a.attisdropped
     WHERE g.place > 1 AND a.atttypid = ANY (ARRAY['int2', 'int4', 'int8', 'bool']::regtype[])
    HAVING count(*) = cardinality(TG_ARGV) - 1;
    IF reading IS NULL THEN
        RETURN NEW;
    END IF;
    EXECUTE reading INTO id, is_on USING NEW;
    IF is_on IS NOT FALSE THEN
        SELECT s.schedule_name
          INTO taken
          FROM sched.imported i
          JOIN sched.schedule s ON s.schedule_id = i.schedule_id
          LEFT JOIN sched.job j ON j.job_name = s.job_name
          JOIN pg_class c ON c.oid = TG_RELID
          LEFT JOIN pg_roles r ON r.oid = c.relowner
         WHERE i.source = TG_ARGV[0] AND i.source_schema = TG_TABLE_SCHEMA AND i.source_id = id AND i.taken_over_at IS NOT NULL AND s.ownership = 'owned'
           -- A role's own table speaks for that role alone: what is another's came from one that had this name before.
           AND (r.rolsuper OR j.owner IS NULL OR j.owner::oid = c.relowner);
        IF FOUND THEN
            RAISE EXCEPTION USING
                ERRCODE = 'object_in_use',
                MESSAGE = format('%s %s is fired by schedule "%s" of scheduler now', TG_ARGV[0], id, taken),
                HINT = format('SELECT sched.hand_back(ARRAY[%L]) gives it back.', taken);
        END IF;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION sched_internal.guard_taken_over() IS 'internal: keeps another scheduler from running again what sched.take_over has taken from it';
SELECT pg_catalog.pg_extension_config_dump('sched.imported',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = imported.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.reported_fire',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = reported_fire.schedule_id AND j.owner::text ~ ''^[0-9]'')');
CREATE FUNCTION sched.import_from(
	source text,
	source_schema text DEFAULT NULL,
	only_ids text[] DEFAULT NULL,
	prefix text DEFAULT '',
	dry_run boolean DEFAULT false
) RETURNS TABLE (
	source_id text,
	schedule_name text,
	clock text,
	time_zone text,
	job_name text,
	verdict text,
	note text
)
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'import_from_wrapper';
CREATE FUNCTION sched.compare(
	source text,
	from_time timestamp with time zone,
	to_time timestamp with time zone,
	tolerance interval DEFAULT '60 seconds'
) RETURNS TABLE (
	schedule_name text,
	plan_time timestamp with time zone,
	verdict text,
	ours_at timestamp with time zone,
	theirs_at timestamp with time zone,
	note text
)
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'compare_wrapper';
COMMENT ON FUNCTION sched.compare IS
'What the clocks of schedules imported from a source say in [from_time, to_time), also before the import, beside what the source has written down that it ran. Each line is both, late (they ran it more than tolerance later), only_here (they have no run of it) or only_there (a run for which there is no plan time of ours). Nothing is said of what comes before its first run and after its last, as far as one day around the range is known. Of schedules that the caller may act for. Errors: 42P01, 42501 (tables of the source), 22023 (an unknown source, an empty range, a tolerance that may not be), 22008, 22004 (NULL), 54000 (over 100000 lines).';
COMMENT ON FUNCTION sched.import_from IS
'Makes the jobs of another scheduler (source: pg_cron, pgagent, timescaledb, celery_beat, pg_timetable) in this database schedules of ours, all of them external: nothing fires. Each of theirs has a row with a verdict: imported, changed, same, unsupported, elsewhere or removed. Changed is an edit there, which is made here too. Unsupported comes with the reason. Elsewhere is run in another database. Removed is gone there, and nothing is dropped. A second call only compares: of the job it writes the command alone, and it leaves on or off what is fired here. What was disabled there arrives disabled. SQL commands become jobs of kind sql of the role that they run as, for which the caller must be allowed to act. Tasks of Celery become jobs of kind pull in the queue celery; what they are sent with is the payload. With dry_run nothing is written. Errors: 42P01 (no tables of it), 42501 (tables that another role may have planted), 22023 (an unknown source), 22004 (NULL).';

-- Scopes in which one execution waits at a time (enqueue by scope), with the last that was made there. A lock on a row keeps others of its scope
-- waiting. What waits in a scope that others have filled is looked for in the ledger, so a row that is missing loses nothing.
CREATE TABLE sched.unique_scope (
    key          uuid PRIMARY KEY,
    execution_id uuid NOT NULL
) WITH (fillfactor = 70);
COMMENT ON TABLE sched.unique_scope IS 'scopes into which executions are enqueued by scope: whoever does so has the row to the end of his transaction';
COMMENT ON COLUMN sched.unique_scope.key IS 'the hash of job and scope, as in sched.ledger';
COMMENT ON COLUMN sched.unique_scope.execution_id IS 'the last that was enqueued there by scope; goes with it';
SELECT pg_catalog.pg_extension_config_dump('sched.unique_scope',
    'WHERE NOT EXISTS (SELECT FROM sched.ledger e WHERE e.id = unique_scope.execution_id AND e.owner::text ~ ''^[0-9]'')');
CREATE OR REPLACE VIEW sched.execution WITH (security_barrier) AS
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time,
       CASE WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue, e.priority,
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
       CASE WHEN l.execution_id IS NULL AND e.status = 'FAILED' AND (e.schedule_id IN (SELECT d.schedule_id FROM sched.schedule_dropped d)) IS NOT TRUE
            THEN e.next_retry_at END AS next_retry_at,
       CASE WHEN NOT r.owns THEN NULL WHEN l.execution_id IS NULL THEN e.progress ELSE l.progress END AS progress,
       e.allow_stale_reentry, e.origin, e.schedule_name, e.created_at,
       CASE WHEN l.execution_id IS NULL THEN e.updated_at ELSE l.heartbeat_at END AS updated_at, NULLIF(e.run_at, 'infinity') AS run_at
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
CREATE OR REPLACE VIEW sched.running WITH (security_barrier) AS
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time,
       CASE WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue, l.attempt, e.max_attempts, l.runner_id,
       l.started_at, pg_catalog.clock_timestamp() - l.started_at AS age,
       l.heartbeat_at, NULLIF(l.stale_after, 'infinity') AS stale_after, NULLIF(l.stale_after, 'infinity') - pg_catalog.clock_timestamp() AS time_to_stale,
       l.cancel_requested, CASE WHEN r.owns THEN l.progress END AS progress, e.schedule_name,
       CASE WHEN l.sweep_at = 'infinity' THEN pg_catalog.substring(l.runner_id, '^sql/([0-9]{1,9})$')::integer END AS pid, l.run_until
  FROM sched.lease l
  JOIN sched.ledger e ON e.id = l.execution_id
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
CREATE OR REPLACE VIEW sched.failed WITH (security_barrier) AS
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time,
       CASE WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue, e.attempt, e.max_attempts, e.runner_id,
       e.finished_at, e.error_code, CASE WHEN r.owns THEN e.error_msg END AS error_msg,
       e.next_retry_at IS NOT NULL AS retryable, e.next_retry_at, e.schedule_name
  FROM sched.ledger e
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
 WHERE e.status = 'FAILED'
   AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
   AND (r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')));
CREATE OR REPLACE VIEW sched.history WITH (security_barrier) AS
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time,
       CASE WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue, e.status, e.attempt, e.max_attempts,
       e.runner_id, e.started_at, e.finished_at,
       (EXTRACT(epoch FROM e.finished_at - e.started_at) * 1000)::bigint AS duration_ms, e.rows_affected,
       CASE WHEN r.owns THEN e.result END AS result, e.error_code, CASE WHEN r.owns THEN e.error_msg END AS error_msg,
       e.origin, e.schedule_name
  FROM sched.ledger e
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
 WHERE (e.status IN ('SUCCESS', 'CANCELLED') OR (e.status = 'FAILED' AND e.next_retry_at IS NULL))
   AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
   AND (r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')));
CREATE VIEW sched.queues WITH (security_barrier) AS
SELECT a.queue, (SELECT true FROM sched.paused_queue p WHERE p.queue = a.queue) IS NOT NULL AS paused,
       count(*) FILTER (WHERE a.what = 'ready') AS ready, count(*) FILTER (WHERE a.what = 'delayed') AS delayed,
       count(*) FILTER (WHERE a.what = 'retrying') AS retrying, count(*) FILTER (WHERE a.what = 'running') AS running,
       min(a.since) FILTER (WHERE a.what = 'ready') AS oldest_ready_at
  FROM (SELECT j.queue, j.owner, 'defined', NULL::timestamptz FROM sched.job j
        UNION ALL
        SELECT p.queue, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched'), 'paused', NULL FROM sched.paused_queue p
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
COMMENT ON VIEW sched.queues IS 'each queue that has a job, that something waits or runs in, or that is paused, with how much';
CREATE VIEW sched.jobs WITH (security_barrier) AS
SELECT j.job_name, j.kind, CASE WHEN r.owns THEN j.command END AS command, j.queue, j.max_attempts, j.retry_backoff, j.run_timeout,
       j.stale_timeout, j.allow_stale_reentry, j.priority, j.own_transactions, CASE WHEN r.owns THEN j.settings END AS settings,
       j.owner, j.created_at, j.updated_at
  FROM sched.job j
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, j.owner, 'USAGE') AS owns) AS r
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
COMMENT ON VIEW sched.jobs IS 'each job as it is defined: the arguments of define_job, whose it is, and since when';
COMMENT ON COLUMN sched.jobs.job_name IS 'its name';
COMMENT ON COLUMN sched.jobs.kind IS 'pull, notify, log or sql: how its runs are done';
COMMENT ON COLUMN sched.jobs.command IS 'what is run: a channel for kind notify, statements for kind sql; NULL for monitors';
COMMENT ON COLUMN sched.jobs.queue IS 'where its executions wait';
COMMENT ON COLUMN sched.jobs.max_attempts IS 'how often an execution may be claimed';
COMMENT ON COLUMN sched.jobs.retry_backoff IS 'the wait after failed attempt 1, 2 and so on; the last repeats, empty is at once';
COMMENT ON COLUMN sched.jobs.run_timeout IS 'how long a run may take; NULL: as long as it likes';
COMMENT ON COLUMN sched.jobs.stale_timeout IS 'how long a lease lasts without a heartbeat; NULL: setting sched.stale_timeout';
COMMENT ON COLUMN sched.jobs.allow_stale_reentry IS 'whether an execution may be claimed again when its lease has run out';
COMMENT ON COLUMN sched.jobs.priority IS 'a higher one is claimed first';
COMMENT ON COLUMN sched.jobs.own_transactions IS 'of kind sql: whether each statement is a transaction of its own';
COMMENT ON COLUMN sched.jobs.settings IS 'of kind sql: settings for a run; NULL for monitors';
COMMENT ON COLUMN sched.jobs.owner IS 'the role that defined it; members of it may change it, and claim, finish and cancel its executions';
COMMENT ON COLUMN sched.jobs.created_at IS 'when it was defined first';
COMMENT ON COLUMN sched.jobs.updated_at IS 'when it was defined or altered last';
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
COMMENT ON COLUMN sched.execution.run_at IS 'the time before which nobody could claim it; NULL = at once';
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
COMMENT ON COLUMN sched.running.run_until IS 'from then on heartbeat answers cancel, and a run of kind sql is ended; NULL without run_timeout';
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
COMMENT ON COLUMN sched.queues.queue IS 'its name; for kind sql the queue of the job';
COMMENT ON COLUMN sched.queues.paused IS 'nothing of it is claimed until sched.resume_queue';
COMMENT ON COLUMN sched.queues.ready IS 'how many executions can be claimed, or could if it were not paused';
COMMENT ON COLUMN sched.queues.delayed IS 'how many wait for their run_at';
COMMENT ON COLUMN sched.queues.retrying IS 'how many have failed and wait for their next_retry_at';
COMMENT ON COLUMN sched.queues.running IS 'how many have a lease';
COMMENT ON COLUMN sched.queues.oldest_ready_at IS 'since when the one is ready that has waited longest';
-- What became of plan times, to look at.
CREATE FUNCTION sched.report(
	from_time timestamp with time zone DEFAULT clock_timestamp() - '24:00:00'::interval,
	to_time timestamp with time zone DEFAULT clock_timestamp() + '24:00:00'::interval,
	schedule_like text DEFAULT '%',
	time_zone text DEFAULT NULL
) RETURNS text
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'report_page_wrapper';
CREATE FUNCTION sched.timeline(
	schedule_name text,
	from_time timestamp with time zone DEFAULT clock_timestamp() - '01:00:00'::interval,
	to_time timestamp with time zone DEFAULT clock_timestamp() + '01:00:00'::interval,
	time_zone text DEFAULT NULL
) RETURNS SETOF text
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'timeline_wrapper';
COMMENT ON FUNCTION sched.report IS
'One HTML page that shows what became of each plan time in [from_time, to_time). It has a row for each schedule whose name is like schedule_like and that the caller may read about. It also has the load of the coming week, how late runs began, and health; no payload, result or token. Where a schedule has very many plan times they are counted. Labels are in time_zone (NULL: sched.time_zone). Errors: 22023 (an empty range, an unknown zone), 22008 (infinite times), 22004 (NULL).';
CREATE FUNCTION sched.take_over(
	source text,
	schedule_names text[] DEFAULT NULL,
	force boolean DEFAULT false
) RETURNS TABLE (
	schedule_name text,
	last_theirs timestamp with time zone,
	first_ours timestamp with time zone
)
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'take_over_wrapper';
CREATE FUNCTION sched.hand_back(
	schedule_names text[]
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'hand_back_wrapper';
CREATE FUNCTION sched.report_fire(
	schedule_name text,
	plan_time timestamp with time zone,
	fired_at timestamp with time zone DEFAULT clock_timestamp()
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'report_fire_wrapper';
COMMENT ON FUNCTION sched.take_over IS
'Has imported schedules of a source (all of them, where schedule_names is NULL) fire here and no longer there, in one transaction: their rows are locked and switched off there, and ours are owned. What fell due since their last run is fired once. A trigger refuses (55006) to switch them on again there. last_theirs is when their last run began, first_ours the plan time of our first. What was disabled stays so. Waits for up to 70 seconds for a moment that is far enough from all plan times; commit at once, for a commit that comes too late fails (40001). Errors: 55000 (in the last day they ran other than ours would have, unless force; edited since the import; fired here already; no such moment), 55P03 (a run of theirs goes on), 42704 (not imported), 42501 (another role''s), 0A000 (what the source may run once more after it is off; a prepared transaction, or one that is not READ COMMITTED), 22023 (an unknown source), 22004 (NULL).';
COMMENT ON FUNCTION sched.hand_back IS
'Undoes sched.take_over: dispatches what is due by now, makes these schedules external, and switches their rows on again in the other scheduler where they were on. Waits, and has to be committed, as take_over. Errors: 55000 (a schedule that was not taken over; no moment between plan times), 42704 (not imported), 42501 (another role''s), 40001, 0A000, 22004 (NULL).';
COMMENT ON FUNCTION sched.report_fire IS
'Says that another scheduler has run this plan time of a schedule, for those that write nothing down themselves: sched.compare and sched.take_over read it. Saying it twice is saying it once. Kept for sched.history_retention. Errors: 42704 (unknown schedule), 42501 (another role''s), 22008 (infinite times), 22004 (NULL).';
CREATE FUNCTION sched.recent(
	job_name text DEFAULT NULL,
	max_rows integer DEFAULT 20
) RETURNS TABLE (
	id uuid,
	job_name text,
	scope_kind text,
	scope_id text,
	plan_time timestamp with time zone,
	queue text,
	status text,
	attempt integer,
	max_attempts integer,
	runner_id text,
	started_at timestamp with time zone,
	finished_at timestamp with time zone,
	duration_ms bigint,
	rows_affected bigint,
	result jsonb,
	error_code text,
	error_msg text,
	origin text,
	schedule_name text
)
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'recent_wrapper';
COMMENT ON FUNCTION sched.recent IS
'The newest executions that have ended for good, of one job or of all (NULL), the one made last first: what sched.history ORDER BY id DESC says, along an index. Rows are those that the caller may see, as in sched.history; where few are, it reads on. Errors: 22004 (max_rows is NULL), 22023 (max_rows under 1, a name that cannot be one).';
COMMENT ON FUNCTION sched.timeline IS
'The same of one schedule for a terminal of 80 columns, a line in each row. Errors: 42704 (a schedule that there is not, or that the caller may not read about), 22023 (an empty range, an unknown zone), 22008 (infinite times), 22004 (NULL).';
-- How the scheduler stands.
CREATE INDEX timer_troubled ON sched.timer (schedule_id) WHERE parked OR error_count > 0;
CREATE FUNCTION sched.health() RETURNS TABLE (
	component text,
	ok boolean,
	severity text,
	since timestamp with time zone,
	message text,
	hint text
)
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'health_rows_wrapper';
CREATE FUNCTION sched.healthy(
	max_lateness interval DEFAULT '1 minute'
) RETURNS boolean
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'healthy_wrapper';
CREATE FUNCTION sched_internal.grant_pg_monitor() RETURNS VOID
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_pg_monitor_wrapper';
COMMENT ON FUNCTION sched_internal.grant_pg_monitor() IS 'internal: lets the members of pg_monitor ask how the scheduler stands';
CREATE FUNCTION sched.metrics() RETURNS TABLE (
	name text,
	labels jsonb,
	kind text,
	value double precision,
	help text
)
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'metrics_rows_wrapper';
CREATE FUNCTION sched.openmetrics() RETURNS text
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'openmetrics_wrapper';
COMMENT ON FUNCTION sched.metrics IS
'What was counted in this database since the counters began anew, and how things stand: a row for each sample. Of jobs and queues it names those that the caller may act for; superusers, monitors and members of pg_monitor see all. At most 200 jobs and 200 queues of an owner have a name of their own, the others are called other. Where the library is not preloaded there are gauges only. A table that somebody has locked for long is left out.';
COMMENT ON FUNCTION sched.openmetrics IS
'The same as OpenMetrics text, which ends with # EOF.';
CREATE FUNCTION sched_internal.command_statements("command" TEXT) RETURNS INT
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'command_statements_wrapper';
COMMENT ON FUNCTION sched_internal.command_statements IS 'internal: how many statements a command has, for scheduler_cron';
CREATE FUNCTION sched_internal.create_sql_job(
	"job_name" TEXT,
	"clock" TEXT,
	"command" TEXT,
	"time_zone" TEXT,
	"owner" oid,
	"enabled" bool
) RETURNS bigint
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'create_sql_job_wrapper';
COMMENT ON FUNCTION sched_internal.create_sql_job IS 'internal: makes an SQL job and its schedule where the name is free, for scheduler_cron; NULL where it is not';
COMMENT ON FUNCTION sched.health IS
'How the scheduler stands in this database, a row for each component: severity ok, warning or critical, since when, and what to do. Answers also where every worker is dead or the library is not preloaded; waits for no lock (0.5 s at most).';
COMMENT ON FUNCTION sched.healthy IS
'False where a component of sched.health() is critical, or a timer that is due has not fired for longer than max_lateness. Errors: 22004 (NULL), 22023 (a negative interval, or one with months).';
CREATE OR REPLACE FUNCTION sched.grant_monitor(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.monitor, sched.execution, sched.running, sched.failed, sched.history, sched.jobs, sched.schedules, sched.skipped, sched.queues, sched.late, sched.alerts, sched.last_runs, sched.waiting TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.is_home, sched.bucket, sched.buckets, sched.health, sched.healthy, sched.metrics, sched.openmetrics, sched.report, sched.timeline, sched.recent, sched.explain, sched_internal.skipped_so_far, sched_internal.skip_parts, sched_internal.next_open TO %1$s;', sched_internal.grantee(role));
END
$$;
CREATE OR REPLACE FUNCTION sched.grant_use(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.execution, sched.running, sched.failed, sched.history, sched.jobs, sched.schedules, sched.skipped, sched.queues, sched.late, sched.alerts, sched.last_runs, sched.waiting TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.define_job, sched.alter_job, sched.drop_job, sched.schedule_sql, sched.unschedule, sched.this_run, sched.test_job, sched.create_schedule, sched.create_schedules, sched.alter_schedule,'
        '  sched.fire_now, sched.backfill, sched.explain, sched_internal.skipped_so_far, sched_internal.skip_parts, sched_internal.next_open,'
        '  sched.drop_schedule, sched.pause, sched.resume, sched.dispatch_due, sched.try_claim, sched.claim,'
        '  sched.heartbeat, sched.heartbeat_many, sched.finish_success, sched.finish_failure, sched.import_crontab, sched.import_from, sched.compare, sched.take_over, sched.hand_back, sched.report_fire, sched.next_time,'
        '  sched.preview, sched.validate, sched.enqueue, sched.enqueue_many, sched.finish_success_many, sched.assert_lease,'
        '  sched.cancel, sched.snooze, sched.cancel_many, sched.alter_execution, sched.pause_queue, sched.resume_queue, sched.mark_stale_as_failed, sched.latest_plan, sched.due_plans, sched.attempts_since_success,'
        '  sched.is_home, sched.bucket, sched.buckets, sched.health, sched.healthy, sched.metrics, sched.openmetrics, sched.acknowledge, sched.report, sched.timeline, sched.recent TO %1$s;', sched_internal.grantee(role));
END
$$;
CREATE OR REPLACE FUNCTION sched.grant_worker(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.home, sched.shard, sched.job, sched.schedule, sched.paused_queue, sched.imported TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.schedule_change, sched.timer, sched.ledger, sched.ready, sched.retry TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.lease TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.awaited TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.schedule_definition, sched.schedule_dropped, sched.unique_scope TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.skip, sched.timer_state, sched.alert, sched.alert_watch, sched.alert_state TO %1$s;', sched_internal.grantee(role));
END
$$;
COMMENT ON FUNCTION sched.define_job IS 'Creates or replaces a job: how its executions are queued, leased and retried. max_attempts and retry_backoff left out mean 3 and 10 seconds, then 1 minute, for kind pull, whose worker may die; 1 and at once for the others. retry_backoff[i] is the wait after failed attempt i, the last entry repeats, empty means at once. Lengths of time have no months, days of 24 hours, and are at most 1000 years; run_timeout is shorter than stale_timeout: from then on heartbeat answers cancel. Of kind sql the server runs the command, as the owner, and ends a run at run_timeout; own_transactions and settings are for this kind. Errors: 22023 (a value that may not be), 42601 (a command that cannot be parsed), 0A000 (a statement that no command may have), 54000 (a command over 1 MiB), 42704 (unknown setting), 22008, 22004 (NULL), 42501 (another role''s job, a setting that the caller may not set).';
COMMENT ON FUNCTION sched.cancel IS 'Cancels an execution: at once where nobody runs it, else its next heartbeat answers cancel and a failure ends it as CANCELLED; LISTEN "sched:cancel" hears its id. False when it is unknown or has ended. Error: 42501.';
COMMENT ON FUNCTION sched.snooze IS 'Gives a run back until a time: its attempt does not count, and the execution is what it was before the claim, PENDING or FAILED and to be tried again. A time that has come means at once. Where the run was asked to stop it ends as CANCELLED. Errors: 55000 (lease lost; a run of kind sql), 22004 (NULL), 22008 (an infinite time), 42501.';
COMMENT ON FUNCTION sched.heartbeat_many IS 'Extends these leases, each by its own stale_timeout from now, and returns a row for each pair, in their order: ok, cancel or lost. It waits for nobody: a lease that another transaction has locked holds as it is. Lost is an execution that is unknown, has another lease or none, or is not the caller''s to act for. Ids and tokens pair by position. Errors: 22023 (unequal lengths), 22004 (NULL, also as an element).';
COMMENT ON FUNCTION sched.pause_queue IS 'Has nobody claim anything of a queue until sched.resume_queue: claim returns no row, try_claim is conflicted, the server runs no SQL job of it. Runs go on, fires go on, and what a fire delivers at once (kinds notify and log) is delivered. Paused twice is paused once. For superusers, and for who may act for the owner of each of its jobs (of one at least) and of all that waits or runs there; 42501 for others. Errors: 22004, 22023 (a name).';
COMMENT ON FUNCTION sched.resume_queue IS 'Lets a paused queue be claimed from again, at once; its listeners hear of it. For superusers, and for who may act for the owner of each of its jobs (of one at least); 42501 for others. Errors: 22004, 22023 (a name).';
COMMENT ON FUNCTION sched.claim IS 'Claims at most max_claims executions of a queue, by priority, then plan time, skipping what others are claiming; none of a paused one. run_timeout is the job''s. Errors: 22023, 22004.';
COMMENT ON FUNCTION sched.heartbeat IS 'Extends a lease by stale_timeout from now and stores progress; ok, or cancel when the run was asked to stop or has lasted as long as its job''s run_timeout said when it was claimed. Errors: 55000 (lease lost), 42501, 22023.';
COMMENT ON FUNCTION sched.alter_job IS 'Changes a job; NULL leaves an argument as it is, reset names arguments that go back to their default (of the kind that the job then has). What is stored with existing executions stays, as when it is defined anew. Errors as define_job, and 42704 for an unknown job, 22023 for an argument that is both given and reset.';
COMMENT ON FUNCTION sched.try_claim IS 'Claims the execution of (job_name, scope_kind, scope_id, plan_time), which need not exist yet: won, stole or conflicted. A paused queue is conflicted. Never waits for another claimer. Times are intervals without months; the lease ends stale_timeout after the last heartbeat. run_timeout is the job''s. Errors: 22023, 22004, 22008, 42501, 0A000 (a job of kind sql).';
COMMENT ON FUNCTION sched.schedule_sql IS 'Has the server run a command at the plan times of a clock, as the caller: a job of kind sql and its schedule, both of this name; returns the schedule''s number. The call states the whole: what is left out goes to its default, but a schedule that is paused stays so where enabled is left out. The same call again changes nothing. Errors: 42710 (a job or schedule of this name was made otherwise), 42501 (another role''s), 22023 and 42601 (clock, command, setting or another argument cannot be used), 0A000 (a statement that no command may have), 54000 (a command over 1 MiB), 42704 (unknown setting), 22008, 22004 (NULL).';
COMMENT ON FUNCTION sched.unschedule IS 'Drops what sched.schedule_sql made; false where there was none. What waits is cancelled; a run that goes on ends by itself, and is not tried again. Errors: 42710 (a job or schedule of this name was made otherwise), 42501 (another role''s), 2BP01 (another schedule uses the job).';
COMMENT ON FUNCTION sched.this_run IS 'The run that this session is on: one row inside the command of a job of kind sql, no row elsewhere. execution_id, schedule_name and scope are NULL in sched.test_job. Nothing that a command does can change it.';
COMMENT ON FUNCTION sched.test_job IS 'Runs the command of a job of kind sql now, in this transaction, as the caller and with the job''s settings, and takes all of it back; deferred constraints are checked. A failure is a row with ok = false and its SQLSTATE in error_code. What no rollback takes back (sequences, session locks, prepared statements) stays. Errors: 0A000 (a job with own_transactions, or of another kind), 42704 (unknown job), 42501 (another role''s job), 22004 (NULL), 22008 (an infinite time).';
COMMENT ON FUNCTION sched.enqueue IS
'Puts an execution into its job''s queue and returns its id; with run_at nobody can claim it before that time. unique_by says what is the same. By plan: one of this job, scope and plan time, whatever has become of it; a plan time that is not named is drawn so that nobody has it. By scope: one of this job and scope that waits and that nobody has in hand. if_exists says what becomes of that: keep, replace (payload, run_at and priority, if it waits) or error. A job that was never defined means queue default. Errors: 22023, 22004, 22008, 42501, 23505 (if_exists error), 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.enqueue_many IS
'Puts one execution for each payload into the job''s queue and returns their ids in that order. plan_times, scope_ids and run_ats, where given, pair with payloads by position; NULL among run_ats means at once. The other arguments are as in sched.enqueue, and two that are the same within one call are as in two calls. Errors: 22023 (unequal lengths, NULL elements, a name, a word), 22004, 22008, 42501, 23505 (if_exists error), 40001 under REPEATABLE READ and SERIALIZABLE where another transaction has just enqueued the same, 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.alter_execution IS
'Changes payload, run_at (of a failed one: next_retry_at) or priority of an execution that waits; NULL leaves it as it is, a time that has come means at once. What returned true is what runs. False, without a wait, where it is unknown, runs, has ended or is in somebody''s hand. Errors: 22004, 22008, 42501.';
COMMENT ON FUNCTION sched.cancel_many IS
'Cancels at most max_executions of what waits and the caller may cancel, of a job, a queue and a scope_id, where given; without any of them all of it. What somebody has in hand is left alone. Returns how many. Errors: 22023, 22004.';

-- Which scopes are this database's, where several share them (sched.set_buckets). Without a row all are.
CREATE TABLE sched.shard (
    buckets int4multirange NOT NULL,
    since   timestamptz    NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE sched.shard IS 'the buckets of scopes that are this database''s; empty: all are (sched.set_buckets)';

CREATE TRIGGER shard_changed AFTER INSERT OR UPDATE OR DELETE ON sched.shard
    FOR EACH ROW EXECUTE FUNCTION sched_internal.table_changed();
ALTER TABLE sched.shard ENABLE ALWAYS TRIGGER shard_changed;
ALTER TABLE sched.shard REPLICA IDENTITY FULL;
SELECT pg_catalog.pg_extension_config_dump('sched.shard', '');
CREATE FUNCTION sched.bucket(
	scope_kind text,
	scope_id text
) RETURNS INT
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'bucket_wrapper';
CREATE FUNCTION sched.buckets() RETURNS int4multirange
STABLE STRICT PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'buckets_wrapper';
CREATE FUNCTION sched.set_buckets(
	buckets int4multirange DEFAULT NULL
) RETURNS VOID
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'set_buckets_wrapper';
CREATE FUNCTION sched.drop_elsewhere() RETURNS bigint
VOLATILE STRICT PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'drop_elsewhere_wrapper';
COMMENT ON FUNCTION sched.bucket(text, text) IS
'Which of 1,024 buckets (0 to 1023) a scope is in: the first two bytes, big-endian, of SHA-256 over the kind, a zero byte and the id, in UTF-8, and 1023. NULL for NULL.';
COMMENT ON FUNCTION sched.buckets() IS
'The buckets of scopes that are this server''s: all, until set_buckets says which.';
COMMENT ON FUNCTION sched.set_buckets(int4multirange) IS
'Says which buckets of scopes are this server''s; NULL: all, {}: none. Calls for scopes in others are 55000 from then on. Their schedules are in the state elsewhere and do not fire, and what waits in them is claimed by nobody. Leases that are held may be ended. What comes back begins anew: later plan times fire. Waits for open transactions that have used the extension''s tables, and keeps others waiting until the end of its own. For superusers and the extension''s owner; 42501 for others. Errors: 22023 (not within 0 to 1023).';
COMMENT ON FUNCTION sched.drop_elsewhere() IS
'Drops the schedules whose bucket is another server''s, and cancels what waits in such buckets; returns how many schedules. For the time after their scopes have moved. Leases that are held may still be ended. For superusers and the extension''s owner; 42501 for others.';
-- What a router needs: a database without the extension from which PL/Proxy calls the servers that share the scopes. Made from the catalog, so
-- that each of our functions has its stub; `how` says how one is called, and a function that it does not name is an error here.
CREATE FUNCTION sched.router_sql(cluster text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$router$
DECLARE
    how jsonb := '{
        "everywhere": ["adopt", "define_job", "dispatch_due", "drop_elsewhere", "health", "healthy", "is_home",
            "mark_stale_as_failed", "pause_queue", "rebuild", "resume_queue"],
        "anywhere": ["next_time", "preview", "validate"],
        "scope": ["attempts_since_success", "create_schedule", "due_plans", "enqueue", "latest_plan", "schedule_sql", "try_claim"],
        "schedule": ["alter_schedule", "backfill", "drop_schedule", "explain", "fire_now", "pause", "report_fire", "resume", "timeline", "unschedule"],
        "job": ["alter_job"],
        "execution": ["alter_execution", "cancel", "finish_failure", "finish_success", "heartbeat", "snooze"],
        "server": ["acknowledge", "assert_lease", "compare", "hand_back", "import_from", "metrics", "openmetrics", "report", "router_sql",
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
    FOR object IN SELECT c.oid::pg_catalog.regclass::text FROM pg_catalog.pg_class c
                   WHERE c.relkind = 'v' AND c.relnamespace = 'sched'::pg_catalog.regnamespace AND pg_catalog.obj_description(c.oid, 'pg_class') LIKE 'router: %%'
    LOOP
        EXECUTE 'DROP VIEW ' || object;
    END LOOP;
    FOR object IN SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
                   WHERE p.pronamespace IN ('sched'::pg_catalog.regnamespace, 'sched_router'::pg_catalog.regnamespace)
                     AND pg_catalog.obj_description(p.oid, 'pg_proc') LIKE 'router: %%'
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
               pg_get_function_result(p.oid) AS result, p.proretset AS is_set, p.prorettype = 'void'::regtype AS is_void, p.prorettype AS type, p.pronargs AS count,
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
            script := script || format(E'CREATE FUNCTION sched_router.%I(%s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS\n$f$\n#variable_conflict use_column\n%sBEGIN\n    %s\nEND\n$f$;\nCREATE FUNCTION sched.%I(%s) RETURNS %s LANGUAGE sql AS $f$ SELECT * FROM sched_router.%I(%s) $f$;\n',
                f.name || '_stub', array_to_string(f.types, ', '), f.result, declared, body, f.name, f.arguments, f.result, f.name || '_stub', passed);
        ELSE
            script := script || format(E'CREATE FUNCTION sched.%I(%s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS\n$f$\n#variable_conflict use_column\n%sBEGIN\n    %s\nEND\n$f$;\n',
                f.name, f.arguments, f.result, declared, body);
        END IF;
        script := script || format(E'COMMENT ON FUNCTION sched.%I(%s) IS %L;\n',
            f.name, f.identity, 'router: ' || rule || '. ' || COALESCE(obj_description(f.oid, 'pg_proc'), ''));
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
    RETURN script || $$-- Not PUBLIC's; those who had it before have it again.
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
'The script that makes a database without the extension a router: a stub for each function and view, which PL/Proxy sends to the servers of this cluster. Run it there as a superuser, and again after each update. The PL/Proxy cluster has 1,024 partitions, one for each bucket. Errors: 22004 (NULL).';
ALTER TABLE sched.schedule DROP CONSTRAINT schedule_ownership_check,
    ADD CONSTRAINT schedule_ownership_check CHECK (ownership IN ('owned', 'external', 'elsewhere'));

-- Alerts.
ALTER TABLE sched.schedule ADD COLUMN max_lateness interval, ADD COLUMN max_duration interval, ADD COLUMN expect_success_within interval,
    ADD COLUMN alert_job text;
CREATE INDEX schedule_alert_job ON sched.schedule (alert_job) WHERE alert_job IS NOT NULL;
CREATE INDEX schedule_max_lateness ON sched.schedule (schedule_id) WHERE max_lateness IS NOT NULL;
COMMENT ON COLUMN sched.schedule.max_lateness IS 'an alert is opened where a run has not begun so long after its plan time';
COMMENT ON COLUMN sched.schedule.max_duration IS 'an alert is opened where a run goes on for longer';
COMMENT ON COLUMN sched.schedule.expect_success_within IS 'an alert is opened where no run has succeeded for so long';
COMMENT ON COLUMN sched.schedule.alert_job IS 'the job that gets an execution for each alert that opens';
-- What somebody is to be told of. One row for each time that something became so; at most one of a schedule and kind is open.
CREATE TABLE sched.alert (
    alert_id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind               text        NOT NULL CHECK (kind IN ('late', 'long', 'no_success', 'failed', 'parked', 'failing')),
    schedule_id        bigint      NOT NULL,
    schedule_name      text        NOT NULL,
    owner              regrole     NOT NULL,
    execution_id       uuid,
    plan_time          timestamptz,
    since              timestamptz NOT NULL,
    message            text        NOT NULL,
    detail             text,
    opened_at          timestamptz NOT NULL,
    resolved_at        timestamptz,
    acknowledged_until timestamptz
);
CREATE UNIQUE INDEX alert_open ON sched.alert (schedule_id, kind) WHERE resolved_at IS NULL;
-- What retention looks at.
CREATE INDEX alert_resolved_at ON sched.alert (resolved_at) WHERE resolved_at IS NOT NULL;
COMMENT ON TABLE sched.alert IS 'what became so with a schedule, and until when it was; read it through the view sched.alerts';
COMMENT ON COLUMN sched.alert.owner IS 'who owned its job when it was opened: he may read of it also when the schedule is gone';
COMMENT ON COLUMN sched.alert.plan_time IS 'the plan time that it is about, if it is';
COMMENT ON COLUMN sched.alert.detail IS 'what may hold a secret, as an error''s message does: monitors do not read it';

-- When a dispatcher looks whether a schedule calls for alerts: a queue by time, inserted into by whoever knows of something ('-infinity', which is
-- at once) and by the last look. Nobody waits for a row of it, and a schedule that asks for nothing has none.
CREATE TABLE sched.alert_watch (
    due_at       timestamptz NOT NULL,
    schedule_id  bigint      NOT NULL,
    watch_id     bigint      GENERATED ALWAYS AS IDENTITY,
    execution_id uuid,
    failed       boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (due_at, schedule_id, watch_id)
);
COMMENT ON TABLE sched.alert_watch IS 'when dispatchers look whether a schedule calls for alerts';
COMMENT ON COLUMN sched.alert_watch.execution_id IS 'a run to be looked at, whatever its plan time';
COMMENT ON COLUMN sched.alert_watch.failed IS 'that run has failed for good';

-- What looks remember, of schedules that ask for alerts or have open ones.
CREATE TABLE sched.alert_state (
    schedule_id     bigint      PRIMARY KEY,
    version         bigint      NOT NULL,
    seen_plan       timestamptz,
    unsettled       uuid[]      NOT NULL,
    last_success_at timestamptz,
    due_at          timestamptz
) WITH (fillfactor = 50);
COMMENT ON TABLE sched.alert_state IS 'what dispatchers remember of a schedule that asks for alerts or has open ones; derived state';
COMMENT ON COLUMN sched.alert_state.seen_plan IS 'up to here the runs of its present scope were seen';
COMMENT ON COLUMN sched.alert_state.unsettled IS 'those of them that had not ended';
COMMENT ON COLUMN sched.alert_state.due_at IS 'the next look, where one is planned';
SELECT pg_catalog.pg_extension_config_dump('sched.alert', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.alert_alert_id_seq', '');
-- What is so already is told at once.
INSERT INTO sched.alert_watch (due_at, schedule_id) SELECT '-infinity', t.schedule_id FROM sched.timer t WHERE t.parked OR t.error_count > 0;
CREATE OR REPLACE VIEW sched.schedules WITH (security_barrier) AS
SELECT s.schedule_name, s.job_name, s.clock, s.time_zone, s.enabled,
       CASE s.ownership WHEN 'elsewhere' THEN 'owned' ELSE s.ownership END AS ownership, state.state,
       next.at[1] AS next_plan_time, next.at[2] AS next_fire_at,
       t.last_plan_time, t.last_fired_at, COALESCE(t.error_count, 0) AS error_count,
       CASE WHEN r.owns THEN t.last_error END AS last_error, s.max_lateness, s.max_duration, s.expect_success_within, s.alert_job
  FROM sched.schedule s
  LEFT JOIN sched.job j ON j.job_name = s.job_name
  LEFT JOIN sched.timer t ON t.schedule_id = s.schedule_id
 CROSS JOIN LATERAL (
       SELECT CASE WHEN s.ownership = 'elsewhere' THEN 'elsewhere'
                   WHEN s.ownership = 'external' AND NOT (SELECT sched.buckets()) @> sched.bucket(s.scope_kind, s.scope_id) THEN 'elsewhere'
                   WHEN t.parked AND t.version = s.version THEN 'parked'
                   WHEN s.ownership = 'external' THEN 'external'
                   WHEN NOT s.enabled THEN 'paused'
                   WHEN NOT (SELECT sched.is_home()) THEN 'copied'
                   WHEN t.schedule_id IS NULL OR t.version <> s.version THEN 'arming'
                   WHEN t.waiting THEN 'waiting'
                   WHEN t.error_count > 0 AND t.fire_at IS NOT NULL THEN 'failing'
                   WHEN t.fire_at IS NOT NULL THEN 'armed'
                   ELSE 'done' END AS state) AS state
 CROSS JOIN LATERAL (
       -- Without its job nobody but the extension's owner is known to own a schedule.
       SELECT pg_catalog.pg_has_role(
                  current_user,
                  COALESCE(j.owner, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched')),
                  'USAGE') AS owns) AS r
 CROSS JOIN LATERAL (
       -- What the ledger has was fired, which the timer will find out when it is due: the first plan time that it lacks comes next.
       SELECT CASE WHEN state.state NOT IN ('armed', 'failing') THEN NULL
                   WHEN EXISTS (SELECT
                                  FROM sched.ledger e
                                 WHERE e.key = ANY (CASE WHEN s.previous_keys = '{}' THEN ARRAY[s.key] ELSE ARRAY(SELECT pg_catalog.unnest(s.previous_keys) UNION ALL SELECT s.key) END)
                                   AND e.plan_time = t.next_plan_time
                                   AND (e.key = s.key OR (e.schedule_id = s.schedule_id AND e.origin IN ('schedule', 'backfill'))))
                   THEN sched_internal.next_open(s.schedule_name)
                   ELSE ARRAY[t.next_plan_time, t.fire_at] END AS at
       OFFSET 0) AS next
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
-- What is late is computed by who reads it: no process has to be alive for that. What a schedule is armed for and did not fire; a plan that waits
-- for another run to end; and what was fired and nobody has begun: of the runs that a dispatcher's last look has left open, and those since.
CREATE VIEW sched.late WITH (security_barrier) AS
SELECT a.schedule_name, a.plan_time, a.execution_id, pg_catalog.clock_timestamp() - a.plan_time AS late_by
  FROM (SELECT s.schedule_name, s.max_lateness, p.plan_time, p.execution_id,
               pg_catalog.pg_has_role(
                   current_user,
                   COALESCE(j.owner, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched')),
                   'USAGE') AS owns
          FROM sched.schedule s
          LEFT JOIN sched.job j ON j.job_name = s.job_name
          LEFT JOIN sched.alert_state w ON w.schedule_id = s.schedule_id
         CROSS JOIN LATERAL (
               SELECT c.plan_time, NULL::uuid AS execution_id
                 FROM sched.timer t
                CROSS JOIN LATERAL (VALUES (CASE WHEN t.fire_at IS NOT NULL THEN t.next_plan_time END), (t.buffered_plan)) AS c (plan_time)
                WHERE t.schedule_id = s.schedule_id AND t.version = s.version AND NOT t.parked AND c.plan_time IS NOT NULL
                  AND NOT EXISTS (SELECT FROM sched.ledger e WHERE e.key = s.key AND e.plan_time = c.plan_time)
               UNION
               SELECT e.plan_time, e.id
                 FROM (SELECT pg_catalog.unnest(w.unsettled) AS id
                       UNION
                       SELECT n.id FROM sched.ledger n WHERE n.key = s.key AND n.plan_time > w.seen_plan AND n.schedule_id = s.schedule_id
                       UNION
                       (SELECT n.id FROM sched.ledger n WHERE n.key = s.key AND w.seen_plan IS NULL ORDER BY n.plan_time DESC LIMIT 100)) AS r
                 JOIN sched.ledger e ON e.id = r.id AND e.schedule_id = s.schedule_id
                WHERE e.status = 'PENDING' AND e.attempt = 0 AND e.next_retry_at IS NULL AND e.run_at IS NULL AND e.origin IN ('schedule', 'manual')
                  AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)) AS p
         WHERE s.max_lateness IS NOT NULL AND s.enabled AND s.ownership = 'owned' AND (SELECT sched.is_home())
        OFFSET 0) AS a
 WHERE pg_catalog.clock_timestamp() - a.plan_time > a.max_lateness
   AND (a.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')));
COMMENT ON VIEW sched.late IS
    'runs that have not begun max_lateness after their plan time, of schedules that have one; also what is due and has not been fired';

CREATE VIEW sched.alerts WITH (security_barrier) AS
SELECT a.alert_id, a.kind, COALESCE(s.schedule_name, a.schedule_name) AS schedule_name, a.execution_id, a.since,
       CASE WHEN r.owns AND a.detail IS NOT NULL THEN a.message || ': ' || a.detail ELSE a.message END AS message,
       a.resolved_at, a.acknowledged_until
  FROM sched.alert a
  LEFT JOIN sched.schedule s ON s.schedule_id = a.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, COALESCE(j.owner, a.owner), 'USAGE') AS owns) AS r
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
COMMENT ON VIEW sched.alerts IS 'what somebody is to be told of: one open row at most for each schedule and kind, and those that were resolved';
COMMENT ON COLUMN sched.schedules.max_lateness IS 'an alert is opened where a run has not begun so long after its plan time; NULL = never';
COMMENT ON COLUMN sched.schedules.max_duration IS 'an alert is opened where a run goes on for longer; NULL = never';
COMMENT ON COLUMN sched.schedules.expect_success_within IS 'an alert is opened where no run has succeeded for so long; NULL = never';
COMMENT ON COLUMN sched.schedules.alert_job IS 'the job that gets an execution for each alert that opens';
-- What a person looks at first, at a cost that does not grow with the ledger.

-- By the ledger's key, scope by scope: an index on the schedule would cost each fire an entry.
CREATE VIEW sched.last_runs WITH (security_barrier) AS
SELECT s.schedule_name, n.plan_time, n.id, n.job_name, n.status, n.attempt, n.max_attempts, n.runner_id, n.started_at, n.finished_at,
       (EXTRACT(epoch FROM n.finished_at - n.started_at) * 1000)::bigint AS duration_ms, n.rows_affected,
       CASE WHEN n.owns THEN n.result END AS result, n.error_code, CASE WHEN n.owns THEN n.error_msg END AS error_msg, n.origin
  FROM sched.schedule s
 CROSS JOIN LATERAL (
       SELECT e.*
         FROM (SELECT s.key UNION SELECT pg_catalog.unnest(s.previous_keys)) AS k (key)
        CROSS JOIN LATERAL (
              SELECT e.plan_time, e.id, e.job_name, e.status, e.attempt, e.max_attempts, e.runner_id, e.started_at, e.finished_at, e.rows_affected,
                     e.result, e.error_code, e.error_msg, e.origin, r.owns
                FROM sched.ledger e
               CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
               WHERE e.key = k.key AND e.schedule_id = s.schedule_id
                 AND (e.status IN ('SUCCESS', 'CANCELLED') OR (e.status = 'FAILED' AND e.next_retry_at IS NULL))
                 AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
                 AND (r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')))
               ORDER BY e.plan_time DESC
               LIMIT 20) AS e
        ORDER BY e.plan_time DESC
        LIMIT 20) AS n;
COMMENT ON VIEW sched.last_runs IS 'of each schedule the 20 newest executions that have ended for good, newest first; name the schedule, and it is answered at once';

-- From one queue to the next by the index.
CREATE VIEW sched.waiting WITH (security_barrier) AS
WITH RECURSIVE queues (stored) AS (
    (SELECT r.queue FROM sched.ready r ORDER BY r.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
      FROM queues q
     CROSS JOIN LATERAL (SELECT r.queue FROM sched.ready r WHERE r.queue > q.stored ORDER BY r.queue LIMIT 1) AS n)
SELECT q.queue, w.position, w.priority, w.plan_time, w.execution_id, e.job_name, e.scope_kind, e.scope_id, e.schedule_name, e.attempt,
       GREATEST(e.created_at, e.run_at, e.next_retry_at) AS waits_since
  FROM (SELECT q.stored, CASE WHEN pg_catalog.octet_length(q.stored) > 57 THEN pg_catalog.substr(q.stored, 73) ELSE q.stored END AS queue
          FROM queues q
         WHERE NOT (pg_catalog.octet_length(q.stored) > 57 AND pg_catalog.starts_with(q.stored, 'elsewhere:'))) AS q
 CROSS JOIN LATERAL (
       SELECT r.priority, r.plan_time, r.execution_id, pg_catalog.row_number() OVER (ORDER BY r.priority DESC, r.plan_time, r.execution_id) AS position
         FROM (SELECT r.priority, r.plan_time, r.execution_id
                 FROM sched.ready r
                WHERE r.queue = q.stored
                  AND (pg_catalog.pg_has_role(current_user, r.owner, 'USAGE') OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')))
                ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
                LIMIT 100) AS r) AS w
  JOIN sched.ledger e ON e.id = w.execution_id;
COMMENT ON VIEW sched.waiting IS 'of each queue the first 100 executions that can be claimed, in the order in which they will be';
COMMENT ON COLUMN sched.last_runs.schedule_name IS 'the schedule';
COMMENT ON COLUMN sched.last_runs.plan_time IS 'the nominal instant of this occurrence';
COMMENT ON COLUMN sched.last_runs.id IS 'the execution';
COMMENT ON COLUMN sched.last_runs.job_name IS 'its job';
COMMENT ON COLUMN sched.last_runs.status IS 'SUCCESS, FAILED or CANCELLED';
COMMENT ON COLUMN sched.last_runs.attempt IS 'how often it was started';
COMMENT ON COLUMN sched.last_runs.max_attempts IS 'how often at most';
COMMENT ON COLUMN sched.last_runs.runner_id IS 'who ran it last';
COMMENT ON COLUMN sched.last_runs.started_at IS 'when its last attempt began';
COMMENT ON COLUMN sched.last_runs.finished_at IS 'when that ended';
COMMENT ON COLUMN sched.last_runs.duration_ms IS 'how long that took, in milliseconds';
COMMENT ON COLUMN sched.last_runs.rows_affected IS 'what its runner said of rows';
COMMENT ON COLUMN sched.last_runs.result IS 'what finish_success stored; NULL for monitors';
COMMENT ON COLUMN sched.last_runs.error_code IS 'the code of its last error';
COMMENT ON COLUMN sched.last_runs.error_msg IS 'its last error; NULL for monitors';
COMMENT ON COLUMN sched.last_runs.origin IS 'schedule, manual or backfill';
COMMENT ON COLUMN sched.waiting.queue IS 'the queue';
COMMENT ON COLUMN sched.waiting.position IS 'its place in the queue, from 1 to 100; of those that the reader may see';
COMMENT ON COLUMN sched.waiting.priority IS 'higher ones are claimed first';
COMMENT ON COLUMN sched.waiting.plan_time IS 'the nominal instant of this occurrence; among one priority the earlier is claimed first';
COMMENT ON COLUMN sched.waiting.execution_id IS 'the execution';
COMMENT ON COLUMN sched.waiting.job_name IS 'its job';
COMMENT ON COLUMN sched.waiting.scope_kind IS 'what kind of thing it is to run for';
COMMENT ON COLUMN sched.waiting.scope_id IS 'what it is to run for';
COMMENT ON COLUMN sched.waiting.schedule_name IS 'the schedule that it comes from, if any';
COMMENT ON COLUMN sched.waiting.attempt IS 'how often it was started before';
COMMENT ON COLUMN sched.waiting.waits_since IS 'since when it can be claimed';
COMMENT ON COLUMN sched.late.schedule_name IS 'the schedule';
COMMENT ON COLUMN sched.late.plan_time IS 'the plan time whose run has not begun';
COMMENT ON COLUMN sched.late.execution_id IS 'its execution; NULL where it has not been fired';
COMMENT ON COLUMN sched.late.late_by IS 'how long ago the plan time was';
COMMENT ON COLUMN sched.alerts.alert_id IS 'its number, which sched.acknowledge takes and NOTIFY "sched:alerts" tells';
COMMENT ON COLUMN sched.alerts.kind IS 'late, long, no_success, failed, parked or failing';
COMMENT ON COLUMN sched.alerts.schedule_name IS 'the schedule, under the name that it has, or had last';
COMMENT ON COLUMN sched.alerts.execution_id IS 'the run that it is about; NULL where it is about none';
COMMENT ON COLUMN sched.alerts.since IS 'since when it is so: from then on the run is late, for example';
COMMENT ON COLUMN sched.alerts.message IS 'what is so; for monitors without the error''s own words';
COMMENT ON COLUMN sched.alerts.resolved_at IS 'when it was no longer so; NULL while it is open';
COMMENT ON COLUMN sched.alerts.acknowledged_until IS 'sched.health() says nothing of it before; NULL where nobody has acknowledged it';
ALTER FUNCTION sched.create_schedule RENAME TO create_schedule_replaced;
CREATE FUNCTION sched.create_schedule(
	schedule_name text,
	clock text,
	job_name text,
	time_zone text DEFAULT NULL,
	payload jsonb DEFAULT '{}',
	scope_kind text DEFAULT 'schedule',
	scope_id text DEFAULT NULL,
	catch_up text DEFAULT 'latest_only',
	catch_up_window interval DEFAULT NULL,
	max_plans_per_tick integer DEFAULT 100,
	rearm text DEFAULT 'on_dispatch',
	overlap text DEFAULT 'allow',
	delay interval DEFAULT '0',
	jitter interval DEFAULT '0',
	starts_at timestamptz DEFAULT NULL,
	ends_at timestamptz DEFAULT NULL,
	ownership text DEFAULT 'owned',
	enabled boolean DEFAULT true,
	max_lateness interval DEFAULT NULL,
	max_duration interval DEFAULT NULL,
	expect_success_within interval DEFAULT NULL,
	alert_job text DEFAULT NULL
) RETURNS bigint
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'create_schedule_with_alerts_wrapper';
ALTER FUNCTION sched.alter_schedule RENAME TO alter_schedule_replaced;
CREATE FUNCTION sched.alter_schedule(
	schedule_name text,
	clock text DEFAULT NULL,
	job_name text DEFAULT NULL,
	time_zone text DEFAULT NULL,
	payload jsonb DEFAULT NULL,
	scope_kind text DEFAULT NULL,
	scope_id text DEFAULT NULL,
	catch_up text DEFAULT NULL,
	catch_up_window interval DEFAULT NULL,
	max_plans_per_tick integer DEFAULT NULL,
	rearm text DEFAULT NULL,
	overlap text DEFAULT NULL,
	delay interval DEFAULT NULL,
	jitter interval DEFAULT NULL,
	starts_at timestamptz DEFAULT NULL,
	ends_at timestamptz DEFAULT NULL,
	ownership text DEFAULT NULL,
	enabled boolean DEFAULT NULL,
	new_name text DEFAULT NULL,
	reset text[] DEFAULT '{}',
	max_lateness interval DEFAULT NULL,
	max_duration interval DEFAULT NULL,
	expect_success_within interval DEFAULT NULL,
	alert_job text DEFAULT NULL
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'alter_schedule_with_alerts_wrapper';
CREATE FUNCTION sched.acknowledge(
	alert_id bigint,
	until timestamptz
) RETURNS void
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'acknowledge_wrapper';
COMMENT ON FUNCTION sched.drop_job IS
'Drops a job; false where there was none. Errors: 2BP01 while schedules use it, as their job or alert_job, 42501 (another role''s job).';
COMMENT ON FUNCTION sched.create_schedule IS
'Creates a schedule and returns its number. It fires for the first time at the first plan time after its creation; a warning says that there is none. Alerts (sched.alerts) are opened where a run has not begun max_lateness after its plan time, goes on for longer than max_duration, or none has succeeded within expect_success_within; alert_job gets an execution for each. Errors: 42710 (the name is taken), 42704 (unknown job or alert_job), 22023 (clock, zone or another argument cannot be used), 22008 (an infinite time, a length of time over 1000 years), 22004 (NULL), 42501 (another role''s job or alert_job).';
COMMENT ON FUNCTION sched.alter_schedule IS
'Changes a schedule; NULL leaves an argument as it is, reset names arguments that go back to their default. A new clock, zone or starts_at/ends_at is a new baseline: only later plan times fire. Errors as create_schedule, and 42704 for an unknown schedule, 55000 (ownership external of what was taken over).';
COMMENT ON FUNCTION sched.acknowledge IS
'Silences an alert in sched.health() until a time, which may be infinity; a time that has come ends that. The alert stays open, and is resolved as ever. Errors: 42704 (an alert that there is not, or that the caller may not read about), 42501 (of another role''s schedule), 22004 (NULL).';

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
        'FUNCTION sched.define_job', 'FUNCTION sched.alter_job', 'TABLE sched.jobs', 'FUNCTION sched.try_claim', 'FUNCTION sched.claim', 'FUNCTION sched.schedule_sql', 'FUNCTION sched.unschedule', 'FUNCTION sched.this_run()',
        'FUNCTION sched.test_job', 'FUNCTION sched.heartbeat_many', 'FUNCTION sched.snooze', 'FUNCTION sched.pause_queue', 'FUNCTION sched.resume_queue', 'TABLE sched.paused_queue', 'TABLE sched.queues',
        'FUNCTION sched.health()', 'FUNCTION sched.healthy', 'FUNCTION sched.metrics()', 'FUNCTION sched.openmetrics()', 'FUNCTION sched.report', 'FUNCTION sched.timeline', 'FUNCTION sched.recent', 'FUNCTION sched_internal.grant_pg_monitor()', 'FUNCTION sched_internal.command_statements', 'FUNCTION sched_internal.create_sql_job',
        'FUNCTION sched.enqueue', 'FUNCTION sched.enqueue_many', 'FUNCTION sched.alter_execution', 'FUNCTION sched.cancel_many',
        'TABLE sched.shard', 'FUNCTION sched.bucket', 'FUNCTION sched.buckets()', 'FUNCTION sched.set_buckets', 'FUNCTION sched.drop_elsewhere()', 'FUNCTION sched.router_sql', 'TABLE sched.unique_scope', 'TABLE sched.imported', 'TABLE sched.reported_fire', 'FUNCTION sched.import_from', 'FUNCTION sched.compare', 'FUNCTION sched.take_over', 'FUNCTION sched.hand_back', 'FUNCTION sched.report_fire', 'FUNCTION sched_internal.guard_taken_over()',
        'TABLE sched.alert', 'SEQUENCE sched.alert_alert_id_seq', 'TABLE sched.alert_watch', 'SEQUENCE sched.alert_watch_watch_id_seq', 'TABLE sched.alert_state',
        'TABLE sched.late', 'TABLE sched.alerts', 'TABLE sched.last_runs', 'TABLE sched.waiting', 'FUNCTION sched.create_schedule', 'FUNCTION sched.alter_schedule', 'FUNCTION sched.acknowledge'
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
-- Whoever may watch the server may ask how the scheduler stands.
SELECT sched_internal.grant_pg_monitor();
-- Users and monitors get the rights on what is new, and nobody the types of rows.
SELECT sched_internal.grant_again();
DROP FUNCTION sched.define_job_replaced, sched.try_claim_replaced, sched.claim_replaced, sched.enqueue_replaced, sched.enqueue_many_replaced,
    sched.create_schedule_replaced, sched.alter_schedule_replaced;
-- The dispatcher has waited for this.
SELECT sched_internal.wake_dispatcher();
