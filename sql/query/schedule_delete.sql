-- Deletes a schedule; the scopes that it has and had. Where its executions are to be cancelled, the change says so as well: a dispatcher may
-- just be firing it, in a transaction that we cannot see. $1 schedule_id, $2 whether they are
WITH gone AS (
    DELETE FROM sched.schedule s WHERE s.schedule_id = $1 RETURNING s.schedule_id, s.former_keys || s.key AS keys
), wished AS (
    INSERT INTO sched.schedule_change (schedule_id, cancel_keys) SELECT g.schedule_id, g.keys FROM gone g WHERE $2
)
SELECT g.keys FROM gone g
