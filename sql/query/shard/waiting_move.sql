-- What waits or runs in buckets that leave goes to queues that nobody looks through, each with the name of the one it comes from, and what
-- comes back goes back; where what is claimable stands then. `src/store/queue/elsewhere_queue.rs` knows these names.
-- $1 the buckets that are here, as ranges
WITH unfinished AS MATERIALIZED (
    SELECT 'ready' AS place, r.execution_id, r.queue, r.priority, r.plan_time, NULL::timestamptz AS retry_at FROM sched.ready r
    UNION ALL
    SELECT 'retry', r.execution_id, r.queue, NULL, NULL, r.retry_at FROM sched.retry r
    UNION ALL
    SELECT 'lease', e.id, e.queue, NULL, NULL, NULL FROM sched.lease l JOIN sched.ledger e ON e.id = l.execution_id
), moving AS MATERIALIZED (
    SELECT u.*,
           CASE WHEN NOT q.is_elsewhere AND octet_length(u.queue) > 57 THEN 'elsewhere:' || substr(u.queue, 11)
                WHEN NOT q.is_elsewhere THEN 'elsewhere: what workers claim on the server that has the bucket, queue: ' || u.queue
                WHEN starts_with(u.queue, 'elsewhere: what workers claim on the server that has the bucket, queue: ') THEN substr(u.queue, 73)
                ELSE 'executions' || substr(u.queue, 11) END AS new_queue
      FROM unfinished u
      JOIN sched.ledger e ON e.id = u.execution_id
     CROSS JOIN LATERAL (SELECT octet_length(u.queue) > 57 AND starts_with(u.queue, 'elsewhere:') AS is_elsewhere) AS q
     WHERE q.is_elsewhere = ($1::int4multirange @> sched.bucket(e.scope_kind, e.scope_id))
), moved AS (
    UPDATE sched.ready r
       SET queue = m.new_queue
      FROM moving m
     WHERE m.place = 'ready'
       AND r.queue = m.queue AND r.priority = m.priority AND r.plan_time = m.plan_time AND r.execution_id = m.execution_id
    RETURNING r.queue, r.priority, r.plan_time, r.execution_id
), put_off AS (
    UPDATE sched.retry r SET queue = m.new_queue FROM moving m
     WHERE m.place = 'retry' AND r.retry_at = m.retry_at AND r.execution_id = m.execution_id
), known AS (
    UPDATE sched.ledger e SET queue = m.new_queue FROM moving m WHERE e.id = m.execution_id
)
SELECT m.queue, m.priority, m.plan_time, m.execution_id FROM moved m
