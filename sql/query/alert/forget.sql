-- Schedules that ask for no alerts any more, and have none that is open. $1 schedule_ids
WITH gone AS (
    DELETE FROM sched.alert_state s WHERE s.schedule_id = ANY ($1) RETURNING s.schedule_id, s.due_at
)
DELETE FROM sched.alert_watch w
 USING gone g
 WHERE w.due_at = g.due_at AND w.schedule_id = g.schedule_id AND w.due_at > '-infinity'
