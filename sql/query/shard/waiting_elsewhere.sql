SELECT r.execution_id FROM sched.ready r WHERE octet_length(r.queue) > 57 AND starts_with(r.queue, 'elsewhere:')
UNION ALL
SELECT r.execution_id FROM sched.retry r WHERE octet_length(r.queue) > 57 AND starts_with(r.queue, 'elsewhere:')
