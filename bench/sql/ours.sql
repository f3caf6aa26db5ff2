CREATE EXTENSION scheduler;
SELECT sched.grant_use('app');
SET ROLE app;
SELECT sched.define_job('bench', max_attempts => 1000000000, retry_backoff => '{}', stale_timeout => '5 min');
RESET ROLE;
