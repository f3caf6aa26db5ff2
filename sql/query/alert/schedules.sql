-- What decides which alerts these schedules call for, but for their runs. $1 schedule_ids
SELECT i.schedule_id, s.schedule_name, s.version, s.enabled AND s.ownership = 'owned' AS fires, s.updated_at, s.max_lateness, s.max_duration,
       s.expect_success_within, s.alert_job, s.job_name, s.key, j.owner::oid AS owner,
       t.version = s.version AS is_applied, t.parked, t.error_count, t.last_error,
       CASE WHEN t.fire_at IS NOT NULL THEN t.next_plan_time END AS next_plan_time, t.waiting, t.buffered_plan,
       w.version AS seen_version, w.seen_plan, w.unsettled, w.last_success_at
  FROM unnest($1) AS i (schedule_id)
  LEFT JOIN sched.schedule s ON s.schedule_id = i.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
  LEFT JOIN sched.timer t ON t.schedule_id = i.schedule_id
  LEFT JOIN sched.alert_state w ON w.schedule_id = i.schedule_id
