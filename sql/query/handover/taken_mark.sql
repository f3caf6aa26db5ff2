-- $1 source, $2 schema, $3 source_ids, $4 whether each was on there (NULL = handed back), $5 now (NULL = handed back)
UPDATE sched.imported i
   SET taken_over_at = $5, was_enabled = t.was_enabled
  FROM unnest($3, $4) AS t (source_id, was_enabled)
 WHERE i.source = $1 AND i.source_schema = $2 AND i.source_id = t.source_id
