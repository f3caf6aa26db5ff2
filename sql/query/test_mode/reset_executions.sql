WITH ready AS (DELETE FROM sched.ready), retry AS (DELETE FROM sched.retry), lease AS (DELETE FROM sched.lease),
     cancel_request AS (DELETE FROM sched.cancel_request), awaited AS (DELETE FROM sched.awaited), unique_scope AS (DELETE FROM sched.unique_scope),
     skip AS (DELETE FROM sched.skip), timer_state AS (DELETE FROM sched.timer_state), timer AS (DELETE FROM sched.timer),
     schedule_dropped AS (DELETE FROM sched.schedule_dropped), reported_fire AS (DELETE FROM sched.reported_fire),
     alert AS (DELETE FROM sched.alert), alert_watch AS (DELETE FROM sched.alert_watch), alert_state AS (DELETE FROM sched.alert_state),
     ledger AS (DELETE FROM sched.ledger)
UPDATE sched.test_clock SET is_reset = true
