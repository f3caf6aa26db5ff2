-- From 0.1.0. What is new stands here in the words of sql/schema and of the generated script (tools/release-sql.sh diff shows them); a test
-- compares the result with a new extension. docs/internals/updates.md says how to add to it.
\echo Use "ALTER EXTENSION scheduler UPDATE" to load this file. \quit

-- To the end of the transaction. What is named without a schema is Postgres' own.
SET LOCAL search_path = pg_catalog, pg_temp;

-- A plain CREATE SCHEMA on purpose, and before we look at whose what is: one that somebody planted must make the update fail.
CREATE SCHEMA sched_internal;
COMMENT ON SCHEMA sched_internal IS 'internal: what the scheduler''s own triggers, views and scripts call; nothing of it is for users';

-- Whoever owns a schema of ours or something in it can have put code of his there, which what follows would run as the superuser who updates.
-- So this comes before all else but a new schema, and looks at nothing but catalogs.
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

-- What users have no use for goes there, with its rights. (What names it by its oid, as defaults, triggers and columns do, follows.)
ALTER FUNCTION sched.uuid_v7() SET SCHEMA sched_internal;
ALTER FUNCTION sched.scope_key SET SCHEMA sched_internal;
ALTER FUNCTION sched.wake_dispatcher() SET SCHEMA sched_internal;
ALTER FUNCTION sched.request_dispatcher() SET SCHEMA sched_internal;
ALTER FUNCTION sched.schedule_before_update() SET SCHEMA sched_internal;
ALTER FUNCTION sched.schedule_changed() SET SCHEMA sched_internal;
CREATE OR REPLACE FUNCTION sched_internal.schedule_changed() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    INSERT INTO sched.schedule_change (schedule_id) SELECT schedule_id FROM changed;
    IF FOUND THEN
        PERFORM sched_internal.wake_dispatcher();
    END IF;
    RETURN NULL;
END
$$;

-- Whose rows the tables hold: every row has to name this database, or nothing fires here. A copy carries its original's row.
-- Empty until the first job is defined or execution claimed. No key: a restore must be able to add the same row again.
CREATE TABLE sched.home (
    system_identifier bigint      NOT NULL,
    database          oid         NOT NULL,
    since             timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE sched.home IS 'the database that these tables belong to; where a row names another one, this is a copy (sched.adopt)';
-- Whatever is here was fired here.
INSERT INTO sched.home (system_identifier, database)
SELECT c.system_identifier, d.oid
  FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_database AS d
 WHERE d.datname = pg_catalog.current_database();
CREATE FUNCTION sched_internal.table_is_new("table" oid) RETURNS void STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'table_is_new_wrapper';
COMMENT ON FUNCTION sched_internal.table_is_new IS 'internal: has every session read a table again of which it may remember something';
CREATE FUNCTION sched_internal.table_changed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    PERFORM sched_internal.table_is_new(TG_RELID);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION sched_internal.table_changed() IS 'internal: sessions that remember something of the table read it again';

CREATE TRIGGER home_changed AFTER INSERT OR UPDATE OR DELETE ON sched.home
    FOR EACH ROW EXECUTE FUNCTION sched_internal.table_changed();
ALTER TABLE sched.home ENABLE ALWAYS TRIGGER home_changed;
CREATE TRIGGER job_changed AFTER INSERT OR UPDATE OR DELETE ON sched.job
    FOR EACH ROW EXECUTE FUNCTION sched_internal.table_changed();
ALTER TABLE sched.job ENABLE ALWAYS TRIGGER job_changed;
ALTER TABLE sched.home REPLICA IDENTITY FULL;
ALTER TABLE sched.ready REPLICA IDENTITY USING INDEX ready_order;

-- What the ledger has a schedule's executions by; and changes that could not be applied.
ALTER TABLE sched.schedule ADD COLUMN key uuid NOT NULL GENERATED ALWAYS AS (sched_internal.scope_key(job_name, scope_kind, scope_id)) STORED;
COMMENT ON COLUMN sched.schedule.key IS 'what the ledger has its executions by, with the plan time; computed once for each edit, not for each fire';
ALTER TABLE sched.timer ADD COLUMN tracks_runs boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN sched.timer.tracks_runs IS 'every unfinished run of the schedule is in sched.awaited';
ALTER TABLE sched.schedule_change ADD COLUMN failures integer NOT NULL DEFAULT 0, ADD COLUMN retry_at timestamptz;
CREATE INDEX schedule_change_schedule_id ON sched.schedule_change (schedule_id);
CREATE INDEX schedule_change_retry_at ON sched.schedule_change (retry_at) WHERE retry_at IS NOT NULL;
DROP FUNCTION sched.is_being_claimed;
-- Room for the ends of all runs of a page, on pages that are written from now on.
ALTER TABLE sched.ledger SET (fillfactor = 40);
ALTER TABLE sched.lease SET (vacuum_truncate = off);

CREATE FUNCTION sched.adopt() RETURNS bigint STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'adopt_wrapper';
CREATE FUNCTION sched.is_home() RETURNS bool STRICT STABLE PARALLEL UNSAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'is_home_wrapper';
CREATE FUNCTION sched_internal.grant_again() RETURNS void STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'grant_again_wrapper';
COMMENT ON FUNCTION sched.adopt() IS 'Lets a copy (a restored dump, a database made from a template, a cluster after pg_upgrade) fire and hand out what is in it; returns how many schedules begin anew. Only plan times after this moment fire, also where a clock that was ahead has written later ones. For superusers and the extension''s owner; 42501 for others.';
COMMENT ON FUNCTION sched.is_home() IS 'False in a copy that nobody has adopted: dispatch_due, claim and try_claim raise 55000 there and no worker serves it.';
COMMENT ON FUNCTION sched_internal.grant_again() IS 'internal: at the end of an update, gives users and monitors the rights on what it has added; takes the types of our rows from PUBLIC';

CREATE FUNCTION sched.enqueue_many(
	job_name text,
	payloads jsonb[],
	plan_times timestamp with time zone[] DEFAULT NULL,
	scope_kind text DEFAULT 'adhoc',
	scope_ids text[] DEFAULT NULL
) RETURNS SETOF uuid
VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'enqueue_many_wrapper';
COMMENT ON FUNCTION sched.enqueue_many IS 'Puts one execution for each payload into the job''s queue and returns their ids in that order. plan_times and scope_ids, where given, pair with payloads by position. The same (job, scope, plan time) named twice gives the same execution; a plan time that is not named is drawn so that nobody has it. Errors: 22023 (unequal lengths, NULL elements, a name), 22004, 22008, 42501, 40001 under REPEATABLE READ and SERIALIZABLE where another transaction has just enqueued the same, 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.fire_now IS 'Creates one extra execution of a schedule with the plan time now, or the next that neither the ledger nor the clock has, whatever its state, and returns its id; its timer is untouched. Errors: 42704, 42501, 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.backfill IS 'Creates the executions for the plan times of a schedule in [from_time, to_time) that the ledger lacks, and returns how many. Errors: 42704, 42501, 22023 (the clock cannot be read, a range that is empty or ends in the future), 54000 (over 100000 plan times), 53400 (a notify job, while the server''s queue of notifications is full).';
COMMENT ON FUNCTION sched.create_schedule IS 'Creates a schedule and returns its number. It fires for the first time at the first plan time after its creation; a warning says that there is none. Errors: 42710 (the name is taken), 42704 (unknown job), 22023 (clock, zone or another argument cannot be used), 22008 (an infinite time, a length of time over 1000 years), 22004 (NULL), 42501 (another role''s job).';
COMMENT ON FUNCTION sched.next_time IS 'The least plan time of a clock strictly after an instant; NULL when it never fires again. anchor is where an every clock''s grid begins. Errors: 22023 (clock or zone cannot be used), 22008 (infinite times).';
COMMENT ON FUNCTION sched.enqueue IS 'Puts an execution into its job''s queue and returns its id. The same (job, scope, plan time) named twice gives the same execution; a plan time that is not named is drawn so that nobody has it. A job that was never defined means queue default. Errors: 22023, 22004, 22008, 42501, 53400 (a notify job, while the server''s queue of notifications is full).';

-- Schedules that were dropped with all that they had pending (cancel_pending) while somebody had something of it in hand: a fire that was
-- not committed yet, a claim, a run. Nobody claims what comes of that, and dispatchers cancel it. Mostly empty, which claims know.
CREATE TABLE sched.schedule_dropped (
    schedule_id bigint      PRIMARY KEY,
    keys        uuid[]      NOT NULL,
    dropped_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    until_xid   bigint,
    retry_at    timestamptz NOT NULL DEFAULT 'epoch'
);
CREATE INDEX schedule_dropped_retry_at ON sched.schedule_dropped (retry_at);
COMMENT ON TABLE sched.schedule_dropped IS 'schedules dropped with cancel_pending of which somebody had something in hand: nobody may claim what comes of that';
COMMENT ON COLUMN sched.schedule_dropped.keys IS 'the scopes (sched_internal.scope_key) in which the ledger has its executions';
COMMENT ON COLUMN sched.schedule_dropped.until_xid IS 'transactions from this one on began after the drop was committed, and fire nothing of it';
CREATE OR REPLACE VIEW sched.execution WITH (security_barrier) AS
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time, e.queue, e.priority,
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
       l.stale_after,
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
-- What did not run, and what timers remember: from here on.
ALTER TABLE sched.schedule ADD COLUMN defined_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp() CHECK (pg_catalog.isfinite(defined_at)),
    ADD COLUMN previous_keys uuid[] NOT NULL DEFAULT '{}';
ALTER TABLE sched.schedule ALTER COLUMN defined_at TYPE timestamptz USING baseline_at;
COMMENT ON COLUMN sched.schedule.defined_at IS 'plan times after this instant are those of the row as it is; earlier ones those of sched.schedule_definition';
COMMENT ON COLUMN sched.schedule.previous_keys IS 'the scopes (sched_internal.scope_key) that its executions had before an edit, as long as the ledger has something to tell of them';

-- What said which plan times there were before an edit: without it nobody could say of a past plan time what became of it.
-- Each row is over when the next one begins, and with it every plan time of it that nobody had dispatched.
CREATE TABLE sched.schedule_definition (
    definition_id bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id   bigint      NOT NULL,
    valid_from    timestamptz NOT NULL,
    valid_to      timestamptz NOT NULL,
    clock         text        NOT NULL,
    time_zone     text        NOT NULL,
    starts_at     timestamptz,
    ends_at       timestamptz,
    enabled       boolean     NOT NULL,
    ownership     text        NOT NULL,
    settled       boolean     NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX schedule_definition_order ON sched.schedule_definition (schedule_id, valid_from);
CREATE INDEX schedule_definition_valid_to ON sched.schedule_definition (valid_to);
COMMENT ON TABLE sched.schedule_definition IS 'what a schedule was from valid_from (exclusive) to valid_to: the clock, zone, window, pause and ownership of past plan times';
COMMENT ON COLUMN sched.schedule_definition.settled IS 'a dispatcher has recorded in sched.skip what was not dispatched before it ended';

CREATE OR REPLACE FUNCTION sched_internal.schedule_before_update() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    at    timestamptz := clock_timestamp();
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
                                       OR (e.finished_at AT TIME ZONE 'UTC' >= clock_timestamp() AT TIME ZONE 'UTC' - current_setting('sched.history_retention', true)::interval)
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
COMMENT ON FUNCTION sched_internal.schedule_before_update() IS 'internal: raises the version, moves the baseline and keeps the past of an edited schedule';

-- What did not run, and why. Written in the transaction that moves the timer on, so that a crash loses neither or both; a
-- schedule that fires on time writes nothing here. Runs of skips are one row, which grows; no index covers what changes.
CREATE TABLE sched.skip (
    schedule_id bigint      NOT NULL,
    defined_at  timestamptz NOT NULL,
    plan_from   timestamptz NOT NULL,
    plan_to     timestamptz NOT NULL,
    count       bigint      NOT NULL,
    reason      text        NOT NULL CHECK (reason IN ('missed', 'overlap', 'window', 'paused', 'parked', 'replaced')),
    PRIMARY KEY (schedule_id, defined_at, plan_from)
) WITH (fillfactor = 70);
COMMENT ON TABLE sched.skip IS 'plan times that were passed over for good, neighbours with one reason in one row; read it through sched.skipped';
COMMENT ON COLUMN sched.skip.defined_at IS 'the definition whose plan times these are: defined_at of sched.schedule, valid_from of sched.schedule_definition';

-- What a timer remembers that neither the ledger nor the skips tell. So timers can be made anew (sched.rebuild).
CREATE TABLE sched.timer_state (
    schedule_id      bigint      PRIMARY KEY,
    buffered_plan    timestamptz,
    backlog_until    timestamptz,
    parked           boolean     NOT NULL DEFAULT false,
    external_through timestamptz,
    redefined_at     timestamptz
);
COMMENT ON TABLE sched.timer_state IS 'schedules of which a plan waits for a run to end (one that was buffered, or up to the last of a backlog that is run one at a time), or that are parked';
COMMENT ON COLUMN sched.timer_state.external_through IS 'a plan time that counts as fired because somebody else may have put it into the ledger';
COMMENT ON COLUMN sched.timer_state.redefined_at IS 'what was fired before this moment, an earlier definition fired while the edit that ended it was not committed: it says nothing of the present one''s plan times';

INSERT INTO sched.timer_state (schedule_id, buffered_plan, backlog_until, parked)
SELECT t.schedule_id, t.buffered_plan, CASE WHEN t.backlog_until > t.cursor_at THEN t.backlog_until END, t.parked
  FROM sched.timer t
 WHERE t.buffered_plan IS NOT NULL OR t.backlog_until > t.cursor_at OR t.parked;

CREATE FUNCTION sched.explain(
	"schedule_name" text,
	"from_time" timestamp with time zone,
	"to_time" timestamp with time zone
) RETURNS TABLE (
	"plan_time" timestamp with time zone, 
	"verdict" TEXT, 
	"execution_id" uuid, 
	"reason" TEXT 
) VOLATILE PARALLEL UNSAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'explain_wrapper';
CREATE FUNCTION sched.rebuild() RETURNS bigint STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'rebuild_wrapper';
CREATE FUNCTION sched_internal.skipped_so_far() RETURNS TABLE (
	"schedule_name" TEXT, 
	"plan_from" timestamp with time zone, 
	"plan_to" timestamp with time zone, 
	"count" bigint, 
	"reason" TEXT 
) STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'skipped_so_far_wrapper';
CREATE FUNCTION sched_internal.skip_parts(
	"clock" text,
	"time_zone" text,
	"anchor" timestamp with time zone,
	"starts_at" timestamp with time zone,
	"ends_at" timestamp with time zone,
	"valid_to" timestamp with time zone,
	"plan_from" timestamp with time zone,
	"plan_to" timestamp with time zone,
	"count" bigint,
	"own" timestamp with time zone[],
	"others" timestamp with time zone[]
) RETURNS TABLE (
	"plan_from" timestamp with time zone, 
	"plan_to" timestamp with time zone, 
	"count" bigint 
) STABLE PARALLEL SAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'skip_parts_wrapper';
CREATE FUNCTION sched_internal.next_open("schedule_name" text) RETURNS timestamp with time zone[]
    STABLE PARALLEL UNSAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'next_open_wrapper';
COMMENT ON FUNCTION sched.rebuild() IS 'Makes every timer anew from the schedules, the ledger and the skips, and returns how many are armed; fires nothing by itself. Warns of schedules that lie ahead of the clock. Dispatchers wait until the transaction ends. For superusers and the extension''s owner; 42501 for others.';
COMMENT ON FUNCTION sched.explain IS 'What became of each plan time of a schedule in [from_time, to_time), under the definition that held then: fired, skipped, waiting, due, planned, external or forgotten, with the execution and the reason. Errors: 42704, 42501, 22023 (an empty range), 22008 (infinite times), 54000 (over 100000 plan times).';
COMMENT ON FUNCTION sched_internal.skipped_so_far() IS 'internal: what paused and parked schedules have passed over, or keep waiting, up to now, and what an edit passes over that no dispatcher has applied yet; read it through sched.skipped.';
COMMENT ON FUNCTION sched_internal.skip_parts IS 'internal: what is left of a run of skips without the plan times that the ledger has, and without those after its definition''s end; read it through sched.skipped.';
COMMENT ON FUNCTION sched_internal.next_open IS 'internal: the first plan time of an armed schedule that the ledger lacks, and when it fires; read it through sched.schedules.';

CREATE OR REPLACE VIEW sched.schedules WITH (security_barrier) AS
SELECT s.schedule_name, s.job_name, s.clock, s.time_zone, s.enabled, s.ownership, state.state,
       next.at[1] AS next_plan_time, next.at[2] AS next_fire_at,
       t.last_plan_time, t.last_fired_at, COALESCE(t.error_count, 0) AS error_count,
       CASE WHEN r.owns THEN t.last_error END AS last_error
  FROM sched.schedule s
  LEFT JOIN sched.job j ON j.job_name = s.job_name
  LEFT JOIN sched.timer t ON t.schedule_id = s.schedule_id
 CROSS JOIN LATERAL (
       SELECT CASE WHEN t.parked AND t.version = s.version THEN 'parked'
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

-- What dispatchers passed over, but for what is in the ledger (a backfill, a client's claim in the schedule's scope, a fire of the definition
-- before an edit) and what lies after the definition's end (passed over while its edit was not committed). Few runs have any of it.
-- The test stands around the UNION: a view that is one itself is no barrier, the planner makes its parts those of the query.
CREATE VIEW sched.skipped WITH (security_barrier) AS
SELECT a.schedule_name, a.plan_from, a.plan_to, a.count, a.reason
  FROM (SELECT s.schedule_name, p.plan_from, p.plan_to, p.count, k.reason,
               pg_catalog.pg_has_role(
                   current_user,
                   COALESCE(j.owner, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched')),
                   'USAGE')
          FROM sched.skip k
          JOIN sched.schedule s ON s.schedule_id = k.schedule_id
          LEFT JOIN sched.job j ON j.job_name = s.job_name
          LEFT JOIN sched.schedule_definition d ON d.schedule_id = k.schedule_id AND d.valid_from = k.defined_at
         CROSS JOIN LATERAL (
               SELECT pg_catalog.array_agg(e.plan_time) FILTER (WHERE o.own) AS own,
                      pg_catalog.array_agg(e.plan_time) FILTER (WHERE NOT o.own) AS others
                 FROM sched.ledger e
                CROSS JOIN LATERAL (
                      SELECT e.schedule_id IS NOT DISTINCT FROM s.schedule_id AND e.origin IN ('schedule', 'backfill') AS own) AS o
                WHERE e.key = ANY (CASE WHEN s.previous_keys = '{}' THEN ARRAY[s.key] ELSE ARRAY(SELECT pg_catalog.unnest(s.previous_keys) UNION ALL SELECT s.key) END)
                  AND e.plan_time >= k.plan_from AND e.plan_time <= k.plan_to) AS e
         CROSS JOIN LATERAL (
               SELECT (e.own IS NOT NULL OR e.others IS NOT NULL OR d.valid_to < k.plan_to) IS TRUE AS cut OFFSET 0) AS c
         CROSS JOIN LATERAL (
               SELECT k.plan_from, k.plan_to, k.count WHERE NOT c.cut
                UNION ALL
               SELECT q.plan_from, q.plan_to, q.count
                 FROM sched_internal.skip_parts(
                          CASE WHEN k.defined_at = s.defined_at THEN s.clock ELSE d.clock END,
                          CASE WHEN k.defined_at = s.defined_at THEN s.time_zone ELSE d.time_zone END,
                          s.created_at,
                          CASE WHEN k.defined_at = s.defined_at THEN s.starts_at ELSE d.starts_at END,
                          CASE WHEN k.defined_at = s.defined_at THEN s.ends_at ELSE d.ends_at END,
                          d.valid_to, k.plan_from, k.plan_to, k.count, e.own, e.others) AS q
                WHERE c.cut) AS p
         -- The newest skip stays when retention has forgotten the definition that it is of, and with it what plan times there were.
         WHERE k.defined_at = s.defined_at OR d.valid_from IS NOT NULL
        UNION ALL
        SELECT o.schedule_name, o.plan_from, o.plan_to, o.count, o.reason, true
          FROM sched_internal.skipped_so_far() AS o) AS a (schedule_name, plan_from, plan_to, count, reason, owns)
 WHERE a.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
COMMENT ON VIEW sched.skipped IS 'plan times that did not run, and why: neighbours with one reason in one row, what is going on (paused, parked) included';

-- What pg_dump takes along: all that was said and all that became of it, so that a restored copy neither loses work nor runs again what
-- ran. Not timers and changes: they are made anew from the schedules, whose restored rows queue changes by themselves.
-- An owner whose role was dropped is a bare number, which in a copy may be the number of a stranger's role. So what such an owner left
-- stays behind, with all that hangs on it. The conditions look at the text that would be dumped (a name that begins with a digit is quoted):
-- the dump's snapshot may still have a role that is dropped while it runs.
SELECT pg_catalog.pg_extension_config_dump('sched.home', '');
SELECT pg_catalog.pg_extension_config_dump('sched.job', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule',
    'WHERE NOT EXISTS (SELECT FROM sched.job j WHERE j.job_name = schedule.job_name AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_schedule_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('sched.fence', '');
SELECT pg_catalog.pg_extension_config_dump('sched.ledger', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.ready', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.retry', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.lease', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.awaited',
    'WHERE NOT EXISTS (SELECT FROM sched.ledger e WHERE e.id = awaited.execution_id AND e.owner::text ~ ''^[0-9]'')
        AND NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = awaited.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_definition',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = schedule_definition.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_definition_definition_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_dropped', '');
SELECT pg_catalog.pg_extension_config_dump('sched.skip',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = skip.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.timer_state',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = timer_state.schedule_id AND j.owner::text ~ ''^[0-9]'')');

CREATE FUNCTION sched_internal.grantee(role oid, loses bool DEFAULT false) RETURNS text STABLE PARALLEL UNSAFE LANGUAGE c
    AS 'MODULE_PATHNAME', 'grantee_wrapper';
COMMENT ON FUNCTION sched_internal.grantee IS 'internal: the name of a role that gets rights or loses them';
CREATE OR REPLACE FUNCTION sched.grant_use(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.execution, sched.running, sched.failed, sched.history, sched.schedules, sched.skipped TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.define_job, sched.drop_job, sched.create_schedule, sched.create_schedules, sched.alter_schedule,'
        '  sched.fire_now, sched.backfill, sched.explain, sched_internal.skipped_so_far, sched_internal.skip_parts, sched_internal.next_open,'
        '  sched.drop_schedule, sched.pause, sched.resume, sched.dispatch_due, sched.try_claim, sched.claim,'
        '  sched.heartbeat, sched.finish_success, sched.finish_failure, sched.import_crontab, sched.next_time,'
        '  sched.preview, sched.validate, sched.enqueue, sched.enqueue_many, sched.finish_success_many, sched.assert_lease,'
        '  sched.cancel, sched.mark_stale_as_failed, sched.latest_plan, sched.due_plans, sched.attempts_since_success,'
        '  sched.is_home TO %1$s;', sched_internal.grantee(role));
END
$$;

CREATE OR REPLACE FUNCTION sched.grant_monitor(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.monitor, sched.execution, sched.running, sched.failed, sched.history, sched.schedules, sched.skipped TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.is_home, sched.explain, sched_internal.skipped_so_far, sched_internal.skip_parts, sched_internal.next_open TO %1$s;', sched_internal.grantee(role));
END
$$;

CREATE FUNCTION sched.grant_worker(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.home, sched.job, sched.schedule TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.schedule_change, sched.timer, sched.ledger, sched.ready, sched.retry TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.lease TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.awaited TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.schedule_definition, sched.schedule_dropped TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.skip, sched.timer_state TO %1$s;', sched_internal.grantee(role));
END
$$;
COMMENT ON FUNCTION sched.grant_worker IS 'Gives a role the rights that dispatchers need to work as it (setting sched.worker_role), and no others. For superusers and the extension''s owner; 42501 for others.';
CREATE OR REPLACE FUNCTION sched.revoke_all(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    EXECUTE format('REVOKE ALL ON SCHEMA sched, sched_internal FROM %1$s;'
        'REVOKE ALL ON ALL TABLES IN SCHEMA sched, sched_internal FROM %1$s;'
        'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_internal FROM %1$s;', sched_internal.grantee(role, true));
END
$$;
COMMENT ON FUNCTION sched.drop_schedule IS 'Drops a schedule; false where there was none. Its executions stay; with cancel_pending those that nobody runs are cancelled. Once it has committed nothing of it is claimable, also what others had in hand at that moment: a run may end, and is not tried again. Error: 42501 (another role''s).';
COMMENT ON FUNCTION sched.latest_plan IS 'The newest plan of a scope, of what the caller may act for, and whether a claim would take it over now; no row when there is none.';
COMMENT ON FUNCTION sched.due_plans IS 'The plan times of a clock that an application''s own tick should claim now, oldest first, given what the ledger holds of what the caller may act for; at most max_plans_per_tick (up to 10000). Errors as next_time.';
COMMENT ON FUNCTION sched.attempts_since_success IS 'Attempts of the plans of a scope after its newest SUCCESS, of what the caller may act for.';
COMMENT ON FUNCTION sched.define_job IS 'Creates or replaces a job: how its executions are queued, leased and retried. retry_backoff[i] is the wait after failed attempt i, the last entry repeats, empty means at once. Lengths of time have no months, days of 24 hours, and are at most 1000 years; run_timeout, shorter than stale_timeout, is for runners to keep to: only a lease that runs out ends a run. Errors: 22023 (a value that may not be), 22008, 22004 (NULL), 42501 (another role''s job).';
COMMENT ON FUNCTION sched.revoke_all IS 'Takes back all that sched.grant_use, sched.grant_monitor and sched.grant_worker gave to a role. For superusers and the extension''s owner; 42501 for others.';

-- What the columns of the views mean: psql's \d+ shows it, and docs/reference/views.md is made of it.
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
COMMENT ON COLUMN sched.execution.stale_after IS 'when the lease runs out; NULL unless it is RUNNING';
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
COMMENT ON COLUMN sched.running.stale_after IS 'when the lease runs out';
COMMENT ON COLUMN sched.running.time_to_stale IS 'how long that is from now; negative where it has run out';
COMMENT ON COLUMN sched.running.cancel_requested IS 'whether the next heartbeat answers cancel';
COMMENT ON COLUMN sched.running.progress IS 'what the last heartbeat told; NULL for monitors';
COMMENT ON COLUMN sched.running.schedule_name IS 'the schedule that made it';

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
        'SCHEMA sched_internal', 'TABLE sched.home', 'FUNCTION sched.adopt()', 'FUNCTION sched.is_home()',
        'FUNCTION sched_internal.grant_again()', 'FUNCTION sched_internal.table_is_new', 'FUNCTION sched_internal.table_changed()',
        'FUNCTION sched.enqueue_many', 'TABLE sched.schedule_definition', 'SEQUENCE sched.schedule_definition_definition_id_seq',
        'TABLE sched.skip', 'TABLE sched.timer_state', 'TABLE sched.schedule_dropped', 'TABLE sched.skipped',
        'FUNCTION sched.explain', 'FUNCTION sched.rebuild()', 'FUNCTION sched_internal.skipped_so_far()', 'FUNCTION sched_internal.skip_parts', 'FUNCTION sched_internal.next_open',
        'FUNCTION sched.grant_worker', 'FUNCTION sched_internal.grantee'
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
-- The dispatcher has waited for this.
SELECT sched_internal.wake_dispatcher();
