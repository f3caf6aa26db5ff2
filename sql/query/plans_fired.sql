-- Which plan times after $2 and up to $3 these schedules fired, in the scopes that they have or had. $1 schedule_ids, $2 after, $3 up to
SELECT a.schedule_id, e.plan_time
  FROM unnest($1, $2, $3) AS a (schedule_id, after, until)
  JOIN sched.schedule s ON s.schedule_id = a.schedule_id
 CROSS JOIN LATERAL (SELECT s.key UNION ALL SELECT unnest(s.former_keys)) AS k (key)
  JOIN sched.ledger e ON e.key = k.key AND e.plan_time > a.after AND e.plan_time <= a.until
 WHERE e.schedule_id = a.schedule_id AND e.origin = 'schedule'
 ORDER BY a.schedule_id, e.plan_time
