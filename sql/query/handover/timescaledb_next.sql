-- When each of these runs next: by what it says itself that would be at once, since that time has passed. $1 source ids, $2 times
UPDATE ONLY {schema}.bgw_job_stat AS s
   SET next_start = n.at
  FROM unnest($1, $2) AS n (id, at)
 WHERE s.job_id::text = n.id
