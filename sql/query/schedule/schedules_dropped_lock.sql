-- Those of them that nobody else has in hand; their scopes, and whether all transactions that may have fired one of them have ended. A
-- number that a restore has brought to life again has nothing to be cancelled.
-- $1 schedule_ids, $2 a transaction id that was still to be given when these were seen
SELECT d.schedule_id, CASE WHEN (SELECT true FROM sched.schedule s WHERE s.schedule_id = d.schedule_id) THEN '{}' ELSE d.keys END AS keys,
       LEAST(d.until_xid, $2) <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS have_ended
  FROM sched.schedule_dropped d
 WHERE d.schedule_id = ANY ($1)
   FOR UPDATE SKIP LOCKED
