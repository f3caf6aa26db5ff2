-- The tables of ours that Citus has distributed, or an engine that keeps its books as Citus does
SELECT c.oid::regclass::text AS name
  FROM pg_catalog.pg_dist_partition p
  JOIN pg_catalog.pg_class c ON c.oid = p.logicalrelid
 WHERE c.relnamespace = 'sched'::regnamespace
 ORDER BY 1
