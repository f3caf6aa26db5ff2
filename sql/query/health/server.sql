-- What the server says of itself and of our tables, without a lock on any of them. All processes that are none of the kinds named here are
-- background workers. $1 from how many dead rows on a table lacks a vacuum
SELECT current_setting('autovacuum')::boolean AS autovacuum,
       current_setting('max_worker_processes')::integer AS worker_slots,
       (SELECT string_agg(c.relname, ', ' ORDER BY c.relname)
          FROM pg_class c
         WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = 'sched') AND c.relkind = 'r'
           AND EXISTS (SELECT
                         FROM unnest(c.reloptions) AS o (option)
                        WHERE o.option ~ '^autovacuum_enabled=(false|off|no|0|f)$')) AS unvacuumed,
       (SELECT string_agg(c.relname, ', ' ORDER BY c.relname)
          FROM pg_class c
         WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = 'sched') AND c.relkind = 'r'
           AND pg_stat_get_dead_tuples(c.oid) > greatest($1, 5 * c.reltuples::bigint)) AS bloated,
       a.workers, CASE WHEN a.held_ids > a.held_by_others THEN a.held_ids END AS held_ids, a.holder, a.holds_since
  FROM (SELECT count(*) FILTER (WHERE a.backend_type NOT IN (
                   'client backend', 'autovacuum launcher', 'autovacuum worker', 'walsender', 'walreceiver', 'walwriter', 'checkpointer',
                   'background writer', 'archiver', 'startup', 'slotsync worker', 'walsummarizer', 'io worker', 'standalone backend')) AS workers,
               max(greatest(age(a.backend_xid), age(a.backend_xmin))) FILTER (WHERE a.ours)::bigint AS held_ids,
               -- The snapshot of a process begins with the oldest transaction of the server, whosever it is.
               coalesce(max(greatest(age(a.backend_xid), age(a.backend_xmin))) FILTER (WHERE NOT a.ours), 0)::bigint AS held_by_others,
               (array_agg(a.pid ORDER BY greatest(age(a.backend_xid), age(a.backend_xmin)) DESC NULLS LAST) FILTER (WHERE a.ours))[1] AS holder,
               (array_agg(a.xact_start ORDER BY greatest(age(a.backend_xid), age(a.backend_xmin)) DESC NULLS LAST) FILTER (WHERE a.ours))[1] AS holds_since
          FROM (SELECT a.*, a.backend_type IN ('scheduler launcher', 'scheduler dispatcher', 'scheduler runner') AS ours
                  FROM pg_stat_get_activity(NULL) AS a) AS a) AS a
