-- Reads by the ledger's key, which is a hash: a condition on job_name, scope_kind and scope_id of a view reads the whole ledger. Their bodies
-- are parsed here, since their readers have no right on sched_internal. The view says what a reader sees of each row.
CREATE FUNCTION sched.executions_of(job_name text, scope_kind text, scope_id text, from_time timestamptz DEFAULT NULL, to_time timestamptz DEFAULT NULL)
    RETURNS SETOF sched.execution LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT e.*
      FROM sched_internal.ids_of_scope($1, $2, $3, $4, $5) AS i (id)
      JOIN sched.execution e ON e.id = i.id
     ORDER BY e.plan_time DESC;
END;

CREATE FUNCTION sched.runs_of(schedule_name text, from_time timestamptz DEFAULT NULL, to_time timestamptz DEFAULT NULL)
    RETURNS SETOF sched.execution LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT e.*
      FROM sched_internal.ids_of_schedule($1, $2, $3) AS i (id)
      JOIN sched.execution e ON e.id = i.id
     ORDER BY e.plan_time DESC;
END;
