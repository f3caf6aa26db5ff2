-- Schedules whose bucket leaves or comes back; the trigger gives those a new baseline. What another scheduler fires stays as it is.
-- $1 the buckets that are here, as ranges
UPDATE sched.schedule s
   SET ownership = CASE s.ownership WHEN 'owned' THEN 'elsewhere' ELSE 'owned' END
 WHERE s.ownership <> 'external'
   AND (s.ownership = 'owned') <> ($1::int4multirange @> sched.bucket(s.scope_kind, s.scope_id))
