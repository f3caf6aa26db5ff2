-- What users read. A row is visible to members of its owner (superusers are members of everything) and to monitors; to a monitor
-- what may hold secrets is NULL. A view's conditions run as the reader, so current_user is the reader's role.
-- security_barrier: no function of the reader sees a row before that test. PostgreSQL pushes no condition of a join into such a view, so
-- the four that are joined by id have none: each of their columns but id is NULL for who may not read the row.
-- What the server runs itself waits in a queue whose name is longer than a user's (57 bytes) and ends with it. Its lease lasts as long as
-- the process: it ends at infinity.
CREATE TABLE sched.monitor ();
COMMENT ON TABLE sched.monitor IS 'always empty: the right to SELECT from it is what makes a role a monitor (sched.grant_monitor)';

CREATE VIEW sched.execution AS
SELECT e.id, CASE WHEN r.reads THEN e.job_name END AS job_name, CASE WHEN r.reads THEN e.scope_kind END AS scope_kind,
       CASE WHEN r.reads THEN e.scope_id END AS scope_id, CASE WHEN r.reads THEN e.plan_time END AS plan_time,
       CASE WHEN NOT r.reads THEN NULL WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue,
       CASE WHEN r.reads THEN e.priority END AS priority,
       CASE WHEN r.owns THEN e.payload END AS payload,
       CASE WHEN NOT r.reads THEN NULL
            WHEN l.execution_id IS NOT NULL THEN 'RUNNING'
            -- a dispatcher will write that down
            WHEN (e.status = 'PENDING' OR e.next_retry_at IS NOT NULL)
                 AND e.schedule_id IN (SELECT d.schedule_id FROM sched.schedule_dropped d) THEN 'CANCELLED'
            ELSE e.status END AS status,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.attempt ELSE l.attempt END AS attempt,
       CASE WHEN r.reads THEN e.max_attempts END AS max_attempts,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.runner_id ELSE l.runner_id END AS runner_id,
       CASE WHEN NOT r.owns THEN NULL WHEN l.execution_id IS NULL THEN e.lease_token ELSE l.lease_token END AS lease_token,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.fence ELSE l.fence END AS fence,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.heartbeat_at ELSE l.heartbeat_at END AS heartbeat_at,
       CASE WHEN r.reads THEN NULLIF(l.stale_after, 'infinity') END AS stale_after,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.started_at ELSE l.started_at END AS started_at,
       CASE WHEN r.reads AND l.execution_id IS NULL THEN e.finished_at END AS finished_at,
       CASE WHEN r.reads AND l.execution_id IS NULL
            THEN (EXTRACT(epoch FROM e.finished_at - e.started_at) * 1000)::bigint END AS duration_ms,
       CASE WHEN r.reads AND l.execution_id IS NULL THEN e.rows_affected END AS rows_affected,
       CASE WHEN r.owns AND l.execution_id IS NULL THEN e.result END AS result,
       CASE WHEN r.reads AND l.execution_id IS NULL THEN e.error_code END AS error_code,
       CASE WHEN r.owns AND l.execution_id IS NULL THEN e.error_msg END AS error_msg,
       CASE WHEN r.reads AND l.execution_id IS NULL AND e.status = 'FAILED'
                 AND (e.schedule_id IN (SELECT d.schedule_id FROM sched.schedule_dropped d)) IS NOT TRUE
            THEN e.next_retry_at END AS next_retry_at,
       CASE WHEN NOT r.owns THEN NULL WHEN l.execution_id IS NULL THEN e.progress ELSE l.progress END AS progress,
       CASE WHEN r.reads THEN e.allow_stale_reentry END AS allow_stale_reentry, CASE WHEN r.reads THEN e.origin END AS origin,
       CASE WHEN r.reads THEN e.schedule_name END AS schedule_name, CASE WHEN r.reads THEN e.created_at END AS created_at,
       CASE WHEN NOT r.reads THEN NULL WHEN l.execution_id IS NULL THEN e.updated_at ELSE l.heartbeat_at END AS updated_at,
       CASE WHEN r.reads THEN NULLIF(e.run_at, 'infinity') END AS run_at
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns,
                            pg_catalog.pg_has_role(current_user, e.owner, 'USAGE')
                            OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')) AS reads) AS r
 WHERE r.reads;
COMMENT ON VIEW sched.execution IS 'the ledger as users read it: one row for each (job_name, scope_kind, scope_id, plan_time)';

CREATE VIEW sched.running AS
SELECT e.id, CASE WHEN r.reads THEN e.job_name END AS job_name, CASE WHEN r.reads THEN e.scope_kind END AS scope_kind,
       CASE WHEN r.reads THEN e.scope_id END AS scope_id, CASE WHEN r.reads THEN e.plan_time END AS plan_time,
       CASE WHEN NOT r.reads THEN NULL WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue,
       CASE WHEN r.reads THEN l.attempt END AS attempt, CASE WHEN r.reads THEN e.max_attempts END AS max_attempts,
       CASE WHEN r.reads THEN l.runner_id END AS runner_id, CASE WHEN r.reads THEN l.started_at END AS started_at,
       CASE WHEN r.reads THEN sched.now() - l.started_at END AS age,
       CASE WHEN r.reads THEN l.heartbeat_at END AS heartbeat_at, CASE WHEN r.reads THEN NULLIF(l.stale_after, 'infinity') END AS stale_after,
       CASE WHEN r.reads THEN NULLIF(l.stale_after, 'infinity') - sched.now() END AS time_to_stale,
       CASE WHEN r.reads THEN l.cancel_requested OR l.execution_id IN (SELECT c.execution_id FROM sched.cancel_request c) END AS cancel_requested,
       CASE WHEN r.owns THEN l.progress END AS progress, CASE WHEN r.reads THEN e.schedule_name END AS schedule_name,
       CASE WHEN r.reads AND l.sweep_at = 'infinity' THEN pg_catalog.substring(l.runner_id, '^sql/([0-9]{1,9})$')::integer END AS pid,
       CASE WHEN r.reads THEN l.run_until END AS run_until
  FROM sched.lease l
  JOIN sched.ledger e ON e.id = l.execution_id
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns,
                            pg_catalog.pg_has_role(current_user, e.owner, 'USAGE')
                            OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')) AS reads) AS r
 WHERE r.reads;
COMMENT ON VIEW sched.running IS 'executions with a lease: how long they run, and how long the lease still lasts without a heartbeat';

CREATE VIEW sched.failed AS
SELECT e.id, CASE WHEN r.reads THEN e.job_name END AS job_name, CASE WHEN r.reads THEN e.scope_kind END AS scope_kind,
       CASE WHEN r.reads THEN e.scope_id END AS scope_id, CASE WHEN r.reads THEN e.plan_time END AS plan_time,
       CASE WHEN NOT r.reads THEN NULL WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue,
       CASE WHEN r.reads THEN e.attempt END AS attempt, CASE WHEN r.reads THEN e.max_attempts END AS max_attempts,
       CASE WHEN r.reads THEN e.runner_id END AS runner_id, CASE WHEN r.reads THEN e.finished_at END AS finished_at,
       CASE WHEN r.reads THEN e.error_code END AS error_code, CASE WHEN r.owns THEN e.error_msg END AS error_msg,
       CASE WHEN r.reads THEN e.next_retry_at IS NOT NULL END AS retryable, CASE WHEN r.reads THEN e.next_retry_at END AS next_retry_at,
       CASE WHEN r.reads THEN e.schedule_name END AS schedule_name
  FROM sched.ledger e
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns,
                            pg_catalog.pg_has_role(current_user, e.owner, 'USAGE')
                            OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')) AS reads) AS r
 WHERE e.status = 'FAILED'
   AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
   AND r.reads;
COMMENT ON VIEW sched.failed IS 'failed executions: those that will be retried, with the time, and those that failed for good';

CREATE VIEW sched.history AS
SELECT e.id, CASE WHEN r.reads THEN e.job_name END AS job_name, CASE WHEN r.reads THEN e.scope_kind END AS scope_kind,
       CASE WHEN r.reads THEN e.scope_id END AS scope_id, CASE WHEN r.reads THEN e.plan_time END AS plan_time,
       CASE WHEN NOT r.reads THEN NULL WHEN pg_catalog.octet_length(e.queue) > 57 THEN pg_catalog.substr(e.queue, 73) ELSE e.queue END AS queue,
       CASE WHEN r.reads THEN e.status END AS status, CASE WHEN r.reads THEN e.attempt END AS attempt,
       CASE WHEN r.reads THEN e.max_attempts END AS max_attempts, CASE WHEN r.reads THEN e.runner_id END AS runner_id,
       CASE WHEN r.reads THEN e.started_at END AS started_at, CASE WHEN r.reads THEN e.finished_at END AS finished_at,
       CASE WHEN r.reads THEN (EXTRACT(epoch FROM e.finished_at - e.started_at) * 1000)::bigint END AS duration_ms,
       CASE WHEN r.reads THEN e.rows_affected END AS rows_affected,
       CASE WHEN r.owns THEN e.result END AS result, CASE WHEN r.reads THEN e.error_code END AS error_code,
       CASE WHEN r.owns THEN e.error_msg END AS error_msg,
       CASE WHEN r.reads THEN e.origin END AS origin, CASE WHEN r.reads THEN e.schedule_name END AS schedule_name
  FROM sched.ledger e
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns,
                            pg_catalog.pg_has_role(current_user, e.owner, 'USAGE')
                            OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')) AS reads) AS r
 WHERE (e.status IN ('SUCCESS', 'CANCELLED') OR (e.status = 'FAILED' AND e.next_retry_at IS NULL))
   AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
   AND r.reads;
COMMENT ON VIEW sched.history IS 'executions that have ended for good, and how';

CREATE VIEW sched.jobs WITH (security_barrier) AS
SELECT j.job_name, j.kind, CASE WHEN r.owns THEN j.command END AS command, j.queue, j.max_attempts, j.retry_backoff, j.run_timeout,
       j.stale_timeout, j.allow_stale_reentry, j.priority, j.own_transactions, CASE WHEN r.owns THEN j.settings END AS settings,
       j.owner, j.created_at, j.updated_at
  FROM sched.job j
 CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, j.owner, 'USAGE') AS owns) AS r
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
COMMENT ON VIEW sched.jobs IS 'each job as it is defined: the arguments of define_job, whose it is, and since when';

CREATE VIEW sched.schedules WITH (security_barrier) AS
SELECT s.schedule_name, s.job_name, s.clock, s.time_zone, s.enabled,
       CASE s.ownership WHEN 'elsewhere' THEN 'owned' ELSE s.ownership END AS ownership, state.state,
       next.at[1] AS next_plan_time, next.at[2] AS next_fire_at,
       t.last_plan_time, t.last_fired_at, COALESCE(t.error_count, 0) AS error_count,
       CASE WHEN r.owns THEN t.last_error END AS last_error, s.max_lateness, s.max_duration, s.expect_success_within, s.alert_job, s.group_name
  FROM sched.schedule s
  LEFT JOIN sched.job j ON j.job_name = s.job_name
  LEFT JOIN sched.timer t ON t.schedule_id = s.schedule_id
 CROSS JOIN LATERAL (
       SELECT CASE WHEN s.ownership = 'elsewhere' THEN 'elsewhere'
                   WHEN s.ownership = 'external' AND NOT (SELECT sched.buckets()) @> sched.bucket(s.scope_kind, s.scope_id) THEN 'elsewhere'
                   WHEN t.parked AND t.version = s.version THEN 'parked'
                   WHEN s.ownership = 'external' THEN 'external'
                   WHEN NOT s.enabled THEN 'paused'
                   WHEN NOT (SELECT sched.is_home()) THEN 'copied'
                   WHEN t.schedule_id IS NULL OR t.version <> s.version THEN 'arming'
                   WHEN t.waiting THEN 'waiting'
                   WHEN t.error_count > 0 AND t.fire_at IS NOT NULL THEN 'failing'
                   WHEN t.fire_at IS NOT NULL THEN 'armed'
                   ELSE 'done' END AS state) AS state
 CROSS JOIN LATERAL (
       -- Without its job nobody but the extension's owner is known to own a schedule.
       SELECT pg_catalog.pg_has_role(
                  current_user,
                  COALESCE(j.owner, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched')),
                  'USAGE') AS owns) AS r
 CROSS JOIN LATERAL (
       -- What the ledger has was fired, which the timer will find out when it is due: the first plan time that it lacks comes next.
       SELECT CASE WHEN state.state NOT IN ('armed', 'failing') THEN NULL
                   WHEN EXISTS (SELECT
                                  FROM sched.ledger e
                                 WHERE e.key = ANY (CASE WHEN s.previous_keys = '{}' THEN ARRAY[s.key] ELSE ARRAY(SELECT pg_catalog.unnest(s.previous_keys) UNION ALL SELECT s.key) END)
                                   AND e.plan_time = t.next_plan_time
                                   AND (e.key = s.key OR (e.schedule_id = s.schedule_id AND e.origin IN ('schedule', 'backfill'))))
                   THEN sched_internal.next_open(s.schedule_name)
                   ELSE ARRAY[t.next_plan_time, t.fire_at] END AS at
       OFFSET 0) AS next
 WHERE r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
COMMENT ON VIEW sched.schedules IS 'each schedule with its state, its next fire and its last one';

-- What dispatchers passed over, but for what is in the ledger (a backfill, a client's claim in the schedule's scope, a fire of the definition
-- before an edit) and what lies after the definition's end (passed over while its edit was not committed). Few runs have any of it.
-- The test stands around the UNION: a view that is one itself is no barrier, the planner makes its parts those of the query.
CREATE VIEW sched.skipped WITH (security_barrier) AS
SELECT a.schedule_name, a.plan_from, a.plan_to, a.count, a.reason
  FROM (SELECT s.schedule_name, p.plan_from, p.plan_to, p.count, k.reason,
               pg_catalog.pg_has_role(
                   current_user,
                   COALESCE(j.owner, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched')),
                   'USAGE')
          FROM sched.skip k
          JOIN sched.schedule s ON s.schedule_id = k.schedule_id
          LEFT JOIN sched.job j ON j.job_name = s.job_name
          LEFT JOIN sched.schedule_definition d ON d.schedule_id = k.schedule_id AND d.valid_from = k.defined_at
         CROSS JOIN LATERAL (
               SELECT pg_catalog.array_agg(e.plan_time) FILTER (WHERE o.own) AS own,
                      pg_catalog.array_agg(e.plan_time) FILTER (WHERE NOT o.own) AS others
                 FROM sched.ledger e
                CROSS JOIN LATERAL (
                      SELECT e.schedule_id IS NOT DISTINCT FROM s.schedule_id AND e.origin IN ('schedule', 'backfill') AS own) AS o
                WHERE e.key = ANY (CASE WHEN s.previous_keys = '{}' THEN ARRAY[s.key] ELSE ARRAY(SELECT pg_catalog.unnest(s.previous_keys) UNION ALL SELECT s.key) END)
                  AND e.plan_time >= k.plan_from AND e.plan_time <= k.plan_to) AS e
         CROSS JOIN LATERAL (
               SELECT (e.own IS NOT NULL OR e.others IS NOT NULL OR d.valid_to < k.plan_to) IS TRUE AS cut OFFSET 0) AS c
         CROSS JOIN LATERAL (
               SELECT k.plan_from, k.plan_to, k.count WHERE NOT c.cut
                UNION ALL
               SELECT q.plan_from, q.plan_to, q.count
                 FROM sched_internal.skip_parts(
                          CASE WHEN k.defined_at = s.defined_at THEN s.clock ELSE d.clock END,
                          CASE WHEN k.defined_at = s.defined_at THEN s.time_zone ELSE d.time_zone END,
                          s.created_at,
                          CASE WHEN k.defined_at = s.defined_at THEN s.starts_at ELSE d.starts_at END,
                          CASE WHEN k.defined_at = s.defined_at THEN s.ends_at ELSE d.ends_at END,
                          d.valid_to, k.plan_from, k.plan_to, k.count, e.own, e.others) AS q
                WHERE c.cut) AS p
         -- The newest skip stays when retention has forgotten the definition that it is of, and with it what plan times there were.
         WHERE k.defined_at = s.defined_at OR d.valid_from IS NOT NULL
        UNION ALL
        SELECT o.schedule_name, o.plan_from, o.plan_to, o.count, o.reason, true
          FROM sched_internal.skipped_so_far() AS o) AS a (schedule_name, plan_from, plan_to, count, reason, owns)
 WHERE a.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT'));
COMMENT ON VIEW sched.skipped IS
    'plan times that did not run, and why: neighbours with one reason in one row, what is going on (paused, parked) included';

-- The test stands around the UNION, as above. What nobody is known to own is for the extension's owner and superusers.
CREATE VIEW sched.queues WITH (security_barrier) AS
SELECT a.queue,
       -- Also where only executions of an owner are paused that the reader may see.
       EXISTS (SELECT
                 FROM sched.paused_queue p
                WHERE p.queue = a.queue
                  AND (p.owner IS NULL OR pg_catalog.pg_has_role(current_user, p.owner, 'USAGE')
                       OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')))) AS paused,
       count(*) FILTER (WHERE a.what = 'ready') AS ready, count(*) FILTER (WHERE a.what = 'delayed') AS delayed,
       count(*) FILTER (WHERE a.what = 'retrying') AS retrying, count(*) FILTER (WHERE a.what = 'running') AS running,
       min(a.since) FILTER (WHERE a.what = 'ready') AS oldest_ready_at
  FROM (SELECT j.queue, j.owner, 'defined', NULL::timestamptz FROM sched.job j
        UNION ALL
        SELECT p.queue, COALESCE(p.owner, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched')), 'paused', NULL FROM sched.paused_queue p
        UNION ALL
        SELECT r.queue, r.owner, 'ready', GREATEST(e.created_at, e.run_at, e.next_retry_at)
          FROM sched.ready r
          LEFT JOIN sched.ledger e ON e.id = r.execution_id
        UNION ALL
        SELECT r.queue, r.owner,
               CASE WHEN r.retry_at <= sched.now() THEN 'ready' WHEN e.status = 'PENDING' THEN 'delayed' ELSE 'retrying' END, r.retry_at
          FROM sched.retry r
          LEFT JOIN sched.ledger e ON e.id = r.execution_id
        UNION ALL
        SELECT e.queue, l.owner, 'running', NULL
          FROM sched.lease l
          JOIN sched.ledger e ON e.id = l.execution_id) AS w (waits_in, owner, what, since)
 CROSS JOIN LATERAL (
       SELECT CASE WHEN pg_catalog.octet_length(w.waits_in) > 57 THEN pg_catalog.substr(w.waits_in, 73) ELSE w.waits_in END AS queue, w.what, w.since) AS a
 WHERE (pg_catalog.pg_has_role(current_user, w.owner, 'USAGE') OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')))
   -- What waits in a bucket of another server waits for nobody here.
   AND (w.what = 'running' OR NOT (pg_catalog.octet_length(w.waits_in) > 57 AND pg_catalog.starts_with(w.waits_in, 'elsewhere:')))
 GROUP BY a.queue;
COMMENT ON VIEW sched.queues IS 'each queue that has a job, that something waits or runs in, or that is paused, with how much';
