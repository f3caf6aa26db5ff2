-- $1 channels
SELECT pg_notify(c.channel, '') FROM unnest($1) AS c (channel)
