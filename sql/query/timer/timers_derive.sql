-- What timers are made of besides their schedules. Plan times are decided up to the last that ran, was skipped, is buffered or was somebody else's, under the first
-- definition that is not settled yet, else the present one. An edit whose transaction stayed open may have been overtaken by fires, which
-- are none of the definition that begins with it: only what was fired after it was seen tells of that one; nor what was fired by a clock that
-- was ahead, which an edit by the right one was overtaken by as well. $1 schedule_ids
SELECT s.schedule_id,
       -- a moment that is none tells nothing
       greatest(CASE WHEN NOT isfinite(ts.redefined_at) THEN 'infinity'::timestamptz END,
                CASE WHEN ts.redefined_at IS NULL AND fired.plan_time > open.valid_from THEN fired.plan_time
                     WHEN fired_since.plan_time > open.valid_from THEN fired_since.plan_time END,
                skipped.plan_to,
                ts.buffered_plan, ts.external_through,
                -- an interval that counts from runs: when the last began, and when it ended
                CASE WHEN s.clock ~* '^[ \t]*every[ \t].*[ \t]after[ \t]+(start|end)[ \t]*$'
                     THEN (SELECT max(edge.at)
                             FROM (VALUES (CASE WHEN ts.redefined_at IS NULL THEN fired.created_at ELSE fired_since.created_at END),
                                          (CASE WHEN s.clock !~* '[ \t]end[ \t]*$' THEN NULL
                                                WHEN ts.redefined_at IS NULL THEN fired.finished_at ELSE fired_since.finished_at END)) AS edge (at)
                            WHERE edge.at > open.valid_from AND isfinite(edge.at)) END) AS cursor_at,
       ts.buffered_plan, ts.backlog_until, COALESCE(ts.parked, false) AS parked, ended.terminal_at,
       CASE WHEN ts.redefined_at IS NULL THEN greatest(fired.plan_time, ts.external_through)
            ELSE COALESCE(greatest(fired_since.plan_time, ts.external_through), fired.plan_time) END AS last_plan_time,
       COALESCE(fired_since.created_at, fired.created_at) AS last_fired_at
  FROM unnest($1) AS i (schedule_id)
  JOIN sched.schedule s ON s.schedule_id = i.schedule_id
 CROSS JOIN LATERAL (
       SELECT COALESCE((SELECT d.valid_from
                          FROM sched.schedule_definition d
                         WHERE d.schedule_id = s.schedule_id AND NOT d.settled
                         ORDER BY d.valid_from
                         LIMIT 1), s.defined_at) AS valid_from) AS open
  LEFT JOIN LATERAL (
       SELECT last.plan_time, last.created_at, last.finished_at
         FROM (SELECT s.key UNION ALL SELECT unnest(s.previous_keys)) AS k (key)
        CROSS JOIN LATERAL (SELECT e.plan_time, e.created_at, e.finished_at
                              FROM sched.ledger e
                             WHERE e.key = k.key AND e.schedule_id = s.schedule_id AND e.origin = 'schedule'
                             ORDER BY e.plan_time DESC
                             LIMIT 1) AS last
        ORDER BY last.plan_time DESC
        LIMIT 1) AS fired ON true
  LEFT JOIN LATERAL (
       SELECT max(k.plan_to) AS plan_to
         FROM sched.skip k
        WHERE k.schedule_id = s.schedule_id AND k.defined_at = open.valid_from) AS skipped ON true
  LEFT JOIN sched.timer_state ts ON ts.schedule_id = s.schedule_id
  LEFT JOIN LATERAL (
       -- All of it lies after the edit that was overtaken, which bounds the search.
       SELECT e.plan_time, e.created_at, e.finished_at
         FROM (SELECT s.key UNION ALL SELECT unnest(s.previous_keys)) AS k (key)
         JOIN sched.ledger e ON e.key = k.key
              AND e.plan_time > (SELECT b.valid_from
                                   FROM (SELECT s.defined_at
                                         UNION ALL
                                         SELECT d.valid_from FROM sched.schedule_definition d WHERE d.schedule_id = s.schedule_id) AS b (valid_from)
                                  WHERE b.valid_from <= ts.redefined_at
                                  ORDER BY b.valid_from DESC
                                  LIMIT 1)
        WHERE e.schedule_id = s.schedule_id AND e.origin = 'schedule' AND e.created_at > ts.redefined_at AND e.created_at <= sched.now()
        ORDER BY e.plan_time DESC
        LIMIT 1) AS fired_since ON ts.redefined_at IS NOT NULL
  LEFT JOIN (SELECT c.schedule_id, max(c.terminal_at) AS terminal_at
               FROM sched.schedule_change c
              WHERE c.schedule_id = ANY ($1)
              GROUP BY c.schedule_id) AS ended ON ended.schedule_id = s.schedule_id
