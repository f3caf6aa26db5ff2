-- Leases that ran out before a time, of runs that nobody has ended: how many, and the first. $1 before when, $2 how many to count at most,
-- $3 no lease is to be looked at up to this time
SELECT count(*) AS count, min(l.stale_after) AS first
  FROM (SELECT l.stale_after FROM sched.lease l WHERE l.sweep_at > $3 AND l.sweep_at <= $1 AND l.stale_after <= $1 ORDER BY l.sweep_at LIMIT $2) AS l
