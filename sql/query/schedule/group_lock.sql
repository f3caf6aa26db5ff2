-- Has other declarations of a group wait; no row where it is not there, or is another role's. $1 group_name, $2 caller
UPDATE sched.schedule_group g SET declared_at = sched.now() WHERE g.group_name = $1 AND pg_has_role($2, g.owner, 'USAGE')
RETURNING g.owner::oid AS owner
