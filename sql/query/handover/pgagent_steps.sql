-- Steps in the order in which pgAgent takes them.
SELECT t.jstjobid::text AS job, t.jstname AS name, t.jstkind::text AS kind, t.jstcode AS code, (t.jstconnstr <> '')::text AS is_remote,
       t.jstdbname::text AS database, t.jstonerror::text AS on_error
  FROM ONLY {schema}.pga_jobstep AS t
 WHERE t.jstenabled
 ORDER BY t.jstjobid, t.jstname, t.jstid
