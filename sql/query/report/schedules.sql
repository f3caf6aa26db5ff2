-- The schedules that a role may read about, as the view shows them, by their names. Their numbers are asked for by another statement: no planner
-- knows how many rows come of the view, and it compares each name with each. $1 pattern of the name (NULL = all), $2 the name (NULL = all)
SELECT v.schedule_name, v.clock, v.time_zone, v.state, v.next_plan_time, v.last_error
  FROM sched.schedules v
 WHERE ($1 IS NULL OR v.schedule_name LIKE $1) AND ($2 IS NULL OR v.schedule_name = $2)
 ORDER BY v.schedule_name
