-- Plan times of a schedule that are not decided: one that waits for a run to end, and the first that is to fire. $1 schedule_id
SELECT t.buffered_plan, t.next_plan_time FROM sched.timer t WHERE t.schedule_id = $1
