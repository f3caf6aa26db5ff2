-- From 0.3.1. What is new in sql/cron stands here too; a test compares the result with a new extension.
\echo Use "ALTER EXTENSION scheduler_cron UPDATE" to load this file. \quit

-- To the end of the transaction. What is named without a schema is Postgres' own.
SET LOCAL search_path = pg_catalog, pg_temp;
