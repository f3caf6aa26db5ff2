-- The first home. Two that come at the same time write the same row twice, which says the same. $1 system identifier, $2 database
INSERT INTO sched.home (system_identifier, database) SELECT $1, $2 WHERE NOT EXISTS (SELECT FROM sched.home)
