-- Made when the first crontab is imported, so that a restored dump brings its own. 244 of the 256 bits are random.
INSERT INTO sched.crontab_secret (secret)
VALUES (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'))
ON CONFLICT DO NOTHING
