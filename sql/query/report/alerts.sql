-- The alerts of schedules whose names are like $4 that a role may read about: the open ones, and those that were resolved within a range; the newest
-- first. $1 role, $2 whether it reads everything, $3 how many at most, $4 pattern, $5 from, $6 to
SELECT a.kind, n.schedule_name, a.since, a.resolved_at, a.plan_time, a.message,
       (EXTRACT(epoch FROM CASE a.kind WHEN 'late' THEN s.max_lateness WHEN 'long' THEN s.max_duration WHEN 'no_success' THEN s.expect_success_within END)
        * 1000000)::bigint AS within,
       substring(a.message FROM '[(]([^()]*)[)]$') AS error_code,
       CASE WHEN r.owns THEN left(split_part(ltrim(a.detail, E' \n\r\t'), E'\n', 1), 200) END AS error_msg,
       CASE WHEN a.acknowledged_until > sched.now() THEN a.acknowledged_until END AS acknowledged_until
  FROM sched.alert a
  LEFT JOIN sched.schedule s ON s.schedule_id = a.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 CROSS JOIN LATERAL (SELECT pg_has_role($1, COALESCE(j.owner, a.owner), 'USAGE') AS owns) AS r
 CROSS JOIN LATERAL (SELECT COALESCE(s.schedule_name, a.schedule_name) AS schedule_name) AS n
 WHERE (a.resolved_at IS NULL OR a.resolved_at >= $5 AND a.resolved_at < $6) AND (r.owns OR $2) AND n.schedule_name LIKE $4
 ORDER BY a.alert_id DESC
 LIMIT $3
