SELECT count(*) FROM graphile_worker.add_jobs(array_fill(ROW('bench', '{"n": 1}'::json, NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec, ARRAY[100]));
