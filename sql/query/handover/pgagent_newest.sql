-- When the newest run of each job began, in microseconds since 1970; of which schedule it was nobody writes down. $1 source ids
SELECT l.jlgjobid::text AS id, (EXTRACT(epoch FROM max(l.jlgstart)) * 1000000)::bigint::text AS began, NULL::text AS ended
  FROM ONLY {schema}.pga_joblog AS l
 WHERE l.jlgjobid::text = ANY (SELECT pg_catalog.split_part(i, '/', 1) FROM pg_catalog.unnest($1) AS i) AND l.jlgstatus <> 'i'
 GROUP BY l.jlgjobid
