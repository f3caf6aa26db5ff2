//! The rights that a role of dispatchers must have.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::pg::role::has_workers_rights;
    use crate::test_support::{granting, run, sql};

    /// A dispatcher asks for all that `sched.grant_worker` gives before it does anything, and for nothing else.
    #[pg_test]
    fn a_dispatcher_asks_for_each_right_that_workers_are_granted() {
        granting();
        run(&["CREATE ROLE gw"]);
        let oid: u32 = sql("SELECT 'gw'::regrole::oid").parse().unwrap();
        let has_all = || has_workers_rights(oid.into());
        assert!(!has_all(), "it was granted nothing");
        run(&["SELECT sched.grant_worker('gw')"]);
        assert!(has_all());
        let granted = sql("SELECT privilege_type || ' ON sched.' || relname FROM pg_class c, aclexplode(relacl) a
             WHERE relnamespace = 'sched'::regnamespace AND a.grantee = 'gw'::regrole
             UNION ALL SELECT privilege_type || ' ON SCHEMA sched' FROM pg_namespace n, aclexplode(nspacl) a
             WHERE nspname = 'sched' AND a.grantee = 'gw'::regrole");
        assert!(granted.lines().count() > 30, "{granted}");
        for right in granted.lines() {
            run(&[&format!("REVOKE {right} FROM gw")]);
            assert!(!has_all(), "{right}");
            run(&[&format!("GRANT {right} TO gw")]);
            assert!(has_all(), "{right}");
        }
    }
}
