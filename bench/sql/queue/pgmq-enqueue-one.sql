SELECT pgmq.send('bench', '{"n": 1}'::jsonb);
