-- Runs of schedules: those in its scope after a plan time, the oldest first (the newest of all, where no look was before), and those that are
-- named. Each is one index probe. $1 schedule_ids, $2 keys, $3 after which plan time (NULL = the newest), $4 how many at most,
-- $5 schedule_ids, $6 a run of each
SELECT r.schedule_id, e.id, e.plan_time, e.origin, e.status, e.attempt, e.finished_at, e.next_retry_at, e.run_at, e.error_code,
       left(e.error_msg, 1000) AS error_msg, l.started_at AS runs_since
  FROM (SELECT k.schedule_id, n.id
          FROM unnest($1, $2, $3, $4) AS k (schedule_id, key, after, most)
         CROSS JOIN LATERAL (
               (SELECT e.id FROM sched.ledger e WHERE e.key = k.key AND e.plan_time > k.after ORDER BY e.plan_time LIMIT k.most)
               UNION ALL
               (SELECT e.id FROM sched.ledger e WHERE e.key = k.key AND k.after IS NULL ORDER BY e.plan_time DESC LIMIT k.most)) AS n
        UNION
        SELECT u.schedule_id, u.id FROM unnest($5, $6) AS u (schedule_id, id)) AS r
  JOIN sched.ledger e ON e.id = r.id
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 ORDER BY r.schedule_id, e.plan_time
