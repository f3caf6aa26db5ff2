-- Claims one execution of a queue, does its work and says how it went; prints nothing when nothing was left to claim.
-- Replace the part between the two lines of dashes.  `worker.sh` runs this again and again:
--
--     psql -X -q -f worker.sql -v queue=default
--
-- A psql has one session and cannot send heartbeats while a statement runs: the job's stale_timeout must be longer than its
-- longest statement takes.
\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on
\if :{?queue}
\else
    \set queue default
\endif

-- The lease is committed at once, so that everyone sees who has it. LEFT JOIN: \gset wants one row, also when nothing is claimed.
SELECT c.*, c.execution_id IS NOT NULL AS claimed
  FROM (VALUES (1)) AS one
  LEFT JOIN sched.claim(queue => :'queue', max_claims => 1) AS c ON true
\gset
\if :claimed
\else
    \quit
\endif

-- Between two statements of long work: still alive, and has anybody asked us to stop? ('ok' or 'cancel'; an error: the lease is lost)
SELECT sched.heartbeat(:'execution_id', :'lease_token', progress => '{"step": "starting"}') = 'cancel' AS cancelled
\gset
\if :cancelled
    SELECT sched.finish_failure(:'execution_id', :'lease_token', 'cancelled', 'stopped before it began') \g /dev/null
    \echo :job_name cancelled
    \quit
\endif

-- The work and finish_success are one transaction: a worker that lost its lease cannot commit.
\set ON_ERROR_STOP off
BEGIN;
-- YOUR WORK: one statement, for example a CALL ------------------------------------------------------------------------------
-- A line of a crontab is not run, this only says what it asks for.
SELECT format('%s planned for %s: %s', :'job_name', :'plan_time',
              COALESCE('would run: ' || (p ->> 'command'), p ->> 'message', 'nothing to do'))
  FROM CAST(:'payload' AS jsonb) AS p;
-- ---------------------------------------------------------------------------------------------------------------------------
\if :ERROR
\else
    SELECT sched.finish_success(:'execution_id', :'lease_token') \g /dev/null
\endif
\set failed :ERROR
COMMIT; -- undoes all of it when something failed
\if :failed
    \echo :job_name failed: :LAST_ERROR_MESSAGE
    -- "lease lost" once more when that was the reason
    SELECT sched.finish_failure(:'execution_id', :'lease_token', :'LAST_ERROR_SQLSTATE', :'LAST_ERROR_MESSAGE') \g /dev/null
\else
    \echo :job_name finished
\endif
