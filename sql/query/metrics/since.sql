-- Since when the first of these executions of each queue can be claimed. $1 execution_ids
SELECT e.queue, min(greatest(e.created_at, e.run_at, e.next_retry_at)) AS since FROM sched.ledger e WHERE e.id = ANY ($1) GROUP BY e.queue
