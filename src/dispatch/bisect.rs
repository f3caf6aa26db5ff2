//! Work on many rows of which some may be bad: done to all of them together, and where that fails to each half of them, until the
//! bad ones are alone. So one bad row keeps no other waiting, and the good ones cost a statement for many.

use pgrx::PgLogLevel;
use scheduler_core::{backoff, Instant};

use crate::pg::error::{self, Failure};
use crate::pg::{convert, subtransaction, Session};
use crate::store::schedule;

/// Does `work` to `items` in as few subtransactions as succeed and collects what it returns. `failed` has each item that `work`
/// fails on alone.
pub fn bisect<T, R>(items: &[T], work: &mut dyn FnMut(&[T]) -> R, failed: &mut dyn FnMut(&T, Failure)) -> Vec<R> {
    bisect_unless(items, work, &mut |_, _| false, failed)
}

/// The same; a part that `work` fails on is first offered to `left_out`, which says whether nothing more is to be done with it.
pub fn bisect_unless<T, R>(
    items: &[T],
    work: &mut dyn FnMut(&[T]) -> R,
    left_out: &mut dyn FnMut(&[T], &Failure) -> bool,
    failed: &mut dyn FnMut(&T, Failure),
) -> Vec<R> {
    let mut done = Vec::new();
    let mut left = if items.is_empty() { Vec::new() } else { vec![items] };
    while let Some(part) = left.pop() {
        match (subtransaction::run(|| work(part)), part) {
            (Ok(result), _) => done.push(result),
            (Err(failure), _) if left_out(part, &failure) => {}
            (Err(failure), [item]) => failed(item, failure),
            (Err(_), _) => {
                let (first, rest) = part.split_at(part.len() / 2);
                left.extend([rest, first]);
            }
        }
    }
    done
}

/// When to try again what failed with a schedule `before` times in a row and now once more; the log hears of the first time. `what` could
/// not be done is "armed" or "fired".
pub fn try_again_at(
    session: &Session,
    schedule_id: i64,
    what: &str,
    before: i32,
    failure: &Failure,
    now: Instant,
) -> Instant {
    if before == 0 {
        // Once, not at every retry.
        let text = format!(
            "scheduler: {} could not be {what} and will be tried again: {}",
            schedule::called(session, schedule_id),
            failure.message
        );
        error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
    }
    let wait = backoff::after_fire_failures(before.saturating_add(1));
    convert::now().max(now).checked_add_micros(wait).unwrap_or(Instant::MAX)
}
