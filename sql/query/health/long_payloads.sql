-- Schedules whose payload is longer than a new one may be: how many, since when, and those of them that a role may read about.
-- $1 how many to count at most, $2 role, $3 whether it reads everything
WITH long AS MATERIALIZED (
    SELECT s.schedule_id, s.schedule_name, s.updated_at, j.owner
      FROM (SELECT l.schedule_id, l.schedule_name, l.updated_at, l.job_name
              FROM sched.schedule l
             WHERE octet_length(l.payload::text) > 1048576
             ORDER BY l.schedule_id
             LIMIT $1) AS s
      LEFT JOIN sched.job j ON j.job_name = s.job_name
)
SELECT count(*) AS count, min(l.updated_at) AS since,
       array_agg(l.schedule_name ORDER BY l.schedule_id)
           FILTER (WHERE $3 OR pg_has_role($2, COALESCE(l.owner, (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'sched')), 'USAGE')) AS names
  FROM long l
