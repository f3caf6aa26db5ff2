-- A migration of a hosted project: extension, rights, jobs; run twice.
create extension if not exists pg_cron with schema extensions;
grant usage on schema cron to postgres;
grant all privileges on all tables in schema cron to postgres;

create table if not exists public.sessions (id bigint generated always as identity, expires_at timestamptz not null);

create or replace function public.purge_sessions() returns void language sql security definer set search_path = '' as
$$ delete from public.sessions where expires_at < now(); $$;

select cron.schedule('purge-sessions', '*/15 * * * *', $$select public.purge_sessions()$$);
select cron.schedule(
  'refresh-stats',
  '30 seconds',
  $$ analyze public.sessions; $$
);
