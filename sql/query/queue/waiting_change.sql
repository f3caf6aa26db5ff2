-- Changes executions that wait and are locked (waiting_lock): what runs is what they are then. Each gets a new entry where it waits, also where that
-- is the same place: a claim that has seen the old one has seen what was to be run before, and must not have it.
-- Of a failed one the time is that of its retry. One that is replaced ($4) has all its attempts again. Where each stands then; a time where it
-- is to wait for that.
-- $1 execution_ids, $2 payloads (NULL = unchanged), $3 times (NULL = unchanged, or at once), $4 whether no time means at once, $5 priority (NULL =
-- unchanged), $6 now, $7 queue as users see it and $8 max_attempts (NULL = unchanged)
WITH known AS MATERIALIZED (
    SELECT e.id, e.queue, e.priority, e.plan_time, e.next_retry_at,
           -- A queue of runners or deliveries is one of the same owner.
           COALESCE(CASE WHEN octet_length(e.queue) > 57 THEN left(e.queue, 72) ELSE '' END || $7, e.queue) AS new_queue,
           COALESCE(a.payload, e.payload) AS payload, COALESCE($5, e.priority) AS new_priority, t.run_at, t.waits_until
      FROM unnest($1, $2, $3) AS a (id, payload, run_at)
      JOIN sched.ledger e ON e.id = a.id
     CROSS JOIN LATERAL (
           SELECT CASE WHEN e.status = 'FAILED' OR (a.run_at IS NULL AND NOT $4) THEN e.run_at ELSE a.run_at END AS run_at,
                  CASE WHEN a.run_at IS NULL AND NOT $4 THEN e.next_retry_at
                       WHEN e.status = 'FAILED' THEN COALESCE(a.run_at, $6)
                       WHEN a.run_at > $6 THEN a.run_at END AS waits_until) AS t
), taken AS (
    DELETE FROM sched.ready r
     USING known k
     WHERE r.queue = k.queue AND r.priority = k.priority AND r.plan_time = k.plan_time AND r.execution_id = k.id
    RETURNING k.id, k.payload, k.new_priority, k.new_queue, k.run_at, k.waits_until
), recalled AS (
    DELETE FROM sched.retry r USING known k WHERE r.retry_at = k.next_retry_at AND r.execution_id = k.id
    RETURNING k.id, k.payload, k.new_priority, k.new_queue, k.run_at, k.waits_until
), changed AS (
    UPDATE sched.ledger e
       SET payload = m.payload, priority = m.new_priority, queue = m.new_queue, max_attempts = COALESCE($8, e.max_attempts), run_at = m.run_at, next_retry_at = m.waits_until, updated_at = $6,
           attempt = CASE WHEN $4 THEN 0 ELSE e.attempt END
      FROM (SELECT * FROM taken UNION ALL SELECT * FROM recalled) AS m
     WHERE e.id = m.id
    RETURNING e.id, e.queue, e.priority, e.plan_time, e.owner, CASE WHEN e.next_retry_at > $6 THEN e.next_retry_at END AS retry_at
), claimable AS (
    INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
    SELECT c.queue, c.priority, c.plan_time, c.id, c.owner FROM changed c WHERE c.retry_at IS NULL
), later AS (
    INSERT INTO sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
    SELECT c.retry_at, c.id, c.queue, c.priority, c.plan_time, c.owner FROM changed c WHERE c.retry_at IS NOT NULL
)
SELECT c.id AS execution_id, c.queue, c.priority, c.plan_time, c.retry_at FROM changed c
