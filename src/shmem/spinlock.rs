//! A lock in shared memory that is held for a few loads and stores.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// How often to ask before to sleep over it.
const PATIENCE: usize = 1000;

/// Nobody else has the lock while `body` runs: for a few hundred loads and stores at most. Nothing in it may fail, and no signal ends a
/// process there but one that makes all shared memory anew.
pub fn locked<R>(lock: &AtomicBool, body: impl FnOnce() -> R) -> R {
    let mut turns = 0;
    while lock.compare_exchange_weak(false, true, SeqCst, SeqCst).is_err() {
        turns += 1;
        // Whoever has it for so long was stopped in the middle.
        if turns < PATIENCE {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let result = body();
    lock.store(false, SeqCst);
    result
}
