\set n :n + 1
\set k :n % 500
SELECT outcome, execution_id, lease_token, attempt, max_attempts, stale_after FROM sched.try_claim('bench', to_timestamp(:k), 'client', :client_id::text, 'runner', :lease::interval);
