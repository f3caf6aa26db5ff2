-- $1 source ids, $2 whether they are on
UPDATE ONLY {schema}.bgw_job AS j SET scheduled = $2 WHERE j.id::text = ANY ($1)
