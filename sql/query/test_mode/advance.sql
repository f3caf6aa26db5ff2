-- $1 microseconds
UPDATE sched.test_clock SET ahead = ahead + $1
