-- When something comes due next, in a database in test mode. $1 after, $2 no later than
SELECT LEAST((SELECT min(t.fire_at) FROM sched.timer t WHERE t.fire_at > $1 AND t.fire_at <= $2),
             (SELECT min(r.retry_at) FROM sched.retry r WHERE r.retry_at > $1 AND r.retry_at <= $2),
             (SELECT min(l.sweep_at) FROM sched.lease l WHERE l.sweep_at > $1 AND l.sweep_at <= $2),
             (SELECT min(a.due_at) FROM sched.alert_watch a WHERE a.due_at > $1 AND a.due_at <= $2)) AS due_at
