-- Skips that go on after the end of their definition, which was cut, with that definition. $1 schedule_ids
SELECT d.schedule_id, d.definition_id, d.valid_from, d.valid_to, d.clock, d.time_zone, d.starts_at, d.ends_at, d.enabled,
       d.ownership = 'owned' AS owned, d.settled, k.plan_from
  FROM sched.skip k
  JOIN sched.schedule_definition d ON d.schedule_id = k.schedule_id AND d.valid_from = k.defined_at AND k.plan_to > d.valid_to
 WHERE k.schedule_id = ANY ($1)
