-- Whether a schedule has run a plan time here. $1 schedule_id, $2 plan time
SELECT FROM sched.schedule s JOIN sched.ledger e ON e.key = s.key WHERE s.schedule_id = $1 AND e.plan_time = $2 AND e.schedule_id = s.schedule_id LIMIT 1
