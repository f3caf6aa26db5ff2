-- $1 key, $2 plan_time
SELECT 1 FROM sched.ledger e WHERE e.key = $1 AND e.plan_time = $2
