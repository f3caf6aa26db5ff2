-- Those of these that a client has in its memory, and may run once more up to a minute after they are off. $1 source ids
SELECT c.chain_id::text AS id FROM ONLY {schema}.chain AS c WHERE c.chain_id::text = ANY ($1) AND c.run_at ~ '^@(every|after)' AND c.live
