-- How long an interval is from a time on, in microseconds. $1 time, $2 interval
SELECT (1000000 * EXTRACT(epoch FROM ($1 + $2) - $1))::bigint AS micros
