-- What pg_dump takes along: all that was said and all that became of it, so that a restored copy neither loses work nor runs again what
-- ran. Not timers and changes, nor what looks for alerts: they are made anew from the schedules, whose restored rows queue changes by themselves.
-- An owner whose role was dropped is a bare number, which in a copy may be the number of a stranger's role. So what such an owner left
-- stays behind, with all that hangs on it. The conditions look at the text that would be dumped (a name that begins with a digit is quoted):
-- the dump's snapshot may still have a role that is dropped while it runs.
SELECT pg_catalog.pg_extension_config_dump('sched.home', '');
SELECT pg_catalog.pg_extension_config_dump('sched.shard', '');
SELECT pg_catalog.pg_extension_config_dump('sched.job', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.enqueue_grant', 'WHERE role::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule',
    'WHERE NOT EXISTS (SELECT FROM sched.job j WHERE j.job_name = schedule.job_name AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_schedule_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_group', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.imported',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = imported.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.crontab_secret', '');
SELECT pg_catalog.pg_extension_config_dump('sched.reported_fire',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = reported_fire.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.fence', '');
SELECT pg_catalog.pg_extension_config_dump('sched.ledger', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.ready', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.retry', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.lease', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.paused_queue', 'WHERE owner IS NULL OR owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.queue_grant', 'WHERE role::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.awaited',
    'WHERE NOT EXISTS (SELECT FROM sched.ledger e WHERE e.id = awaited.execution_id AND e.owner::text ~ ''^[0-9]'')
        AND NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = awaited.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.unique_scope',
    'WHERE NOT EXISTS (SELECT FROM sched.ledger e WHERE e.id = unique_scope.execution_id AND e.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_definition',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = schedule_definition.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_definition_definition_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('sched.schedule_dropped', '');
SELECT pg_catalog.pg_extension_config_dump('sched.cancel_request', '');
SELECT pg_catalog.pg_extension_config_dump('sched.skip',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = skip.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.timer_state',
    'WHERE NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = timer_state.schedule_id AND j.owner::text ~ ''^[0-9]'')');
SELECT pg_catalog.pg_extension_config_dump('sched.alert', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('sched.alert_alert_id_seq', '');
