-- A trigger of theirs works the job's next run out anew. {ids} source ids, {enabled}
UPDATE ONLY {schema}.pga_schedule AS s SET jscenabled = {enabled} WHERE s.jscjobid::text || '/' || s.jscid::text = ANY ({ids}::text[])
