-- What was imported, of these schedules (NULL = of all): from where, whether it is fired here, and what it is now. $1 source (NULL = all), $2 names
SELECT i.source, i.source_schema, i.source_id, i.fingerprint, i.taken_over_at IS NOT NULL AS taken, COALESCE(i.was_enabled, false) AS was_enabled,
       s.schedule_id, s.schedule_name, s.clock, s.time_zone, s.created_at, s.enabled, s.ownership, j.owner::oid AS owner
  FROM sched.imported i
  JOIN sched.schedule s ON s.schedule_id = i.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 WHERE ($1 IS NULL OR i.source = $1) AND ($2 IS NULL OR s.schedule_name = ANY ($2))
 ORDER BY i.source, i.source_schema, s.schedule_name
