-- Logical replication copies no sequences: each goes behind the greatest number that its table holds. A claim gets a greater fence than any that was
-- ever given.
SELECT setval(s.sequence, greatest(s.greatest, s.last_value), s.greatest > 0 OR s.is_called) AS advanced
  FROM (SELECT 'sched.schedule_schedule_id_seq'::regclass AS sequence, q.last_value, q.is_called,
               COALESCE((SELECT max(s.schedule_id) FROM sched.schedule s), 0) AS greatest
          FROM sched.schedule_schedule_id_seq q
        UNION ALL
        SELECT 'sched.schedule_definition_definition_id_seq', q.last_value, q.is_called, COALESCE((SELECT max(d.definition_id) FROM sched.schedule_definition d), 0)
          FROM sched.schedule_definition_definition_id_seq q
        UNION ALL
        SELECT 'sched.schedule_change_change_id_seq', q.last_value, q.is_called, COALESCE((SELECT max(c.change_id) FROM sched.schedule_change c), 0)
          FROM sched.schedule_change_change_id_seq q
        UNION ALL
        SELECT 'sched.alert_alert_id_seq', q.last_value, q.is_called, COALESCE((SELECT max(a.alert_id) FROM sched.alert a), 0)
          FROM sched.alert_alert_id_seq q
        UNION ALL
        SELECT 'sched.alert_watch_watch_id_seq', q.last_value, q.is_called, COALESCE((SELECT max(w.watch_id) FROM sched.alert_watch w), 0)
          FROM sched.alert_watch_watch_id_seq q
        UNION ALL
        SELECT 'sched.fence', q.last_value, q.is_called, greatest(COALESCE((SELECT max(l.fence) FROM sched.lease l), 0), COALESCE((SELECT max(e.fence) FROM sched.ledger e), 0))
          FROM sched.fence q) AS s
 WHERE s.greatest >= s.last_value
