-- From 0.3.1. What is new stands here in the words of sql/schema and of the generated script (tools/release-sql.sh diff shows them); a test
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
        'sched.cancel_request', 'sched.home', 'sched.imported', 'sched.job', 'sched.ledger', 'sched.paused_queue', 'sched.schedule', 'sched.schedule_dropped', 'sched.shard', 'sched.running', 'sched.schedules', 'sched.queues', 'sched.late'
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

-- Here, because all that follows calls it.
CREATE FUNCTION sched.now() RETURNS timestamptz VOLATILE PARALLEL RESTRICTED LANGUAGE c AS 'MODULE_PATHNAME', 'now_wrapper';
COMMENT ON FUNCTION sched.now() IS
'The time in this database, by which the scheduler goes: that of the server, and in test mode what sched.advance has made of it. PostgreSQL''s now() does not follow.';

CREATE OR REPLACE FUNCTION sched_internal.table_layout() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS 'SELECT 2';

CREATE TABLE sched.test_clock (
    only_row boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    since    timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    ahead    bigint      NOT NULL DEFAULT 0 CHECK (ahead >= 0),
    is_reset boolean     NOT NULL DEFAULT false
);
COMMENT ON TABLE sched.test_clock IS 'a row where the database is in test mode (sched.test_mode)';
COMMENT ON COLUMN sched.test_clock.since IS 'when test mode began, by the clock of the server';
COMMENT ON COLUMN sched.test_clock.ahead IS 'microseconds by which the clock of this database is ahead of the server''s (sched.advance)';
COMMENT ON COLUMN sched.test_clock.is_reset IS 'sched.reset was called since test mode began';
CREATE TRIGGER test_clock_changed AFTER INSERT OR UPDATE OR DELETE ON sched.test_clock
    FOR EACH ROW EXECUTE FUNCTION sched_internal.table_changed();
ALTER TABLE sched.test_clock ENABLE ALWAYS TRIGGER test_clock_changed;

CREATE TABLE sched.enqueue_grant (
    job_name text    NOT NULL,
    role     regrole NOT NULL,
    PRIMARY KEY (job_name, role)
);
COMMENT ON TABLE sched.enqueue_grant IS 'roles that may enqueue a job of another role (sched.grant_enqueue)';
SELECT pg_catalog.pg_extension_config_dump('sched.enqueue_grant', 'WHERE role::text !~ ''^[0-9]''');

CREATE TABLE sched.schedule_group (
    group_name  text        PRIMARY KEY,
    owner       regrole     NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT sched.now(),
    declared_at timestamptz
);
COMMENT ON TABLE sched.schedule_group IS 'groups of schedules that are declared as a whole (sched.declare_schedules)';
COMMENT ON COLUMN sched.schedule_group.owner IS 'the role that declared the group first; members of it may declare it';
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_group', 'WHERE owner::text !~ ''^[0-9]''');

ALTER TABLE sched.schedule ADD COLUMN group_name text, ADD COLUMN default_scope_id text;
CREATE INDEX schedule_group_name ON sched.schedule (group_name) WHERE group_name IS NOT NULL;
COMMENT ON COLUMN sched.schedule.group_name IS 'the group that declare_schedules keeps it in; NULL = none';
COMMENT ON COLUMN sched.schedule.default_scope_id IS 'in a group: the scope_id of a declaration that names none, which is the name that the schedule had when it was created';

ALTER TABLE sched.cancel_request ADD COLUMN owner regrole NOT NULL DEFAULT 0;
CREATE INDEX cancel_request_turns ON sched.cancel_request ((owner::oid), retry_at);
COMMENT ON COLUMN sched.cancel_request.owner IS 'the owner of the execution: owners take turns; 0 in a request of a release before 0.4.0';

-- The clock of the database.
ALTER TABLE sched.cancel_request ALTER COLUMN requested_at SET DEFAULT sched.now();
ALTER TABLE sched.home ALTER COLUMN since SET DEFAULT sched.now();
ALTER TABLE sched.imported ALTER COLUMN imported_at SET DEFAULT sched.now();
ALTER TABLE sched.job ALTER COLUMN created_at SET DEFAULT sched.now();
ALTER TABLE sched.job ALTER COLUMN updated_at SET DEFAULT sched.now();
ALTER TABLE sched.ledger ALTER COLUMN created_at SET DEFAULT sched.now();
ALTER TABLE sched.ledger ALTER COLUMN updated_at SET DEFAULT sched.now();
ALTER TABLE sched.paused_queue ALTER COLUMN paused_at SET DEFAULT sched.now();
ALTER TABLE sched.schedule ALTER COLUMN defined_at SET DEFAULT sched.now();
ALTER TABLE sched.schedule_dropped ALTER COLUMN dropped_at SET DEFAULT sched.now();
ALTER TABLE sched.shard ALTER COLUMN since SET DEFAULT sched.now();

CREATE OR REPLACE FUNCTION sched_internal.schedule_before_update() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    at    timestamptz := sched.now();
    ahead boolean;
BEGIN
    NEW.version := OLD.version + 1;
    -- What a clock that was ahead has written says nothing by the clock as it is now: the schedule begins anew. (Nor do times that are none.)
    ahead := greatest(OLD.created_at, OLD.baseline_at, OLD.defined_at) > at + interval '1 second'
        OR EXISTS (SELECT
                     FROM sched.timer t
                    WHERE t.schedule_id = OLD.schedule_id
                      AND (greatest(t.cursor_at, t.buffered_plan, t.backlog_until) > at + interval '1 second'
                           OR '-infinity' IN (t.cursor_at, t.buffered_plan, t.backlog_until)));
    -- Definitions follow each other.
    NEW.updated_at := CASE WHEN OLD.defined_at > at + interval '1 second' THEN at
                           ELSE greatest(at, OLD.defined_at + interval '1 microsecond') END;
    IF EXISTS (SELECT FROM unnest(OLD.previous_keys) AS k (key) WHERE k.key IS NULL) THEN
        -- a hand's, that has parked it
        NEW.previous_keys := ARRAY(SELECT k.key FROM unnest(NEW.previous_keys) AS k (key) WHERE k.key IS NOT NULL);
    END IF;
    IF (NEW.job_name, NEW.scope_kind, NEW.scope_id) IS DISTINCT FROM (OLD.job_name, OLD.scope_kind, OLD.scope_id) THEN
        -- The scope that it leaves; and of those before, where retention leaves something to tell, and that of its newest run, from
        -- which its timer could be made anew. So a new scope each day does not make the list longer for ever.
        NEW.previous_keys := ARRAY(
            SELECT k.key
              FROM unnest(OLD.previous_keys) AS k (key)
             WHERE k.key <> OLD.key
               -- what this transaction left before may fire there until it ends
               AND (OLD.updated_at >= transaction_timestamp()
                    -- and a fire that nobody can see yet may have overtaken an edit that nobody has settled
                    OR EXISTS (SELECT FROM sched.schedule_definition d WHERE d.schedule_id = OLD.schedule_id AND NOT d.settled)
                    OR EXISTS (SELECT
                                 FROM sched.ledger e
                                WHERE e.key = k.key
                                  AND (e.next_retry_at IS NOT NULL
                                       OR (e.finished_at AT TIME ZONE 'UTC' >= sched.now() AT TIME ZONE 'UTC' - current_setting('sched.history_retention', true)::interval)
                                          IS NOT FALSE))
                    OR k.key = (SELECT o.key
                                  FROM (SELECT OLD.key UNION ALL SELECT unnest(OLD.previous_keys)) AS o (key)
                                 CROSS JOIN LATERAL (SELECT e.plan_time
                                                       FROM sched.ledger e
                                                      WHERE e.key = o.key AND e.schedule_id = OLD.schedule_id AND e.origin = 'schedule'
                                                      ORDER BY e.plan_time DESC
                                                      LIMIT 1) AS newest
                                 ORDER BY newest.plan_time DESC
                                 LIMIT 1))) || OLD.key;
    END IF;
    IF (NEW.clock, NEW.time_zone, NEW.starts_at, NEW.ends_at, NEW.enabled, NEW.ownership)
       IS DISTINCT FROM (OLD.clock, OLD.time_zone, OLD.starts_at, OLD.ends_at, OLD.enabled, OLD.ownership)
       -- or the same once more, from a later moment on (sched.adopt)
       OR NEW.baseline_at > OLD.baseline_at OR ahead THEN
        INSERT INTO sched.schedule_definition (schedule_id, valid_from, valid_to, clock, time_zone, starts_at, ends_at, enabled, ownership)
        VALUES (OLD.schedule_id, least(OLD.defined_at, NEW.updated_at - interval '1 microsecond'), NEW.updated_at, OLD.clock, OLD.time_zone, OLD.starts_at, OLD.ends_at,
                OLD.enabled, OLD.ownership);
        NEW.defined_at := NEW.updated_at;
    END IF;
    IF NEW.clock IS DISTINCT FROM OLD.clock OR NEW.time_zone IS DISTINCT FROM OLD.time_zone
       OR NEW.starts_at IS DISTINCT FROM OLD.starts_at OR NEW.ends_at IS DISTINCT FROM OLD.ends_at
       OR (NEW.enabled AND NOT OLD.enabled) OR (NEW.ownership = 'owned' AND OLD.ownership <> 'owned') OR ahead THEN
        NEW.baseline_at := NEW.updated_at;
    END IF;
    IF OLD.created_at > at + interval '1 second' THEN
        NEW.created_at := NEW.updated_at - interval '1 microsecond';
    END IF;
    RETURN NEW;
END
$$;
DROP TRIGGER schedule_before_update ON sched.schedule;
CREATE TRIGGER schedule_before_update BEFORE UPDATE ON sched.schedule
    FOR EACH ROW WHEN (NEW.sql_pair IS NOT DISTINCT FROM OLD.sql_pair AND NEW.group_name IS NOT DISTINCT FROM OLD.group_name) EXECUTE FUNCTION sched_internal.schedule_before_update();
ALTER TABLE sched.schedule ENABLE ALWAYS TRIGGER schedule_before_update;

CREATE OR REPLACE VIEW sched.running AS
SELECT e.id, CASE WHEN r.reads THEN e.job_name END AS job_name, CASE WHEN r.reads THEN e.scope_kind END AS scope_kind,
       CASE WHEN r.reads THEN e.scope_id END AS scope_id, CASE WHEN r.reads THEN e.plan_time END AS plan_time,
       CASE WHEN NOT r.reads THEN NULL WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue,
       CASE WHEN r.reads THEN l.attempt END AS attempt, CASE WHEN r.reads THEN e.max_attempts END AS max_attempts,
       CASE WHEN r.reads THEN l.runner_id END AS runner_id, CASE WHEN r.reads THEN l.started_at END AS started_at,
       CASE WHEN r.reads THEN sched.now() - l.started_at END AS age,
       CASE WHEN r.reads THEN l.heartbeat_at END AS heartbeat_at, CASE WHEN r.reads THEN NULLIF(l.stale_after, 'infinity') END AS stale_after,
       CASE WHEN r.reads THEN NULLIF(l.stale_after, 'infinity') - sched.now() END AS time_to_stale,
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

CREATE OR REPLACE VIEW sched.schedules WITH (security_barrier) AS
SELECT s.schedule_name, s.job_name, s.clock, s.time_zone, s.enabled,
       CASE s.ownership WHEN 'elsewhere' THEN 'owned' ELSE s.ownership END AS ownership, state.state,
       next.at[1] AS next_plan_time, next.at[2] AS next_fire_at,
       t.last_plan_time, t.last_fired_at, COALESCE(t.error_count, 0) AS error_count,
       CASE WHEN r.owns THEN t.last_error END AS last_error, s.max_lateness, s.max_duration, s.expect_success_within, s.alert_job, s.group_name
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
               CASE WHEN r.retry_at <= sched.now() THEN 'ready' WHEN e.status = 'PENDING' THEN 'delayed' ELSE 'retrying' END, r.retry_at
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

CREATE OR REPLACE VIEW sched.late WITH (security_barrier) AS
SELECT a.schedule_name, a.plan_time, a.execution_id, sched.now() - a.plan_time AS late_by
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
 WHERE sched.now() - a.plan_time > a.max_lateness
   AND (a.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')));

COMMENT ON COLUMN sched.schedules.group_name IS 'the group that sched.declare_schedules keeps it in; NULL = none';

-- With more arguments.
ALTER FUNCTION sched.alter_job RENAME TO alter_job_replaced;
ALTER FUNCTION sched.alter_execution RENAME TO alter_execution_replaced;

CREATE OR REPLACE FUNCTION sched."report_fire"(
	"schedule_name" text,
	"plan_time" timestamp with time zone,
	"fired_at" timestamp with time zone DEFAULT sched.now()
) RETURNS void
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'report_fire_wrapper';

CREATE FUNCTION sched."declare_schedules"(
	"group_name" text,
	"specs" jsonb,
	"dry_run" bool DEFAULT false,
	"prune" bool DEFAULT true
) RETURNS TABLE (
	"schedule_name" TEXT,
	"action" TEXT,
	"detail" TEXT
)
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'declare_schedules_wrapper';

CREATE FUNCTION sched."prune"(
	"max_executions" INT DEFAULT NULL
) RETURNS bigint
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'prune_wrapper';

CREATE FUNCTION sched."alter_execution"(
	"execution_id" uuid,
	"payload" jsonb DEFAULT NULL,
	"run_at" timestamp with time zone DEFAULT NULL,
	"priority" INT DEFAULT NULL,
	"queue" text DEFAULT NULL,
	"max_attempts" INT DEFAULT NULL
) RETURNS bool
VOLATILE PARALLEL UNSAFE  
LANGUAGE c
AS 'MODULE_PATHNAME', 'alter_waiting_execution_wrapper';

CREATE FUNCTION sched."alter_many"(
	"job_name" text DEFAULT NULL,
	"queue" text DEFAULT NULL,
	"new_queue" text DEFAULT NULL,
	"priority" INT DEFAULT NULL,
	"max_executions" INT DEFAULT NULL
) RETURNS bigint
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'alter_many_wrapper';

CREATE OR REPLACE FUNCTION sched."next_time"(
	"clock" text,
	"after" timestamp with time zone DEFAULT sched.now(),
	"time_zone" text DEFAULT NULL,
	"anchor" timestamp with time zone DEFAULT 'epoch'
) RETURNS timestamp with time zone
STABLE PARALLEL SAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'next_time_wrapper';

CREATE OR REPLACE FUNCTION sched."test_job"(
	"job_name" text,
	"payload" jsonb DEFAULT '{}',
	"plan_time" timestamp with time zone DEFAULT sched.now()
) RETURNS TABLE (
	"ok" bool,
	"duration_ms" bigint,
	"rows_affected" bigint,
	"result" jsonb,
	"error_code" TEXT,
	"error_msg" TEXT
)
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'test_job_wrapper';

CREATE OR REPLACE FUNCTION sched."preview"(
	"clock" text,
	"time_zone" text DEFAULT NULL,
	"after" timestamp with time zone DEFAULT sched.now(),
	"n" INT DEFAULT 10,
	"anchor" timestamp with time zone DEFAULT 'epoch'
) RETURNS TABLE (
	"plan_time" timestamp with time zone,
	"local_time" timestamp,
	"utc_offset" interval,
	"note" TEXT
)
STABLE PARALLEL SAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'preview_wrapper';

CREATE OR REPLACE FUNCTION sched."report"(
	"from_time" timestamp with time zone DEFAULT sched.now() - '24:00:00'::interval,
	"to_time" timestamp with time zone DEFAULT sched.now() + '24:00:00'::interval,
	"schedule_like" text DEFAULT '%',
	"time_zone" text DEFAULT NULL
) RETURNS TEXT
VOLATILE PARALLEL UNSAFE  
LANGUAGE c
AS 'MODULE_PATHNAME', 'report_page_wrapper';

CREATE FUNCTION sched."grant_enqueue"(
	"job_name" text,
	"role" regrole
) RETURNS void
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_enqueue_wrapper';

CREATE FUNCTION sched."reset"(
	"keep_definitions" bool DEFAULT true
) RETURNS void
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'reset_wrapper';

CREATE OR REPLACE FUNCTION sched."timeline"(
	"schedule_name" text,
	"from_time" timestamp with time zone DEFAULT sched.now() - '01:00:00'::interval,
	"to_time" timestamp with time zone DEFAULT sched.now() + '01:00:00'::interval,
	"time_zone" text DEFAULT NULL
) RETURNS SETOF TEXT
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'timeline_wrapper';

CREATE FUNCTION sched."test_mode"(
	"enabled" bool DEFAULT true
) RETURNS void
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'test_mode_wrapper';

CREATE FUNCTION sched."advance"(
	"by" interval
) RETURNS timestamp with time zone
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'advance_wrapper';

CREATE FUNCTION sched."alter_job"(
	"job_name" text,
	"kind" text DEFAULT NULL,
	"command" text DEFAULT NULL,
	"queue" text DEFAULT NULL,
	"max_attempts" INT DEFAULT NULL,
	"retry_backoff" interval[] DEFAULT NULL,
	"run_timeout" interval DEFAULT NULL,
	"stale_timeout" interval DEFAULT NULL,
	"allow_stale_reentry" bool DEFAULT NULL,
	"priority" INT DEFAULT NULL,
	"own_transactions" bool DEFAULT NULL,
	"settings" jsonb DEFAULT NULL,
	"reset" text[] DEFAULT '{}',
	"owner" regrole DEFAULT NULL
) RETURNS void
VOLATILE PARALLEL UNSAFE  
LANGUAGE c
AS 'MODULE_PATHNAME', 'alter_job_and_owner_wrapper';

CREATE FUNCTION sched."drain_sql"(
	"max_executions" INT DEFAULT NULL
) RETURNS TABLE (
	"execution_id" uuid,
	"status" TEXT
)
VOLATILE PARALLEL UNSAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'drain_sql_wrapper';

CREATE OR REPLACE FUNCTION sched.router_sql(cluster text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$router$
DECLARE
    how jsonb := '{
        "everywhere": ["adopt", "alter_many", "declare_schedules", "define_job", "dispatch_due", "drop_elsewhere", "health", "healthy", "is_home",
            "mark_stale_as_failed", "pause_queue", "prune", "rebuild", "resume_queue"],
        "anywhere": ["next_time", "now", "preview", "validate"], "not offered": ["advance", "drain_sql", "reset", "test_mode"],
        "scope": ["attempts_since_success", "create_schedule", "due_plans", "enqueue", "executions_of", "latest_plan", "schedule_sql", "try_claim"],
        "schedule": ["alter_schedule", "backfill", "drop_schedule", "explain", "fire_now", "pause", "report_fire", "resume", "runs_of", "timeline", "unschedule"],
        "job": ["alter_job"],
        "execution": ["alter_execution", "cancel", "finish_failure", "finish_success", "heartbeat", "snooze"],
        "server": ["acknowledge", "assert_lease", "compare", "grant_enqueue", "grant_queue", "hand_back", "import_from", "metrics", "openmetrics", "report", "router_sql",
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
                   ORDER BY p.proname = 'now' -- what defaults of arguments call
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
         ORDER BY p.proname <> 'now', p.proname -- what defaults of arguments call comes first
    LOOP
        SELECT h.rule INTO rule FROM jsonb_each(how) AS h (rule, names) WHERE h.names ? f.name;
        IF rule IS NULL THEN
            RAISE internal_error USING MESSAGE = format('router_sql does not know how function %s is called', f.name);
        END IF;
        CONTINUE WHEN f.name = 'bucket' OR rule = 'not offered';
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
        '  sched.cancel, sched.snooze, sched.cancel_many, sched.alter_execution, sched.alter_many, sched.declare_schedules, sched.grant_enqueue, sched.pause_queue, sched.resume_queue, sched.mark_stale_as_failed, sched.latest_plan, sched.due_plans, sched.attempts_since_success,'
        '  sched.is_home, sched.bucket, sched.buckets, sched.health, sched.healthy, sched.metrics, sched.openmetrics, sched.acknowledge, sched.report, sched.timeline, sched.recent TO %1$s;', sched_internal.grantee(role));
END
$$;

CREATE OR REPLACE FUNCTION sched.grant_worker(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.test_clock, sched.home, sched.shard, sched.job, sched.schedule, sched.paused_queue, sched.imported TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.schedule_change, sched.timer, sched.ledger, sched.ready, sched.retry TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.lease TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.awaited TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.schedule_definition, sched.schedule_dropped, sched.cancel_request, sched.unique_scope TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.skip, sched.timer_state, sched.alert, sched.alert_watch, sched.alert_state TO %1$s;', sched_internal.grantee(role));
END
$$;

CREATE OR REPLACE FUNCTION sched.revoke_all(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('REVOKE ALL ON SCHEMA sched, sched_internal FROM %1$s;'
        'REVOKE ALL ON ALL TABLES IN SCHEMA sched, sched_internal FROM %1$s;'
        'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_internal FROM %1$s;', sched_internal.grantee(role, true));
    DELETE FROM sched.queue_grant g WHERE g.role = revoke_all.role;
    DELETE FROM sched.enqueue_grant g WHERE g.role = revoke_all.role;
END
$$;

COMMENT ON FUNCTION sched.alter_job IS
'Changes a job; NULL leaves an argument as it is, reset names arguments that go back to their default (of the kind that the job then has). What is stored with existing executions stays, as when it is defined anew. kind, command, settings and own_transactions of another role''s job are 42501 for a superuser who is no member of that role by a superuser''s GRANT. From PostgreSQL 16 on they are for a member who may not SET ROLE to it. A dropped role''s job that has a command is 42501 for a superuser unless the call replaces command and settings; then it is the superuser''s. owner hands the job, its schedules and what waits of it to another role. It is for superusers, who may pass a command with it, and for members of both roles. A superuser gets no job whose command another role wrote, but by a call that replaces the command; the settings are empty then unless given. Grants to enqueue the job end, and so do alerts between it, or its schedules, and jobs of roles that may not act for the new owner. A WARNING counts the executions that run or are locked and keep their owner. Errors as define_job, and 42704 for an unknown job or role, 22023 for an argument that is both given and reset.';
CREATE FUNCTION sched_internal."grant_database_owner"() RETURNS void
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_database_owner_wrapper';
COMMENT ON FUNCTION sched_internal.grant_database_owner() IS 'internal: lets the owner of the database begin and end test mode';

COMMENT ON FUNCTION sched.declare_schedules IS
'Makes a group of schedules what a JSON array says: each is created, altered, renamed or left as it is. With prune, schedules of the group that the array does not name are dropped. An element has the arguments of create_schedule, or those of schedule_sql (with command), and may have was (the name before) and adopt (takes a schedule of no group). What it leaves out has its default, but a pause stays. Returns a row for each schedule of the group: created, altered, renamed, dropped or unchanged, and what has changed. A dry run does the same and takes it back. Calls for one group wait for one another. Errors: 42710 (a schedule of no group, or of another), 42501 (another role''s group, schedule or job), 22023 (a name twice; command with job_name; a value that cannot be used), 40001 under REPEATABLE READ and SERIALIZABLE; otherwise as create_schedule and schedule_sql.';
COMMENT ON FUNCTION sched.test_mode IS
'Begins or ends test mode, for a database in which an application''s tests run. In it nothing runs by itself: schedules fire by sched.dispatch_due, SQL jobs run by sched.drain_sql, and the clock is moved by sched.advance. A copy by TEMPLATE is in test mode as well, and needs no sched.adopt. The end sets the clock back and begins the timers again. For the owner of the database and superusers. Errors: 55000 (over 100,000 executions, or schedules of another role than the database''s owner have fired; an end without sched.reset), 22004 (NULL), 42501.';
COMMENT ON FUNCTION sched.advance IS
'Moves the clock of a database in test mode forward, and returns its time. sched.dispatch_due then does what would have happened meanwhile, each plan time at its time. For the owner of the database and superusers. Errors: 55000 (not in test mode, in the run of an SQL job), 22023 (zero or less), 22008 (beyond the year 9000), 22004 (NULL), 42501.';
COMMENT ON FUNCTION sched.reset IS
'Deletes executions, what is known of skipped plan times, and alerts of a database in test mode; with keep_definitions false jobs, schedules and pauses of queues too. Timers begin again, and the clock stays where it is. It can be rolled back. For the owner of the database and superusers. Errors: 55000 (not in test mode, in the run of an SQL job), 22004 (NULL), 42501.';
COMMENT ON FUNCTION sched.drain_sql IS
'Runs the SQL jobs that are due in a database in test mode, one after the other, each in a process of its own as its owner. Returns a row for each with its status when all have ended. It sees committed executions only. For the owner of the database and superusers. Errors: 55000 (not in test mode, in the run of an SQL job, a role that cannot log in), 0A000 (a transaction that is not READ COMMITTED), 53400 (no process is free), 22023 (max_executions under 1), 42501.';
COMMENT ON FUNCTION sched.prune IS
'Deletes at once what retention (sched.history_retention) no longer keeps, at most max_executions executions where that is given, and returns how many. Rows that a dispatcher would keep are kept. For superusers and the extension''s owner. Errors: 22023 (max_executions under 1), 42501.';
COMMENT ON FUNCTION sched.claim IS
'Claims at most max_claims executions of a queue, by priority, then plan time, skipping what others are claiming; none of a paused one. run_timeout is the job''s. A session is given one NOTICE for each queue in which all that waits belongs to other roles. Errors: 22023, 22004.';
COMMENT ON FUNCTION sched.enqueue IS
'Puts an execution into its job''s queue and returns its id; with run_at nobody can claim it before that time. unique_by says what is the same. By plan: one of this job, scope and plan time, whatever has become of it; a plan time that is not named is drawn so that nobody has it. By scope: one of this job, scope and owner that waits and that nobody has in hand. if_exists says what becomes of that: keep, replace (payload, run_at and priority, if it waits; it has all its attempts again) or error. By plan, replace and error need a scope and a plan time. A job that was never defined means queue default, and a warning (01000) with the name that was probably meant; sched.undefined_jobs changes that. The owner of the job reads the payload, also of what a superuser enqueues. Errors: 22023, 22004, 22008, 42501, 42704 (a job that was never defined, where sched.undefined_jobs is refuse), 23505 (if_exists error), 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.alter_execution IS
'Changes payload, run_at (of a failed one: next_retry_at), priority, queue or max_attempts of an execution that waits. NULL leaves it as it is, and a time that has come means at once. After true, the new values are those that run. The owner of the job reads the payload, also of what a superuser writes. False, without a wait, where it is unknown, runs, has ended or is in somebody''s hand. Errors: 22023 (max_attempts that are used up, a queue that cannot be one), 22004, 22008, 42501.';
COMMENT ON FUNCTION sched.alter_many IS
'Changes queue, priority or both of at most max_executions (NULL: all) of what waits and the caller may act for, of a job, a queue or both; ids stay. An execution that a session has locked is left alone. Returns how many. Errors: 22023 (neither job_name nor queue, or nothing to change; a name that cannot be one).';
COMMENT ON FUNCTION sched.grant_enqueue IS
'Lets a role enqueue this job, which stays its owner''s: what it enqueues runs as the owner. A role without other grants may enqueue nothing else, and call nothing else. It replaces no execution, and enqueues none in the scope of a schedule or with scope_kind schedule (42501). sched.revoke_all takes it back. For the owner of the job, its members and superusers. Errors: 42704 (unknown job or role), 42501, 22004 (NULL).';
COMMENT ON FUNCTION sched.revoke_all IS
'Takes back all that sched.grant_use, sched.grant_monitor, sched.grant_worker, sched.grant_queue and sched.grant_enqueue gave to a role. For superusers and the extension''s owner; 42501 for others.';

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
        'TABLE sched.test_clock',
        'TABLE sched.enqueue_grant',
        'TABLE sched.schedule_group',
        'FUNCTION sched.now',
        'FUNCTION sched_internal.grant_database_owner',
        'FUNCTION sched.advance',
        'FUNCTION sched.alter_execution',
        'FUNCTION sched.alter_job',
        'FUNCTION sched.alter_many',
        'FUNCTION sched.declare_schedules',
        'FUNCTION sched.drain_sql',
        'FUNCTION sched.grant_enqueue',
        'FUNCTION sched.prune',
        'FUNCTION sched.reset',
        'FUNCTION sched.test_mode'
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
-- They had their rights until here.
DROP FUNCTION sched.alter_job_replaced;
DROP FUNCTION sched.alter_execution_replaced;
-- Views and defaults call it with the right of who reads and writes.
GRANT EXECUTE ON FUNCTION sched.now TO PUBLIC;
-- Test mode belongs to the database.
SELECT sched_internal.grant_database_owner();
-- The dispatcher has waited for this.
SELECT sched_internal.wake_dispatcher();
