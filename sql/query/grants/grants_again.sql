-- What an update added goes to users, monitors and workers, and to nobody else. They are known by some of the rights (`marks`) that the
-- first release with grant_use, grant_monitor and grant_worker gave them, as an administrator may have taken others back; a worker needs all
-- of them. (A single right that somebody was given by hand makes no user.) What a release gave is here from the next one on: an update has
-- not added it, and who lacks it was deprived of it. (Each script of a chain of updates is a step, which has its own version.) How many
-- were given rights, and the statements that give what somebody had on a function that this update replaces (NAME_replaced), and take back
-- what they did not have before.
WITH held AS MATERIALIZED (
    SELECT a.grantee, n.nspname::text AS name, a.privilege_type
      FROM pg_namespace n
     CROSS JOIN LATERAL aclexplode(n.nspacl) AS a
     WHERE n.nspname = 'sched' AND a.grantee NOT IN (0, n.nspowner)
     UNION
    SELECT a.grantee, c.relname::text, a.privilege_type
      FROM pg_class c
     CROSS JOIN LATERAL aclexplode(c.relacl) AS a
     WHERE c.relnamespace = 'sched'::regnamespace AND a.grantee NOT IN (0, c.relowner)
     UNION
    SELECT a.grantee, regexp_replace(p.proname, '_replaced$', ''), a.privilege_type
      FROM pg_proc p
     CROSS JOIN LATERAL aclexplode(p.proacl) AS a
     WHERE p.pronamespace = 'sched'::regnamespace AND a.grantee NOT IN (0, p.proowner)
), step AS MATERIALIZED (
    -- The version that this script of the update leads to.
    SELECT e.extversion AS version FROM pg_extension e WHERE e.extname = 'scheduler'
), needed AS MATERIALIZED (
    SELECT w.what, 'sched' AS name, 'USAGE' AS privilege_type, true AS marks FROM unnest('{use,monitor,worker}'::text[]) AS w (what)
     UNION ALL
    SELECT 'use', f.name, 'EXECUTE', f.name IN ('define_job', 'create_schedule', 'claim')
      FROM unnest('{define_job,drop_job,create_schedule,create_schedules,alter_schedule,fire_now,backfill,drop_schedule,pause,resume,
                    dispatch_due,try_claim,claim,heartbeat,finish_success,finish_failure,import_crontab,next_time,preview,validate,
                    enqueue,finish_success_many,assert_lease,cancel,mark_stale_as_failed,latest_plan,due_plans,
                    attempts_since_success}'::text[]) AS f (name)
     UNION ALL
    SELECT w.what, v.name, 'SELECT', w.what = 'monitor' AND v.name IN ('execution', 'schedules')
      FROM unnest('{use,monitor}'::text[]) AS w (what)
     CROSS JOIN unnest('{execution,running,failed,history,schedules}'::text[]) AS v (name)
     UNION ALL
    SELECT 'monitor', 'monitor', 'SELECT', true
     UNION ALL
    -- Since 0.2.0, whose own script gives them.
    SELECT l.what, l.name, l.privilege_type, false
      FROM (VALUES ('use', 'enqueue_many', 'EXECUTE'), ('use', 'explain', 'EXECUTE'), ('use', 'is_home', 'EXECUTE'), ('use', 'skipped', 'SELECT'),
                   ('monitor', 'explain', 'EXECUTE'), ('monitor', 'is_home', 'EXECUTE'), ('monitor', 'skipped', 'SELECT'))
           AS l (what, name, privilege_type)
     WHERE (SELECT s.version FROM step s) <> '0.2.0'
     UNION ALL
    -- Since 0.3.0. (A worker needs all that a worker is given, and gets it again.)
    SELECT w.what, f.name, 'EXECUTE', false
      FROM unnest('{use,monitor}'::text[]) AS w (what)
     CROSS JOIN unnest('{bucket,buckets,health,healthy,metrics,openmetrics,recent,report,timeline}'::text[]) AS f (name)
     WHERE (SELECT s.version FROM step s) NOT IN ('0.2.0', '0.3.0')
     UNION ALL
    SELECT 'use', f.name, 'EXECUTE', false
      FROM unnest('{acknowledge,alter_execution,alter_job,cancel_many,compare,hand_back,heartbeat_many,import_from,pause_queue,report_fire,
                    resume_queue,schedule_sql,snooze,take_over,test_job,this_run,unschedule}'::text[]) AS f (name)
     WHERE (SELECT s.version FROM step s) NOT IN ('0.2.0', '0.3.0')
     UNION ALL
    SELECT w.what, v.name, 'SELECT', false
      FROM unnest('{use,monitor}'::text[]) AS w (what)
     CROSS JOIN unnest('{alerts,jobs,last_runs,late,queues,waiting}'::text[]) AS v (name)
     WHERE (SELECT s.version FROM step s) NOT IN ('0.2.0', '0.3.0')
     UNION ALL
    -- Since 0.3.1.
    SELECT w.what, f.name, 'EXECUTE', false
      FROM unnest('{use,monitor}'::text[]) AS w (what)
     CROSS JOIN unnest('{executions_of,runs_of}'::text[]) AS f (name)
     WHERE (SELECT s.version FROM step s) NOT IN ('0.2.0', '0.3.0', '0.3.1')
     UNION ALL
    SELECT 'worker', t.name, 'SELECT', true FROM unnest('{home,job,schedule}'::text[]) AS t (name)
     UNION ALL
    SELECT 'worker', t.name, r.privilege_type, true
      FROM unnest('{schedule_change,timer,ledger,retry,awaited,skip,timer_state}'::text[]) AS t (name)
     CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS r (privilege_type)
), known AS MATERIALIZED (
    SELECT n.what, h.grantee
      FROM held h
      JOIN needed n ON n.name = h.name AND n.privilege_type = h.privilege_type
     WHERE n.marks
     GROUP BY n.what, h.grantee
    HAVING count(*) = (SELECT count(*) FROM needed o WHERE o.what = n.what AND o.marks)
), granted AS MATERIALIZED (
    SELECT sched.grant_use(k.grantee) AS done FROM known k WHERE k.what = 'use'
    UNION ALL
    SELECT sched.grant_monitor(k.grantee) FROM known k WHERE k.what = 'monitor'
    UNION ALL
    SELECT sched.grant_worker(k.grantee) FROM known k WHERE k.what = 'worker'
)
SELECT (SELECT count(g.done) FROM granted g) AS granted,
       ARRAY(SELECT format('GRANT EXECUTE ON FUNCTION sched.%I TO %s%s', regexp_replace(p.proname, '_replaced$', ''),
                           CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
                           CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' END)
               FROM pg_proc p
              CROSS JOIN LATERAL aclexplode(p.proacl) AS a
              WHERE p.pronamespace = 'sched'::regnamespace AND p.proname LIKE '%\_replaced' AND a.grantee <> p.proowner) AS grants,
       ARRAY(SELECT format(CASE n.privilege_type WHEN 'EXECUTE' THEN 'REVOKE EXECUTE ON FUNCTION sched.%I FROM %s'
                                                 ELSE 'REVOKE SELECT ON sched.%I FROM %s' END, n.name, k.grantee::regrole)
               FROM known k
               JOIN needed n ON n.what = k.what
              WHERE NOT EXISTS (SELECT
                                  FROM held h
                                 WHERE h.grantee = k.grantee AND h.name = n.name AND h.privilege_type = n.privilege_type)) AS revokes
