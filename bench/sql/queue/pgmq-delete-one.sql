WITH cte AS (SELECT msg_id FROM pgmq.q_bench WHERE vt <= clock_timestamp() ORDER BY msg_id ASC LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE pgmq.q_bench m SET vt = clock_timestamp() + interval '300 s', read_ct = read_ct + 1 FROM cte WHERE m.msg_id = cte.msg_id RETURNING m.msg_id, m.read_ct, m.enqueued_at, m.vt, m.message \gset
DELETE FROM pgmq.q_bench WHERE msg_id = :msg_id RETURNING msg_id;
