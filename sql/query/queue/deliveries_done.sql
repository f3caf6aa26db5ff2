-- Deliveries, which are locked, are done: an attempt each. The first row says how much was notified (of equal notifications a transaction sends one), the
-- others what is to be logged. counted: store/counted.rs. (8,000 characters are more than a notification takes.)
-- $1 execution_ids, $2 now, $3 how many characters of a payload a log takes
WITH done AS (
    UPDATE sched.ledger e
       SET status = 'SUCCESS', attempt = e.attempt + 1, started_at = $2, finished_at = $2, updated_at = $2, next_retry_at = NULL,
           result = '{}', error_code = NULL, error_msg = NULL
      FROM sched.job j
     -- (Or it has become a job of another kind since: the next look finds that.)
     WHERE e.id = ANY ($1) AND j.job_name = e.job_name AND j.kind IN ('notify', 'log')
    RETURNING e.id, e.queue, e.priority, e.plan_time, e.run_at, e.origin,
              CASE WHEN e.origin IN ('enqueue', 'claim') THEN e.created_at
                   -- (Jitter is at most this much, and what is intended is no lateness.)
                   WHEN e.origin = 'schedule' THEN greatest(e.plan_time, least(e.created_at, e.plan_time
                        + (SELECT s.delay + s.jitter FROM sched.schedule s WHERE s.schedule_id = e.schedule_id)))
                   ELSE e.plan_time END AS planned_for, e.owner, e.job_name, j.kind, j.command, left(e.payload::text, greatest($3, 8000)) AS said
), gone AS (
    DELETE FROM sched.ready r
     USING done d
     WHERE r.queue = d.queue AND r.priority = d.priority AND r.plan_time = d.plan_time AND r.execution_id = d.id
)
SELECT (SELECT CASE WHEN count(pg_notify(n.command, n.said)) > 0 THEN sum(32 + octet_length(n.command) + octet_length(n.said)) END
          FROM (SELECT DISTINCT d.command, d.said FROM done d WHERE d.kind = 'notify') AS n) AS notified,
       NULL AS log_name, NULL AS log_payload, NULL AS log_plan_times, NULL::bigint AS log_owner,
       (SELECT json_agg(c)::text
          FROM (SELECT d.job_name AS job, d.queue, d.owner::oid::bigint AS owner, count(*) AS success,
                       array_agg((EXTRACT(epoch FROM $2 - greatest(d.planned_for, d.run_at)) * 1000000)::bigint)
                           FILTER (WHERE d.origin <> 'backfill' AND isfinite(greatest(d.planned_for, d.run_at))) AS late
                  FROM done d
                 GROUP BY d.job_name, d.queue, d.owner) AS c) AS counted
UNION ALL
(SELECT NULL, d.job_name, left(d.said, $3), ARRAY[d.plan_time], d.owner::oid::bigint, NULL FROM done d WHERE d.kind = 'log' ORDER BY d.id)
