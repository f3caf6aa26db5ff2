-- What takes the type of each table's and view's rows from PUBLIC, who has it by default: a column of that type in a user's table would
-- keep an update from altering ours.
SELECT format('REVOKE USAGE ON TYPE %s.%I FROM PUBLIC', t.typnamespace::regnamespace, t.typname) AS revoke
  FROM pg_type t
 WHERE t.typnamespace IN ('sched'::regnamespace, 'sched_internal'::regnamespace) AND t.typrelid <> 0 AND has_type_privilege('public', t.oid, 'USAGE')
