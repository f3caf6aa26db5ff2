-- What pgmq.create('bench') of pgmq 1.5 makes; its functions run the statements of queue/pgmq-*.sql.
CREATE SCHEMA pgmq;
CREATE TABLE pgmq.q_bench (
    msg_id      bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    read_ct     int         DEFAULT 0 NOT NULL,
    enqueued_at timestamptz DEFAULT now() NOT NULL,
    vt          timestamptz NOT NULL,
    message     jsonb
);
CREATE INDEX q_bench_vt_idx ON pgmq.q_bench (vt ASC);
CREATE TABLE pgmq.a_bench (
    msg_id      bigint      PRIMARY KEY,
    read_ct     int         DEFAULT 0 NOT NULL,
    enqueued_at timestamptz DEFAULT now() NOT NULL,
    archived_at timestamptz DEFAULT now() NOT NULL,
    vt          timestamptz NOT NULL,
    message     jsonb
);
CREATE INDEX archived_at_idx_bench ON pgmq.a_bench (archived_at);
GRANT USAGE ON SCHEMA pgmq TO app;
GRANT ALL ON ALL TABLES IN SCHEMA pgmq TO app;
