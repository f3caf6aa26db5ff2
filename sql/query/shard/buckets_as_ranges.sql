-- The buckets that are here, as ranges; all where nobody has said which.
SELECT COALESCE(range_intersect_agg(s.buckets), '{[0,1024)}')::text AS buckets FROM sched.shard s
