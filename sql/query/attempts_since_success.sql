-- Attempts of the plans after the newest SUCCESS of a scope. $1 key
SELECT COALESCE(sum(COALESCE(l.attempt, e.attempt)), 0)::bigint
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 WHERE e.key = $1
   AND e.plan_time > COALESCE((SELECT s.plan_time
                                 FROM sched.ledger s
                                WHERE s.key = $1 AND s.status = 'SUCCESS'
                                ORDER BY s.plan_time DESC
                                LIMIT 1), '-infinity')
