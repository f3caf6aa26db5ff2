-- Which plan times after $2 and up to $3 the ledger has in the scopes that these schedules have or had; whether a schedule put it there by
-- itself (under whichever of its clocks), and whether it fires none there any more. $1 schedule_ids, $2 after, $3 up to
SELECT a.schedule_id, e.plan_time, o.own, o.own OR e.key = s.key AS here
  FROM unnest($1, $2, $3) AS a (schedule_id, after, until)
  JOIN sched.schedule s ON s.schedule_id = a.schedule_id
 CROSS JOIN LATERAL (SELECT s.key UNION ALL SELECT unnest(s.previous_keys)) AS k (key)
  JOIN sched.ledger e ON e.key = k.key AND e.plan_time > a.after AND e.plan_time <= a.until
 CROSS JOIN LATERAL (SELECT e.schedule_id IS NOT DISTINCT FROM s.schedule_id AND e.origin IN ('schedule', 'backfill') AS own) AS o
 ORDER BY a.schedule_id, e.plan_time
