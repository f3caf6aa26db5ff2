-- What is late is computed by who reads it: no process has to be alive for that. What a schedule is armed for and did not fire; a plan that waits
-- for another run to end; and what was fired and nobody has begun: of the runs that a dispatcher's last look has left open, and those since.
CREATE VIEW sched.late WITH (security_barrier) AS
SELECT a.schedule_name, a.plan_time, a.execution_id, sched.now() - a.plan_time AS late_by
  FROM (SELECT s.schedule_name, s.max_lateness, p.plan_time, p.execution_id,
               pg_catalog.pg_has_role(
                   current_user,
                   COALESCE(j.owner, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched')),
                   'USAGE') AS owns
          FROM sched.schedule s
          LEFT JOIN sched.job j ON j.job_name = s.job_name
          LEFT JOIN sched.alert_state w ON w.schedule_id = s.schedule_id
         CROSS JOIN LATERAL (
               SELECT c.plan_time, NULL::uuid AS execution_id
                 FROM sched.timer t
                CROSS JOIN LATERAL (VALUES (CASE WHEN t.fire_at IS NOT NULL THEN t.next_plan_time END), (t.buffered_plan)) AS c (plan_time)
                WHERE t.schedule_id = s.schedule_id AND t.version = s.version AND NOT t.parked AND c.plan_time IS NOT NULL
                  AND NOT EXISTS (SELECT FROM sched.ledger e WHERE e.key = s.key AND e.plan_time = c.plan_time)
               UNION
               SELECT e.plan_time, e.id
                 FROM (SELECT pg_catalog.unnest(w.unsettled) AS id
                       UNION
                       SELECT n.id FROM sched.ledger n WHERE n.key = s.key AND n.plan_time > w.seen_plan AND n.schedule_id = s.schedule_id
                       UNION
                       (SELECT n.id FROM sched.ledger n WHERE n.key = s.key AND w.seen_plan IS NULL ORDER BY n.plan_time DESC LIMIT 100)) AS r
                 JOIN sched.ledger e ON e.id = r.id AND e.schedule_id = s.schedule_id
                WHERE e.status = 'PENDING' AND e.attempt = 0 AND e.next_retry_at IS NULL AND e.run_at IS NULL AND e.origin IN ('schedule', 'manual')
                  AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)) AS p
         WHERE s.max_lateness IS NOT NULL AND s.enabled AND s.ownership = 'owned' AND (SELECT sched.is_home())
        OFFSET 0) AS a
 WHERE sched.now() - a.plan_time > a.max_lateness
   AND (a.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')));
COMMENT ON VIEW sched.late IS
    'runs that have not begun max_lateness after their plan time, of schedules that have one; also what is due and has not been fired';

CREATE VIEW sched.alerts WITH (security_barrier) AS
SELECT a.alert_id, a.kind, COALESCE(s.schedule_name, a.schedule_name) AS schedule_name, a.execution_id, a.since,
       CASE WHEN r.owns AND a.detail IS NOT NULL THEN a.message || ': ' || a.detail ELSE a.message END AS message,
       a.resolved_at, a.acknowledged_until
  FROM sched.alert a
  LEFT JOIN sched.schedule s ON s.schedule_id = a.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, COALESCE(j.owner, a.owner), 'USAGE') AS owns) AS r
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
COMMENT ON VIEW sched.alerts IS 'what somebody is to be told of: one open row at most for each schedule and kind, and those that were resolved';
