-- Nobody claims from the queue any more: anything, or what belongs to the caller and to the owners for whom the caller may act and who have a job or
-- an execution there. $1 queue, $2 caller, $3 whether the pause holds for all
INSERT INTO sched.paused_queue (queue, paused_by, owner)
SELECT $1, (SELECT r.rolname FROM pg_roles r WHERE r.oid = $2), o.owner
  FROM (SELECT NULL::regrole WHERE $3
        UNION
        SELECT w.owner
          FROM (SELECT NULL, $2::regrole
                UNION ALL SELECT NULL, j.owner FROM sched.job j WHERE j.queue = $1
                UNION ALL SELECT r.queue, r.owner FROM sched.ready r
                UNION ALL SELECT r.queue, r.owner FROM sched.retry r
                UNION ALL SELECT e.queue, l.owner FROM sched.lease l JOIN sched.ledger e ON e.id = l.execution_id) AS w (queue, owner)
         WHERE NOT $3 AND CASE WHEN octet_length(w.queue) > 57 THEN substr(w.queue, 73) ELSE COALESCE(w.queue, $1) END = $1
           AND (w.owner = $2 OR pg_has_role($2, w.owner, 'USAGE'))) AS o (owner)
    ON CONFLICT (queue, owner) DO NOTHING
