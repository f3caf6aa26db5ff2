-- Has a group keep a schedule. $1 schedule_id, $2 group_name, $3 the scope_id of a declaration that names none
UPDATE sched.schedule s SET group_name = $2, default_scope_id = $3 WHERE s.schedule_id = $1 AND s.group_name IS DISTINCT FROM $2
