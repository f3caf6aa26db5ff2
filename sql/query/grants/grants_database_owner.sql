-- What the owner of the database may do here.
SELECT g.statement AS grant
  FROM (VALUES ('GRANT USAGE ON SCHEMA sched TO pg_database_owner'),
               ('GRANT EXECUTE ON FUNCTION sched.test_mode, sched.advance, sched.reset, sched.drain_sql TO pg_database_owner')) AS g (statement)
