-- What clients read and write. A view's conditions run as the reader, so current_user is the reader's role. security_barrier: no function
-- of the reader sees a row before that test.

CREATE VIEW cron.job WITH (security_barrier) AS
SELECT e.jobid, CASE WHEN s.clock = e.clock THEN e.schedule ELSE s.clock END AS schedule, j.command, e.nodename, e.nodeport,
       pg_catalog.current_database()::text AS database, pg_catalog.pg_get_userbyid(j.owner)::text AS username,
       s.enabled AND s.ownership = 'owned' AS active, e.jobname
  FROM cron_internal.entry e
  JOIN sched.schedule s ON s.schedule_id = e.schedule_id
  JOIN sched.job j ON j.job_name = s.job_name
 WHERE e.removed_at IS NULL
   AND (j.owner = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
        OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = current_user AND (r.rolsuper OR r.rolbypassrls)));
ALTER VIEW cron.job ALTER COLUMN nodename SET DEFAULT 'localhost';
ALTER VIEW cron.job ALTER COLUMN nodeport SET DEFAULT pg_catalog.current_setting('port')::integer;
ALTER VIEW cron.job ALTER COLUMN database SET DEFAULT pg_catalog.current_database();
ALTER VIEW cron.job ALTER COLUMN username SET DEFAULT current_user;
ALTER VIEW cron.job ALTER COLUMN active SET DEFAULT true;
COMMENT ON VIEW cron.job IS 'the jobs of the role that reads, of all roles for a superuser, with the columns of pg_cron';

-- A run is one lease: its fence is the runid. What waits to run is not shown, as there. The command is the job's, or was at its end: who had it
-- run before it was another's reads no command of theirs.
CREATE VIEW cron.job_run_details WITH (security_barrier) AS
SELECT e.jobid, run.id AS runid, pg_catalog.substring(run.runner_id, '^sql/([0-9]{1,9})$')::integer AS job_pid,
       pg_catalog.current_database()::text AS database, pg_catalog.pg_get_userbyid(l.owner)::text AS username,
       CASE WHEN COALESCE(j.owner::oid, e.owner::oid) = l.owner::oid THEN COALESCE(j.command, e.command) END AS command,
       CASE WHEN r.execution_id IS NOT NULL THEN 'running' WHEN l.status = 'SUCCESS' THEN 'succeeded' ELSE 'failed' END AS status,
       CASE WHEN r.execution_id IS NOT NULL THEN NULL
            WHEN l.status = 'CANCELLED' THEN 'job cancelled'
            WHEN l.status <> 'SUCCESS'
            THEN 'ERROR:  ' || pg_catalog.regexp_replace(l.error_msg, '\nstatement [0-9]+ of [0-9]+$', '') || E'\n'
            WHEN last.tag = 'SELECT' THEN last.rows || CASE last.rows WHEN '1' THEN ' row' ELSE ' rows' END
            WHEN last.tag = 'INSERT' THEN 'INSERT 0 ' || last.rows
            ELSE pg_catalog.concat_ws(' ', last.tag, last.rows) END AS return_message,
       CASE WHEN r.execution_id IS NULL THEN l.started_at ELSE r.started_at END AS start_time,
       CASE WHEN r.execution_id IS NULL THEN l.finished_at END AS end_time
  FROM cron_internal.entry e
  JOIN sched.ledger l ON l.key = e.key AND l.schedule_id = e.schedule_id
  LEFT JOIN sched.lease r ON r.execution_id = l.id
  LEFT JOIN sched.schedule s ON s.schedule_id = e.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 CROSS JOIN LATERAL (SELECT CASE WHEN r.execution_id IS NULL THEN l.fence ELSE r.fence END AS id,
                            CASE WHEN r.execution_id IS NULL THEN l.runner_id ELSE r.runner_id END AS runner_id) AS run
 CROSS JOIN LATERAL (SELECT l.result #>> '{statements,-1,tag}' AS tag, l.result #>> '{statements,-1,rows}' AS rows) AS last
 WHERE run.id IS NOT NULL
   -- What was said of a runid before a run had it says nothing of that run.
   AND NOT EXISTS (SELECT FROM cron_internal.deleted_run d
                    WHERE d.runid = run.id AND d.owner IN (0, l.owner)
                      AND d.deleted_at >= COALESCE(CASE WHEN r.execution_id IS NULL THEN l.started_at ELSE r.started_at END, '-infinity'))
   AND (l.owner = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
        OR EXISTS (SELECT FROM pg_catalog.pg_roles a WHERE a.rolname = current_user AND (a.rolsuper OR a.rolbypassrls)));
COMMENT ON VIEW cron.job_run_details IS 'the runs of the jobs of cron.job, also of those that were removed, with the columns of pg_cron';

-- How a call finds out who calls. Functions that run as their owner do not see that, and an argument could be forged. So callers insert into
-- this view, whose first trigger runs as the role that inserts and writes it down, whatever was said.
CREATE VIEW cron_internal.call AS
SELECT NULL::text AS action, NULL::bigint AS id, NULL::text AS jobname, NULL::text AS schedule, NULL::text AS command, NULL::text AS database,
       NULL::text AS username, NULL::boolean AS active, NULL::text AS nodename, NULL::integer AS nodeport,
       NULL::bigint AS result, NULL::oid AS caller
 WHERE false;
COMMENT ON VIEW cron_internal.call IS 'internal: what the functions of the schema cron insert their calls into; always empty';
