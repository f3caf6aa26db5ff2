-- $1 schedule_ids, $2 definitions and $3 first plans of skips; $4 their last plans and $5 how many are left, NULL where none is
WITH cut AS MATERIALIZED (
    SELECT * FROM unnest($1, $2, $3, $4, $5) AS c (schedule_id, defined_at, plan_from, plan_to, count)
), gone AS (
    DELETE FROM sched.skip k
     USING cut c
     WHERE k.schedule_id = c.schedule_id AND k.defined_at = c.defined_at AND k.plan_from = c.plan_from AND c.plan_to IS NULL
)
UPDATE sched.skip k
   SET plan_to = c.plan_to, count = c.count
  FROM cut c
 WHERE k.schedule_id = c.schedule_id AND k.defined_at = c.defined_at AND k.plan_from = c.plan_from AND c.plan_to IS NOT NULL
