INSERT INTO pgmq.q_bench (vt, message) VALUES (clock_timestamp(), '{"n": 1}') RETURNING msg_id;
