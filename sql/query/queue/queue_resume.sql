-- An open transaction of another role that takes back its own pause keeps this from nothing: its row is passed over. $1 queue, $2 caller, $3 whether
-- the caller may take back a pause that holds for all
WITH own AS MATERIALIZED (
    SELECT p.ctid AS place
      FROM sched.paused_queue p
     WHERE p.queue = $1 AND (p.owner = $2 OR p.owner IS NULL AND $3)
       FOR UPDATE
), others AS MATERIALIZED (
    SELECT p.ctid AS place
      FROM sched.paused_queue p
     WHERE p.queue = $1 AND p.owner <> $2 AND pg_has_role($2, p.owner, 'USAGE')
       FOR UPDATE SKIP LOCKED
)
DELETE FROM sched.paused_queue p
 WHERE p.ctid = ANY (ARRAY(SELECT o.place FROM own o UNION ALL SELECT o.place FROM others o))
RETURNING p.queue
