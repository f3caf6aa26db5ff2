-- Whether something was written by a clock that was ahead, as far as can be told at once: by what was written last. $1 what counts as ahead
SELECT COALESCE(greatest((SELECT s.created_at FROM sched.schedule s ORDER BY s.schedule_id DESC LIMIT 1),
                         (SELECT max(d.valid_to) FROM sched.schedule_definition d),
                         (SELECT e.created_at FROM sched.ledger e ORDER BY e.id DESC LIMIT 1)) > $1, false) AS is_ahead
