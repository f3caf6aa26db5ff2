-- Whom an alert is about: the owner of its schedule's job, or who was that. $1 alert_id
SELECT COALESCE(j.owner, a.owner)::oid AS owner
  FROM sched.alert a
  LEFT JOIN sched.schedule s ON s.schedule_id = a.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 WHERE a.alert_id = $1
