SELECT array_agg(msg_id) AS ids, count(message) AS n FROM pgmq.read('bench', 300, 100) \gset
SELECT count(*) FROM pgmq.delete('bench', :ids::bigint[]);
