-- The execution that a runner has begun since. $1 the greatest fence before
SELECT e.id, e.status FROM sched.ledger e WHERE e.fence > $1 AND e.runner_id LIKE 'sql/%' ORDER BY e.fence DESC LIMIT 1
