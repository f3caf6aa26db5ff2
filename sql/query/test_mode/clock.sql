SELECT ahead FROM sched.test_clock
