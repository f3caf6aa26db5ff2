-- The ledger: one row for each (job, scope, plan time). Its unique key is the exactly-once guarantee.
-- What is claimable and what is leased live in narrow tables of their own, so no index of the ledger covers anything that
-- changes: a run costs it one insert and one heap-only update, whatever its payload and however many heartbeats.
-- The key is a hash of (job_name, scope_kind, scope_id): the names may be 1,000 bytes each, a B-tree entry 2,704.
CREATE SEQUENCE sched.fence;
COMMENT ON SEQUENCE sched.fence IS 'fencing tokens: one for every lease ever given, rising for each key and over all of them';

CREATE TABLE sched.ledger (
    id                  uuid        NOT NULL DEFAULT sched_internal.uuid_v7(),
    key                 uuid        NOT NULL,
    job_name            text        NOT NULL,
    scope_kind          text        NOT NULL,
    scope_id            text        NOT NULL,
    plan_time           timestamptz NOT NULL,
    queue               text        NOT NULL,
    priority            integer     NOT NULL,
    payload             jsonb       NOT NULL,
    status              text        NOT NULL DEFAULT 'PENDING',
    attempt             integer     NOT NULL DEFAULT 0,
    max_attempts        integer     NOT NULL,
    allow_stale_reentry boolean     NOT NULL,
    awaited             boolean     NOT NULL DEFAULT false,
    origin              text        NOT NULL,
    owner               regrole     NOT NULL,
    schedule_id         bigint,
    schedule_name       text,
    created_at          timestamptz NOT NULL DEFAULT sched.now(),
    updated_at          timestamptz NOT NULL DEFAULT sched.now(),
    started_at          timestamptz,
    heartbeat_at        timestamptz,
    finished_at         timestamptz,
    next_retry_at       timestamptz,
    fence               bigint,
    lease_token         uuid,
    runner_id           text,
    rows_affected       bigint,
    error_code          text,
    error_msg           text,
    result              jsonb,
    progress            jsonb,
    run_at              timestamptz,
    CONSTRAINT ledger_pkey PRIMARY KEY (id),
    CONSTRAINT ledger_key UNIQUE (key, plan_time)
-- More than half of a page is left for the ends of its runs. Measured with claim(100) and finish_success_many: at 50 one end in five found
-- no room beside its row, went to another page and took two index entries along; with 40 none does, which takes a tenth off the time of
-- the pair and a seventh off its WAL, and the table is as long in the end.
) WITH (fillfactor = 40);
COMMENT ON TABLE sched.ledger IS 'one row for each (job, scope, plan time); read it through the view sched.execution';
COMMENT ON COLUMN sched.ledger.origin IS 'schedule, manual, backfill, enqueue or claim';
COMMENT ON COLUMN sched.ledger.status IS 'PENDING, SUCCESS, FAILED or CANCELLED: the state when no row of sched.lease exists; with one the execution is RUNNING';
COMMENT ON COLUMN sched.ledger.next_retry_at IS 'where it stands in sched.retry, or stood until that time: a retry, or PENDING until run_at';
COMMENT ON COLUMN sched.ledger.run_at IS 'when it is wanted to run, by who has enqueued or snoozed it; NULL = at once; infinity: it runs, and is not claimed again';
COMMENT ON COLUMN sched.ledger.awaited IS 'a schedule waits for the end of this run (row in sched.awaited)';

-- Claimable now, in the order of claiming.
CREATE TABLE sched.ready (
    queue        text        NOT NULL,
    priority     integer     NOT NULL,
    plan_time    timestamptz NOT NULL,
    execution_id uuid        NOT NULL,
    owner        regrole     NOT NULL
);
CREATE UNIQUE INDEX ready_order ON sched.ready (queue, priority DESC, plan_time, execution_id);
ALTER TABLE sched.ready REPLICA IDENTITY USING INDEX ready_order;
COMMENT ON TABLE sched.ready IS 'executions that can be claimed now';

-- What waits for a time: failed, and to be tried again later, or enqueued for later. Moved to sched.ready when due.
CREATE TABLE sched.retry (
    retry_at     timestamptz NOT NULL,
    execution_id uuid        NOT NULL,
    queue        text        NOT NULL,
    priority     integer     NOT NULL,
    plan_time    timestamptz NOT NULL,
    owner        regrole     NOT NULL,
    PRIMARY KEY (retry_at, execution_id)
);
COMMENT ON TABLE sched.retry IS 'executions that wait for a time: a retry, or the run_at that they were enqueued for';

-- The lease of a running execution. A heartbeat updates columns that no index covers: sweep_at, which the sweeper searches by,
-- is a lower bound of stale_after that only the sweeper moves forward.
-- Room for two more versions of each row: 100,000 heartbeats at full speed in 4 sessions on 1,000 rows let the table grow 1.9-fold
-- with a fillfactor of 50, 1.1-fold with 30, and a claim takes 1 or 2 % longer with 30. VACUUM keeps the pages at the end, which the next
-- claims would have to add again, and so no claim (on a standby no reader) meets the ACCESS EXCLUSIVE lock under which they are given
-- back. A claim took 3 % less with a VACUUM before each 16,000. The table stays as long as it is with all leases that were ever there at a
-- time; large progress, which is stored beside the rows, does not count for that.
CREATE TABLE sched.lease (
    execution_id  uuid        PRIMARY KEY,
    lease_token   uuid        NOT NULL,
    fence         bigint      NOT NULL,
    attempt       integer     NOT NULL,
    owner         regrole     NOT NULL,
    started_at    timestamptz NOT NULL,
    heartbeat_at  timestamptz NOT NULL,
    stale_after   timestamptz NOT NULL,
    sweep_at      timestamptz NOT NULL,
    stale_timeout interval    NOT NULL,
    runner_id     text        NOT NULL,
    progress      jsonb,
    cancel_requested boolean  NOT NULL DEFAULT false,
    own_transactions boolean,
    run_until     timestamptz
) WITH (fillfactor = 30, vacuum_truncate = off);
CREATE INDEX lease_sweep_at ON sched.lease (sweep_at);
COMMENT ON TABLE sched.lease IS 'who runs what, until when; a row here is what RUNNING means';
COMMENT ON COLUMN sched.lease.own_transactions IS 'what the run of an SQL job has done may be committed before its end; NULL for others';
COMMENT ON COLUMN sched.lease.run_until IS 'from then on heartbeats ask to stop; NULL without run_timeout';

-- Cancels of executions whose row another transaction had locked. A dispatcher carries them out when that transaction has ended. Two requests
-- for one execution are two rows, because a unique index would have one session wait for the other. Mostly empty, which claims know.
CREATE TABLE sched.cancel_request (
    request_id   uuid        PRIMARY KEY DEFAULT pg_catalog.gen_random_uuid(),
    execution_id uuid        NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT sched.now(),
    retry_at     timestamptz NOT NULL DEFAULT 'epoch',
    owner        regrole     NOT NULL DEFAULT 0
);
CREATE INDEX cancel_request_execution_id ON sched.cancel_request (execution_id);
CREATE INDEX cancel_request_turns ON sched.cancel_request ((owner::oid), retry_at);
CREATE INDEX cancel_request_retry_at ON sched.cancel_request (retry_at);
COMMENT ON TABLE sched.cancel_request IS 'executions to be cancelled whose row another transaction had locked: nobody may claim them, and heartbeats answer cancel';
COMMENT ON COLUMN sched.cancel_request.retry_at IS 'when a dispatcher tries again';
COMMENT ON COLUMN sched.cancel_request.owner IS 'the owner of the execution: owners take turns; 0 in a request of a release before 0.4.0';

-- Runs whose end some schedule waits for (rearm on_terminal, overlap skip or buffer_one), so that the others pay nothing.
CREATE TABLE sched.awaited (
    schedule_id  bigint NOT NULL,
    execution_id uuid   NOT NULL,
    PRIMARY KEY (schedule_id, execution_id)
);
COMMENT ON TABLE sched.awaited IS 'unfinished executions of schedules that care whether one is running';

-- Queues of which nothing is claimed, of all executions or of those of one owner. Mostly empty, and a claim does not open it then
-- (docs/internals/low-water-marks.md).
CREATE TABLE sched.paused_queue (
    queue     text        NOT NULL,
    paused_at timestamptz NOT NULL DEFAULT sched.now(),
    paused_by text        NOT NULL,
    owner     regrole,
    CONSTRAINT paused_queue_key UNIQUE NULLS NOT DISTINCT (queue, owner)
);
ALTER TABLE sched.paused_queue REPLICA IDENTITY FULL;
COMMENT ON TABLE sched.paused_queue IS 'queues of which nobody claims anything (sched.pause_queue)';
COMMENT ON COLUMN sched.paused_queue.paused_by IS 'the name that the role had which did it';
COMMENT ON COLUMN sched.paused_queue.owner IS 'whose executions are not claimed; NULL = all';

-- Roles that pause a queue for all, as superusers do.
CREATE TABLE sched.queue_grant (
    queue text    NOT NULL,
    role  regrole NOT NULL,
    PRIMARY KEY (queue, role)
);
COMMENT ON TABLE sched.queue_grant IS 'roles whose pause of a queue holds for all executions (sched.grant_queue)';
-- Scopes in which one execution of an owner waits at a time (enqueue by scope), with the last that was made there. A lock on a row keeps others of its scope
-- waiting. What waits in a scope that others have filled is looked for in the ledger, so a row that is missing loses nothing.
CREATE TABLE sched.unique_scope (
    key          uuid    NOT NULL,
    execution_id uuid    NOT NULL,
    owner        regrole NOT NULL DEFAULT 0,
    PRIMARY KEY (key, owner)
) WITH (fillfactor = 70);
COMMENT ON TABLE sched.unique_scope IS 'scopes into which executions are enqueued by scope: whoever does so has the row to the end of his transaction';
COMMENT ON COLUMN sched.unique_scope.key IS 'the hash of job and scope, as in sched.ledger';
COMMENT ON COLUMN sched.unique_scope.owner IS 'the owner of its executions: a job that was never defined has some of several roles, of which none waits for another';
COMMENT ON COLUMN sched.unique_scope.execution_id IS 'the last that was enqueued there by scope; goes with it';
