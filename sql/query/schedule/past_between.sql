-- The definitions that a schedule had between two instants, and those that are not settled yet, in the order in which they were written.
-- $1 schedule_id, $2 from, $3 to
SELECT p.schedule_id, p.past_id, p.since_at, p.until_at, p.clock, p.time_zone, p.starts_at, p.ends_at, p.enabled,
       p.ownership = 'owned' AS owned, p.settled
  FROM sched.schedule_past p
 WHERE p.schedule_id = $1 AND ((p.until_at >= $2 AND p.since_at < $3) OR NOT p.settled)
 ORDER BY p.past_id
