-- $1 payloads of notifications
SELECT pg_notify('sched:alerts', p.payload) FROM unnest($1) AS p (payload)
