-- Where something was imported from. $1 source
SELECT DISTINCT i.source_schema FROM sched.imported i WHERE i.source = $1 ORDER BY 1
