//! `sched` has what users call and read; what only the extension itself calls is in `sched_internal`, of which nobody has a right.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{attempt, check, granting, run, sql, views};

    /// All that somebody may execute there: what views and functions call, as their reader.
    const CALLED_BY_VIEWS: &str = "ids_of_schedule ids_of_scope next_open skip_parts skipped_so_far";

    /// Runs a statement as a role: what it says, or the SQLSTATE.
    fn as_role(role: &str, statement: &str) -> String {
        attempt("SELECT 1");
        run(&[&format!("SET LOCAL ROLE {role}")]);
        let refusal = attempt(statement);
        run(&["RESET ROLE"]);
        refusal.map_or_else(|| "done".to_owned(), |refusal| refusal.sqlstate)
    }

    /// The functions that a role may execute there, and whether it may use the schema.
    fn rights_of(role: &str) -> [String; 2] {
        [
            sql(&format!(
                "SELECT coalesce(string_agg(proname, ' ' ORDER BY proname), '') FROM pg_proc p
                  WHERE pronamespace = 'sched_internal'::regnamespace AND has_function_privilege('{role}', p.oid, 'EXECUTE')"
            )),
            sql(&format!("SELECT has_schema_privilege('{role}', 'sched_internal', 'USAGE, CREATE')")),
        ]
    }

    /// `\df sched.*` and `\dv sched.*` show users what is theirs, and nothing else. What is ours says so.
    #[pg_test]
    fn what_is_internal_is_in_a_schema_of_its_own_and_says_so() {
        check(
            "SELECT p.oid::regprocedure FROM pg_proc p
              WHERE pronamespace IN ('sched'::regnamespace, 'sched_internal'::regnamespace)
                AND (pronamespace = 'sched_internal'::regnamespace) <> starts_with(obj_description(p.oid, 'pg_proc'), 'internal: ')",
            "",
        );
        check(
            "SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'sched'::regnamespace AND prorettype = 'trigger'::regtype",
            "",
        );
        check("SELECT starts_with(obj_description('sched_internal'::regnamespace, 'pg_namespace'), 'internal: ')", "t");
        // A dump of 0.1.0 has grants on `sched.monitor`: no table goes there.
        check("SELECT relname FROM pg_class WHERE relnamespace = 'sched_internal'::regnamespace", "");
    }

    #[pg_test]
    fn nobody_is_granted_the_internal_schema() {
        granting();
        let roles = [
            ("i_use", "grant_use", [CALLED_BY_VIEWS, "f"]),
            ("i_monitor", "grant_monitor", [CALLED_BY_VIEWS, "f"]),
            ("i_worker", "grant_worker", ["", "f"]),
        ];
        for (role, grant, rights) in roles {
            run(&[&format!("CREATE ROLE {role}")]);
            assert_eq!(rights_of(role), ["", "f"], "PUBLIC");
            run(&[&format!("SELECT sched.{grant}('{role}')")]);
            assert_eq!(rights_of(role), rights, "{grant}");
            assert_eq!(as_role(role, "SELECT sched_internal.next_open('s')"), "42501", "{role}");
            // The views that call them go on without.
            for view in views() {
                let found = as_role(role, &format!("SELECT * FROM sched.{view}"));
                assert_eq!(found, if grant == "grant_worker" { "42501" } else { "done" }, "{role}: {view}");
            }
            run(&[
                &format!("GRANT USAGE ON SCHEMA sched_internal TO {role}"),
                &format!("SELECT sched.revoke_all('{role}')"),
            ]);
            assert_eq!(rights_of(role), ["", "f"], "revoke_all");
            run(&[&format!("DROP ROLE {role}")]);
        }
    }
}
