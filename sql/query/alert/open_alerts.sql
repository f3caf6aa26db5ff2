-- The alerts of these schedules that are open, and whether the schedule was paused (or another scheduler's) since. $1 schedule_ids
SELECT a.schedule_id, a.kind, a.since, a.plan_time, a.execution_id,
       EXISTS (SELECT
                 FROM sched.schedule_definition d
                WHERE d.schedule_id = a.schedule_id AND d.valid_from >= a.opened_at AND NOT (d.enabled AND d.ownership = 'owned')) AS was_silent
  FROM sched.alert a
 WHERE a.schedule_id = ANY ($1) AND a.resolved_at IS NULL
