-- The version of the extension's objects in this database, and the number of their tables: the body of the function, as a later library may call nothing of theirs.
SELECT e.extversion,
       (SELECT substring(p.prosrc FROM '[0-9]+')::integer
          FROM pg_proc p
         WHERE p.proname = 'table_layout' AND p.pronamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = 'sched_internal')) AS table_layout
  FROM pg_extension e WHERE e.extname = 'scheduler'
