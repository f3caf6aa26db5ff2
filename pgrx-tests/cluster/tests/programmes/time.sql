-- Time walks: every time that is stored moves into the past. Words in braces are those of pgrx-tests/support/tables.rs. `world.shifted` says how far it has.
CREATE TABLE world (began timestamptz NOT NULL, shifted interval NOT NULL);
INSERT INTO world VALUES (clock_timestamp(), '0');

-- Seconds of the world's own time.
CREATE FUNCTION world_time() RETURNS double precision LANGUAGE sql AS
$$ SELECT extract(epoch FROM clock_timestamp() - began + shifted) FROM world $$;

CREATE PROCEDURE walk_to(second double precision) LANGUAGE plpgsql AS
$$
DECLARE
    leap interval := make_interval(secs => second - world_time());
    aside constant interval := '36525 days';
    last_change bigint;
    last_definition bigint;
BEGIN
    ASSERT leap > '0', format('the world is already at %s, not before %s', world_time(), second);
    SELECT COALESCE(max(change_id), 0) INTO last_change FROM sched.schedule_change;
    SELECT COALESCE(max(definition_id), 0) INTO last_definition FROM sched.schedule_definition;
    CREATE TEMP TABLE kept ON COMMIT DROP AS
        SELECT schedule_id, created_at - leap AS created_at, baseline_at - leap AS baseline_at, defined_at - leap AS defined_at FROM sched.schedule;
    UPDATE sched.schedule SET starts_at = starts_at - leap, ends_at = ends_at - leap;
    UPDATE sched.schedule s SET created_at = k.created_at, baseline_at = k.baseline_at, defined_at = k.defined_at
      FROM kept k WHERE k.schedule_id = s.schedule_id;
    DELETE FROM sched.schedule_definition WHERE definition_id > last_definition;
    DELETE FROM sched.schedule_change WHERE change_id > last_change;
    UPDATE sched.schedule_change SET terminal_at = terminal_at - leap;
    UPDATE sched.timer_state SET buffered_plan = buffered_plan - leap, backlog_until = backlog_until - leap, external_through = external_through - leap,
           redefined_at = redefined_at - leap;
    -- Keys of time by way of where no other row is.
    UPDATE sched.schedule_definition SET valid_from = valid_from - aside, valid_to = valid_to - aside;
    UPDATE sched.schedule_definition SET valid_from = valid_from + aside - leap, valid_to = valid_to + aside - leap, starts_at = starts_at - leap, ends_at = ends_at - leap;
    UPDATE sched.skip SET defined_at = defined_at - aside, plan_from = plan_from - aside;
    UPDATE sched.skip SET defined_at = defined_at + aside - leap, plan_from = plan_from + aside - leap, plan_to = plan_to - leap;
    UPDATE sched.ledger SET plan_time = plan_time - aside;
    UPDATE sched.ledger SET plan_time = plan_time + aside - leap, created_at = created_at - leap, started_at = started_at - leap,
           heartbeat_at = heartbeat_at - leap, finished_at = finished_at - leap, next_retry_at = next_retry_at - leap;
    {times_pass leap};
    PERFORM * FROM ({HEADS_ARE_NEW}) AS marks;
    UPDATE world SET shifted = shifted + leap;
END
$$;

-- Ends a schedule's run of a plan time, which is given in seconds after the creation, in one of the ways in which a run ends.
CREATE FUNCTION end_run(name text, plan double precision, how text) RETURNS void LANGUAGE plpgsql AS
$$
DECLARE
    run record;
    lease record;
BEGIN
    SELECT e.* INTO STRICT run
      FROM sched.execution e JOIN sched.schedule s USING (schedule_name)
     WHERE s.schedule_name = name AND e.origin = 'schedule' AND e.plan_time = s.created_at + make_interval(secs => plan);
    IF how = 'cancel' THEN
        ASSERT sched.cancel(run.id);
        RETURN;
    END IF;
    SELECT * INTO lease FROM sched.try_claim(run.job_name, run.plan_time, run.scope_kind, run.scope_id);
    ASSERT lease.outcome IN ('won', 'stole'), lease.outcome;
    IF how = 'success' THEN
        PERFORM sched.finish_success(lease.execution_id, lease.lease_token);
    ELSE
        PERFORM sched.finish_failure(lease.execution_id, lease.lease_token, terminal => how = 'failure');
    END IF;
END
$$;

-- An edit that has just been written was made earlier, in a transaction that was open ever since: what it says of the time is what it would
-- have said then, in seconds after the creation. Only edits of the definition say something of it.
CREATE FUNCTION made_at(name text, second double precision) RETURNS void LANGUAGE plpgsql AS
$$
DECLARE
    edited sched.schedule;
    made timestamptz;
BEGIN
    SELECT * INTO STRICT edited FROM sched.schedule WHERE schedule_name = name;
    IF edited.defined_at = edited.updated_at THEN
        made := edited.created_at + make_interval(secs => second);
        UPDATE sched.schedule_definition SET valid_to = made WHERE schedule_id = edited.schedule_id AND valid_to = edited.defined_at;
        UPDATE sched.schedule
           SET defined_at = made, baseline_at = CASE WHEN baseline_at = defined_at THEN made ELSE baseline_at END
         WHERE schedule_id = edited.schedule_id;
    END IF;
END
$$;
