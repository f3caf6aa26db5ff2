SELECT msg_id, message FROM pgmq.read('bench', 300, 1) \gset
SELECT pgmq.delete('bench', :msg_id::bigint);
