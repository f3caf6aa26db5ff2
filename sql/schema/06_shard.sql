-- Which scopes are this database's, where several share them (sched.set_buckets). Without a row all are.
CREATE TABLE sched.shard (
    buckets int4multirange NOT NULL,
    since   timestamptz    NOT NULL DEFAULT sched.now()
);
COMMENT ON TABLE sched.shard IS 'the buckets of scopes that are this database''s; empty: all are (sched.set_buckets)';

CREATE TRIGGER shard_changed AFTER INSERT OR UPDATE OR DELETE ON sched.shard
    FOR EACH ROW EXECUTE FUNCTION sched_internal.table_changed();
ALTER TABLE sched.shard ENABLE ALWAYS TRIGGER shard_changed;
ALTER TABLE sched.shard REPLICA IDENTITY FULL;
