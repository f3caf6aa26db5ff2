-- Nothing but the name. Files say CREATE EXTENSION IF NOT EXISTS pg_cron, or ask pg_extension whether it is there, before they call cron.schedule.
\echo Use "CREATE EXTENSION pg_cron" to load this file. \quit

SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
BEGIN
    -- Its launcher goes by the name, and would read the view cron.job as if it were its table, which crashes the server.
    IF pg_catalog.current_setting('shared_preload_libraries') OPERATOR(pg_catalog.~) '(^|[/,"[:space:]])pg_cron(\.so)?($|["[:space:],])' THEN
        RAISE EXCEPTION 'the library of pg_cron is preloaded'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Take pg_cron from shared_preload_libraries, and restart the server.';
    END IF;
END
$$;
