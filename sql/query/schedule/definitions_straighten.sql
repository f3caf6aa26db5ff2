-- What a clock that was ahead has written is put right: a definition ends where a later one begins, by the clock as it is now. One that begins
-- only then never was, and nothing of it was skipped. $1 schedule_ids
WITH bound AS MATERIALIZED (
    SELECT d.definition_id, d.valid_from, d.valid_to,
           least(s.defined_at,
                 min(d.valid_from) OVER (PARTITION BY d.schedule_id ORDER BY d.definition_id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)) AS next_at
      FROM sched.schedule_definition d
      JOIN sched.schedule s ON s.schedule_id = d.schedule_id
     WHERE d.schedule_id = ANY ($1)
), never AS (
    DELETE FROM sched.schedule_definition d USING bound b WHERE d.definition_id = b.definition_id AND b.valid_from >= b.next_at
), cut AS (
    UPDATE sched.schedule_definition d
       SET valid_to = b.next_at
      FROM bound b
     WHERE d.definition_id = b.definition_id AND b.valid_from < b.next_at AND b.valid_to > b.next_at
)
DELETE FROM sched.skip k
 USING sched.schedule s
 WHERE k.schedule_id = ANY ($1) AND s.schedule_id = k.schedule_id AND k.defined_at > s.defined_at
