-- Schedules are looked at again, now that their job was written: those that were parked; and all of them where they could not use it
-- before, because a dispatcher that cannot see it yet may be parking one of them, until this transaction ends. The change waits for the
-- timer that such a dispatcher has locked. $1 job_name, $2 whether all
INSERT INTO sched.schedule_change (schedule_id)
SELECT s.schedule_id
  FROM sched.schedule s
  LEFT JOIN sched.timer t ON t.schedule_id = s.schedule_id
 WHERE s.job_name = $1 AND (t.parked OR $2)
RETURNING change_id
