-- Their rows, locked, and whether each is on. $1 source ids
SELECT c.chain_id::text AS id, COALESCE(c.live, false)::text AS enabled FROM ONLY {schema}.chain AS c WHERE c.chain_id::text = ANY ($1) FOR UPDATE
