-- {ids} source ids, {enabled}
UPDATE ONLY {schema}.job AS j SET active = {enabled} WHERE j.jobid = ANY ({ids}::text[]::bigint[])
