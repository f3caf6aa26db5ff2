-- One batch of due timers: inserts the executions and moves the timers on, together. A schedule that was edited since it was
-- read does neither; its change is applied first. A plan time that the ledger already holds counts as fired. One that somebody is
-- just claiming, in a transaction that may stay open, is not waited for: its schedule comes again a moment later.
-- $1 schedule_ids, $2 versions, $3 next plans, $4 fire times, $5 waiting, $6 buffered plans, $7 cursors, $8 backlog ends,
-- $9 whether runs are awaited, $10 + $11 the runs: schedule_ids and plan times, $12 now
WITH decided AS MATERIALIZED (
    SELECT d.*, s.schedule_name, s.job_name, s.scope_kind, s.scope_id, s.payload,
           j.queue, j.priority, j.max_attempts, j.allow_stale_reentry, j.owner, j.kind, j.command
      FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
        AS d (schedule_id, version, next_plan_time, fire_at, waiting, buffered_plan, cursor_at, backlog_until, awaited)
      JOIN sched.schedule s ON s.schedule_id = d.schedule_id AND s.version = d.version
      JOIN sched.job j ON j.job_name = s.job_name
), runs AS MATERIALIZED (
    SELECT r.schedule_id, r.plan_time, sched.scope_key(d.job_name, d.scope_kind, d.scope_id) AS key
      FROM unnest($10, $11) AS r (schedule_id, plan_time)
      JOIN decided d ON d.schedule_id = r.schedule_id
), busy AS MATERIALIZED (
    SELECT DISTINCT r.schedule_id FROM runs r WHERE sched.is_being_claimed(r.key, r.plan_time)
), postponed AS (
    UPDATE sched.timer t
       SET fire_at = $12 + interval '100 milliseconds'
     WHERE t.schedule_id IN (SELECT b.schedule_id FROM busy b)
), fired AS (
    INSERT INTO sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts,
                              allow_stale_reentry, awaited, origin, owner, schedule_id, schedule_name,
                              status, attempt, started_at, finished_at, result)
    SELECT r.key, d.job_name, d.scope_kind, d.scope_id, r.plan_time, d.queue, d.priority, d.payload, d.max_attempts,
           d.allow_stale_reentry, d.awaited AND NOT k.done, 'schedule', d.owner, d.schedule_id, d.schedule_name,
           CASE WHEN k.done THEN 'SUCCESS' ELSE 'PENDING' END, k.done::integer, CASE WHEN k.done THEN $12 END,
           CASE WHEN k.done THEN $12 END, CASE WHEN k.done THEN '{}'::jsonb END
      FROM runs r
      JOIN decided d ON d.schedule_id = r.schedule_id
     CROSS JOIN LATERAL (SELECT d.kind IN ('notify', 'log') AS done) AS k
     WHERE r.schedule_id NOT IN (SELECT b.schedule_id FROM busy b)
     ORDER BY r.plan_time
        ON CONFLICT (key, plan_time) DO NOTHING
    RETURNING id, queue, priority, plan_time, owner, schedule_id, awaited, status
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
    SELECT d.schedule_id, $12
      FROM decided d
     WHERE d.waiting
       AND d.schedule_id IN (SELECT r.schedule_id FROM runs r)
       AND d.schedule_id NOT IN (SELECT f.schedule_id FROM fired f WHERE f.awaited
                                 UNION ALL SELECT b.schedule_id FROM busy b)
), moved AS (
    UPDATE sched.timer t
       SET version = d.version, next_plan_time = d.next_plan_time, fire_at = d.fire_at, waiting = d.waiting,
           buffered_plan = d.buffered_plan, cursor_at = d.cursor_at, backlog_until = d.backlog_until,
           last_plan_time = COALESCE(l.plan_time, t.last_plan_time),
           last_fired_at = CASE WHEN l.plan_time IS NULL THEN t.last_fired_at ELSE $12 END,
           error_count = 0, last_error = NULL, parked = false
      FROM decided d
      LEFT JOIN (SELECT r.schedule_id, max(r.plan_time) AS plan_time FROM runs r GROUP BY r.schedule_id) l
             ON l.schedule_id = d.schedule_id
     WHERE t.schedule_id = d.schedule_id AND d.schedule_id NOT IN (SELECT b.schedule_id FROM busy b)
)
SELECT count(*), array_agg(DISTINCT f.queue) FILTER (WHERE f.status = 'PENDING'),
       (SELECT count(pg_notify(d.command, d.payload::text))
          FROM fired n
          JOIN decided d ON d.schedule_id = n.schedule_id AND d.kind = 'notify'),
       (SELECT array_agg(format('%s at %s: %s', d.schedule_name, n.plan_time, d.payload) ORDER BY n.plan_time)
          FROM fired n
          JOIN decided d ON d.schedule_id = n.schedule_id AND d.kind = 'log')
  FROM fired f
