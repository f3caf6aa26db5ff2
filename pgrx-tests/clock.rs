//! next_time, preview and validate: what crosses the border between SQL and the core.

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, refused};

    #[pg_test]
    fn next_time_is_strictly_after() {
        check("SELECT sched.next_time('0 9 * * *', '2026-11-20 09:00+00', 'UTC')", "2026-11-21 09:00:00+00");
        refused("SELECT sched.next_time('61 * * * *')", "22023");
    }
}
