-- The queues that a role may know of although nothing waits in them: those of its jobs, and those that are paused for who may know all.
-- $1 how many at most of each, $2 role, $3 whether it reads everything
(SELECT DISTINCT j.queue FROM sched.job j WHERE $3 OR pg_has_role($2, j.owner, 'USAGE') ORDER BY j.queue LIMIT $1)
UNION
(SELECT p.queue FROM sched.paused_queue p WHERE $3 ORDER BY p.queue LIMIT $1)
