-- Timers that no schedule calls for: those of dropped ones, and those that claim to be newer than their schedule.
DELETE FROM sched.timer t
 WHERE NOT EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_id = t.schedule_id AND s.version >= t.version)
