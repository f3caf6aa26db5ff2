-- $1 queue, $2 caller, $3 whether the caller may take back a pause that holds for all
DELETE FROM sched.paused_queue p
 WHERE p.queue = $1 AND CASE WHEN p.owner IS NULL THEN $3 ELSE p.owner = $2 OR pg_has_role($2, p.owner, 'USAGE') END
RETURNING p.queue
