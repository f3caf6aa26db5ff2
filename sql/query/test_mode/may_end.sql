-- Whether nothing is left that came to be in test mode
SELECT t.is_reset AND NOT EXISTS (SELECT FROM sched.ledger) AS may_end FROM sched.test_clock t
