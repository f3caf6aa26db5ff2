-- Executions of a schedule that nobody runs are cancelled; those that somebody has in hand are left alone, and counted, together with runs
-- that could be tried again. They are found by what the ledger has them by, and where they wait by all that they are there by: what has ended
-- costs a look, and what else waits nothing. (As a list and not a join: of that the planner made a scan of all keys.) counted: store/counted.rs.
-- $1 schedule_id, $2 its scopes, $3 now, $4 whether runs that go on are told that they are the last ones
WITH open AS MATERIALIZED (
    SELECT e.id, e.queue, e.priority, e.plan_time, e.next_retry_at, e.max_attempts, e.run_at
      FROM sched.ledger e
     WHERE e.key = ANY ($2)
       AND e.schedule_id = $1
       AND (e.status = 'PENDING' OR (e.status = 'FAILED' AND e.next_retry_at IS NOT NULL))
), waiting AS MATERIALIZED (
    SELECT r.ctid AS place, r.execution_id
      FROM open o
      JOIN sched.ready r ON r.queue = o.queue AND r.priority = o.priority AND r.plan_time = o.plan_time AND r.execution_id = o.id
      JOIN sched.ledger e ON e.id = o.id
       FOR UPDATE OF r, e SKIP LOCKED
), postponed AS MATERIALIZED (
    SELECT r.ctid AS place, r.execution_id
      FROM open o
      JOIN sched.retry r ON r.retry_at = o.next_retry_at AND r.execution_id = o.id
      JOIN sched.ledger e ON e.id = o.id
       FOR UPDATE OF r, e SKIP LOCKED
), running AS MATERIALIZED (
    -- With the lock on its lease: who is just failing has read how many attempts there are.
    SELECT l.execution_id, l.attempt
      FROM open o
      JOIN sched.lease l ON l.execution_id = o.id
      JOIN sched.ledger e ON e.id = o.id
     -- Also on its last attempt, which may be given back (snooze).
     WHERE $4 AND (l.attempt < o.max_attempts OR o.run_at IS DISTINCT FROM 'infinity')
       FOR UPDATE OF l, e SKIP LOCKED
), taken AS (
    DELETE FROM sched.ready r WHERE r.ctid = ANY (ARRAY(SELECT w.place FROM waiting w)) RETURNING r.execution_id
), recalled AS (
    DELETE FROM sched.retry r WHERE r.ctid = ANY (ARRAY(SELECT p.place FROM postponed p)) RETURNING r.execution_id
), last_attempt AS (
    -- And who gives it back (snooze) is not given it again.
    UPDATE sched.ledger e SET max_attempts = r.attempt, run_at = 'infinity' FROM running r WHERE e.id = r.execution_id
), cancelled AS (
    UPDATE sched.ledger e
       SET status = 'CANCELLED', next_retry_at = NULL, finished_at = $3, updated_at = $3
     WHERE e.id = ANY (ARRAY(SELECT t.execution_id FROM taken t UNION ALL SELECT r.execution_id FROM recalled r))
    RETURNING e.job_name, e.queue, e.owner
)
SELECT count(*) AS in_hand,
       (SELECT count(*) FROM waiting) + (SELECT count(*) FROM postponed) + (SELECT count(*) FROM running) AS cancelled,
       (SELECT json_agg(n)::text
          FROM (SELECT c.job_name AS job, c.queue, c.owner::oid::bigint AS owner, count(*) AS cancelled
                  FROM cancelled c
                 GROUP BY c.job_name, c.queue, c.owner) AS n) AS counted
  FROM open o
 WHERE o.id NOT IN (SELECT w.execution_id FROM waiting w UNION ALL SELECT p.execution_id FROM postponed p UNION ALL SELECT r.execution_id FROM running r)
   -- What is in none of these has lost its row there (a partial restore), and nobody can claim it.
   AND ((SELECT true FROM sched.ready r
          WHERE r.queue = o.queue AND r.priority = o.priority AND r.plan_time = o.plan_time AND r.execution_id = o.id)
        OR (SELECT true FROM sched.retry r WHERE r.retry_at = o.next_retry_at AND r.execution_id = o.id)
        OR (SELECT true FROM sched.lease l WHERE l.execution_id = o.id AND (l.attempt < o.max_attempts OR o.run_at IS DISTINCT FROM 'infinity')))
