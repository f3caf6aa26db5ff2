-- Where something was imported from. $1 source
SELECT DISTINCT i.source_schema FROM sched.imported i JOIN sched.schedule s ON s.schedule_id = i.schedule_id WHERE i.source = $1 ORDER BY 1
