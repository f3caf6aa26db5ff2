-- The buckets that are here by every row, and the transaction that said so last.
WITH own AS (
    SELECT range_intersect_agg(s.buckets) AS buckets, (array_agg(s.xmin::text::bigint ORDER BY age(s.xmin)))[1] AS since FROM sched.shard s
)
SELECT ARRAY(SELECT b.bucket FROM generate_series(0, 1023) AS b (bucket) WHERE o.buckets @> b.bucket) AS buckets, o.since
  FROM own o
 WHERE o.since IS NOT NULL
