-- Whether the database holds more executions than $1, and an owner of a dispatcher's executions who is not the database's
SELECT (SELECT count(*) > $1 FROM (SELECT FROM sched.ledger LIMIT $1 + 1) AS found) AS is_large,
       (SELECT e.owner::oid
          FROM sched.ledger e
         WHERE e.origin = 'schedule' AND e.owner::oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
         LIMIT 1) AS other_owner
