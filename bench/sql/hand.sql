-- A ledger as a good service writes it by hand (ORIGINS.md, A): one table, one unique key, a guarded UPDATE for everything.
CREATE SCHEMA hand;
CREATE TABLE hand.execution (
    id                  bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_name            text        NOT NULL,
    scope_kind          text        NOT NULL,
    scope_id            text        NOT NULL,
    plan_time           timestamptz NOT NULL,
    status              text        NOT NULL CHECK (status IN ('RUNNING', 'SUCCESS', 'FAILED')),
    attempt             integer     NOT NULL,
    max_attempts        integer     NOT NULL,
    allow_stale_reentry boolean     NOT NULL DEFAULT true,
    runner_id           text,
    lease_token         uuid,
    heartbeat_at        timestamptz,
    stale_after         timestamptz,
    started_at          timestamptz NOT NULL,
    finished_at         timestamptz,
    duration_ms         bigint,
    rows_affected       bigint,
    result              jsonb       NOT NULL DEFAULT '{}',
    error_code          text,
    error_msg           text,
    next_retry_at       timestamptz,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (job_name, scope_kind, scope_id, plan_time)
);
-- the sweep of stale leases needs it
CREATE INDEX execution_stale ON hand.execution (stale_after) WHERE status = 'RUNNING';
GRANT USAGE ON SCHEMA hand TO app;
GRANT SELECT, INSERT, UPDATE, DELETE ON hand.execution TO app;
