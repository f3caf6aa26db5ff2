-- Of each owner some of the timers that are due, the latest or the earliest; of $4 that are looked at, so that a backlog, however long, is no long look.
-- $1 due after, $2 due at or before, $3 how many of each owner, $4 how many to look at, $5 whether the latest
WITH seen AS MATERIALIZED (
    (SELECT t.schedule_id, t.owner, row_number() OVER (ORDER BY t.fire_at DESC) AS place
       FROM sched.timer t
      WHERE $5 AND t.fire_at > $1 AND t.fire_at <= $2
      ORDER BY t.fire_at DESC
      LIMIT $4)
    UNION ALL
    (SELECT t.schedule_id, t.owner, row_number() OVER (ORDER BY t.fire_at) AS place
       FROM sched.timer t
      WHERE NOT $5 AND t.fire_at > $1 AND t.fire_at <= $2
      ORDER BY t.fire_at
      LIMIT $4)
)
SELECT o.schedule_id, o.owner
  FROM (SELECT s.schedule_id, s.owner, s.place, row_number() OVER (PARTITION BY s.owner ORDER BY s.place) AS turn FROM seen s) AS o
 WHERE o.turn <= $3
 ORDER BY o.place
