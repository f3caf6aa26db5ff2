-- How many timers are due that nobody has fired, up to a limit, and when the next one is to fire. $1 now, $2 how many to count at most,
-- $3 no timer fires up to this time
SELECT (SELECT count(*)
          FROM (SELECT t.fire_at
                  FROM sched.timer t
                  JOIN sched.schedule s ON s.schedule_id = t.schedule_id AND s.version = t.version
                 WHERE t.fire_at > $3 AND t.fire_at <= $1
                 ORDER BY t.fire_at
                 LIMIT $2) AS d) AS due,
       (SELECT t.fire_at FROM sched.timer t WHERE t.fire_at > $3 ORDER BY t.fire_at LIMIT 1) AS next
