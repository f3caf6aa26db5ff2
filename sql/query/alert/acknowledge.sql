-- $1 alert_id, $2 until when (NULL = no longer)
UPDATE sched.alert a SET acknowledged_until = $2 WHERE a.alert_id = $1
