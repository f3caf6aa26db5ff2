-- Where a schedule was taken over from, if it was. $1 schedule_id
SELECT i.source, i.source_id FROM sched.imported i WHERE i.schedule_id = $1 AND i.taken_over_at IS NOT NULL LIMIT 1
