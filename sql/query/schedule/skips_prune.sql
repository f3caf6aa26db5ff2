-- One step through the skips in the order of schedules: of the next rows those that ended before the retention's limit go, but never
-- the newest of a schedule, from which its timer could be made anew. Where the walk goes on.
-- $1 to $3 key of the last row of the step before, $4 limit, $5 rows to look at
WITH seen AS MATERIALIZED (
    SELECT k.schedule_id, k.defined_at, k.plan_from
      FROM sched.skip k
     WHERE (k.schedule_id, k.defined_at, k.plan_from) > ($1, $2, $3)
     ORDER BY k.schedule_id, k.defined_at, k.plan_from
     LIMIT $5
), old AS MATERIALIZED (
    -- What somebody's open transaction has in hand is left to the next walk.
    SELECT k.schedule_id, k.defined_at, k.plan_from
      FROM seen s
      JOIN sched.skip k ON k.schedule_id = s.schedule_id AND k.defined_at = s.defined_at AND k.plan_from = s.plan_from
     WHERE k.plan_to < $4
       AND EXISTS (SELECT
                     FROM sched.skip n
                    WHERE n.schedule_id = k.schedule_id AND (n.defined_at, n.plan_from) > (k.defined_at, k.plan_from))
       FOR UPDATE OF k SKIP LOCKED
), gone AS (
    DELETE FROM sched.skip k
     USING old o
     WHERE k.schedule_id = o.schedule_id AND k.defined_at = o.defined_at AND k.plan_from = o.plan_from
)
SELECT s.schedule_id, s.defined_at, s.plan_from
  FROM seen s
 ORDER BY s.schedule_id DESC, s.defined_at DESC, s.plan_from DESC
 LIMIT 1
