-- To be tried again after pauses that grow to a second. $1 request_ids, $2 now
UPDATE sched.cancel_request c
   SET retry_at = $2 + LEAST(GREATEST(($2 - c.requested_at) / 4, interval '20 milliseconds'), interval '1 second')
 WHERE c.request_id = ANY ($1)
