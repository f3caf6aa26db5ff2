-- From 0.1.0. What is new stands here in the words of sql/schema and of the generated script (tools/release-sql.sh diff shows them); a test
-- compares the result with a new extension. ARCHITECTURE.md, "Updates", says how to add to it.
\echo Use "ALTER EXTENSION scheduler UPDATE" to load this file. \quit

-- To the end of the transaction. What is named without a schema is Postgres' own.
SET LOCAL search_path = pg_catalog, pg_temp;

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

-- What the ledger has a schedule's executions by; and changes that could not be applied.
ALTER TABLE sched.schedule ADD COLUMN key uuid NOT NULL GENERATED ALWAYS AS (sched.scope_key(job_name, scope_kind, scope_id)) STORED;
COMMENT ON COLUMN sched.schedule.key IS 'what the ledger has its executions by, with the plan time; computed once for each edit, not for each fire';
ALTER TABLE sched.schedule_change ADD COLUMN failures integer NOT NULL DEFAULT 0, ADD COLUMN retry_at timestamptz;
CREATE INDEX schedule_change_schedule_id ON sched.schedule_change (schedule_id);
CREATE INDEX schedule_change_retry_at ON sched.schedule_change (retry_at) WHERE retry_at IS NOT NULL;
DROP FUNCTION sched.is_being_claimed;

CREATE FUNCTION sched.adopt() RETURNS bigint
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'adopt_wrapper';
CREATE FUNCTION sched.is_home() RETURNS bool
STRICT STABLE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'is_home_wrapper';
CREATE FUNCTION sched.grant_again() RETURNS void
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_again_wrapper';
COMMENT ON FUNCTION sched.adopt() IS
'Lets a copy (a restored dump, a database made from a template, a cluster after pg_upgrade) fire and hand out what is in it; returns how many schedules begin anew. Only plan times after this moment fire. For superusers and the extension''s owner; 42501 for others.';
COMMENT ON FUNCTION sched.is_home() IS
'False in a copy that nobody has adopted: dispatch_due, claim and try_claim raise 55000 there and the worker waits.';
COMMENT ON FUNCTION sched.grant_again() IS 'internal: at the end of an update, gives users and monitors the rights on what it has added';

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
COMMENT ON FUNCTION sched.enqueue_many IS
'Puts one execution for each payload into the job''s queue and returns their ids in that order. plan_times and scope_ids, where given, pair with payloads by position; the same (job, scope, plan time) twice gives the same execution. Errors: 22023 (unequal lengths, NULL elements, a name), 22004, 22008, 42501, 40001 while another transaction enqueues the same.';

CREATE OR REPLACE VIEW sched.schedules WITH (security_barrier) AS
SELECT s.schedule_name, s.job_name, s.clock, s.time_zone, s.enabled, s.ownership, state.state,
       CASE WHEN state.state IN ('armed', 'failing') THEN t.next_plan_time END AS next_plan_time,
       CASE WHEN state.state IN ('armed', 'failing') THEN t.fire_at END AS next_fire_at,
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
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));

-- What pg_dump takes along: all that was said and all that became of it, so that a restored copy neither loses work nor runs again what
-- ran. Not timers and changes: they are made anew from the schedules, whose restored rows queue changes by themselves.
SELECT pg_catalog.pg_extension_config_dump('sched.home', '');
SELECT pg_catalog.pg_extension_config_dump('sched.job', '');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule', '');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_schedule_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('sched.fence', '');
SELECT pg_catalog.pg_extension_config_dump('sched.ledger', '');
SELECT pg_catalog.pg_extension_config_dump('sched.ready', '');
SELECT pg_catalog.pg_extension_config_dump('sched.retry', '');
SELECT pg_catalog.pg_extension_config_dump('sched.lease', '');
SELECT pg_catalog.pg_extension_config_dump('sched.awaited', '');

CREATE OR REPLACE FUNCTION sched.grant_use(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF role IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role must not be NULL', HINT = 'Pass the name of a role.';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.execution, sched.running, sched.failed, sched.history, sched.schedules TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.define_job, sched.drop_job, sched.create_schedule, sched.create_schedules, sched.alter_schedule,'
        '  sched.fire_now, sched.backfill,'
        '  sched.drop_schedule, sched.pause, sched.resume, sched.dispatch_due, sched.try_claim, sched.claim,'
        '  sched.heartbeat, sched.finish_success, sched.finish_failure, sched.import_crontab, sched.next_time,'
        '  sched.preview, sched.validate, sched.enqueue, sched.enqueue_many, sched.finish_success_many, sched.assert_lease,'
        '  sched.cancel, sched.mark_stale_as_failed, sched.latest_plan, sched.due_plans, sched.attempts_since_success,'
        '  sched.is_home TO %1$s;', role);
END
$$;

CREATE OR REPLACE FUNCTION sched.grant_monitor(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF role IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role must not be NULL', HINT = 'Pass the name of a role.';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.monitor, sched.execution, sched.running, sched.failed, sched.history, sched.schedules TO %1$s;'
        'GRANT EXECUTE ON FUNCTION sched.is_home TO %1$s;', role);
END
$$;

CREATE FUNCTION sched.grant_worker(role regrole) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF role IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role must not be NULL', HINT = 'Pass the name of a role.';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA sched TO %1$s;'
        'GRANT SELECT ON sched.home, sched.job, sched.schedule TO %1$s;'
        'GRANT SELECT, INSERT, UPDATE, DELETE ON sched.schedule_change, sched.timer, sched.ledger, sched.retry TO %1$s;'
        'GRANT SELECT, INSERT ON sched.ready TO %1$s;'
        'GRANT SELECT, UPDATE, DELETE ON sched.lease TO %1$s;'
        'GRANT SELECT, INSERT, DELETE ON sched.awaited TO %1$s;', role);
END
$$;
COMMENT ON FUNCTION sched.grant_worker IS
'Gives a role the rights that dispatchers need to work as it (setting sched.worker_role), and no others. For superusers and the extension''s owner; 42501 for others.';
COMMENT ON FUNCTION sched.revoke_all IS
'Takes back all that sched.grant_use, sched.grant_monitor and sched.grant_worker gave to a role. For superusers and the extension''s owner; 42501 for others.';

-- New objects belong to nobody but the extension's owner: not to PUBLIC, and not to those whom ALTER DEFAULT PRIVILEGES has given
-- something. Each of them is named here, by its kind and name.
DO $$
DECLARE
    object  text;
    grantee text;
BEGIN
    FOREACH object IN ARRAY ARRAY[
        'TABLE sched.home',
        'FUNCTION sched.adopt()',
        'FUNCTION sched.is_home()',
        'FUNCTION sched.grant_again()',
        'FUNCTION sched.enqueue_many',
        'FUNCTION sched.grant_worker'
    ] LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM PUBLIC', object);
        FOR grantee IN
            SELECT DISTINCT a.grantee::pg_catalog.regrole::text
              FROM pg_catalog.pg_default_acl AS d, pg_catalog.aclexplode(d.defaclacl) AS a
             WHERE a.grantee NOT IN (0, d.defaclrole)
        LOOP
            EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s CASCADE', object, grantee);
        END LOOP;
    END LOOP;
END
$$;
-- Users and monitors get the rights on what is new.
SELECT sched.grant_again();
-- The dispatcher has waited for this.
SELECT sched.wake_dispatcher();
