-- One row where the database is in test mode: nothing runs by itself, and the clock of the extension is moved by sched.advance alone beyond
-- that of the server. No dump has it: what is restored is a database of its own, and a copy by TEMPLATE has it with all else.
CREATE TABLE sched.test_clock (
    only_row boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    since    timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    ahead    bigint      NOT NULL DEFAULT 0 CHECK (ahead >= 0),
    is_reset boolean     NOT NULL DEFAULT false
);
COMMENT ON TABLE sched.test_clock IS 'a row where the database is in test mode (sched.test_mode)';
COMMENT ON COLUMN sched.test_clock.since IS 'when test mode began, by the clock of the server';
COMMENT ON COLUMN sched.test_clock.ahead IS 'microseconds by which the clock of this database is ahead of the server''s (sched.advance)';
COMMENT ON COLUMN sched.test_clock.is_reset IS 'sched.reset was called since test mode began';

CREATE TRIGGER test_clock_changed AFTER INSERT OR UPDATE OR DELETE ON sched.test_clock
    FOR EACH ROW EXECUTE FUNCTION sched_internal.table_changed();
ALTER TABLE sched.test_clock ENABLE ALWAYS TRIGGER test_clock_changed;
