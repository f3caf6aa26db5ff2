-- The secret that names of imported crontab lines are made with.
SELECT s.secret FROM sched.crontab_secret s
