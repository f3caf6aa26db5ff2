-- Rows as they are in a database that has worked with 0.3.0 for a while: one of each kind that an update has to keep.
-- Written into the tables themselves: the functions of a later library need not work with these objects.
INSERT INTO sched.home (system_identifier, database)
SELECT c.system_identifier, d.oid FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database();

INSERT INTO sched.job (job_name, kind, command, queue, max_attempts, retry_backoff, run_timeout, stale_timeout, allow_stale_reentry, priority,
                       owner, own_transactions, settings)
VALUES ('work', 'pull', NULL, 'q', 3, '{1 min, 10 min}', '30 min', '1 hour', true, 5, 'app', false, '{}'),
       ('slow', 'pull', NULL, 's', 2, '{1 hour}', NULL, '1 day', false, 0, 'app', false, '{}'),
       ('note', 'notify', 'channel', 'default', 1, '{}', NULL, NULL, false, 0, 'app', false, '{}'),
       ('line', 'log', NULL, 'default', 1, '{}', NULL, NULL, false, 0, 'app', false, '{}'),
       ('say', 'sql', 'SELECT 1', 'default', 1, '{}', '1 min', NULL, false, 0, 'app', true, '{"work_mem": "8MB"}');

-- All scopes are this server's, which somebody has said.
INSERT INTO sched.shard (buckets) VALUES ('{[0,1024)}');

-- A queue of which nothing is claimed, and in which nothing waits.
INSERT INTO sched.paused_queue (queue, paused_by) VALUES ('held', 'app');

-- All of them were created an hour ago. Those of a version above 1 were edited since.
INSERT INTO sched.schedule (schedule_name, clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up, catch_up_window,
                            max_plans_per_tick, rearm, overlap, delay, jitter, ownership, enabled, version, created_at, baseline_at, updated_at,
                            defined_at, previous_keys)
SELECT name, clock, zone, job, '{"a": 1}', 'schedule', name, catch_up, catch_up_window::interval, 100, rearm, overlap, '0', '0', ownership,
       enabled, version, born, born + edited::interval, born + edited::interval, born + edited::interval,
       CASE WHEN name = 'edited' THEN ARRAY[sched_internal.scope_key('work', 'schedule', 'before')] ELSE '{}' END
  FROM (VALUES ('pulse', 'every 200 milliseconds', 'Europe/Berlin', 'work', 'latest_only', NULL, 'on_dispatch', 'allow', 'owned', true, 1, '0'),
               ('yearly', '0 0 1 1 *', 'Europe/Berlin', 'work', 'every_plan', '1 day', 'on_dispatch', 'skip', 'owned', true, 2, '59 min'),
               ('chained', 'every 1 second', 'Europe/Berlin', 'work', 'latest_only', NULL, 'on_terminal', 'allow', 'owned', true, 1, '0'),
               ('paused', '@hourly', 'Europe/Berlin', 'work', 'skip_missed', NULL, 'on_dispatch', 'buffer_one', 'owned', false, 2, '10 min'),
               ('theirs', '@hourly', 'Europe/Berlin', 'work', 'latest_only', NULL, 'on_dispatch', 'allow', 'external', true, 1, '0'),
               ('edited', '@daily', 'Europe/Berlin', 'work', 'latest_only', NULL, 'on_dispatch', 'allow', 'owned', true, 4, '55 min'),
               ('buffered', 'every 20 minutes', 'UTC', 'slow', 'latest_only', NULL, 'on_dispatch', 'buffer_one', 'owned', true, 1, '0'),
               ('backlog', 'every 5 minutes', 'UTC', 'slow', 'every_plan', '50 min', 'on_terminal', 'allow', 'owned', true, 1, '0'),
               -- of a server whose list of time zones had it
               ('parked', '@hourly', 'Europe/Atlantis', 'work', 'latest_only', NULL, 'on_dispatch', 'allow', 'owned', true, 1, '0'),
               ('posix', '@yearly', 'EST5', 'line', 'latest_only', NULL, 'on_dispatch', 'allow', 'owned', true, 1, '0'))
       AS s (name, clock, zone, job, catch_up, catch_up_window, rearm, overlap, ownership, enabled, version, edited),
       (SELECT date_trunc('second', clock_timestamp()) - interval '1 hour') AS b (born);

-- One that asks for alerts.
UPDATE sched.schedule
   SET max_lateness = '1 hour', max_duration = '2 hours', expect_success_within = '800 days', alert_job = 'note'
 WHERE schedule_name = 'posix';

-- One that came from another scheduler, which fires it still and was reported to have.
INSERT INTO sched.imported (source, source_schema, source_id, schedule_id, fingerprint, job_name)
SELECT 'celery_beat', 'public', '7', schedule_id, md5('7'), job_name FROM sched.schedule WHERE schedule_name = 'theirs';
INSERT INTO sched.reported_fire (schedule_id, plan_time, fired_at)
SELECT schedule_id, date_trunc('hour', created_at), date_trunc('hour', created_at) + interval '2 seconds'
  FROM sched.schedule WHERE schedule_name = 'theirs';

-- What edited ones were before. Of the last edit no dispatcher knows yet.
INSERT INTO sched.schedule_definition (schedule_id, valid_from, valid_to, clock, time_zone, enabled, ownership, settled)
SELECT s.schedule_id, s.created_at + valid_from::interval, s.created_at + valid_to::interval, d.clock, 'Europe/Berlin', d.enabled, d.ownership,
       settled
  FROM (VALUES ('edited', '0', '25 min', 'every 10 minutes', true, 'owned', true),
               ('edited', '25 min', '45 min', 'every 10 minutes', false, 'owned', true),
               ('edited', '45 min', '55 min', 'every 10 minutes', true, 'external', true),
               ('paused', '0', '10 min', '@hourly', true, 'owned', true),
               ('yearly', '0', '59 min', '@monthly', true, 'owned', false))
       AS d (schedule_name, valid_from, valid_to, clock, enabled, ownership, settled)
  JOIN sched.schedule s USING (schedule_name)
 ORDER BY s.schedule_id, d.valid_to;

-- What did not run, and why.
INSERT INTO sched.skip (schedule_id, defined_at, plan_from, plan_to, count, reason)
SELECT s.schedule_id, CASE WHEN defined IS NULL THEN s.defined_at ELSE s.created_at + defined::interval END, s.created_at + plan_from::interval,
       s.created_at + plan_to::interval, count, reason
  FROM (VALUES ('pulse', NULL, '00:00:00.2', '00:29:59.8', 8999, 'missed'),
               ('edited', '0', '20 min', '20 min', 1, 'replaced'),
               ('edited', '25 min', '30 min', '40 min', 2, 'paused'),
               ('chained', NULL, '1 s', '34 min 59 s', 2099, 'overlap'),
               ('backlog', NULL, '5 min', '5 min', 1, 'window'))
       AS k (schedule_name, defined, plan_from, plan_to, count, reason)
  JOIN sched.schedule s USING (schedule_name);

-- What became of runs, where they came from, and whether they are claimable, wait, run, or have ended.
INSERT INTO sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, status, attempt, max_attempts,
                          allow_stale_reentry, awaited, origin, owner, schedule_id, schedule_name, started_at, heartbeat_at, finished_at,
                          next_retry_at, fence, lease_token, runner_id, rows_affected, error_code, error_msg, result, progress, run_at)
SELECT sched_internal.scope_key(j.job_name, e.scope_kind, e.scope_id), j.job_name, e.scope_kind, e.scope_id, b.born + e.plan::interval, j.ready_queue,
       j.priority, '{"a": 1}', e.status, e.attempt, j.max_attempts, j.allow_stale_reentry, e.awaited, e.origin, 'app', s.schedule_id,
       s.schedule_name, a.at, a.at, a.at + interval '1 second', CASE WHEN e.retry THEN w.later END,
       CASE WHEN a.at IS NOT NULL THEN nextval('sched.fence') END, CASE WHEN a.at IS NOT NULL THEN gen_random_uuid() END,
       CASE WHEN a.at IS NOT NULL THEN 'runner' END, CASE WHEN e.status = 'SUCCESS' THEN 7 END,
       CASE WHEN e.status = 'FAILED' THEN 'smtp' END, CASE WHEN e.status = 'FAILED' THEN 'refused' END,
       CASE WHEN e.status = 'SUCCESS' THEN '{"b": 2}'::jsonb END, CASE WHEN a.at IS NOT NULL THEN '{"c": 3}'::jsonb END,
       CASE WHEN e.retry AND e.status = 'PENDING' THEN w.later END
  FROM (VALUES ('work', 'schedule', 'pulse', 'pulse', '30 min', 'SUCCESS', 1, false, false, 'schedule'),
               ('work', 'schedule', 'pulse', 'pulse', '31 min', 'FAILED', 3, false, false, 'schedule'),
               ('work', 'schedule', 'pulse', 'pulse', '32 min', 'CANCELLED', 0, false, false, 'schedule'),
               ('work', 'schedule', 'pulse', 'pulse', '33 min', 'PENDING', 0, false, false, 'schedule'),
               ('work', 'schedule', 'pulse', 'pulse', '34 min', 'FAILED', 1, true, false, 'backfill'),
               ('work', 'schedule', 'pulse', 'pulse', '34 min 0.1 s', 'SUCCESS', 2, false, false, 'manual'),
               ('work', 'schedule', 'chained', 'chained', '35 min', 'PENDING', 0, false, true, 'schedule'),
               ('work', 'schedule', 'before', 'edited', '10 min', 'SUCCESS', 1, false, false, 'schedule'),
               ('slow', 'schedule', 'buffered', 'buffered', '20 min', 'PENDING', 0, false, true, 'schedule'),
               ('slow', 'schedule', 'backlog', 'backlog', '10 min', 'PENDING', 0, false, true, 'schedule'),
               ('slow', 'schedule', 'dropped', NULL, '30 min', 'PENDING', 0, false, false, 'schedule'),
               ('work', 'adhoc', '', NULL, '45 min', 'PENDING', 0, false, false, 'enqueue'),
               ('work', 'customer', '7', NULL, '0', 'SUCCESS', 1, false, false, 'claim'),
               ('note', 'adhoc', '', NULL, '46 min', 'SUCCESS', 1, false, false, 'enqueue'),
               ('work', 'adhoc', 'later', NULL, '47 min', 'PENDING', 0, true, false, 'enqueue'),
               ('work', 'customer', '8', NULL, '48 min', 'PENDING', 0, false, false, 'enqueue'),
               ('say', 'adhoc', '', NULL, '49 min', 'SUCCESS', 1, false, false, 'enqueue'),
               ('say', 'adhoc', 'next', NULL, '50 min', 'PENDING', 0, false, false, 'enqueue'),
               ('note', 'adhoc', 'told', NULL, '51 min', 'PENDING', 0, true, false, 'enqueue'))
       AS e (job_name, scope_kind, scope_id, schedule_name, plan, status, attempt, retry, awaited, origin)
  JOIN sched.job j USING (job_name)
  LEFT JOIN sched.schedule s USING (schedule_name)
 CROSS JOIN (SELECT created_at FROM sched.schedule WHERE schedule_name = 'pulse') AS b (born)
 CROSS JOIN LATERAL (SELECT CASE WHEN e.attempt > 0 THEN b.born + e.plan::interval END) AS a (at)
 CROSS JOIN (SELECT clock_timestamp() + interval '1 hour') AS w (later);
-- One execution waits in its scope at a time.
INSERT INTO sched.unique_scope (key, execution_id) SELECT key, id FROM sched.ledger WHERE (scope_kind, scope_id) = ('customer', '8');
-- A schedule that was dropped with cancel_pending while a runner had this one.
UPDATE sched.ledger SET schedule_id = nextval('sched.schedule_schedule_id_seq'), schedule_name = 'dropped' WHERE scope_id = 'dropped';
INSERT INTO sched.schedule_dropped (schedule_id, keys, until_xid)
SELECT schedule_id, ARRAY[key], pg_current_xact_id()::text::bigint FROM sched.ledger WHERE scope_id = 'dropped';

-- 'chained' and 'buffered' run, and so does what was dropped. All else that is pending can be claimed.
INSERT INTO sched.lease (execution_id, lease_token, fence, attempt, owner, started_at, heartbeat_at, stale_after, sweep_at, stale_timeout,
                         runner_id, progress, cancel_requested, run_until)
SELECT id, gen_random_uuid(), nextval('sched.fence'), 1, owner, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 hour',
       clock_timestamp() + interval '1 hour', '1 hour', 'runner', '{"c": 3}', scope_id = 'dropped',
       CASE WHEN job_name = 'work' THEN clock_timestamp() + interval '30 minutes' END
  FROM sched.ledger WHERE scope_id IN ('chained', 'buffered', 'dropped');
INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
SELECT queue, priority, plan_time, id, owner
  FROM sched.ledger WHERE status = 'PENDING' AND run_at IS NULL AND id NOT IN (SELECT l.execution_id FROM sched.lease l);
-- What a dispatcher delivers at a time waits in a queue of its own.
UPDATE sched.ledger SET queue = 'executions that a dispatcher delivers when they are due, those of queue default' WHERE scope_id = 'told';
INSERT INTO sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
SELECT next_retry_at, id, queue, priority, plan_time, owner FROM sched.ledger WHERE next_retry_at IS NOT NULL;
INSERT INTO sched.awaited (schedule_id, execution_id) SELECT schedule_id, id FROM sched.ledger WHERE awaited;

-- The schedules have been armed, but for the last change.
DELETE FROM sched.schedule_change WHERE schedule_id <> (SELECT schedule_id FROM sched.schedule WHERE schedule_name = 'yearly');
INSERT INTO sched.timer (schedule_id, version, next_plan_time, fire_at, waiting, buffered_plan, cursor_at, backlog_until, last_plan_time,
                         last_fired_at, error_count, last_error, parked, tracks_runs)
SELECT s.schedule_id, CASE WHEN s.schedule_name = 'yearly' THEN 1 ELSE s.version END, n.at, n.at, t.waiting, s.created_at + t.buffered::interval,
       s.created_at + t.cursor::interval, s.created_at + t.backlog::interval, s.created_at + t.last::interval, s.created_at + t.last::interval,
       (t.error IS NOT NULL)::integer, t.error, t.error IS NOT NULL, t.tracks_runs
  FROM (VALUES ('pulse', '34 min 0.2 s', false, NULL, '34 min', NULL, '33 min', NULL, false),
               ('yearly', 'month', false, NULL, NULL, NULL, NULL, NULL, true),
               ('chained', NULL, true, NULL, '35 min', NULL, '35 min', NULL, true),
               ('paused', NULL, false, NULL, NULL, NULL, NULL, NULL, true),
               ('theirs', NULL, false, NULL, NULL, NULL, NULL, NULL, false),
               ('edited', 'day', false, NULL, NULL, NULL, '10 min', NULL, false),
               ('buffered', NULL, true, '40 min', '40 min', NULL, '20 min', NULL, true),
               ('backlog', NULL, true, NULL, '10 min', '50 min', '10 min', NULL, true),
               ('parked', NULL, false, NULL, NULL, NULL, NULL, 'time zone "Europe/Atlantis" is not known to the server', false),
               ('posix', 'year', false, NULL, NULL, NULL, NULL, NULL, false))
       AS t (schedule_name, next, waiting, buffered, cursor, backlog, last, error, tracks_runs)
  JOIN sched.schedule s USING (schedule_name)
 CROSS JOIN LATERAL (
       SELECT CASE WHEN t.next IN ('day', 'month', 'year')
                   THEN (date_trunc(t.next, clock_timestamp() AT TIME ZONE s.time_zone) + ('1 ' || t.next)::interval) AT TIME ZONE s.time_zone
                   ELSE s.created_at + t.next::interval END) AS n (at);
INSERT INTO sched.timer_state (schedule_id, buffered_plan, backlog_until, parked, external_through, redefined_at)
SELECT t.schedule_id, t.buffered_plan, t.backlog_until, t.parked, CASE WHEN s.schedule_name = 'pulse' THEN t.cursor_at END,
       CASE WHEN s.schedule_name = 'edited' THEN s.defined_at END
  FROM sched.timer t
  JOIN sched.schedule s USING (schedule_id)
 WHERE t.buffered_plan IS NOT NULL OR t.backlog_until IS NOT NULL OR t.parked OR s.schedule_name IN ('pulse', 'edited');

-- What dispatchers have told of: a run that failed for good, since put right, and what is parked now. They look at 'posix' when a run of it is late.
INSERT INTO sched.alert (kind, schedule_id, schedule_name, owner, execution_id, plan_time, since, message, detail, opened_at, resolved_at)
SELECT 'failed', e.schedule_id, e.schedule_name, e.owner, e.id, e.plan_time, e.finished_at, 'a run failed for good (error smtp)', e.error_msg,
       e.finished_at, e.finished_at + interval '1 minute'
  FROM sched.ledger e WHERE e.schedule_name = 'pulse' AND e.status = 'FAILED' AND e.next_retry_at IS NULL;
INSERT INTO sched.alert (kind, schedule_id, schedule_name, owner, since, message, detail, opened_at)
SELECT 'parked', s.schedule_id, s.schedule_name, 'app', s.created_at, 'it is parked', t.last_error, s.created_at
  FROM sched.schedule s JOIN sched.timer t USING (schedule_id) WHERE t.parked;
INSERT INTO sched.alert_state (schedule_id, version, unsettled, due_at)
SELECT s.schedule_id, s.version, '{}', CASE WHEN NOT t.parked THEN t.next_plan_time + s.max_lateness END
  FROM sched.schedule s JOIN sched.timer t USING (schedule_id) WHERE t.parked OR s.max_lateness IS NOT NULL;
INSERT INTO sched.alert_watch (due_at, schedule_id) SELECT due_at, schedule_id FROM sched.alert_state WHERE due_at IS NOT NULL;
