-- The skips of a schedule that reach into a range, in order. $1 schedule_id, $2 from, $3 to
SELECT k.defined_at, k.plan_from, k.plan_to, k.count, k.reason
  FROM sched.skip k
 WHERE k.schedule_id = $1 AND k.plan_to >= $2 AND k.plan_from < $3
 ORDER BY k.defined_at, k.plan_from
