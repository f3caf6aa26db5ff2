-- What an application wrote. The dispatcher only reads this table, so an edit never waits for it.
CREATE TABLE sched.schedule (
    schedule_id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_name      text        NOT NULL UNIQUE,
    clock              text        NOT NULL,
    time_zone          text        NOT NULL,
    job_name           text        NOT NULL,
    payload            jsonb       NOT NULL,
    scope_kind         text        NOT NULL,
    scope_id           text        NOT NULL,
    catch_up           text        NOT NULL CHECK (catch_up IN ('latest_only', 'every_plan', 'skip_missed')),
    catch_up_window    interval,
    max_plans_per_tick integer     NOT NULL CHECK (max_plans_per_tick >= 1),
    rearm              text        NOT NULL CHECK (rearm IN ('on_dispatch', 'on_terminal')),
    overlap            text        NOT NULL CHECK (overlap IN ('allow', 'skip', 'buffer_one')),
    delay              interval    NOT NULL,
    jitter             interval    NOT NULL,
    starts_at          timestamptz,
    ends_at            timestamptz,
    ownership          text        NOT NULL CHECK (ownership IN ('owned', 'external', 'elsewhere')),
    enabled            boolean     NOT NULL,
    version            bigint      NOT NULL DEFAULT 1,
    created_at         timestamptz NOT NULL,
    baseline_at        timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    key                uuid        NOT NULL GENERATED ALWAYS AS (sched_internal.scope_key(job_name, scope_kind, scope_id)) STORED,
    defined_at         timestamptz NOT NULL DEFAULT sched.now() CHECK (pg_catalog.isfinite(defined_at)),
    previous_keys      uuid[]      NOT NULL DEFAULT '{}',
    max_lateness          interval,
    max_duration          interval,
    expect_success_within interval,
    alert_job             text,
    sql_pair              text,
    group_name            text,
    default_scope_id      text,
    CHECK (pg_catalog.isfinite(created_at) AND pg_catalog.isfinite(baseline_at))
);
-- drop_job asks whether a schedule still uses the job.
CREATE INDEX schedule_job_name ON sched.schedule (job_name);
CREATE INDEX schedule_sql_pair ON sched.schedule (sql_pair) WHERE sql_pair IS NOT NULL;
CREATE INDEX schedule_group_name ON sched.schedule (group_name) WHERE group_name IS NOT NULL;
CREATE INDEX schedule_alert_job ON sched.schedule (alert_job) WHERE alert_job IS NOT NULL;
-- What sched.health names: schedules of releases without the limit, if any.
CREATE INDEX schedule_long_payload ON sched.schedule (schedule_id) WHERE pg_catalog.octet_length(payload::text) > 1048576;
-- What sched.late looks through.
CREATE INDEX schedule_max_lateness ON sched.schedule (schedule_id) WHERE max_lateness IS NOT NULL;
COMMENT ON TABLE sched.schedule IS 'what applications scheduled; written through sched.create_schedule and its kin';
COMMENT ON COLUMN sched.schedule.key IS 'what the ledger has its executions by, with the plan time; computed once for each edit, not for each fire';
COMMENT ON COLUMN sched.schedule.version IS 'rises with every change; a timer made from an older one is no longer valid';
COMMENT ON COLUMN sched.schedule.baseline_at IS
    'only plan times after this instant fire: creating, resuming, taking over, a new clock, zone or window never fire by themselves';
COMMENT ON COLUMN sched.schedule.defined_at IS
    'plan times after this instant are those of the row as it is; earlier ones those of sched.schedule_definition';
COMMENT ON COLUMN sched.schedule.previous_keys IS 'the scopes (sched_internal.scope_key) that its executions had before an edit, as long as the ledger has something to tell of them';
COMMENT ON COLUMN sched.schedule.max_lateness IS 'an alert is opened where a run has not begun so long after its plan time';
COMMENT ON COLUMN sched.schedule.max_duration IS 'an alert is opened where a run goes on for longer';
COMMENT ON COLUMN sched.schedule.expect_success_within IS 'an alert is opened where no run has succeeded for so long';
COMMENT ON COLUMN sched.schedule.alert_job IS 'the job that gets an execution for each alert that opens';
COMMENT ON COLUMN sched.schedule.sql_pair IS 'the name by which schedule_sql finds the schedule and its job, whatever their names are now; NULL = never made or found by schedule_sql';
COMMENT ON COLUMN sched.schedule.group_name IS 'the group that declare_schedules keeps it in; NULL = none';
COMMENT ON COLUMN sched.schedule.default_scope_id IS 'in a group: the scope_id of a declaration that names none, which is the name that the schedule had when it was created';

-- Whose schedules declare_schedules keeps. A row is locked by a declaration to the end of its transaction.
CREATE TABLE sched.schedule_group (
    group_name  text        PRIMARY KEY,
    owner       regrole     NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT sched.now(),
    declared_at timestamptz
);
COMMENT ON TABLE sched.schedule_group IS 'groups of schedules that are declared as a whole (sched.declare_schedules)';
COMMENT ON COLUMN sched.schedule_group.owner IS 'the role that declared the group first; members of it may declare it';

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
COMMENT ON TABLE sched.schedule_definition IS
    'what a schedule was from valid_from (exclusive) to valid_to: the clock, zone, window, pause and ownership of past plan times';
COMMENT ON COLUMN sched.schedule_definition.settled IS 'a dispatcher has recorded in sched.skip what was not dispatched before it ended';

-- The queue of changes that no dispatcher has seen yet: work in proportion to changes, whatever the number of schedules.
CREATE TABLE sched.schedule_change (
    change_id   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id bigint      NOT NULL,
    terminal_at timestamptz,
    failures    integer     NOT NULL DEFAULT 0,
    retry_at    timestamptz
);
-- Whether somebody else has an earlier change of the same schedule in hand.
CREATE INDEX schedule_change_schedule_id ON sched.schedule_change (schedule_id);
-- What could not be applied, which is hardly ever anything: when it is tried again.
CREATE INDEX schedule_change_retry_at ON sched.schedule_change (retry_at) WHERE retry_at IS NOT NULL;
COMMENT ON TABLE sched.schedule_change IS 'schedules to be armed anew: an edit, or (terminal_at) the end of a run that they waited for';

-- Schedules that were dropped with all that they had pending (cancel_pending) while somebody had something of it in hand: a fire that was
-- not committed yet, a claim, a run. Nobody claims what comes of that, and dispatchers cancel it. Mostly empty, which claims know.
CREATE TABLE sched.schedule_dropped (
    schedule_id bigint      PRIMARY KEY,
    keys        uuid[]      NOT NULL,
    dropped_at  timestamptz NOT NULL DEFAULT sched.now(),
    until_xid   bigint,
    retry_at    timestamptz NOT NULL DEFAULT 'epoch'
);
CREATE INDEX schedule_dropped_retry_at ON sched.schedule_dropped (retry_at);
COMMENT ON TABLE sched.schedule_dropped IS 'schedules dropped with cancel_pending of which somebody had something in hand: nobody may claim what comes of that';
COMMENT ON COLUMN sched.schedule_dropped.keys IS 'the scopes (sched_internal.scope_key) in which the ledger has its executions';
COMMENT ON COLUMN sched.schedule_dropped.until_xid IS 'transactions from this one on began after the drop was committed, and fire nothing of it';

-- The rule of baselines stands in one place, so that no way of editing can forget it.
CREATE FUNCTION sched_internal.schedule_before_update() RETURNS trigger
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
COMMENT ON FUNCTION sched_internal.schedule_before_update() IS 'internal: raises the version, moves the baseline and keeps the past of an edited schedule';

-- That schedule_sql knows a schedule, or a group has it, is no change of it.
CREATE TRIGGER schedule_before_update BEFORE UPDATE ON sched.schedule
    FOR EACH ROW WHEN (NEW.sql_pair IS NOT DISTINCT FROM OLD.sql_pair AND NEW.group_name IS NOT DISTINCT FROM OLD.group_name) EXECUTE FUNCTION sched_internal.schedule_before_update();
ALTER TABLE sched.schedule ENABLE ALWAYS TRIGGER schedule_before_update;

CREATE FUNCTION sched_internal.schedule_changed() RETURNS trigger
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
COMMENT ON FUNCTION sched_internal.schedule_changed() IS 'internal: records a statement''s changed schedules and wakes the dispatcher at commit';

CREATE TRIGGER schedule_inserted AFTER INSERT ON sched.schedule REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION sched_internal.schedule_changed();
CREATE TRIGGER schedule_updated AFTER UPDATE ON sched.schedule REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION sched_internal.schedule_changed();
CREATE TRIGGER schedule_deleted AFTER DELETE ON sched.schedule REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION sched_internal.schedule_changed();
ALTER TABLE sched.schedule ENABLE ALWAYS TRIGGER schedule_inserted;
ALTER TABLE sched.schedule ENABLE ALWAYS TRIGGER schedule_updated;
ALTER TABLE sched.schedule ENABLE ALWAYS TRIGGER schedule_deleted;
