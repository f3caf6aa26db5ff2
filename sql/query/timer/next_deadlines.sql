-- The deadlines that the dispatcher wakes for: the first fire after $2, the first retry or delayed execution after $5, and whether one waits for an
-- earlier time; whether something of no paused queue is to be delivered (in queues whose names begin with $3, and come before $4), the first
-- lease that may have gone stale; whether a timer is still due of those between $1 and $2, which were just picked; when to look for alerts, at
-- once or as planned after $6. Nothing waits for a time up to $7, and no lease is to be looked at up to $8.
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
       (SELECT min(r.retry_at) FROM sched.retry r WHERE r.retry_at > greatest($5, $7)) AS retry_at,
       EXISTS (SELECT FROM sched.retry r WHERE r.retry_at > $7 AND r.retry_at <= $5) AS retry_left_behind,
       EXISTS (SELECT
                 FROM deliveries d
                WHERE (SELECT p.queue FROM sched.paused_queue p WHERE p.queue = substr(d.queue, length($3) + 1) AND p.owner IS NULL) IS NULL) AS delivery_waits,
       (SELECT min(l.sweep_at) FROM sched.lease l WHERE l.sweep_at > $8 AND l.sweep_at < 'infinity') AS sweep_at,
       EXISTS (SELECT FROM sched.timer t WHERE t.fire_at > $1 AND t.fire_at <= $2) AS left_behind,
       COALESCE((SELECT w.due_at FROM sched.alert_watch w WHERE w.due_at = '-infinity' LIMIT 1),
                (SELECT min(w.due_at) FROM sched.alert_watch w WHERE w.due_at > $6)) AS alert_at
