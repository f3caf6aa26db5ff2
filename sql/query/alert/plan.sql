-- Looks that failed, for later. $1 when, $2 schedule_ids, $3 a run of each (NULL = none), $4 whether that has failed for good
INSERT INTO sched.alert_watch (due_at, schedule_id, execution_id, failed)
SELECT $1, d.schedule_id, d.execution_id, d.failed FROM unnest($2, $3, $4) AS d (schedule_id, execution_id, failed)
