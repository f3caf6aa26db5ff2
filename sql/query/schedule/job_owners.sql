-- The owners of all jobs.
SELECT DISTINCT j.owner::oid AS owner FROM sched.job j
