-- $1 the buckets that are here, as ranges
WITH gone AS (
    DELETE FROM sched.shard
)
INSERT INTO sched.shard (buckets) VALUES ($1::int4multirange)
