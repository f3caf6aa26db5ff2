. Then here: SELECT cron.alter_job({id}, active => false). Then there: SELECT sched.resume({name})
