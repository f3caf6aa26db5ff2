//! Work on many rows of which some may be bad: done to all of them together, and where that fails to each half of them, until the
//! bad ones are alone. So one bad row keeps no other waiting, and the good ones cost a statement for many.

use crate::pg::error::Failure;
use crate::pg::subtransaction;

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
