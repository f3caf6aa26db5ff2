-- Writes the timers of changed schedules and forgets the changes. A timer that another dispatcher is just creating is left
-- to it, and its change stays.
-- $1 schedule_ids, $2 versions, $3 next plans, $4 fire times, $5 waiting, $6 buffered plans, $7 cursors, $8 backlog ends,
-- $9 reasons for parking (NULL = not parked), $10 dropped schedules, $11 change_ids,
-- $12 whether the schedule's runs are awaited, $13 who owns the job (NULL = nobody)
WITH decided AS MATERIALIZED (
    SELECT *
      FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $12, $13)
        AS d (schedule_id, version, next_plan_time, fire_at, waiting, buffered_plan, cursor_at, backlog_until, reason, tracks_runs, owner)
), changed AS (
    UPDATE sched.timer t
       SET version = d.version, next_plan_time = d.next_plan_time, fire_at = d.fire_at, waiting = d.waiting,
           buffered_plan = d.buffered_plan, cursor_at = d.cursor_at, backlog_until = d.backlog_until,
           error_count = (d.reason IS NOT NULL)::integer, last_error = d.reason, parked = d.reason IS NOT NULL,
           tracks_runs = d.tracks_runs, owner = COALESCE(d.owner, 0)
      FROM decided d
     WHERE t.schedule_id = d.schedule_id AND t.version <= d.version
    RETURNING t.schedule_id
), added AS (
    INSERT INTO sched.timer (schedule_id, version, next_plan_time, fire_at, waiting, buffered_plan, cursor_at,
                             backlog_until, error_count, last_error, parked, tracks_runs, owner)
    SELECT d.schedule_id, d.version, d.next_plan_time, d.fire_at, d.waiting, d.buffered_plan, d.cursor_at,
           d.backlog_until, (d.reason IS NOT NULL)::integer, d.reason, d.reason IS NOT NULL, d.tracks_runs, COALESCE(d.owner, 0)
      FROM decided d
     WHERE d.schedule_id NOT IN (SELECT c.schedule_id FROM changed c)
     ORDER BY d.schedule_id
        ON CONFLICT (schedule_id) DO NOTHING
    RETURNING schedule_id
), dropped AS (
    DELETE FROM sched.timer t WHERE t.schedule_id = ANY ($10)
), gone AS MATERIALIZED (
    -- One that a runner's open transaction is just ending is left to it.
    SELECT a.schedule_id, a.execution_id FROM sched.awaited a WHERE a.schedule_id = ANY ($10) FOR UPDATE SKIP LOCKED
), forgotten AS (
    DELETE FROM sched.awaited a USING gone g WHERE a.schedule_id = g.schedule_id AND a.execution_id = g.execution_id
)
DELETE FROM sched.schedule_change c
 WHERE c.change_id = ANY ($11)
   AND (c.schedule_id = ANY ($10)
        OR c.schedule_id IN (SELECT n.schedule_id FROM changed n UNION ALL SELECT n.schedule_id FROM added n))
