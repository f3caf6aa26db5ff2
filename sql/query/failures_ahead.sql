-- What has failed by a clock that was ahead is tried again now, where nobody else has it in hand. $1 now, $2 after which no rest that follows
-- a failure can end
WITH timers AS MATERIALIZED (
    SELECT t.schedule_id FROM sched.timer t WHERE t.error_count > 0 AND NOT t.parked AND t.fire_at > $2 FOR UPDATE SKIP LOCKED
), fires AS (
    UPDATE sched.timer t SET fire_at = $1 FROM timers f WHERE t.schedule_id = f.schedule_id
), changes AS MATERIALIZED (
    SELECT c.change_id FROM sched.schedule_change c WHERE c.retry_at > $2 FOR UPDATE SKIP LOCKED
)
UPDATE sched.schedule_change c SET retry_at = $1 FROM changes f WHERE c.change_id = f.change_id
