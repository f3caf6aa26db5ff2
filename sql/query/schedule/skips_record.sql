-- What a batch of timers passed over, and what they remember, right after the statement that moved them and in the same
-- transaction: a crash loses neither or both. A statement of its own, which batches that fire on time never run. Timers that were
-- not moved (edited meanwhile, or postponed) record nothing: theirs is decided again. A run of skips that goes on stays one row.
-- $1 to $6 timers: schedule_ids, versions, cursors, buffered plans, backlog ends, whether their state changes; $7 to $13 skips:
-- schedule_ids, definitions, first and last plans, counts, reasons, plans before the first; $14 definitions that are settled;
-- $15 whether each of the timers is parked, $16 the last plan it ran, where the ledger may have held it already, $17 whether it begins
-- before plans that it has fired
-- A row for each run of skips that was written, with its job: it tells who counts what was.
WITH moved AS MATERIALIZED (
    SELECT t.schedule_id, d.buffered_plan, d.changes, d.parked, d.external_through, d.redefined,
           CASE WHEN d.backlog_until > COALESCE(d.cursor_at, '-infinity') THEN d.backlog_until END AS backlog_until
      FROM unnest($1, $2, $3, $4, $5, $6, $15, $16, $17)
        AS d (schedule_id, version, cursor_at, buffered_plan, backlog_until, changes, parked, external_through, redefined)
      JOIN sched.timer t ON t.schedule_id = d.schedule_id
     WHERE t.version = d.version AND t.cursor_at IS NOT DISTINCT FROM d.cursor_at
       AND t.buffered_plan IS NOT DISTINCT FROM d.buffered_plan AND t.backlog_until IS NOT DISTINCT FROM d.backlog_until
), settled AS (
    UPDATE sched.schedule_definition d
       SET settled = true
     WHERE d.definition_id = ANY ($14) AND d.schedule_id IN (SELECT m.schedule_id FROM moved m)
), remembered AS (
    INSERT INTO sched.timer_state (schedule_id, buffered_plan, backlog_until, parked, external_through, redefined_at)
    SELECT m.schedule_id, m.buffered_plan, m.backlog_until, m.parked, m.external_through, CASE WHEN m.redefined THEN sched.now() END
      FROM moved m
     WHERE m.external_through IS NOT NULL OR m.redefined
        OR (m.changes AND (m.parked OR COALESCE(m.buffered_plan, m.backlog_until) IS NOT NULL))
        ON CONFLICT (schedule_id) DO UPDATE
       SET buffered_plan = excluded.buffered_plan, backlog_until = excluded.backlog_until, parked = excluded.parked,
           external_through = COALESCE(excluded.external_through, CASE WHEN excluded.redefined_at IS NULL THEN timer_state.external_through END),
           redefined_at = COALESCE(excluded.redefined_at, timer_state.redefined_at)
), forgotten AS MATERIALIZED (
    SELECT m.schedule_id
      FROM moved m
     WHERE m.changes AND m.external_through IS NULL AND NOT m.redefined AND NOT m.parked AND COALESCE(m.buffered_plan, m.backlog_until) IS NULL
), deleted AS (
    DELETE FROM sched.timer_state t
     WHERE t.external_through IS NULL AND t.redefined_at IS NULL AND t.schedule_id IN (SELECT f.schedule_id FROM forgotten f)
), emptied AS (
    UPDATE sched.timer_state t
       SET buffered_plan = NULL, backlog_until = NULL, parked = false
     WHERE (t.external_through IS NOT NULL OR t.redefined_at IS NOT NULL) AND t.schedule_id IN (SELECT f.schedule_id FROM forgotten f)
)
INSERT INTO sched.skip (schedule_id, defined_at, plan_from, plan_to, count, reason)
SELECT k.schedule_id, k.defined_at, COALESCE(n.plan_from, k.plan_from), k.plan_to, k.count, k.reason
  FROM unnest($7, $8, $9, $10, $11, $12, $13) AS k (schedule_id, defined_at, plan_from, plan_to, count, reason, previous)
  LEFT JOIN LATERAL (
       SELECT l.plan_from
         FROM (SELECT o.plan_from, o.plan_to, o.reason
                 FROM sched.skip o
                WHERE o.schedule_id = k.schedule_id AND o.defined_at = k.defined_at
                ORDER BY o.plan_from DESC
                LIMIT 1) AS l
        WHERE l.plan_to = k.previous AND l.reason = k.reason) AS n ON true
 WHERE k.schedule_id IN (SELECT m.schedule_id FROM moved m)
    ON CONFLICT (schedule_id, defined_at, plan_from) DO UPDATE
   SET plan_to = excluded.plan_to, count = skip.count + excluded.count
 WHERE excluded.plan_to > skip.plan_to
RETURNING schedule_id, plan_to, (SELECT s.job_name FROM sched.schedule s WHERE s.schedule_id = skip.schedule_id) AS job_name,
          (SELECT j.ready_queue FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = skip.schedule_id) AS queue,
          (SELECT j.owner::oid FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = skip.schedule_id) AS owner
