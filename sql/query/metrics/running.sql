-- How many of these executions are of each queue. $1 execution_ids
SELECT e.queue, count(*) AS count FROM sched.ledger e WHERE e.id = ANY ($1) GROUP BY e.queue
