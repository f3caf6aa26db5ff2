-- The periodic-schedule table of ORIGINS.md, D, and the queue that its dispatcher writes to.
CREATE TABLE periodic (
    name        text        PRIMARY KEY,
    owned       boolean     NOT NULL,
    time_zone   text        NOT NULL,
    cron        text        NOT NULL,
    payload     jsonb       NOT NULL,
    next_run_at timestamptz NOT NULL,
    last_run_at timestamptz
);
CREATE INDEX periodic_due ON periodic (next_run_at) WHERE owned;
CREATE TABLE message (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue      text        NOT NULL,
    name       text        NOT NULL,
    payload    jsonb       NOT NULL,
    plan_time  timestamptz NOT NULL,
    priority   integer     NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX message_order ON message (queue, priority, id);
GRANT ALL ON periodic, message TO app;
