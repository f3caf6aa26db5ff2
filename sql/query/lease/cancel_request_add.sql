-- An execution is to be cancelled when the transaction that has it in hand has ended. $1 execution_id
INSERT INTO sched.cancel_request (execution_id) VALUES ($1)
