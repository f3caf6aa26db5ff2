-- What is fired here in place of others, as far as it is fired: not what is parked already.
SELECT i.source, i.source_schema, i.source_id, s.schedule_id, s.schedule_name, j.owner::oid AS owner
  FROM sched.imported i
  JOIN sched.schedule s ON s.schedule_id = i.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
  LEFT JOIN sched.timer t ON t.schedule_id = i.schedule_id
 WHERE i.taken_over_at IS NOT NULL AND s.ownership = 'owned' AND s.enabled AND t.parked IS NOT TRUE
 ORDER BY i.source, i.source_schema
