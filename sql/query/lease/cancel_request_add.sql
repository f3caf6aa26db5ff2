-- An execution is to be cancelled when the transaction that has locked it has ended. One request for it that is seen is enough. $1 execution_id
INSERT INTO sched.cancel_request (execution_id, owner)
SELECT e.id, e.owner FROM sched.ledger e WHERE e.id = $1 AND NOT EXISTS (SELECT FROM sched.cancel_request c WHERE c.execution_id = $1)
