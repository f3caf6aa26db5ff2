-- A schedule of the job whose payload is longer than NOTIFY carries, and how long that is. $1 job_name, $2 how many bytes it carries
SELECT s.schedule_name, octet_length(s.payload::text) AS size
  FROM sched.schedule s
 WHERE s.job_name = $1 AND octet_length(s.payload::text) > $2
 ORDER BY s.schedule_name
 LIMIT 1
