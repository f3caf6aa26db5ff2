-- What pg_dump takes along: all that was said and all that became of it, so that a restored copy neither loses work nor runs again what
-- ran. Not timers and changes: they are made anew from the schedules, whose restored rows queue changes by themselves.
SELECT pg_catalog.pg_extension_config_dump('sched.home', '');
SELECT pg_catalog.pg_extension_config_dump('sched.job', '');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule', '');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_schedule_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('sched.fence', '');
SELECT pg_catalog.pg_extension_config_dump('sched.ledger', '');
SELECT pg_catalog.pg_extension_config_dump('sched.ready', '');
SELECT pg_catalog.pg_extension_config_dump('sched.retry', '');
SELECT pg_catalog.pg_extension_config_dump('sched.lease', '');
SELECT pg_catalog.pg_extension_config_dump('sched.awaited', '');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_past', '');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_past_past_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('sched.skip', '');
SELECT pg_catalog.pg_extension_config_dump('sched.timer_memory', '');
