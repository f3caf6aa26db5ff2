-- How many attempts an execution has had. $1 execution_id
SELECT e.attempt FROM sched.ledger e WHERE e.id = $1
