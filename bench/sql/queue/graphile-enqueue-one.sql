SELECT id FROM graphile_worker.add_job('bench', '{"n": 1}');
