\set n :n + 1
SELECT execution_id AS id, lease_token FROM sched.try_claim('bench', to_timestamp(:n), 'client', :client_id::text, 'runner', '5 min') \gset
SELECT sched.heartbeat(:id, :lease_token);
SELECT sched.finish_success(:id, :lease_token, 1);
