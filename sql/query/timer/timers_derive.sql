-- What timers are made of besides their schedules. Plan times are decided up to the last that ran, was skipped, is buffered or was somebody else's, under the first
-- definition that is not settled yet, else the present one. An edit whose transaction stayed open may have been overtaken by fires, which
-- are none of the definition that begins with it: only what was fired after it was seen tells of that one; nor what was fired by a clock that
-- was ahead, which an edit by the right one was overtaken by as well. $1 schedule_ids
SELECT s.schedule_id,
       -- a moment that is none tells nothing
       greatest(CASE WHEN NOT isfinite(m.anew_at) THEN 'infinity'::timestamptz END,
                CASE WHEN m.anew_at IS NULL AND fired.plan_time > d.since_at THEN fired.plan_time
                     WHEN anew.plan_time > d.since_at THEN anew.plan_time END,
                skipped.plan_to,
                m.buffered_plan, m.held_until) AS cursor_at,
       m.buffered_plan, m.backlog_until, COALESCE(m.parked, false) AS parked, ended.terminal_at,
       CASE WHEN m.anew_at IS NULL THEN greatest(fired.plan_time, m.held_until)
            ELSE COALESCE(greatest(anew.plan_time, m.held_until), fired.plan_time) END AS last_plan_time,
       COALESCE(anew.created_at, fired.created_at) AS last_fired_at
  FROM unnest($1) AS i (schedule_id)
  JOIN sched.schedule s ON s.schedule_id = i.schedule_id
 CROSS JOIN LATERAL (
       SELECT COALESCE((SELECT p.since_at
                          FROM sched.schedule_past p
                         WHERE p.schedule_id = s.schedule_id AND NOT p.settled
                         ORDER BY p.since_at
                         LIMIT 1), s.since_at) AS since_at) AS d
  LEFT JOIN LATERAL (
       SELECT last.plan_time, last.created_at
         FROM (SELECT s.key UNION ALL SELECT unnest(s.former_keys)) AS k (key)
        CROSS JOIN LATERAL (SELECT e.plan_time, e.created_at
                              FROM sched.ledger e
                             WHERE e.key = k.key AND e.schedule_id = s.schedule_id AND e.origin = 'schedule'
                             ORDER BY e.plan_time DESC
                             LIMIT 1) AS last
        ORDER BY last.plan_time DESC
        LIMIT 1) AS fired ON true
  LEFT JOIN LATERAL (
       SELECT max(k.plan_to) AS plan_to
         FROM sched.skip k
        WHERE k.schedule_id = s.schedule_id AND k.since_at = d.since_at) AS skipped ON true
  LEFT JOIN sched.timer_memory m ON m.schedule_id = s.schedule_id
  LEFT JOIN LATERAL (
       -- All of it lies after the edit that was overtaken, which bounds the search.
       SELECT e.plan_time, e.created_at
         FROM (SELECT s.key UNION ALL SELECT unnest(s.former_keys)) AS k (key)
         JOIN sched.ledger e ON e.key = k.key
              AND e.plan_time > (SELECT b.since_at
                                   FROM (SELECT s.since_at
                                         UNION ALL
                                         SELECT p.since_at FROM sched.schedule_past p WHERE p.schedule_id = s.schedule_id) AS b
                                  WHERE b.since_at <= m.anew_at
                                  ORDER BY b.since_at DESC
                                  LIMIT 1)
        WHERE e.schedule_id = s.schedule_id AND e.origin = 'schedule' AND e.created_at > m.anew_at AND e.created_at <= clock_timestamp()
        ORDER BY e.plan_time DESC
        LIMIT 1) AS anew ON m.anew_at IS NOT NULL
  LEFT JOIN (SELECT c.schedule_id, max(c.terminal_at) AS terminal_at
               FROM sched.schedule_change c
              WHERE c.schedule_id = ANY ($1)
              GROUP BY c.schedule_id) AS ended ON ended.schedule_id = s.schedule_id
