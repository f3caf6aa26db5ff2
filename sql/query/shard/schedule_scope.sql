-- $1 schedule_name
SELECT s.scope_kind, s.scope_id FROM sched.schedule s WHERE s.schedule_name = $1
