-- Since when the first of these executions of each queue can be claimed; nobody is to claim what a dropped role has left. $1 execution_ids
SELECT e.queue, min(greatest(e.created_at, e.run_at, e.next_retry_at)) AS since
  FROM sched.ledger e
 WHERE e.id = ANY ($1) AND e.owner IN (SELECT o.oid FROM pg_roles o)
 GROUP BY e.queue
