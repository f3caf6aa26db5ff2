-- One batch of due timers: inserts the executions and moves the timers on, together. A schedule that was edited since it was
-- read does neither; its change is applied first. The caller has looked that no run is in the ledger or about to be; a run that
-- gets there in the meantime fails the batch, which then looks again. (ON CONFLICT would look once more for each run, and
-- write a record of its own for it.)
-- Every join goes to a table by its key, and once: one list of the batch joined to another would cost the square of the batch.
-- $1 schedule_ids, $2 versions, $3 next plans, $4 fire times, $5 waiting, $6 buffered plans, $7 cursors, $8 backlog ends,
-- $9 last runs (NULL = none), $10 whether the row moves the timer (each schedule has one such row; the others are more runs of
-- it), $11 the run to insert (NULL = none), $12 its id, $13 whether it is awaited, $14 now, $15 how many characters of a payload a log takes
-- The first row is about all of them: how many were inserted, the queues in which something became claimable, how much was notified,
-- the first change that was written.
-- The others are what is to be logged, a row for each schedule. counted: store/counted.rs.
WITH due AS MATERIALIZED (
    SELECT d.*, s.schedule_name, s.job_name, s.scope_kind, s.scope_id, s.payload, s.key, j.ready_queue AS queue, j.priority,
           j.max_attempts, j.allow_stale_reentry, j.owner, j.kind IN ('notify', 'log') AS done
      FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
        AS d (schedule_id, version, next_plan_time, fire_at, waiting, buffered_plan, cursor_at, backlog_until, last_run,
              moves, plan_time, id, awaited)
      JOIN sched.schedule s ON s.schedule_id = d.schedule_id AND s.version = d.version
      JOIN sched.job j ON j.job_name = s.job_name
), fired AS (
    INSERT INTO sched.ledger (id, key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload,
                              max_attempts, allow_stale_reentry, awaited, origin, owner, schedule_id, schedule_name,
                              status, attempt, started_at, finished_at, result)
    SELECT d.id, d.key, d.job_name, d.scope_kind, d.scope_id, d.plan_time, d.queue, d.priority, d.payload, d.max_attempts,
           d.allow_stale_reentry, d.awaited AND NOT d.done, 'schedule', d.owner, d.schedule_id, d.schedule_name,
           CASE WHEN d.done THEN 'SUCCESS' ELSE 'PENDING' END, d.done::integer, CASE WHEN d.done THEN $14 END,
           CASE WHEN d.done THEN $14 END, CASE WHEN d.done THEN '{}'::jsonb END
      FROM due d
     WHERE d.plan_time IS NOT NULL
    RETURNING id, job_name, queue, priority, plan_time, owner, schedule_id, awaited, status
), claimable AS (
    INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
    SELECT f.queue, f.priority, f.plan_time, f.id, f.owner FROM fired f WHERE f.status = 'PENDING'
), remembered AS (
    INSERT INTO sched.awaited (schedule_id, execution_id)
    SELECT f.schedule_id, f.id FROM fired f WHERE f.awaited
), not_ours AS (
    -- No run of this batch will report its end, because somebody else held the plan or because it is done already: the
    -- schedule goes on at once.
    INSERT INTO sched.schedule_change (schedule_id, terminal_at)
    SELECT d.schedule_id, $14
      FROM due d
     WHERE d.moves AND d.waiting AND d.last_run IS NOT NULL
       AND d.schedule_id NOT IN (SELECT f.schedule_id FROM fired f WHERE f.awaited)
    RETURNING change_id
), moved AS (
    UPDATE sched.timer t
       SET version = d.version, next_plan_time = d.next_plan_time, fire_at = d.fire_at, waiting = d.waiting,
           buffered_plan = d.buffered_plan, cursor_at = d.cursor_at, backlog_until = d.backlog_until,
           last_plan_time = COALESCE(d.last_run, t.last_plan_time),
           last_fired_at = CASE WHEN d.last_run IS NULL THEN t.last_fired_at ELSE $14 END,
           error_count = 0, last_error = NULL, parked = false, owner = d.owner
      FROM due d
     WHERE t.schedule_id = d.schedule_id AND d.moves
), told AS (
    -- All runs of a schedule say the same: its payload is read once, however many there are, and of equal notifications a transaction
    -- sends one.
    SELECT s.schedule_name, s.payload, j.kind, j.command, j.owner::oid::bigint AS owner, f.plan_times
      FROM (SELECT n.schedule_id, array_agg(n.plan_time) AS plan_times FROM fired n WHERE n.status = 'SUCCESS' GROUP BY n.schedule_id) AS f
      JOIN sched.schedule s ON s.schedule_id = f.schedule_id
      JOIN sched.job j ON j.job_name = s.job_name
     WHERE (SELECT bool_or(d.done) FROM due d)
)
SELECT count(*) AS count, array_agg(DISTINCT f.queue) FILTER (WHERE f.status = 'PENDING') AS queues,
       (SELECT CASE WHEN count(pg_notify(t.command, t.payload::text)) > 0
                    THEN sum(32 + octet_length(t.command) + octet_length(t.payload::text)) END
          FROM told t WHERE t.kind = 'notify') AS notified,
       NULL AS log_name, NULL AS log_payload, NULL AS log_plan_times, NULL::bigint AS log_owner, (SELECT min(n.change_id) FROM not_ours n) AS first_change,
       (SELECT json_agg(c)::text
          FROM (SELECT n.job_name AS job, n.queue, n.owner::oid::bigint AS owner, count(*) AS fired,
                       count(*) FILTER (WHERE n.status = 'SUCCESS') AS success,
                       -- (What is intended is no lateness. Jitter is at most this much.)
                       array_agg(greatest((EXTRACT(epoch FROM $14 - n.plan_time - COALESCE((SELECT s.delay + s.jitter FROM sched.schedule s WHERE s.schedule_id = n.schedule_id), '0'))
                                           * 1000000)::bigint, 0)) FILTER (WHERE n.status = 'SUCCESS') AS late
                  FROM fired n
                 GROUP BY n.job_name, n.queue, n.owner) AS c) AS counted
  FROM fired f
UNION ALL
SELECT NULL, NULL, NULL, t.schedule_name, left(t.payload::text, $15), t.plan_times, t.owner, NULL, NULL
  FROM told t
 WHERE t.kind = 'log'
