-- Whether a pause of a queue by a role holds for all. $1 queue, $2 role
SELECT g.queue FROM sched.queue_grant g WHERE g.queue = $1 AND pg_has_role($2, g.role, 'USAGE') LIMIT 1
