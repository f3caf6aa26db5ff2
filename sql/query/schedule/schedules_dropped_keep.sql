-- To be looked at again after pauses that grow to ten seconds; of very many no more than fifty a second, however long a transaction is open
-- for which they wait. (A number that this server has not come to yet is another one's, of which this is a copy.)
-- $1 schedule_ids, $2 a transaction id that was still to be given when these were seen, $3 now
UPDATE sched.schedule_dropped d
   SET until_xid = LEAST(d.until_xid, $2),
       retry_at = $3 + GREATEST(LEAST(GREATEST(($3 - d.dropped_at) / 4, interval '100 milliseconds'), interval '10 seconds'),
                                (SELECT count(*) FROM sched.schedule_dropped) * interval '20 milliseconds')
 WHERE d.schedule_id = ANY ($1)
