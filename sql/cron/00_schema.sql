-- The API of pg_cron 1.6 on top of sched. The parts of this folder, one after the other, are the install script of scheduler_cron.
-- Whoever has USAGE on the schema cron may schedule, and needs no right in sched: so what changes something runs as the owner of this
-- extension, for the role that calls. Of cron_internal nobody else can reach but `call`, into which calls are inserted.
--
-- Bodies are read when they run: each function pins how strings are read, or a client's standard_conforming_strings would say so.
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
BEGIN
    -- (The real one has a table. sql/pg_cron is its name alone.)
    IF EXISTS (SELECT
                 FROM pg_catalog.pg_extension e
                 JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = e.oid AND d.deptype = 'e'
                WHERE e.extname = 'pg_cron') THEN
        RAISE EXCEPTION 'pg_cron is created in this database'
            USING ERRCODE = 'duplicate_object',
                  HINT = 'Both have the schema cron. Take its jobs over with sched.import_from(''pg_cron''), and then DROP EXTENSION pg_cron.';
    END IF;
    IF pg_catalog.to_regprocedure('sched_internal.alter_sql_job(text, text)') IS NULL THEN
        RAISE EXCEPTION 'the extension scheduler is too old for scheduler_cron'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run ALTER EXTENSION scheduler UPDATE.';
    END IF;
END
$$;

-- A plain CREATE SCHEMA: one that somebody else has planted must make it fail.
CREATE SCHEMA cron;
CREATE SCHEMA cron_internal;
COMMENT ON SCHEMA cron IS 'the functions and views of pg_cron, on top of scheduler; USAGE is the right to schedule';
COMMENT ON SCHEMA cron_internal IS 'internal: what only the functions and views of the schema cron use';

CREATE SEQUENCE cron.jobid_seq;
COMMENT ON SEQUENCE cron.jobid_seq IS 'draws jobid';

-- What pg_cron's table has and sched has not. Whether there is still a schedule, whose it is, what it runs and whether it is paused is
-- said by sched alone, so that both ways of changing it agree, and rights are asked of nobody else.
CREATE TABLE cron_internal.entry (
    jobid       bigint      PRIMARY KEY,
    schedule_id bigint,
    key         uuid,
    jobname     text,
    owner       regrole     NOT NULL,
    schedule    text        NOT NULL,
    clock       text        NOT NULL,
    command     text        NOT NULL,
    nodename    text        NOT NULL,
    nodeport    integer     NOT NULL,
    removed_at  timestamptz
);
CREATE UNIQUE INDEX jobname_username_uniq ON cron_internal.entry (jobname, owner) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX entry_schedule ON cron_internal.entry (schedule_id) WHERE removed_at IS NULL;
CREATE INDEX entry_removed_at ON cron_internal.entry (removed_at) WHERE removed_at IS NOT NULL;
COMMENT ON TABLE cron_internal.entry IS 'the rows of cron.job; those with removed_at tell of their runs as long as the ledger has some';
COMMENT ON COLUMN cron_internal.entry.schedule_id IS 'the row of sched.schedule; where there is none any more, somebody has dropped it there';
COMMENT ON COLUMN cron_internal.entry.key IS 'what the ledger has its runs by, with schedule_id';
COMMENT ON COLUMN cron_internal.entry.schedule IS 'as it was said';
COMMENT ON COLUMN cron_internal.entry.clock IS 'what that was made to for sched';
COMMENT ON COLUMN cron_internal.entry.owner IS 'whose it was when we last wrote the row: a name is there once for each; whose it is says sched.job';
COMMENT ON COLUMN cron_internal.entry.command IS 'what that owner had it run: for those who may read it when it is removed';

-- The ledger keeps what its guarantees rest on. What somebody deletes from cron.job_run_details is not shown any more.
CREATE TABLE cron_internal.deleted_run (
    runid      bigint      NOT NULL,
    owner      oid         NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT sched.now(),
    PRIMARY KEY (runid, owner)
);
CREATE INDEX deleted_run_deleted_at ON cron_internal.deleted_run (deleted_at);
COMMENT ON COLUMN cron_internal.deleted_run.owner IS 'of which role''s runs it says so; 0 = of all, which only a superuser has said';
COMMENT ON TABLE cron_internal.deleted_run IS 'runs that were deleted from cron.job_run_details, until the ledger has forgotten them too';

SELECT pg_catalog.pg_extension_config_dump('cron.jobid_seq', '');
-- As sched dumps its jobs: an owner whose role was dropped may be a stranger in the copy.
SELECT pg_catalog.pg_extension_config_dump('cron_internal.entry', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('cron_internal.deleted_run', '');
