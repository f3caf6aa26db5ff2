-- Plan times of a schedule that are not decided: one that waits for a run to end, and the first that is to fire. Where it is parked because another
-- scheduler runs it again, that one may have run what waits. $1 schedule_id
SELECT CASE WHEN NOT t.parked THEN t.buffered_plan END AS buffered_plan, t.next_plan_time FROM sched.timer t WHERE t.schedule_id = $1
