-- Executions of one job and scope; those that the ledger holds already are left alone. A pull job's become claimable, an sql
-- job's wait for a runner of the server; notify and log jobs are done at once. How many were inserted, their ids, in which queues something became claimable, how much was notified
-- (of equal notifications a transaction sends one), what is to be logged; and before what the claimable ones stand in their queue.
-- counted: store/counted.rs.
-- The job is asked for its owner here once more: since its caller looked, another role may have defined one of this name, and must
-- not be given work that it did not ask for.
-- $1 key, $2 job_name, $3 scope_kind, $4 scope_id, $5 plan_times, $6 payload, $7 origin, $8 caller, owner where no job was defined,
-- $9 schedule_id, $10 schedule_name, $11 now, $12 how many characters of a payload
-- a log takes
WITH added AS (
    INSERT INTO sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts,
                              allow_stale_reentry, origin, owner, schedule_id, schedule_name,
                              status, attempt, started_at, finished_at, result)
    SELECT $1, $2, $3, $4, p.plan_time, COALESCE(j.ready_queue, 'default'), COALESCE(j.priority, 0), $6,
           COALESCE(j.max_attempts, 1), COALESCE(j.allow_stale_reentry, true), $7, COALESCE(j.owner, $8), $9, $10,
           CASE WHEN k.done THEN 'SUCCESS' ELSE 'PENDING' END, k.done::integer, CASE WHEN k.done THEN $11 END,
           CASE WHEN k.done THEN $11 END, CASE WHEN k.done THEN '{}'::jsonb END
      FROM unnest($5) AS p (plan_time)
      LEFT JOIN sched.job j ON j.job_name = $2
     CROSS JOIN LATERAL (SELECT COALESCE(j.kind IN ('notify', 'log'), false) AS done) AS k
     WHERE j.job_name IS NULL OR pg_has_role($8, j.owner, 'USAGE')
     ORDER BY p.plan_time
        ON CONFLICT (key, plan_time) DO NOTHING
    RETURNING id, queue, priority, plan_time, owner, status
), claimable AS (
    INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
    SELECT a.queue, a.priority, a.plan_time, a.id, a.owner FROM added a WHERE a.status = 'PENDING'
)
SELECT count(*) AS count, array_agg(a.id ORDER BY a.plan_time) AS ids,
       array_agg(DISTINCT a.queue) FILTER (WHERE a.status = 'PENDING') AS queues,
       (SELECT CASE WHEN count(pg_notify(n.command, $6::text)) > 0 THEN sum(32 + octet_length(n.command) + octet_length($6::text)) END
          FROM sched.job n
         WHERE n.job_name = $2 AND n.kind = 'notify' AND EXISTS (SELECT FROM added d WHERE d.status = 'SUCCESS')) AS notified,
       CASE WHEN bool_or(j.kind = 'log') THEN $2 END AS log_name, CASE WHEN bool_or(j.kind = 'log') THEN left($6::text, $12) END AS log_payload,
       array_agg(a.plan_time) FILTER (WHERE j.kind = 'log') AS log_plan_times, max(a.owner::oid::bigint) AS log_owner, max(a.priority) AS priority, min(a.plan_time) AS plan_time,
       (SELECT json_agg(c)::text
          FROM (SELECT $2 AS job, n.queue, n.owner::oid::bigint AS owner, count(*) AS fired,
                       count(*) FILTER (WHERE n.status = 'SUCCESS') AS success,
                       array_agg((EXTRACT(epoch FROM $11 - n.plan_time) * 1000000)::bigint)
                           FILTER (WHERE n.status = 'SUCCESS' AND $7 <> 'backfill') AS late
                  FROM added n
                 GROUP BY n.queue, n.owner) AS c) AS counted
  FROM added a
  LEFT JOIN sched.job j ON j.job_name = $2
