-- Who enqueues into a scope by its key has the scope's row to the end of his transaction: others who do so wait for it, each for the least
-- key of his first. Which execution each scope had last; an id that nothing has where there is none. $1 keys, each once, $2 ids
INSERT INTO sched.unique_scope AS u (key, execution_id)
SELECT a.key, a.id FROM unnest($1, $2) AS a (key, id) ORDER BY a.key
    ON CONFLICT (key) DO UPDATE SET execution_id = u.execution_id
RETURNING u.key, u.execution_id
