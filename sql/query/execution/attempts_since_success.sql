-- Attempts of the plans after the newest SUCCESS of a scope, among the executions that the caller may see: before its job was defined,
-- anybody may have put one there. $1 key, $2 caller
SELECT COALESCE(sum(COALESCE(l.attempt, e.attempt)), 0)::bigint AS attempts
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 WHERE e.key = $1 AND pg_has_role($2, e.owner, 'USAGE')
   AND e.plan_time > COALESCE((SELECT s.plan_time
                                 FROM sched.ledger s
                                WHERE s.key = $1 AND s.status = 'SUCCESS' AND pg_has_role($2, s.owner, 'USAGE')
                                ORDER BY s.plan_time DESC
                                LIMIT 1), '-infinity')
