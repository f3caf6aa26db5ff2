-- Those of these that are on. {ids} source ids
SELECT c.chain_id::text AS id FROM ONLY {schema}.chain AS c WHERE c.chain_id::text = ANY ({ids}::text[]) AND c.live
