-- Plan times of a schedule that are not decided: one that waits for a run to end, and the first that is to fire. Where it is parked because another
-- scheduler runs it again, that one may have run what waits. And from when on an interval counts. $1 schedule_id
SELECT CASE WHEN NOT t.parked THEN t.buffered_plan END AS buffered_plan, t.next_plan_time, greatest(t.cursor_at, s.baseline_at) AS counts_from
  FROM sched.schedule s
  LEFT JOIN sched.timer t ON t.schedule_id = s.schedule_id
 WHERE s.schedule_id = $1
