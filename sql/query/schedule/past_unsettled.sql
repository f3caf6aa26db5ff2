-- The definitions that have ended and whose undispatched plan times nobody has recorded yet, and those that do not end before the present one
-- begins, because a clock was ahead when they were written; in the order in which they were. $1 schedule_ids
SELECT p.schedule_id, p.past_id, p.since_at, p.until_at, p.clock, p.time_zone, p.starts_at, p.ends_at, p.enabled,
       p.ownership = 'owned' AS owned, p.settled
  FROM unnest($1) AS i (schedule_id)
  JOIN sched.schedule s ON s.schedule_id = i.schedule_id
  JOIN sched.schedule_past p ON p.schedule_id = s.schedule_id AND (NOT p.settled OR p.until_at > s.since_at)
 ORDER BY p.schedule_id, p.past_id
