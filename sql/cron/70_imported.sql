-- What was imported from pg_cron before this extension came.
SELECT cron_internal.adopt(NULL, NULL, true);
SELECT cron_internal.warn_of_launch();
