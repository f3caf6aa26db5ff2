-- $1 ranges
SELECT $1::int4multirange <@ '{[0,1024)}'::int4multirange AS are_buckets
