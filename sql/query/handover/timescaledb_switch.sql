-- {ids} source ids, {enabled}
UPDATE ONLY {schema}.bgw_job AS j SET scheduled = {enabled} WHERE j.id::text = ANY ({ids}::text[])
