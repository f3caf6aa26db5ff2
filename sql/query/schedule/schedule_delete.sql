-- Deletes a schedule; the scopes that it has and had. $1 schedule_id
DELETE FROM sched.schedule s WHERE s.schedule_id = $1 RETURNING ARRAY(SELECT unnest(s.previous_keys) UNION ALL SELECT s.key) AS keys
