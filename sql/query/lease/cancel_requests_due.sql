-- Requests that are to be carried out now, locked; not those that another transaction has in hand. $1 now, $2 limit
SELECT c.request_id, c.execution_id FROM sched.cancel_request c WHERE c.retry_at <= $1 ORDER BY c.retry_at LIMIT $2 FOR UPDATE SKIP LOCKED
