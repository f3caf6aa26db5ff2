-- $1 value
SELECT octet_length($1::text)::bigint
