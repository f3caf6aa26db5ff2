-- The zone that the server's files say.
SELECT f.setting AS zone FROM pg_file_settings AS f WHERE lower(f.name) = 'timezone' AND f.applied ORDER BY f.seqno DESC LIMIT 1
