-- The first element that is no object, has a key that is none of ours, or a value that is of no JSON type that its key takes: its place
-- (1-based), the key or NULL, and of such a value its type and its text. Where the argument is a number or a boolean, a string says it as well,
-- and null says nothing. $1 specs, $2 keys
SELECT e.place, k.key, CASE WHEN k.key = ANY ($2) THEN jsonb_typeof(k.value) END AS json_type, left(k.value::text, 200) AS text
  FROM jsonb_array_elements($1) WITH ORDINALITY AS e (spec, place)
  LEFT JOIN LATERAL (
       SELECT k.key, k.value
         FROM jsonb_each(CASE jsonb_typeof(e.spec) WHEN 'object' THEN e.spec ELSE '{}' END) AS k (key, value)
        WHERE k.key <> ALL ($2)
           OR k.key NOT IN ('payload', 'settings')
              AND jsonb_typeof(k.value) NOT IN ('string', 'null', CASE WHEN k.key IN ('max_plans_per_tick', 'max_attempts', 'priority') THEN 'number'
                                                                       WHEN k.key IN ('enabled', 'adopt', 'own_transactions') THEN 'boolean'
                                                                       WHEN k.key = 'retry_backoff' THEN 'array'
                                                                       ELSE 'string' END)
        LIMIT 1) AS k ON true
 WHERE jsonb_typeof(e.spec) <> 'object' OR k.key IS NOT NULL
 ORDER BY e.place
 LIMIT 1
