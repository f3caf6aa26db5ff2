-- From now on these schedules care whether a run has ended: the unfinished ones are remembered. A run that ended meanwhile is looked at
-- again under its row lock and left out. One that somebody is just ending, in a transaction that may stay open, is not waited
-- for: the schedules of such runs are returned, to come again later. $1 schedule_ids
WITH unfinished AS (
    SELECT r.execution_id FROM sched.ready r
    UNION ALL SELECT r.execution_id FROM sched.retry r
    UNION ALL SELECT l.execution_id FROM sched.lease l
), wanted AS MATERIALIZED (
    SELECT e.id, e.schedule_id
      FROM unfinished u
      JOIN sched.ledger e ON e.id = u.execution_id
     WHERE e.schedule_id = ANY ($1) AND e.origin = 'schedule' AND NOT e.awaited
       AND (e.status = 'PENDING' OR (e.status = 'FAILED' AND e.next_retry_at IS NOT NULL))
), locked AS MATERIALIZED (
    SELECT e.id FROM sched.ledger e WHERE e.id = ANY (ARRAY(SELECT w.id FROM wanted w)) FOR UPDATE SKIP LOCKED
), marked AS (
    UPDATE sched.ledger e
       SET awaited = true
      FROM locked l
     WHERE e.id = l.id AND (e.status = 'PENDING' OR (e.status = 'FAILED' AND e.next_retry_at IS NOT NULL))
    RETURNING e.id, e.schedule_id
), remembered AS (
    INSERT INTO sched.awaited (schedule_id, execution_id) SELECT m.schedule_id, m.id FROM marked m
)
SELECT DISTINCT w.schedule_id FROM wanted w WHERE w.id NOT IN (SELECT l.id FROM locked l)
