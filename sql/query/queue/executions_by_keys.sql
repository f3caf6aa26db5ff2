-- The executions of these keys, in their order. $1 keys, $2 plan_times
SELECT e.id, e.owner::oid AS owner
  FROM unnest($1, $2) WITH ORDINALITY AS a (key, plan_time, place)
  JOIN sched.ledger e ON e.key = a.key AND e.plan_time = a.plan_time
 ORDER BY a.place
