-- By which name schedule_sql finds a schedule from now on. $1 schedule_id, $2 the name of the pair (NULL = by none)
UPDATE sched.schedule s SET sql_pair = $2 WHERE s.schedule_id = $1 AND s.sql_pair IS DISTINCT FROM $2
