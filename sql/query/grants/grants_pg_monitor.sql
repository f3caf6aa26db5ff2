-- What the members of pg_monitor may do here.
SELECT g.statement AS grant
  FROM (VALUES ('GRANT USAGE ON SCHEMA sched TO pg_monitor'),
               ('GRANT EXECUTE ON FUNCTION sched.health(), sched.healthy(interval), sched.metrics(), sched.openmetrics() TO pg_monitor')) AS g (statement)
