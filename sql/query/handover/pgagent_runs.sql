-- Microseconds since 1970. A log without a step (status i) was no run.
SELECT l.jlgjobid::text AS id, (EXTRACT(epoch FROM l.jlgstart) * 1000000)::bigint::text AS began,
       (EXTRACT(epoch FROM l.jlgstart + l.jlgduration) * 1000000)::bigint::text AS ended
  FROM ONLY {schema}.pga_joblog AS l
 WHERE l.jlgstart >= to_timestamp($1) AND l.jlgstart < to_timestamp($2) AND l.jlgstatus <> 'i'
 ORDER BY l.jlgjobid, l.jlgstart, l.jlgid
