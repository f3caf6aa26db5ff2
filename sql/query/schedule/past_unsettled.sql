-- The definitions that have ended and whose undispatched plan times nobody has recorded yet, in order. $1 schedule_ids
SELECT p.schedule_id, p.past_id, p.since_at, p.until_at, p.clock, p.time_zone, p.starts_at, p.ends_at, p.enabled,
       p.ownership = 'owned', p.settled
  FROM sched.schedule_past p
 WHERE p.schedule_id = ANY ($1) AND NOT p.settled
 ORDER BY p.schedule_id, p.since_at
