-- Open alerts that nobody has acknowledged, of the kinds that no timer tells of: how many of each, since when, and the oldest of them, as far as
-- a role may read about it. $1 how many to count at most, $2 role, $3 whether it reads everything
WITH open AS MATERIALIZED (
    SELECT a.alert_id, a.kind, a.since, COALESCE(s.schedule_name, a.schedule_name) AS schedule_name, COALESCE(j.owner, a.owner) AS owner
      FROM sched.alert a
      LEFT JOIN sched.schedule s ON s.schedule_id = a.schedule_id
      LEFT JOIN sched.job j ON j.job_name = s.job_name
     WHERE a.resolved_at IS NULL AND a.kind NOT IN ('parked', 'failing') AND (a.acknowledged_until > clock_timestamp()) IS NOT TRUE
     LIMIT $1
)
SELECT k.kind, k.count, k.since,
       (SELECT w.schedule_name FROM open w WHERE $3 OR pg_has_role($2, w.owner, 'USAGE') ORDER BY w.since, w.alert_id LIMIT 1) AS worst
  FROM (SELECT o.kind, count(*) AS count, min(o.since) AS since FROM open o GROUP BY o.kind) AS k
 ORDER BY k.kind
