-- $1 specs
SELECT jsonb_array_length($1) AS count
