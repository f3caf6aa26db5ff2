-- $1 source, $2 schema, $3 source_ids, $4 schedule_ids, $5 fingerprints, $6 now
INSERT INTO sched.imported (source, source_schema, source_id, schedule_id, fingerprint, imported_at)
SELECT $1, $2, n.source_id, n.schedule_id, n.fingerprint, $6
  FROM unnest($3, $4, $5) AS n (source_id, schedule_id, fingerprint)
