SELECT sched.enqueue('bench', '{"n": 1}');
