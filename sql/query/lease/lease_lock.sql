-- Locks a lease to the end of the transaction. $1 execution_id, $2 lease_token
SELECT l.owner::oid AS owner FROM sched.lease l WHERE l.execution_id = $1 AND l.lease_token = $2 FOR UPDATE
