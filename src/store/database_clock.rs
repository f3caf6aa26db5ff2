//! The clock of this database: the server's, but in test mode, where `sched.advance` has moved it ahead. Every time that the extension takes
//! for now comes from here, in SQL as `sched.now()`. (Processes that no database in test mode has, and waits, go by the server's clock.)

use std::cell::Cell;
use std::ffi::CStr;

use pgrx::pg_sys;
use scheduler_core::Instant;

use crate::heap::{LatestSnapshot, Scan, Table};
use crate::pg::invalidation::TEST_CLOCK;
use crate::pg::record::Record;
use crate::pg::{convert, oid_cache, session, Session};
use crate::{arguments, statement};

const TABLE: &CStr = c"test_clock";

thread_local! {
    /// What this process has read, and of how many changes of the table it knew then.
    static KNOWN: Cell<Option<(u64, Option<i64>)>> = const { Cell::new(None) };
    /// A moment that has come by the clock of a test, while what it calls for is done.
    static MOMENT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The time in this database. It moves within a transaction.
pub fn now() -> Instant {
    let Some(ahead) = ahead_in_test() else { return convert::now() };
    MOMENT.get().or_else(|| convert::now().checked_add_micros(ahead)).unwrap_or(Instant::MAX)
}

/// Does `work` as if it were that moment: what a database in test mode did not do by itself when it came due.
pub fn at<R>(moment: Instant, work: impl FnOnce() -> R) -> R {
    /// Back to the clock, whatever ends the work.
    struct Back(Option<Instant>);
    impl Drop for Back {
        fn drop(&mut self) {
            MOMENT.set(self.0);
        }
    }
    let _back = Back(MOMENT.replace(Some(moment)));
    work()
}

/// Whether this database is in test mode.
pub fn is_test() -> bool {
    ahead_in_test().is_some()
}

/// By how much the clock is ahead of the server's, in microseconds, in a database in test mode.
pub fn ahead_in_test() -> Option<i64> {
    if let Some((_, ahead)) = KNOWN.get().filter(|(changes, _)| *changes == TEST_CLOCK.changes()) {
        return ahead;
    }
    // SAFETY: reads the state of the transaction.
    if unsafe { !pg_sys::IsTransactionState() } {
        return None;
    }
    let (schema, _) = oid_cache::schema()?;
    // Objects of earlier releases know no test mode.
    oid_cache::relation(schema, TABLE)?;
    let table = Table::open_any(schema, TABLE);
    let changes = table.watch(&TEST_CLOCK);
    let latest = LatestSnapshot::take();
    let is_test = Scan::open(&table, &latest).next();
    drop((latest, table));
    let ahead = if is_test { session(read) } else { None };
    KNOWN.set(changes.map(|changes| (changes, ahead)));
    ahead
}

fn read(session: &Session) -> Option<i64> {
    statement!(TEST_CLOCK_READ = "test_mode/clock"());
    TEST_CLOCK_READ.run(session, arguments![]).first().map(|row| row.get_required("ahead"))
}
