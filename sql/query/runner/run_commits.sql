-- Says of a run that what it does may be committed before its end. $1 execution_id
UPDATE sched.lease l SET own_transactions = true WHERE l.execution_id = $1
