//! Work on many rows of which some may be bad: done to all of them together, and where that fails to each half of them, until the
//! bad ones are alone. So one bad row keeps no other waiting, and the good ones cost a statement for many.

use crate::error::Failure;
use crate::subtransaction;

/// Does `work` to `items` in as few subtransactions as succeed and collects what it returns. `failed` has each item that `work`
/// fails on alone.
pub fn halved<T, R>(items: &[T], work: &mut dyn FnMut(&[T]) -> R, failed: &mut dyn FnMut(&T, Failure)) -> Vec<R> {
    let mut done = Vec::new();
    let mut left = if items.is_empty() { Vec::new() } else { vec![items] };
    while let Some(part) = left.pop() {
        match (subtransaction::run(|| work(part)), part) {
            (Ok(result), _) => done.push(result),
            (Err(failure), [item]) => failed(item, failure),
            (Err(_), _) => {
                let (first, rest) = part.split_at(part.len() / 2);
                left.extend([rest, first]);
            }
        }
    }
    done
}
