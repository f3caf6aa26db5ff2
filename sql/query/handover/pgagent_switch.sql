-- A trigger of theirs works the job's next run out anew. $1 source ids, $2 whether they are on
UPDATE ONLY {schema}.pga_schedule AS s SET jscenabled = $2 WHERE s.jscjobid::text || '/' || s.jscid::text = ANY ($1)
