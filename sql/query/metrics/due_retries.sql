-- What is due in sched.retry of each queue, as far as a role may know of it; nobody is to claim what a dropped
-- role has left. $1 now, $2 how many to look at, $3 role, $4 whether it reads everything
SELECT r.queue, count(*) AS count, min(r.retry_at) FILTER (WHERE r.owner IN (SELECT o.oid FROM pg_roles o)) AS since
  FROM (SELECT a.queue, a.owner, a.retry_at FROM sched.retry a WHERE a.retry_at <= $1 ORDER BY a.retry_at LIMIT $2) AS r
 WHERE $4 OR pg_has_role($3, r.owner, 'USAGE')
 GROUP BY r.queue
