-- Where an execution stands, and whose it is; as execution_by_key has it. $1 execution_id
SELECT e.status, e.next_retry_at, e.owner::oid AS owner,
       l.execution_id AS "lease.execution_id", l.stale_after AS "lease.stale_after", l.cancel_requested AS "lease.cancel_requested"
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 WHERE e.id = $1
