\set n :n + 1
SELECT outcome, execution_id, lease_token, attempt, max_attempts, stale_after FROM sched.try_claim('bench', to_timestamp(:n), 'client', :client_id::text, 'runner', '5 min');
