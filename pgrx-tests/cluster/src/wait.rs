//! The only place that sleeps. A test says what it waits for; it goes on a moment after that is true, and fails with those words when it takes
//! longer than it may.

use postgres::Client;
use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(10);

/// Asks `probe` until it has an answer; panics with `what` when it has none within `deadline`.
pub fn wait_until<T>(what: &str, deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        // Before the last look, not after it: on a busy machine that may be over before somebody looks a second time.
        let over = started.elapsed() >= deadline;
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(!over, "waited {deadline:?} in vain for {what}");
        thread::sleep(INTERVAL);
    }
}

/// Asks a query with one boolean until it is true.
pub fn wait_for(client: &mut Client, condition: &str, deadline: Duration) {
    wait_until(condition, deadline, || {
        let row = client.query_one(condition, &[]).unwrap_or_else(|error| panic!("{condition}: {error}"));
        row.get::<_, Option<bool>>(0).unwrap_or(false).then_some(())
    });
}

/// The one way to see that nothing happens: asks for as long as `period` and panics with `what` when the answer changes.
pub fn stays<T: PartialEq + Debug>(what: &str, period: Duration, mut probe: impl FnMut() -> T) -> T {
    let started = Instant::now();
    let first = probe();
    while let Some(left) = period.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) {
        thread::sleep(left.min(INTERVAL));
        let now = probe();
        assert!(now == first, "{what} changed after {:?}: {first:?} became {now:?}", started.elapsed());
    }
    first
}
