-- What waits in a queue of users and is for a runner of the server by now, or the other way round, or was to be delivered by dispatchers and is
-- not any more, or is in a queue of another name than deliveries of its owner have, of a job or of all, goes where its job has its executions wait; where what is claimable stands then. Of a run that goes on, a retry will. What somebody is just claiming or
-- ending is not waited for. What belongs to another role than its job goes to the runners of that role, which say that it changed hands: those
-- of the job's owner may not take it. What another server has the bucket of stays where it is. $1 job_name (NULL = all)
WITH routed AS MATERIALIZED (
    SELECT j.job_name, j.ready_queue, j.queue, j.kind = 'sql' AS run_by_server, j.kind IN ('notify', 'log') AS delivered
      FROM sched.job j
     WHERE $1 IS NULL OR j.job_name = $1
), waiting AS MATERIALIZED (
    SELECT r.queue, r.priority, r.plan_time, r.execution_id, t.ready_queue
      FROM sched.ready r
      JOIN sched.ledger e ON e.id = r.execution_id
      JOIN routed j ON j.job_name = e.job_name
     CROSS JOIN LATERAL (
           SELECT CASE WHEN j.run_by_server
                       THEN 'executions that the server runs itself, as the role with oid ' || lpad(e.owner::oid::bigint::text, 10, '0') || ' ' || j.queue
                       WHEN j.delivered AND r.queue LIKE 'executions that a dispatcher delivers%'
                       THEN 'executions that a dispatcher delivers, for the role with oid ' || lpad(e.owner::oid::bigint::text, 10, '0') || ' ' || j.queue
                       ELSE j.ready_queue END AS ready_queue) AS t
     WHERE r.queue <> t.ready_queue AND NOT (octet_length(r.queue) > 57 AND starts_with(r.queue, 'elsewhere:')) AND (j.run_by_server OR r.queue LIKE 'executions that the server runs itself, %'
          OR r.queue LIKE 'executions that a dispatcher delivers%')
       FOR UPDATE OF r, e SKIP LOCKED
), postponed AS MATERIALIZED (
    SELECT r.retry_at, r.execution_id, t.ready_queue
      FROM sched.retry r
      JOIN sched.ledger e ON e.id = r.execution_id
      JOIN routed j ON j.job_name = e.job_name
     CROSS JOIN LATERAL (
           SELECT CASE WHEN j.run_by_server
                       THEN 'executions that the server runs itself, as the role with oid ' || lpad(e.owner::oid::bigint::text, 10, '0') || ' ' || j.queue
                       WHEN j.delivered AND r.queue LIKE 'executions that a dispatcher delivers%'
                       THEN 'executions that a dispatcher delivers, for the role with oid ' || lpad(e.owner::oid::bigint::text, 10, '0') || ' ' || j.queue
                       ELSE j.ready_queue END AS ready_queue) AS t
     WHERE r.queue <> t.ready_queue AND NOT (octet_length(r.queue) > 57 AND starts_with(r.queue, 'elsewhere:')) AND (j.run_by_server OR r.queue LIKE 'executions that the server runs itself, %'
          OR r.queue LIKE 'executions that a dispatcher delivers%')
       FOR UPDATE OF r, e SKIP LOCKED
), running AS MATERIALIZED (
    SELECT l.execution_id, t.ready_queue
      FROM sched.lease l
      JOIN sched.ledger e ON e.id = l.execution_id
      JOIN routed j ON j.job_name = e.job_name
     CROSS JOIN LATERAL (
           SELECT CASE WHEN j.run_by_server
                       THEN 'executions that the server runs itself, as the role with oid ' || lpad(e.owner::oid::bigint::text, 10, '0') || ' ' || j.queue
                       ELSE j.ready_queue END AS ready_queue) AS t
     WHERE e.queue <> t.ready_queue AND NOT (octet_length(e.queue) > 57 AND starts_with(e.queue, 'elsewhere:')) AND (j.run_by_server OR e.queue LIKE 'executions that the server runs itself, %')
       FOR UPDATE OF e SKIP LOCKED
), moved AS (
    UPDATE sched.ready r
       SET queue = w.ready_queue
      FROM waiting w
     WHERE r.queue = w.queue AND r.priority = w.priority AND r.plan_time = w.plan_time AND r.execution_id = w.execution_id
    RETURNING r.queue, r.priority, r.plan_time, r.execution_id
), put_off AS (
    UPDATE sched.retry r SET queue = p.ready_queue FROM postponed p WHERE r.retry_at = p.retry_at AND r.execution_id = p.execution_id
), known AS (
    UPDATE sched.ledger e
       SET queue = a.ready_queue
      FROM (SELECT w.execution_id, w.ready_queue FROM waiting w
             UNION ALL SELECT p.execution_id, p.ready_queue FROM postponed p
             UNION ALL SELECT r.execution_id, r.ready_queue FROM running r) AS a
     WHERE e.id = a.execution_id
)
SELECT m.queue, m.priority, m.plan_time, m.execution_id FROM moved m
