-- A new baseline for every schedule: only plan times after it fire. $1 now
UPDATE sched.schedule s SET baseline_at = greatest(s.baseline_at, $1)
