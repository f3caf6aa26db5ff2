-- Those whose schedule somebody has dropped: they are new again. $1 source, $2 schema
DELETE FROM sched.imported i
 WHERE i.source = $1 AND i.source_schema = $2
   AND NOT EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_id = i.schedule_id)
