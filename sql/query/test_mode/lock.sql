-- The greatest fence that was given. Others in test mode wait: the clock stands, and one session runs SQL jobs at a time
SELECT COALESCE((SELECT max(e.fence) FROM sched.ledger e), 0) AS fence FROM sched.test_clock FOR UPDATE
