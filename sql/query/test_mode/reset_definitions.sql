WITH imported AS (DELETE FROM sched.imported), paused_queue AS (DELETE FROM sched.paused_queue), schedule AS (DELETE FROM sched.schedule)
DELETE FROM sched.job
