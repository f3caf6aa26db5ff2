-- One batch of due timers: inserts the executions and moves the timers on, together. A schedule that was edited since it was
-- read does neither; its change is applied first. A plan time that the ledger already holds counts as fired. One that somebody is
-- just claiming, in a transaction that may stay open, is not waited for: its schedule comes again a moment later.
-- Every join goes to a table by its key: one list of the batch joined to another would cost the square of the batch.
-- $1 schedule_ids, $2 versions, $3 next plans, $4 fire times, $5 waiting, $6 buffered plans, $7 cursors, $8 backlog ends,
-- $9 last runs (NULL = none), $10 to $12 the runs: schedule_ids, versions, plan times, $13 whether each is awaited, $14 now,
-- $15 whether any of them is of kind notify or log
WITH runs AS MATERIALIZED (
    SELECT r.schedule_id, r.plan_time, r.awaited, s.schedule_name, s.job_name, s.scope_kind, s.scope_id, s.payload,
           sched.scope_key(s.job_name, s.scope_kind, s.scope_id) AS key, j.queue, j.priority, j.max_attempts,
           j.allow_stale_reentry, j.owner, j.kind, j.command, j.kind IN ('notify', 'log') AS done
      FROM unnest($10, $11, $12, $13) AS r (schedule_id, version, plan_time, awaited)
      JOIN sched.schedule s ON s.schedule_id = r.schedule_id AND s.version = r.version
      JOIN sched.job j ON j.job_name = s.job_name
), busy AS MATERIALIZED (
    SELECT DISTINCT r.schedule_id FROM runs r WHERE sched.is_being_claimed(r.key, r.plan_time)
), postponed AS (
    UPDATE sched.timer t
       SET fire_at = $14 + interval '100 milliseconds'
     WHERE t.schedule_id IN (SELECT b.schedule_id FROM busy b)
), fired AS (
    INSERT INTO sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts,
                              allow_stale_reentry, awaited, origin, owner, schedule_id, schedule_name,
                              status, attempt, started_at, finished_at, result)
    SELECT r.key, r.job_name, r.scope_kind, r.scope_id, r.plan_time, r.queue, r.priority, r.payload, r.max_attempts,
           r.allow_stale_reentry, r.awaited AND NOT r.done, 'schedule', r.owner, r.schedule_id, r.schedule_name,
           CASE WHEN r.done THEN 'SUCCESS' ELSE 'PENDING' END, r.done::integer, CASE WHEN r.done THEN $14 END,
           CASE WHEN r.done THEN $14 END, CASE WHEN r.done THEN '{}'::jsonb END
      FROM runs r
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
), decided AS MATERIALIZED (
    SELECT d.*
      FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
        AS d (schedule_id, version, next_plan_time, fire_at, waiting, buffered_plan, cursor_at, backlog_until, last_run)
      JOIN sched.schedule s ON s.schedule_id = d.schedule_id AND s.version = d.version
      JOIN sched.job j ON j.job_name = s.job_name
     WHERE d.schedule_id NOT IN (SELECT b.schedule_id FROM busy b)
), not_ours AS (
    -- No run of this batch will report its end, because somebody else held the plan or because it is done already: the
    -- schedule goes on at once.
    INSERT INTO sched.schedule_change (schedule_id, terminal_at)
    SELECT d.schedule_id, $14
      FROM decided d
     WHERE d.waiting AND d.last_run IS NOT NULL
       AND d.schedule_id NOT IN (SELECT f.schedule_id FROM fired f WHERE f.awaited)
), moved AS (
    UPDATE sched.timer t
       SET version = d.version, next_plan_time = d.next_plan_time, fire_at = d.fire_at, waiting = d.waiting,
           buffered_plan = d.buffered_plan, cursor_at = d.cursor_at, backlog_until = d.backlog_until,
           last_plan_time = COALESCE(d.last_run, t.last_plan_time),
           last_fired_at = CASE WHEN d.last_run IS NULL THEN t.last_fired_at ELSE $14 END,
           error_count = 0, last_error = NULL, parked = false
      FROM decided d
     WHERE t.schedule_id = d.schedule_id
)
SELECT count(*), array_agg(DISTINCT f.queue) FILTER (WHERE f.status = 'PENDING'),
       CASE WHEN $15 THEN (SELECT count(pg_notify(r.command, r.payload::text))
                             FROM fired n
                             JOIN runs r ON r.schedule_id = n.schedule_id AND r.plan_time = n.plan_time AND r.kind = 'notify') END,
       CASE WHEN $15 THEN (SELECT array_agg(format('%s at %s: %s', r.schedule_name, n.plan_time, r.payload) ORDER BY n.plan_time)
                             FROM fired n
                             JOIN runs r ON r.schedule_id = n.schedule_id AND r.plan_time = n.plan_time AND r.kind = 'log') END
  FROM fired f
