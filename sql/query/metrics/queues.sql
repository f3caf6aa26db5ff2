-- The queues that a role may know of although nothing waits in them: those of its jobs, and those that are paused for who may know all.
-- $1 how many jobs at most, $2 role, $3 whether it reads everything
SELECT j.queue
  FROM (SELECT a.queue, a.owner FROM sched.job a ORDER BY a.job_name LIMIT $1) AS j
 WHERE $3 OR pg_has_role($2, j.owner, 'USAGE')
UNION
SELECT p.queue FROM sched.paused_queue p WHERE $3
