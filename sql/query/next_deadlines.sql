-- What the dispatcher wakes for next: a fire, a retry, a lease that may have gone stale; and whether a change is left, which somebody
-- else has then in hand. One index probe each.
SELECT (SELECT min(t.fire_at) FROM sched.timer t WHERE t.fire_at IS NOT NULL),
       (SELECT min(r.retry_at) FROM sched.retry r),
       (SELECT min(l.sweep_at) FROM sched.lease l),
       EXISTS (SELECT FROM sched.schedule_change)
