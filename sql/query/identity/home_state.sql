-- Whether this database is at home: whether a home was written at all, and whether one was that is not here.
-- $1 system identifier, $2 database
SELECT count(*) > 0, COALESCE(bool_or(h.system_identifier <> $1 OR h.database <> $2), false) FROM sched.home h
