-- A run that failed for good after it was to be cancelled has been cancelled. $1 execution_id, $2 now
UPDATE sched.ledger e
   SET status = 'CANCELLED', updated_at = $2
 WHERE e.id = $1 AND e.status = 'FAILED' AND e.next_retry_at IS NULL
