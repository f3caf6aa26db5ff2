-- {ids} source ids, {enabled}
UPDATE ONLY {schema}.chain AS c SET live = {enabled} WHERE c.chain_id::text = ANY ({ids}::text[])
