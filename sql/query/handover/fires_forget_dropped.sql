-- Those of schedules that somebody has dropped, but for what another transaction is just forgetting.
WITH dropped AS MATERIALIZED (
    SELECT f.ctid
      FROM sched.reported_fire f
     WHERE NOT EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_id = f.schedule_id)
       FOR UPDATE SKIP LOCKED
)
DELETE FROM sched.reported_fire f USING dropped d WHERE f.ctid = d.ctid
