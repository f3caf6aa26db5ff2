-- $1 source, $2 schema, $3 source_ids, $4 schedule_ids, $5 fingerprints, $6 job_names, $7 now
INSERT INTO sched.imported (source, source_schema, source_id, schedule_id, fingerprint, job_name, imported_at)
SELECT $1, $2, n.source_id, n.schedule_id, n.fingerprint, n.job_name, $7
  FROM unnest($3, $4, $5, $6) AS n (source_id, schedule_id, fingerprint, job_name)
