-- How work is run, leased and retried. Written by applications only (through define_job).
CREATE TABLE sched.job (
    job_name            text        PRIMARY KEY,
    kind                text        NOT NULL CHECK (kind IN ('pull', 'notify', 'log', 'sql')),
    command             text,
    queue               text        NOT NULL,
    max_attempts        integer     NOT NULL CHECK (max_attempts >= 1),
    retry_backoff       interval[]  NOT NULL,
    run_timeout         interval,
    stale_timeout       interval,
    allow_stale_reentry boolean     NOT NULL,
    priority            integer     NOT NULL,
    owner               regrole     NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT sched.now(),
    updated_at          timestamptz NOT NULL DEFAULT sched.now(),
    own_transactions    boolean     NOT NULL DEFAULT false,
    settings            jsonb       NOT NULL DEFAULT '{}',
    ready_queue         text        NOT NULL GENERATED ALWAYS AS (
        CASE WHEN kind = 'sql'
             THEN 'executions that the server runs itself, as the role with oid ' || pg_catalog.lpad(owner::oid::bigint::text, 10, '0') || ' ' || queue
             ELSE queue END) STORED,
    sql_pair            boolean     NOT NULL DEFAULT false
);
COMMENT ON TABLE sched.job IS 'how work is run, leased and retried; written through sched.define_job';
COMMENT ON COLUMN sched.job.stale_timeout IS 'lease length of a claim that names none; NULL = setting sched.stale_timeout';
COMMENT ON COLUMN sched.job.owner IS 'the role that defined the job; members of it may change, claim, finish and cancel';
COMMENT ON COLUMN sched.job.own_transactions IS 'of kind sql: each statement of the command is a transaction of its own';
COMMENT ON COLUMN sched.job.settings IS 'of kind sql: settings for a run, as an object of scalars';
COMMENT ON COLUMN sched.job.ready_queue IS 'where executions wait; those of kind sql in one for each owner and queue, whose name is longer than one that claim takes';
COMMENT ON COLUMN sched.job.sql_pair IS 'schedule_sql made the job, or found it with its schedule; what alter_job and drop_schedule change is put right by the next call';

-- A session remembers the jobs that it claims for, until somebody defines or drops one.
CREATE TRIGGER job_changed AFTER INSERT OR UPDATE OR DELETE ON sched.job
    FOR EACH ROW EXECUTE FUNCTION sched_internal.table_changed();
ALTER TABLE sched.job ENABLE ALWAYS TRIGGER job_changed;

-- Roles that may enqueue a job of another role. Asked only of those that may not act for its owner.
CREATE TABLE sched.enqueue_grant (
    job_name text    NOT NULL,
    role     regrole NOT NULL,
    PRIMARY KEY (job_name, role)
);
COMMENT ON TABLE sched.enqueue_grant IS 'roles that may enqueue a job of another role (sched.grant_enqueue)';
