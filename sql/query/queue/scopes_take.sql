-- Who enqueues into a scope by its key has the scope's row of the owner to the end of his transaction: others who do so for that owner wait for it,
-- each for the least key of his first. Which execution each scope had last; an id that nothing has where there is none. $1 keys, each once, $2 ids,
-- $3 owner
INSERT INTO sched.unique_scope AS u (key, execution_id, owner)
SELECT a.key, a.id, $3 FROM unnest($1, $2) AS a (key, id) ORDER BY a.key
    ON CONFLICT (key, owner) DO UPDATE SET execution_id = u.execution_id
RETURNING u.key, u.execution_id
