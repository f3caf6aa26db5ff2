-- Skips that go on after the end of their definition, which was cut, with that definition. $1 schedule_ids
SELECT p.schedule_id, p.past_id, p.since_at, p.until_at, p.clock, p.time_zone, p.starts_at, p.ends_at, p.enabled,
       p.ownership = 'owned' AS owned, p.settled, k.plan_from
  FROM sched.skip k
  JOIN sched.schedule_past p ON p.schedule_id = k.schedule_id AND p.since_at = k.since_at AND k.plan_to > p.until_at
 WHERE k.schedule_id = ANY ($1)
