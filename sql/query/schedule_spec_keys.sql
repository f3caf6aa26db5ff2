-- The first element that is no object or has a key that is none of ours: its place (1-based), and the key or NULL.
-- $1 specs, $2 keys
SELECT e.place, k.key
  FROM jsonb_array_elements($1) WITH ORDINALITY AS e (spec, place)
  LEFT JOIN LATERAL (SELECT k.key FROM jsonb_object_keys(CASE jsonb_typeof(e.spec) WHEN 'object' THEN e.spec ELSE '{}' END)
                           AS k (key) WHERE k.key <> ALL ($2) LIMIT 1) AS k ON true
 WHERE jsonb_typeof(e.spec) <> 'object' OR k.key IS NOT NULL
 ORDER BY e.place
 LIMIT 1
