-- What a clock that was ahead has written is put right: a definition ends where a later one begins, by the clock as it is now. One that begins
-- only then never was, and nothing of it was skipped. $1 schedule_ids
WITH bound AS MATERIALIZED (
    SELECT p.past_id, p.since_at, p.until_at,
           least(s.since_at,
                 min(p.since_at) OVER (PARTITION BY p.schedule_id ORDER BY p.past_id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)) AS next_at
      FROM sched.schedule_past p
      JOIN sched.schedule s ON s.schedule_id = p.schedule_id
     WHERE p.schedule_id = ANY ($1)
), never AS (
    DELETE FROM sched.schedule_past p USING bound b WHERE p.past_id = b.past_id AND b.since_at >= b.next_at
), cut AS (
    UPDATE sched.schedule_past p
       SET until_at = b.next_at
      FROM bound b
     WHERE p.past_id = b.past_id AND b.since_at < b.next_at AND b.until_at > b.next_at
)
DELETE FROM sched.skip k
 USING sched.schedule s
 WHERE k.schedule_id = ANY ($1) AND s.schedule_id = k.schedule_id AND k.since_at > s.since_at
