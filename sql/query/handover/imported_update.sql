-- $1 source, $2 schema, $3 source_id, $4 fingerprint, $5 now
UPDATE sched.imported SET fingerprint = $4, imported_at = $5 WHERE source = $1 AND source_schema = $2 AND source_id = $3
