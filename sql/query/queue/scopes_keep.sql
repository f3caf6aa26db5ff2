-- The execution that a scope has now. $1 keys, $2 execution_ids
UPDATE sched.unique_scope u
   SET execution_id = a.execution_id
  FROM unnest($1, $2) AS a (key, execution_id)
 WHERE u.key = a.key AND u.execution_id <> a.execution_id
