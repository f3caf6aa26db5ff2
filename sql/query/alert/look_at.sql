-- Has dispatchers look at schedules. $1 schedule_ids, $2 a run of each that is to be looked at (NULL = none), $3 whether that has failed for good
INSERT INTO sched.alert_watch (due_at, schedule_id, execution_id, failed)
SELECT '-infinity', d.schedule_id, d.execution_id, d.failed FROM unnest($1, $2, $3) AS d (schedule_id, execution_id, failed)
