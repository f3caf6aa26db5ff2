-- $1 the buckets that are here, as ranges
SELECT s.schedule_id
  FROM sched.schedule s
 WHERE s.ownership = 'elsewhere' OR (s.ownership = 'external' AND NOT $1::int4multirange @> sched.bucket(s.scope_kind, s.scope_id))
 ORDER BY s.schedule_id
   FOR UPDATE
