-- Schedules that are parked or fail, and of which nobody has acknowledged that: how many of each, and the worst of them, as far as a role may read about it. Since when: what a timer
-- remembers of that is up to where its plan times are decided. Also some of those whose jobs belong to roles that were dropped. $1 how many to count at most, $2 role, $3 whether it reads everything
WITH troubled AS MATERIALIZED (
    SELECT t.parked, t.error_count, t.schedule_id, s.schedule_name, t.last_error, j.owner,
           COALESCE(t.cursor_at, t.last_fired_at, s.updated_at) AS since
      FROM sched.timer t
      JOIN sched.schedule s ON s.schedule_id = t.schedule_id AND s.version = t.version
      LEFT JOIN sched.job j ON j.job_name = s.job_name
     WHERE (t.parked OR t.error_count > 0) AND s.enabled AND s.ownership = 'owned'
       AND NOT EXISTS (SELECT
                         FROM sched.alert a
                        WHERE a.schedule_id = t.schedule_id AND a.kind = CASE WHEN t.parked THEN 'parked' ELSE 'failing' END
                          AND a.resolved_at IS NULL AND a.acknowledged_until > sched.now())
     ORDER BY t.schedule_id
     LIMIT $1
)
SELECT count(*) FILTER (WHERE t.parked) AS parked, count(*) FILTER (WHERE NOT t.parked) AS failing, min(t.since) AS since,
       ARRAY(SELECT w.schedule_name
               FROM troubled w
              WHERE w.parked AND pg_get_userbyid(w.owner) = 'unknown (OID=' || w.owner::oid || ')' AND ($3 OR pg_has_role($2, w.owner, 'USAGE'))
              ORDER BY w.schedule_name
              LIMIT 6) AS ownerless,
       (SELECT w.schedule_name
          FROM troubled w
         WHERE $3 OR pg_has_role($2, COALESCE(w.owner, (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'sched')), 'USAGE')
         ORDER BY w.parked DESC, w.error_count DESC, w.schedule_id
         LIMIT 1) AS worst
  FROM troubled t
