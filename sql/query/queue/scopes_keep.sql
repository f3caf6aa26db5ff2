-- The execution that an owner has now in a scope. $1 keys, $2 execution_ids, $3 owner
UPDATE sched.unique_scope u
   SET execution_id = a.execution_id
  FROM unnest($1, $2) AS a (key, execution_id)
 WHERE u.key = a.key AND u.owner = $3 AND u.execution_id <> a.execution_id
