-- The open alerts that a role may read about, the newest first. $1 role, $2 whether it reads everything, $3 how many at most
SELECT a.kind, COALESCE(s.schedule_name, a.schedule_name) AS schedule_name, a.since,
       CASE WHEN r.owns AND a.detail IS NOT NULL THEN a.message || ': ' || a.detail ELSE a.message END AS message,
       CASE WHEN a.acknowledged_until > clock_timestamp() THEN a.acknowledged_until END AS acknowledged_until
  FROM sched.alert a
  LEFT JOIN sched.schedule s ON s.schedule_id = a.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 CROSS JOIN LATERAL (SELECT pg_has_role($1, COALESCE(j.owner, a.owner), 'USAGE') AS owns) AS r
 WHERE a.resolved_at IS NULL AND (r.owns OR $2)
 ORDER BY a.alert_id DESC
 LIMIT $3
