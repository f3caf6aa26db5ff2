-- $1 source ids, $2 whether they are on
UPDATE ONLY {schema}.job AS j SET active = $2 WHERE j.jobid::text = ANY ($1)
