-- Their rows, locked, and whether each is on. {ids} source ids
SELECT c.chain_id::text AS id, COALESCE(c.live, false)::text AS enabled FROM ONLY {schema}.chain AS c WHERE c.chain_id::text = ANY ({ids}::text[]) FOR UPDATE
