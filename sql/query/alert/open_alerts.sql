-- The alerts of these schedules that are open. $1 schedule_ids
SELECT a.schedule_id, a.kind, a.since, a.plan_time, a.execution_id
  FROM sched.alert a
 WHERE a.schedule_id = ANY ($1) AND a.resolved_at IS NULL
