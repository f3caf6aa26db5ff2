-- Runs of schedules: those in its scope after a plan time, the oldest first (the newest of all, where no look was before), and those that are
-- named. Each is one index probe. Another schedule may have the same job and scope: its runs are read past, of the newest up to 1000.
-- $1 schedule_ids, $2 keys, $3 after which plan time (NULL = the newest), $4 how many at most, $5 schedule_ids, $6 a run of each
SELECT r.schedule_id, e.id, e.plan_time, e.origin, e.status, e.attempt, e.finished_at, e.next_retry_at, e.run_at, e.error_code,
       left(e.error_msg, 1000) AS error_msg, l.started_at AS runs_since, r.is_next
  FROM (SELECT a.schedule_id, a.id, bool_or(a.is_next) AS is_next
          FROM (SELECT k.schedule_id, n.id, true AS is_next
                  FROM unnest($1, $2, $3, $4) AS k (schedule_id, key, after, most)
                 CROSS JOIN LATERAL (
                       (SELECT e.id
                          FROM sched.ledger e
                         WHERE e.key = k.key AND e.plan_time > k.after AND e.schedule_id = k.schedule_id
                         ORDER BY e.plan_time
                         LIMIT k.most)
                       UNION ALL
                       (SELECT d.id
                          FROM (SELECT e.id, e.plan_time, e.schedule_id
                                  FROM sched.ledger e
                                 WHERE e.key = k.key AND k.after IS NULL
                                 ORDER BY e.plan_time DESC
                                 LIMIT 1000) AS d
                         WHERE d.schedule_id = k.schedule_id
                         ORDER BY d.plan_time DESC
                         LIMIT k.most)) AS n
                UNION ALL
                SELECT u.schedule_id, u.id, false FROM unnest($5, $6) AS u (schedule_id, id)) AS a
         GROUP BY a.schedule_id, a.id) AS r
  JOIN sched.ledger e ON e.id = r.id AND e.schedule_id = r.schedule_id
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 ORDER BY r.schedule_id, e.plan_time
