-- $1 request_ids
DELETE FROM sched.cancel_request c WHERE c.request_id = ANY ($1)
