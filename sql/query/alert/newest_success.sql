-- When the last of a schedule's newest runs succeeded, of $3 that are looked at. Another schedule may have the same job and scope: its runs are
-- read past, up to 1000 of both. $1 schedule_id, $2 key, $3 how many
SELECT max(n.finished_at) AS at
  FROM (SELECT d.status, d.finished_at
          FROM (SELECT e.plan_time, e.schedule_id, e.status, e.finished_at
                  FROM sched.ledger e
                 WHERE e.key = $2
                 ORDER BY e.plan_time DESC
                 LIMIT 1000) AS d
         WHERE d.schedule_id = $1
         ORDER BY d.plan_time DESC
         LIMIT $3) AS n
 WHERE n.status = 'SUCCESS'
