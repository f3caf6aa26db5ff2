-- The definitions that have ended and whose undispatched plan times nobody has recorded yet, and those that do not end before the present one
-- begins, because a clock was ahead when they were written; in the order in which they were. $1 schedule_ids
SELECT d.schedule_id, d.definition_id, d.valid_from, d.valid_to, d.clock, d.time_zone, d.starts_at, d.ends_at, d.enabled,
       d.ownership = 'owned' AS owned, d.settled
  FROM unnest($1) AS i (schedule_id)
  JOIN sched.schedule s ON s.schedule_id = i.schedule_id
  JOIN sched.schedule_definition d ON d.schedule_id = s.schedule_id AND (NOT d.settled OR d.valid_to > s.defined_at)
 ORDER BY d.schedule_id, d.definition_id
