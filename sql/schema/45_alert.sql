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
