-- Rows as they are in a database that has worked with 0.1.0 for a while: one of each kind that an update has to keep.
-- Written into the tables themselves: the functions of a later library need not work with these objects.
INSERT INTO sched.job (job_name, kind, command, queue, max_attempts, retry_backoff, stale_timeout, allow_stale_reentry, priority, owner)
VALUES ('work', 'pull', NULL, 'q', 3, '{1 min, 10 min}', '1 hour', true, 5, 'app'),
       ('note', 'notify', 'channel', 'default', 1, '{}', NULL, false, 0, 'app');

INSERT INTO sched.schedule (schedule_name, clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up, catch_up_window,
                            max_plans_per_tick, rearm, overlap, delay, jitter, ownership, enabled, created_at, baseline_at, updated_at)
SELECT name, clock, 'Europe/Berlin', 'work', '{"a": 1}', 'schedule', name, catch_up, catch_up_window::interval, 100, rearm, overlap,
       '0', '0', ownership, enabled, born, born, born
  FROM (VALUES ('pulse', 'every 200 milliseconds', 'latest_only', NULL, 'on_dispatch', 'allow', 'owned', true),
               ('yearly', '0 0 1 1 *', 'every_plan', '1 day', 'on_dispatch', 'skip', 'owned', true),
               ('chained', 'every 1 second', 'latest_only', NULL, 'on_terminal', 'allow', 'owned', true),
               ('paused', '@hourly', 'skip_missed', NULL, 'on_dispatch', 'buffer_one', 'owned', false),
               ('theirs', '@hourly', 'latest_only', NULL, 'on_dispatch', 'allow', 'external', true))
       AS s (name, clock, catch_up, catch_up_window, rearm, overlap, ownership, enabled),
       (SELECT date_trunc('second', clock_timestamp()) - interval '1 hour') AS b (born);

-- What became of a run, attempts, and whether it is claimable, waits, runs, or has ended.
INSERT INTO sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, status, attempt, max_attempts,
                          allow_stale_reentry, awaited, origin, owner, schedule_id, schedule_name, started_at, finished_at, next_retry_at,
                          fence, lease_token, runner_id, rows_affected, error_code, error_msg, result)
SELECT sched.scope_key('work', 'schedule', scope_id), 'work', 'schedule', scope_id, date_trunc('second', clock_timestamp()) - ago::interval,
       'q', 5, '{"a": 1}', status, attempt, 3, true, awaited, 'schedule', 'app',
       (SELECT s.schedule_id FROM sched.schedule s WHERE s.schedule_name = e.scope_id), scope_id,
       CASE WHEN status <> 'PENDING' THEN clock_timestamp() - ago::interval END,
       CASE WHEN status <> 'PENDING' THEN clock_timestamp() - ago::interval END,
       CASE WHEN retry THEN clock_timestamp() + interval '1 hour' END,
       CASE WHEN status <> 'PENDING' THEN nextval('sched.fence') END, CASE WHEN status <> 'PENDING' THEN gen_random_uuid() END, 'runner',
       CASE WHEN status = 'SUCCESS' THEN 7 END, CASE WHEN status = 'FAILED' THEN 'smtp' END, CASE WHEN status = 'FAILED' THEN 'refused' END,
       CASE WHEN status = 'SUCCESS' THEN '{"b": 2}'::jsonb END
  FROM (VALUES ('pulse', '30 min', 'SUCCESS', 1, false, false),
               ('pulse', '29 min', 'FAILED', 3, false, false),
               ('pulse', '28 min', 'CANCELLED', 1, false, false),
               ('pulse', '27 min', 'PENDING', 0, false, false),
               ('pulse', '26 min', 'FAILED', 1, true, false),
               ('chained', '25 min', 'PENDING', 0, false, true))
       AS e (scope_id, ago, status, attempt, retry, awaited);
INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
SELECT queue, priority, plan_time, id, owner FROM sched.ledger WHERE status = 'PENDING' AND scope_id = 'pulse';
INSERT INTO sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
SELECT next_retry_at, id, queue, priority, plan_time, owner FROM sched.ledger WHERE next_retry_at IS NOT NULL;
INSERT INTO sched.lease (execution_id, lease_token, fence, attempt, owner, started_at, heartbeat_at, stale_after, sweep_at, stale_timeout, runner_id)
SELECT id, gen_random_uuid(), nextval('sched.fence'), 1, owner, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 hour',
       clock_timestamp() + interval '1 hour', '1 hour', 'runner'
  FROM sched.ledger WHERE scope_id = 'chained';
INSERT INTO sched.awaited (schedule_id, execution_id) SELECT schedule_id, id FROM sched.ledger WHERE awaited;

-- The schedules have been armed, but for the last change.
DELETE FROM sched.schedule_change WHERE schedule_id <> (SELECT schedule_id FROM sched.schedule WHERE schedule_name = 'yearly');
INSERT INTO sched.timer (schedule_id, version, next_plan_time, fire_at, waiting, cursor_at, last_plan_time, last_fired_at)
SELECT schedule_id, version, CASE WHEN schedule_name = 'pulse' THEN baseline_at + interval '200 milliseconds' END,
       CASE WHEN schedule_name = 'pulse' THEN baseline_at + interval '200 milliseconds' END, schedule_name = 'chained', baseline_at, baseline_at,
       baseline_at
  FROM sched.schedule WHERE schedule_name <> 'yearly';
