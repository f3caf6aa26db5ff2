-- The definitions that a schedule had between two instants, and those that are not settled yet, in the order in which they were written.
-- $1 schedule_id, $2 from, $3 to
SELECT d.schedule_id, d.definition_id, d.valid_from, d.valid_to, d.clock, d.time_zone, d.starts_at, d.ends_at, d.enabled,
       d.ownership = 'owned' AS owned, d.settled
  FROM sched.schedule_definition d
 WHERE d.schedule_id = $1 AND ((d.valid_to >= $2 AND d.valid_from < $3) OR NOT d.settled)
 ORDER BY d.definition_id
