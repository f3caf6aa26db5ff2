-- Schedules that were parked are looked at again, now that their job was written. $1 job_name
INSERT INTO sched.schedule_change (schedule_id)
SELECT s.schedule_id
  FROM sched.schedule s
  JOIN sched.timer t ON t.schedule_id = s.schedule_id
 WHERE s.job_name = $1 AND t.parked
