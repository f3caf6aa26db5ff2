-- When the last of a scope's newest runs succeeded, of $2 that are looked at. $1 key, $2 how many
SELECT max(n.finished_at) AS at
  FROM (SELECT e.status, e.finished_at FROM sched.ledger e WHERE e.key = $1 ORDER BY e.plan_time DESC LIMIT $2) AS n
 WHERE n.status = 'SUCCESS'
