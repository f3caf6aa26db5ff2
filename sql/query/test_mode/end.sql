DELETE FROM sched.test_clock
