-- Names of jobs that a role may use, as long as a name but for a few letters. $1 name, $2 letters, $3 caller
SELECT j.job_name
  FROM sched.job j
 WHERE abs(length(j.job_name) - length($1)) <= $2 AND pg_has_role($3, j.owner, 'USAGE')
 ORDER BY j.job_name
 LIMIT 1000
