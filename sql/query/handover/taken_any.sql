-- Whether something is still taken over from there. $1 source, $2 schema
SELECT FROM sched.imported i JOIN sched.schedule s ON s.schedule_id = i.schedule_id WHERE i.source = $1 AND i.source_schema = $2 AND i.taken_over_at IS NOT NULL LIMIT 1
