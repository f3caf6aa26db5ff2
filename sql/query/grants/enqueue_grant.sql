-- Lets a role enqueue a job; the grants that it needs for that. $1 job_name, $2 role
WITH granted AS (INSERT INTO sched.enqueue_grant (job_name, role) VALUES ($1, $2) ON CONFLICT DO NOTHING)
SELECT format(g.text, $2::regrole) AS grant
  FROM (VALUES ('GRANT USAGE ON SCHEMA sched TO %s'), ('GRANT EXECUTE ON FUNCTION sched.enqueue, sched.enqueue_many TO %s')) AS g (text)
