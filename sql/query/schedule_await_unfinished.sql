-- From now on these schedules care whether a run has ended: the unfinished ones are remembered. A run that ends meanwhile is re-read
-- under its row lock and left out. $1 schedule_ids
WITH unfinished AS (
    SELECT r.execution_id FROM sched.ready r
    UNION ALL SELECT r.execution_id FROM sched.retry r
    UNION ALL SELECT l.execution_id FROM sched.lease l
), marked AS (
    UPDATE sched.ledger e
       SET awaited = true
      FROM unfinished u
     WHERE e.id = u.execution_id AND e.schedule_id = ANY ($1) AND e.origin = 'schedule' AND NOT e.awaited
       AND (e.status = 'PENDING' OR (e.status = 'FAILED' AND e.next_retry_at IS NOT NULL))
    RETURNING e.id, e.schedule_id
)
INSERT INTO sched.awaited (schedule_id, execution_id) SELECT m.schedule_id, m.id FROM marked m
