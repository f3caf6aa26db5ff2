-- What takes the type of each table's and view's rows from PUBLIC, who has it by default: a column of that type in a user's table would
-- keep an update from altering ours.
SELECT format('REVOKE USAGE ON TYPE sched.%I FROM PUBLIC', t.typname) AS revoke
  FROM pg_type t
 WHERE t.typnamespace = 'sched'::regnamespace AND t.typrelid <> 0 AND has_type_privilege('public', t.oid, 'USAGE')
