-- Executions of one job, each with a key, payload and plan time of its own; those that the ledger holds already are left alone, and of
-- two with one key the first is taken. Inserted in the order of their keys, so that two sessions never wait for each other in a circle.
-- What is to run later waits in sched.retry; of a job that is otherwise done at once, in a queue that only dispatchers take from.
-- The job is asked for its owner here once more: since its caller looked, another role may have defined one of this name, and must
-- not be given work that it did not ask for.
-- The first row is about all of them: in which queues something became claimable (the last columns: before what), when the first of what is
-- to run later is due, and how much was notified. The others are what is to
-- be logged. (8,000 characters are more than a notification takes.)
-- counted: store/counted.rs.
-- Their ids rise in the order in which they were given, which is the order of claiming where plan times are equal.
-- $1 job_name, $2 scope_kind, $3 keys, $4 scope_ids, $5 plan_times, $6 payloads, $7 caller, owner where no job was defined, $8 now, $9 ids,
-- $10 how many characters of a payload a log takes, $11 when they are to run (NULL = at once), $12 priority (NULL = the job's)
WITH asked AS MATERIALIZED (
    SELECT a.key, a.scope_id, a.plan_time, a.payload, a.id, a.run_at, CASE WHEN a.run_at > $8 THEN a.run_at END AS waits_until
      FROM unnest($3, $4, $5, $6, $9, $11) AS a (key, scope_id, plan_time, payload, id, run_at)
), added AS (
    INSERT INTO sched.ledger (id, key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts,
                              allow_stale_reentry, origin, owner, status, attempt, started_at, finished_at, result, run_at, next_retry_at)
    SELECT a.id, a.key, $1, $2, a.scope_id, a.plan_time,
           CASE WHEN k.delivered AND NOT d.done THEN 'executions that a dispatcher delivers, for the role with oid ' || lpad(j.owner::oid::bigint::text, 10, '0') || ' ' || j.queue
                ELSE COALESCE(j.ready_queue, 'default') END, COALESCE($12, j.priority, 0), a.payload,
           COALESCE(j.max_attempts, 1), COALESCE(j.allow_stale_reentry, true), 'enqueue', COALESCE(j.owner, $7),
           CASE WHEN d.done THEN 'SUCCESS' ELSE 'PENDING' END, d.done::integer, CASE WHEN d.done THEN $8 END,
           CASE WHEN d.done THEN $8 END, CASE WHEN d.done THEN '{}'::jsonb END, a.run_at, a.waits_until
      FROM asked a
      LEFT JOIN sched.job j ON j.job_name = $1
     CROSS JOIN LATERAL (SELECT COALESCE(j.kind IN ('notify', 'log'), false) AS delivered) AS k
     CROSS JOIN LATERAL (SELECT k.delivered AND a.waits_until IS NULL AS done) AS d
     WHERE j.job_name IS NULL OR pg_has_role($7, j.owner, 'USAGE')
     ORDER BY a.key, a.plan_time, a.id
        ON CONFLICT (key, plan_time) DO NOTHING
    RETURNING id, queue, priority, plan_time, owner, status, run_at, next_retry_at, status = 'PENDING' AND next_retry_at IS NULL AS is_ready,
              CASE WHEN status = 'SUCCESS' THEN left(payload::text, greatest($10, 8000)) END AS said
), claimable AS (
    INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
    SELECT a.queue, a.priority, a.plan_time, a.id, a.owner FROM added a WHERE a.is_ready
), later AS (
    INSERT INTO sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
    SELECT a.next_retry_at, a.id, a.queue, a.priority, a.plan_time, a.owner FROM added a WHERE a.next_retry_at IS NOT NULL
)
SELECT array_agg(DISTINCT a.queue) FILTER (WHERE a.is_ready) AS queues,
       (SELECT CASE WHEN count(pg_notify(j.command, n.said)) > 0 THEN sum(32 + octet_length(j.command) + octet_length(n.said)) END
          FROM sched.job j
          JOIN (SELECT DISTINCT a.said FROM added a WHERE a.status = 'SUCCESS') AS n ON true
         WHERE j.job_name = $1 AND j.kind = 'notify') AS notified,
       NULL AS log_name, NULL AS log_payload, NULL AS log_plan_times, NULL::bigint AS log_owner, max(a.priority) AS priority, min(a.plan_time) AS plan_time,
       min(a.next_retry_at) AS retry_at,
       (SELECT json_agg(c)::text
          FROM (SELECT $1 AS job, n.queue, n.owner::oid::bigint AS owner, count(*) AS enqueued,
                       count(*) FILTER (WHERE n.status = 'SUCCESS') AS success,
                       array_agg(greatest((EXTRACT(epoch FROM $8 - n.run_at) * 1000000)::bigint, 0))
                           FILTER (WHERE n.status = 'SUCCESS') AS late
                  FROM added n
                 GROUP BY n.queue, n.owner) AS c) AS counted
  FROM added a
UNION ALL
(SELECT NULL, NULL, $1, left(a.said, $10), ARRAY[a.plan_time], a.owner::oid::bigint, NULL, NULL, NULL, NULL
   FROM sched.job j
   JOIN added a ON a.status = 'SUCCESS'
  WHERE j.job_name = $1 AND j.kind = 'log'
  ORDER BY a.id)
