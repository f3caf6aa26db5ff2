-- The deadlines that the dispatcher wakes for: the first fire after $2, the first retry or delayed execution from the place of $5 retry_at and $6
-- execution_id on, and whether one that was looked at waits for a time up to $7, from the place $8 and $9 on; whether something that is not paused
-- is to be delivered (in queues whose names begin with $3, and come before $4), the first lease that may have gone stale; whether a timer is still
-- due of those between $1 and $2, which were just picked; when to look for alerts, at once or as planned after $10. No lease is to be looked at up
-- to $11.
-- One index probe each.
WITH RECURSIVE deliveries AS (
    (SELECT r.queue FROM sched.ready r WHERE r.queue >= $3 AND r.queue < $4 AND starts_with(r.queue, $3) ORDER BY r.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
      FROM deliveries d
     CROSS JOIN LATERAL (
           SELECT r.queue FROM sched.ready r WHERE r.queue > d.queue AND r.queue < $4 AND starts_with(r.queue, $3) ORDER BY r.queue LIMIT 1) AS n
)
SELECT (SELECT min(t.fire_at) FROM sched.timer t WHERE t.fire_at > $2) AS fire_at,
       (SELECT r.retry_at FROM sched.retry r WHERE (r.retry_at, r.execution_id) >= ($5, $6) ORDER BY r.retry_at, r.execution_id LIMIT 1) AS retry_at,
       EXISTS (SELECT FROM sched.retry r WHERE (r.retry_at, r.execution_id) >= ($8, $9) AND r.retry_at <= $7) AS retry_left_behind,
       EXISTS (SELECT
                 FROM deliveries d
                WHERE NOT EXISTS (SELECT
                                    FROM sched.paused_queue p
                                   WHERE p.queue = substr(d.queue, 73) AND (p.owner IS NULL OR p.owner = substr(d.queue, 62, 10)::bigint::oid))) AS delivery_waits,
       (SELECT min(l.sweep_at) FROM sched.lease l WHERE l.sweep_at > $11 AND l.sweep_at < 'infinity') AS sweep_at,
       EXISTS (SELECT FROM sched.timer t WHERE t.fire_at > $1 AND t.fire_at <= $2) AS left_behind,
       COALESCE((SELECT w.due_at FROM sched.alert_watch w WHERE w.due_at = '-infinity' LIMIT 1),
                (SELECT min(w.due_at) FROM sched.alert_watch w WHERE w.due_at > $10)) AS alert_at
