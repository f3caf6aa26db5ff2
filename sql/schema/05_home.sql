-- Whose rows the tables hold: every row has to name this database, or nothing fires here. A copy carries its original's row.
-- Empty until the first job is defined or execution claimed. No key: a restore must be able to add the same row again.
CREATE TABLE sched.home (
    system_identifier bigint      NOT NULL,
    database          oid         NOT NULL,
    since             timestamptz NOT NULL DEFAULT sched.now()
);
COMMENT ON TABLE sched.home IS 'the database that these tables belong to; where a row names another one, this is a copy (sched.adopt)';

CREATE TRIGGER home_changed AFTER INSERT OR UPDATE OR DELETE ON sched.home
    FOR EACH ROW EXECUTE FUNCTION sched_internal.table_changed();
ALTER TABLE sched.home ENABLE ALWAYS TRIGGER home_changed;
-- Where a publication takes all tables along, a row has to be known by something, or nothing could change it.
ALTER TABLE sched.home REPLICA IDENTITY FULL;
