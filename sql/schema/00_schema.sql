-- A plain CREATE SCHEMA on purpose: a schema of this name that somebody planted before us must make CREATE EXTENSION
-- fail, or its owner could own what we put into it.
CREATE SCHEMA sched;
COMMENT ON SCHEMA sched IS 'scheduler: clocks, schedules, leases and the ledger of executions';
