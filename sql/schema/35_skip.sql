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
COMMENT ON TABLE sched.timer_state IS
    'schedules of which a plan waits for a run to end (one that was buffered, or up to the last of a backlog that is run one at a time), or that are parked';
COMMENT ON COLUMN sched.timer_state.external_through IS
    'a plan time that counts as fired because somebody else may have put it into the ledger';
COMMENT ON COLUMN sched.timer_state.redefined_at IS
    'what was fired before this moment, an earlier definition fired while the edit that ended it was not committed: it says nothing of the present one''s plan times';
