-- Keeps dispatchers from firing a schedule until the transaction ends, and waits for none that is just at it. $1 schedule_id
SELECT 1 FROM sched.timer t WHERE t.schedule_id = $1 FOR UPDATE SKIP LOCKED
