SELECT array_agg(execution_id) AS ids, array_agg(lease_token) AS tokens, count(payload) AS n FROM sched.claim('default', 100) \gset
SELECT count(*) FROM sched.finish_success_many(:ids, :tokens);
