INSERT INTO pgmq.q_bench (vt, message) SELECT clock_timestamp(), unnest(array_fill('{"n": 1}'::jsonb, ARRAY[100])) RETURNING msg_id;
