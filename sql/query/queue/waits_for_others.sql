-- A row where executions wait in a queue, all of them of owners for whom a role may not act. $1 queue, $2 role
SELECT 1
 WHERE EXISTS (SELECT FROM sched.ready r WHERE r.queue = $1)
   AND NOT EXISTS (SELECT FROM sched.ready r WHERE r.queue = $1 AND pg_has_role($2, r.owner, 'USAGE'))
