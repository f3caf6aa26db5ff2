-- What the dispatcher wakes for next: the first fire after $2, the first retry, the first lease that may have gone stale; whether a
-- change after $3 can be applied now, and when one is tried again that could not; whether a timer is still due of those between
-- $1 and $2, which were just picked; when to look at dropped schedules of which somebody had something in hand. One index probe each.
SELECT (SELECT min(t.fire_at) FROM sched.timer t WHERE t.fire_at > $2) AS fire_at,
       (SELECT min(r.retry_at) FROM sched.retry r) AS retry_at,
       (SELECT min(l.sweep_at) FROM sched.lease l WHERE l.sweep_at < 'infinity') AS sweep_at,
       EXISTS (SELECT FROM sched.schedule_change c WHERE c.change_id > $3 AND c.retry_at IS NULL) AS change_waits,
       (SELECT min(c.retry_at) FROM sched.schedule_change c WHERE c.retry_at IS NOT NULL) AS change_retry_at,
       EXISTS (SELECT FROM sched.timer t WHERE t.fire_at > $1 AND t.fire_at <= $2) AS left_behind,
       (SELECT min(d.retry_at) FROM sched.schedule_dropped d) AS dropped_at
