-- Whether the ledger has a plan of this scope. $1 key
SELECT 1 FROM sched.ledger e WHERE e.key = $1 LIMIT 1
