-- Whether a role may enqueue a job of another role, and whether it may enqueue only what it was granted: it lacks what grant_use gives.
-- $1 job_name, $2 role
SELECT EXISTS (SELECT FROM sched.enqueue_grant g WHERE g.job_name = $1 AND pg_has_role($2, g.role, 'USAGE')) AS is_granted,
       NOT EXISTS (SELECT
                     FROM pg_proc p
                    WHERE p.pronamespace = 'sched'::regnamespace AND p.proname = 'define_job' AND has_function_privilege($2, p.oid, 'EXECUTE')) AS is_confined
