-- A job has another owner. The grants that its owner before gave are gone. Schedules whose owner may not act for the new one give it no alerts any
-- more. Its own schedules give theirs, which have the errors of its runs, to no job whose owner may not act for the new one.
-- $1 job_name, $2 the new owner
WITH granted AS (
    DELETE FROM sched.enqueue_grant g WHERE g.job_name = $1
)
UPDATE sched.schedule s
   SET alert_job = NULL
  FROM sched.job j
 WHERE ((s.alert_job = $1 AND j.job_name = s.job_name) OR (s.job_name = $1 AND j.job_name = s.alert_job))
   AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = j.owner AND pg_has_role(r.oid, $2, 'USAGE'))
