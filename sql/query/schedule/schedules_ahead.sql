-- Schedules that fire nothing until the clock gets to where it was once: what they begin after, or what is decided of them, lies ahead of it.
-- (What an edit has begun anew does not count.) How many, until when, and some of their names, as far as a role may read about them.
-- $1 what counts as ahead, $2 how many names, $3 role, $4 whether it reads everything
WITH ahead AS MATERIALIZED (
    SELECT s.schedule_name, s.job_name, a.silent_until
      FROM sched.schedule s
      LEFT JOIN sched.timer t ON t.schedule_id = s.schedule_id AND t.version = s.version
     CROSS JOIN LATERAL (
           SELECT greatest(s.created_at, s.baseline_at, s.defined_at, t.cursor_at, t.buffered_plan, t.backlog_until) AS silent_until) AS a
     WHERE s.enabled AND s.ownership = 'owned' AND t.parked IS NOT TRUE AND a.silent_until > $1
)
SELECT count(*) AS count, max(a.silent_until)::text AS until, max(a.silent_until) AS until_at,
       ARRAY(SELECT n.schedule_name
               FROM ahead n
              WHERE $4 OR EXISTS (SELECT FROM sched.job j WHERE j.job_name = n.job_name AND pg_has_role($3, j.owner, 'USAGE'))
              ORDER BY n.schedule_name
              LIMIT $2) AS names
  FROM ahead a
