-- One step through the ledger in the order of its ids, which is that of creation: of the next rows, those that ended before the
-- retention's limit go, but never the newest that was planned in a scope by its owner (due_plans takes older ones for done), nor the
-- newest that a schedule dispatched, from which its timer could be made anew. Nothing looks back at what was enqueued, which mostly has a
-- scope of its own, but in the scope ('global', 'global') that due_plans means unless it is told another: a job has one. Nor at what a
-- dropped schedule left in the scope that it had for itself. Where the walk goes on, how many went, and how many were looked at.
-- $1 last id of the step before, $2 id of the limit, $3 limit, $4 rows to look at
WITH seen AS MATERIALIZED (
    SELECT e.id
      FROM sched.ledger e
     WHERE e.id > $1 AND e.id < $2
     ORDER BY e.id
     LIMIT $4
), ended AS MATERIALIZED (
    -- What somebody's open transaction has in hand is left to the next walk: nobody can have a dispatcher wait.
    SELECT e.id, e.key
      FROM seen s
      JOIN sched.ledger e ON e.id = s.id
     WHERE e.finished_at < $3
       AND (e.status IN ('SUCCESS', 'CANCELLED') OR (e.status = 'FAILED' AND e.next_retry_at IS NULL))
       AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
       AND (e.origin = 'enqueue' AND (e.scope_kind, e.scope_id) <> ('global', 'global')
            OR e.scope_kind = 'schedule' AND e.scope_id = e.schedule_name
               AND NOT EXISTS (SELECT FROM sched.schedule k WHERE k.schedule_id = e.schedule_id)
            OR EXISTS (SELECT
                         FROM sched.ledger n
                        WHERE n.key = e.key AND n.plan_time > e.plan_time AND n.owner = e.owner
                          AND (n.origin <> 'enqueue' OR (e.scope_kind, e.scope_id) = ('global', 'global'))))
       AND (e.origin <> 'schedule'
            OR NOT EXISTS (SELECT FROM sched.schedule k WHERE k.schedule_id = e.schedule_id)
            OR EXISTS (SELECT
                         FROM sched.ledger n
                        WHERE n.key = e.key AND n.plan_time > e.plan_time AND n.schedule_id = e.schedule_id
                          AND n.origin = 'schedule'
                          -- nor what a clock that was ahead has fired
                          AND n.created_at <= sched.now()
                          -- after an edit that fires overtook, only what was fired since tells where the timer stands
                          AND NOT EXISTS (SELECT
                                            FROM sched.timer_state ts
                                           WHERE ts.schedule_id = e.schedule_id AND e.created_at > ts.redefined_at AND n.created_at <= ts.redefined_at)))
       FOR UPDATE OF e SKIP LOCKED
), scopes AS MATERIALIZED (
    -- The rows of scopes that name one of these go with it, if nobody has them in hand.
    SELECT u.key, u.owner, u.execution_id
      FROM ended d
      JOIN sched.unique_scope u ON u.key = d.key AND u.execution_id = d.id
       FOR UPDATE OF u SKIP LOCKED
), forgotten AS (
    DELETE FROM sched.unique_scope u USING scopes s WHERE u.key = s.key AND u.owner = s.owner
), gone AS (
    DELETE FROM sched.ledger e
     USING ended d
     WHERE e.id = d.id
       AND (e.id IN (SELECT s.execution_id FROM scopes s)
            OR NOT EXISTS (SELECT FROM sched.unique_scope u WHERE u.key = d.key AND u.execution_id = d.id))
    RETURNING e.id
)
SELECT (SELECT s.id FROM seen s ORDER BY s.id DESC LIMIT 1) AS last, (SELECT count(*) FROM gone) AS gone,
       (SELECT count(*) FROM seen) AS seen
