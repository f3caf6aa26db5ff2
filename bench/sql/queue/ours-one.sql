SELECT execution_id AS id, lease_token, payload FROM sched.claim('default', 1) \gset
SELECT sched.finish_success(:id, :lease_token);
