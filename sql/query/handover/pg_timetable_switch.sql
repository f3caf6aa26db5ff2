-- $1 source ids, $2 whether they are on
UPDATE ONLY {schema}.chain AS c SET live = $2 WHERE c.chain_id::text = ANY ($1)
