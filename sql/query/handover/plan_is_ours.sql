-- Whether a schedule was fired here from one time to another: it has run a plan time of them, or was owned. $1 schedule_id, $2 from, $3 to
SELECT
  FROM sched.schedule s
 WHERE s.schedule_id = $1
   AND (EXISTS (SELECT FROM sched.ledger e WHERE e.key = s.key AND e.plan_time BETWEEN $2 AND $3 AND e.schedule_id = s.schedule_id)
        OR EXISTS (SELECT
                     FROM sched.schedule_definition d
                    WHERE d.schedule_id = s.schedule_id AND d.ownership = 'owned' AND d.valid_from < $3 AND d.valid_to >= $2)
        OR s.ownership = 'owned' AND s.defined_at < $3)
 LIMIT 1
