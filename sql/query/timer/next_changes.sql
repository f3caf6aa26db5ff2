-- Whether a change after $1 can be applied now, and when a change is tried again that could not be; when to look again at dropped schedules of
-- which another transaction had locked an execution; when to try a cancel again. One index probe each.
SELECT EXISTS (SELECT FROM sched.schedule_change c WHERE c.change_id > $1 AND c.retry_at IS NULL) AS change_waits,
       (SELECT min(c.retry_at) FROM sched.schedule_change c WHERE c.retry_at IS NOT NULL) AS change_retry_at,
       (SELECT min(d.retry_at) FROM sched.schedule_dropped d) AS dropped_at,
       (SELECT min(c.retry_at) FROM sched.cancel_request c) AS cancel_at
