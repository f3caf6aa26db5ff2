-- pg_timetable's tables of version 6, by their columns, in a schema of any name.
CREATE SCHEMA {schema};
CREATE DOMAIN {schema}.cron AS text CHECK (VALUE ~ '^@|^[0-9*]');
CREATE TYPE {schema}.command_kind AS ENUM ('SQL', 'PROGRAM', 'BUILTIN');
CREATE TABLE {schema}.chain (
    chain_id bigserial PRIMARY KEY, chain_name text NOT NULL UNIQUE, run_at {schema}.cron, max_instances integer, timeout integer DEFAULT 0,
    live boolean DEFAULT false, self_destruct boolean DEFAULT false, exclusive_execution boolean DEFAULT false, client_name text, on_error text
);
CREATE TABLE {schema}.task (
    task_id bigserial PRIMARY KEY, chain_id bigint REFERENCES {schema}.chain ON DELETE CASCADE, task_order double precision NOT NULL, task_name text,
    kind {schema}.command_kind NOT NULL DEFAULT 'SQL', command text NOT NULL, run_as text, database_connection text,
    ignore_error boolean NOT NULL DEFAULT false, autonomous boolean NOT NULL DEFAULT false, timeout integer DEFAULT 0, live boolean NOT NULL DEFAULT true
);
CREATE TABLE {schema}.parameter (task_id bigint REFERENCES {schema}.task, order_id integer, value jsonb, PRIMARY KEY (task_id, order_id));
CREATE TABLE {schema}.execution_log (
    chain_id bigint, task_id bigint, txid bigint NOT NULL, last_run timestamptz DEFAULT now(), finished timestamptz, pid bigint, returncode integer,
    ignore_error boolean, kind {schema}.command_kind, command text, output text, client_name text NOT NULL
);
CREATE TABLE {schema}.active_session (client_pid bigint NOT NULL, server_pid bigint NOT NULL, client_name text NOT NULL, started_at timestamptz DEFAULT now());
CREATE TABLE {schema}.active_chain (chain_id bigint NOT NULL, client_name text NOT NULL, started_at timestamptz DEFAULT now());
