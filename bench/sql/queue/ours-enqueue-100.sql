SELECT count(*) FROM sched.enqueue_many('bench', array_fill('{"n": 1}'::jsonb, ARRAY[100]));
