-- What an update added goes to those who had the rest, and to nobody else: users, monitors and workers are those who hold all that the
-- first release with grant_use, grant_monitor and grant_worker gave them. (A right that somebody was given by hand makes no user.)
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
    SELECT a.grantee, p.proname::text, a.privilege_type
      FROM pg_proc p
     CROSS JOIN LATERAL aclexplode(p.proacl) AS a
     WHERE p.pronamespace = 'sched'::regnamespace AND a.grantee NOT IN (0, p.proowner)
), needed AS MATERIALIZED (
    SELECT w.what, 'sched' AS name, 'USAGE' AS privilege_type FROM unnest('{use,monitor,worker}'::text[]) AS w (what)
     UNION ALL
    SELECT 'use', f.name, 'EXECUTE'
      FROM unnest('{define_job,drop_job,create_schedule,create_schedules,alter_schedule,fire_now,backfill,drop_schedule,pause,resume,
                    dispatch_due,try_claim,claim,heartbeat,finish_success,finish_failure,import_crontab,next_time,preview,validate,
                    enqueue,finish_success_many,assert_lease,cancel,mark_stale_as_failed,latest_plan,due_plans,
                    attempts_since_success}'::text[]) AS f (name)
     UNION ALL
    SELECT w.what, v.name, 'SELECT'
      FROM unnest('{use,monitor}'::text[]) AS w (what)
     CROSS JOIN unnest('{execution,running,failed,history,schedules}'::text[]) AS v (name)
     UNION ALL
    SELECT 'monitor', 'monitor', 'SELECT'
     UNION ALL
    SELECT 'worker', t.name, 'SELECT' FROM unnest('{home,job,schedule}'::text[]) AS t (name)
     UNION ALL
    SELECT 'worker', t.name, r.privilege_type
      FROM unnest('{schedule_change,timer,ledger,retry,awaited,skip,timer_memory}'::text[]) AS t (name)
     CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS r (privilege_type)
), whole AS MATERIALIZED (
    SELECT n.what, h.grantee
      FROM held h
      JOIN needed n ON n.name = h.name AND n.privilege_type = h.privilege_type
     GROUP BY n.what, h.grantee
    HAVING count(*) = (SELECT count(*) FROM needed o WHERE o.what = n.what)
)
SELECT sched.grant_use(w.grantee) FROM whole w WHERE w.what = 'use'
UNION ALL
SELECT sched.grant_monitor(w.grantee) FROM whole w WHERE w.what = 'monitor'
UNION ALL
SELECT sched.grant_worker(w.grantee) FROM whole w WHERE w.what = 'worker'
