-- Whether this database is at home: whether a home was written at all, and whether one was that is not here.
-- $1 system identifier, $2 database
SELECT count(*) > 0 AS any_home,
       COALESCE(bool_or(h.system_identifier <> $1 OR h.database <> $2), false) AS any_elsewhere
  FROM sched.home h
