-- Runs that were made beside a schedule's plan, if it asks for alerts or has open ones. $1 schedule_id, $2 execution_ids
INSERT INTO sched.alert_watch (due_at, schedule_id, execution_id)
SELECT '-infinity', $1, i.execution_id
  FROM unnest($2) AS i (execution_id)
 WHERE EXISTS (SELECT FROM sched.alert_state w WHERE w.schedule_id = $1)
    OR EXISTS (SELECT FROM sched.alert a WHERE a.schedule_id = $1 AND a.resolved_at IS NULL)
    OR EXISTS (SELECT
                 FROM sched.schedule s
                WHERE s.schedule_id = $1
                  AND (s.max_lateness IS NOT NULL OR s.max_duration IS NOT NULL OR s.expect_success_within IS NOT NULL))
