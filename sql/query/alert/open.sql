-- Opens an alert; no row where one of this schedule and kind is open. $1 kind, $2 schedule_id, $3 schedule_name, $4 owner, $5 execution_id,
-- $6 plan_time, $7 since, $8 message, $9 detail, $10 now
INSERT INTO sched.alert AS a (kind, schedule_id, schedule_name, owner, execution_id, plan_time, since, message, detail, opened_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (schedule_id, kind) WHERE resolved_at IS NULL DO NOTHING
RETURNING a.alert_id,
          jsonb_build_object('alert_id', a.alert_id, 'kind', a.kind, 'schedule_name', a.schedule_name, 'since', a.since,
                             'message', concat_ws(': ', a.message, a.detail), 'execution_id', a.execution_id) AS payload
