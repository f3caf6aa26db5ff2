SELECT count(sched.enqueue('bench', '{"n": 1}')) FROM generate_series(1, 100);
