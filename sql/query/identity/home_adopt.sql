-- One home, this one, instead of all that were. $1 system identifier, $2 database
WITH gone AS (
    DELETE FROM sched.home
)
INSERT INTO sched.home (system_identifier, database) VALUES ($1, $2)
