-- Open alerts that nobody has acknowledged, of the kinds that no timer tells of: how many of each, since when, and the oldest of them, as far as
-- a role may read about it. $1 how many of a kind to count at most, $2 role, $3 whether it reads everything
WITH open AS MATERIALIZED (
    SELECT a.alert_id, a.kind, a.since, COALESCE(s.schedule_name, a.schedule_name) AS schedule_name, COALESCE(j.owner, a.owner) AS owner
      FROM (VALUES ('late'), ('long'), ('no_success'), ('failed')) AS k (kind)
     CROSS JOIN LATERAL (
           SELECT o.*
             FROM sched.alert o
            WHERE o.kind = k.kind AND o.resolved_at IS NULL AND (o.acknowledged_until > sched.now()) IS NOT TRUE
            ORDER BY o.since, o.alert_id
            LIMIT $1) AS a
      LEFT JOIN sched.schedule s ON s.schedule_id = a.schedule_id
      LEFT JOIN sched.job j ON j.job_name = s.job_name
)
SELECT k.kind, k.count, k.since,
       (SELECT w.schedule_name FROM open w WHERE $3 OR pg_has_role($2, w.owner, 'USAGE') ORDER BY w.since, w.alert_id LIMIT 1) AS worst
  FROM (SELECT o.kind, count(*) AS count, min(o.since) AS since FROM open o GROUP BY o.kind) AS k
 ORDER BY k.kind
