-- With the grants to enqueue it. $1 job_name
WITH granted AS (DELETE FROM sched.enqueue_grant g WHERE g.job_name = $1)
DELETE FROM sched.job WHERE job_name = $1
