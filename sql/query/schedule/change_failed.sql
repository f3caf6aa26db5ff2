-- Changes that could not be applied are tried again later. $1 change_ids, $2 when
UPDATE sched.schedule_change
   SET failures = least(failures, 2147483646) + 1, retry_at = $2
 WHERE change_id = ANY ($1)
