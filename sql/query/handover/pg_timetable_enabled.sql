-- Those of these that are on. $1 source ids
SELECT DISTINCT c.chain_id::text AS id FROM ONLY {schema}.chain AS c WHERE c.chain_id::text = ANY ($1) AND c.live
