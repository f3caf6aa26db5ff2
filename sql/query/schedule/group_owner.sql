-- $1 group_name
SELECT g.owner::oid AS owner FROM sched.schedule_group g WHERE g.group_name = $1
