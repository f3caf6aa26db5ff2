-- Schedules that came from other schedulers: which row of theirs each one stands for, and how that was when it was last looked at.
CREATE TABLE sched.imported (
    source        text        NOT NULL,
    source_schema text        NOT NULL,
    source_id     text        NOT NULL,
    schedule_id   bigint      NOT NULL,
    fingerprint   text        NOT NULL,
    job_name      text        NOT NULL,
    imported_at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (source, source_schema, source_id)
);
CREATE UNIQUE INDEX imported_schedule ON sched.imported (schedule_id);
COMMENT ON TABLE sched.imported IS 'schedules that came from other schedulers (sched.import_from)';
COMMENT ON COLUMN sched.imported.source_id IS 'what their scheduler knows it by, as text';
COMMENT ON COLUMN sched.imported.fingerprint IS 'a hash of what their row said when it was imported; another one is an edit';
COMMENT ON COLUMN sched.imported.job_name IS 'the job that was made of it: the only one that a later import writes';
