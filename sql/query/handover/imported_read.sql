-- What was imported from there, with its schedule and who owns it; schedule_name is NULL where somebody has dropped that.
-- $1 source, $2 schema
SELECT i.source_id, i.fingerprint, i.job_name AS imported_job, s.schedule_id, s.schedule_name, s.clock, s.time_zone, s.job_name, j.owner::oid AS owner, j.kind,
       s.enabled, s.ownership, s.created_at, s.starts_at, s.ends_at
  FROM sched.imported i
  LEFT JOIN sched.schedule s ON s.schedule_id = i.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 WHERE i.source = $1 AND i.source_schema = $2
 ORDER BY i.source_id
