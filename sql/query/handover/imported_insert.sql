-- What was there before stood for a row of another role, whose table has gone. $1 source, $2 schema, $3 source_ids, $4 schedule_ids, $5 fingerprints, $6 job_names, $7 now,
-- $8 what they are called there
INSERT INTO sched.imported (source, source_schema, source_id, schedule_id, fingerprint, job_name, imported_at, source_name)
SELECT $1, $2, n.source_id, n.schedule_id, n.fingerprint, n.job_name, $7, n.source_name
  FROM unnest($3, $4, $5, $6, $8) AS n (source_id, schedule_id, fingerprint, job_name, source_name)
    ON CONFLICT (source, source_schema, source_id)
    DO UPDATE SET schedule_id = excluded.schedule_id, fingerprint = excluded.fingerprint, job_name = excluded.job_name,
                  imported_at = excluded.imported_at, taken_over_at = NULL, was_enabled = NULL, source_name = excluded.source_name
