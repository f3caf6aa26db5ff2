-- What schedules were before is over with what became of it
DELETE FROM sched.schedule_definition
