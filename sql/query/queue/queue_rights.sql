-- Whether a role may act for the owners of all jobs of a queue, of which there is one, and whether something of others waits or runs there.
-- $1 queue, $2 role
SELECT COALESCE((SELECT bool_and(pg_has_role($2, j.owner, 'USAGE')) FROM sched.job j WHERE j.queue = $1), false) AS has_all_jobs,
       EXISTS (SELECT
                 FROM (SELECT r.queue, r.owner FROM sched.ready r
                       UNION ALL SELECT r.queue, r.owner FROM sched.retry r
                       UNION ALL SELECT e.queue, l.owner FROM sched.lease l JOIN sched.ledger e ON e.id = l.execution_id) AS w
                WHERE CASE WHEN octet_length(w.queue) > 57 THEN substr(w.queue, 73) ELSE w.queue END = $1
                  AND NOT pg_has_role($2, w.owner, 'USAGE')) AS has_others_work
