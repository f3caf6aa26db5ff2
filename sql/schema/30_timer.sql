-- One row per schedule that a dispatcher has seen; derived from the schedule and its runs, written by dispatchers only.
CREATE TABLE sched.timer (
    schedule_id    bigint      PRIMARY KEY,
    version        bigint      NOT NULL,
    next_plan_time timestamptz,
    fire_at        timestamptz,
    waiting        boolean     NOT NULL DEFAULT false,
    buffered_plan  timestamptz,
    cursor_at      timestamptz,
    backlog_until  timestamptz,
    last_plan_time timestamptz,
    last_fired_at  timestamptz,
    error_count    integer     NOT NULL DEFAULT 0,
    last_error     text,
    parked         boolean     NOT NULL DEFAULT false,
    tracks_runs    boolean     NOT NULL DEFAULT false,
    owner          oid         NOT NULL DEFAULT 0,
    CHECK ((fire_at IS NULL) = (next_plan_time IS NULL)),
    CHECK (pg_catalog.isfinite(fire_at) AND pg_catalog.isfinite(next_plan_time))
) WITH (fillfactor = 70);
-- With the owner: where not all that is due fires at once, the owners take turns.
CREATE INDEX timer_fire_at ON sched.timer (fire_at, owner) WHERE fire_at IS NOT NULL;
-- Few rows, if any: what health asks for without reading all timers.
CREATE INDEX timer_troubled ON sched.timer (schedule_id) WHERE parked OR error_count > 0;
COMMENT ON TABLE sched.timer IS 'when each schedule fires next; derived state, written by dispatchers only';
COMMENT ON COLUMN sched.timer.version IS 'the version of the schedule that this row was made from';
COMMENT ON COLUMN sched.timer.cursor_at IS 'every plan time up to here is decided: it ran or was skipped';
COMMENT ON COLUMN sched.timer.waiting IS 'unarmed until a run ends (rearm on_terminal, overlap buffer_one)';
COMMENT ON COLUMN sched.timer.tracks_runs IS 'every unfinished run of the schedule is in sched.awaited';
COMMENT ON COLUMN sched.timer.owner IS 'who owned the job when a dispatcher last wrote this; owners take turns';
COMMENT ON COLUMN sched.timer.backlog_until IS 'every_plan with on_terminal: plans up to here were missed and are run one at a time';
