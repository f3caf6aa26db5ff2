//! Ids and tokens, made where the row is made.

use std::cell::{Cell, RefCell};

use pgrx::datum::Uuid;
use pgrx::pg_sys;
use scheduler_core::Instant;
use sha2::{Digest, Sha256};

use crate::pg::error::{raise, Failure};
use crate::store::database_clock;

/// A new id: UUID version 7 (RFC 9562), so that rows of one time lie together in the index.
pub fn execution_id() -> Uuid {
    Uuid::from_bytes(version_7(later_moment(database_clock::now()), random()))
}

/// This many ids of executions that begin at the instant `now`, in order, which is after every other id of this process.
pub fn execution_ids(count: usize, now: Instant) -> Vec<Uuid> {
    let moment = later_moment(now);
    let mut ids: Vec<[u8; 16]> = (0..count).map(|_| version_7(moment, random())).collect();
    ids.sort_unstable();
    ids.into_iter().map(Uuid::from_bytes).collect()
}

/// The first 128 bits of SHA-256 over (job_name, scope_kind, scope_id), each with its length before it: what the ledger is
/// unique by, together with the plan time.
pub fn scope_key(job_name: &str, scope_kind: &str, scope_id: &str) -> Uuid {
    let mut hash = Sha256::new();
    for part in [job_name, scope_kind, scope_id] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut key = [0_u8; 16];
    key.copy_from_slice(&hash.finalize()[..16]);
    Uuid::from_bytes(key)
}

/// Which of 1,024 buckets a scope is in: the first two bytes, big-endian, of SHA-256 over the kind, a zero byte and the id, and 1023.
pub fn bucket(scope_kind: &str, scope_id: &str) -> u16 {
    let hash = Sha256::new().chain_update(scope_kind).chain_update([0]).chain_update(scope_id).finalize();
    u16::from_be_bytes([hash[0], hash[1]]) & 1023
}

/// A new lease token: UUID version 4, which nobody can guess.
pub fn lease_token() -> Uuid {
    Uuid::from_bytes(*uuid::Builder::from_random_bytes(random()).as_uuid().as_bytes())
}

/// A moment as version 7 has it, milliseconds and a fraction of 12 bits (RFC 9562, 6.2, method 3), later than the last one of this process:
/// so ids rise, also within a millisecond and while the clock stands or goes back a little. (Not where it was far ahead: retention goes by
/// ids, and a process may last for months.)
fn later_moment(now: Instant) -> u64 {
    thread_local! {
        static LAST: Cell<u64> = const { Cell::new(0) };
    }
    let moment = moment_after(LAST.get(), now);
    LAST.set(moment);
    moment
}

/// How far ids go ahead of the clock at most, a minute.
const FURTHEST: u64 = 60_000 << 12;

fn moment_after(last: u64, now: Instant) -> u64 {
    let micros = (now.as_micros() - Instant::UNIX_EPOCH.as_micros()).max(0).unsigned_abs();
    let moment = ((micros / 1000) << 12) | (micros % 1000 * 4096 / 1000);
    if last > moment + FURTHEST {
        moment
    } else {
        moment.max(last + 1)
    }
}

fn version_7(moment: u64, random: [u8; 8]) -> [u8; 16] {
    let mut rest = [0; 10];
    rest[..2].copy_from_slice(&((moment & 0xfff) as u16).to_be_bytes());
    rest[2..].copy_from_slice(&random);
    *uuid::Builder::from_unix_timestamp_millis(moment >> 12, &rest).as_uuid().as_bytes()
}

/// How many random bytes are asked for at once: one call costs about as much as the rest of a lease's bookkeeping.
const STOCK: usize = 1024;

/// Random bytes from the server's source, which nobody can guess and nobody gets twice. Each process has its own stock: it is empty
/// where a process begins, for the one that it comes from makes no ids.
fn random<const COUNT: usize>() -> [u8; COUNT] {
    thread_local! {
        static BYTES: RefCell<([u8; STOCK], usize)> = const { RefCell::new(([0; STOCK], STOCK)) };
    }
    BYTES.with_borrow_mut(|(stock, used)| {
        if *used + COUNT > STOCK {
            // SAFETY: the buffer has that many bytes.
            if !unsafe { pg_sys::pg_strong_random(stock.as_mut_ptr().cast(), STOCK) } {
                raise(Failure::internal("the server has no random bytes"));
            }
            *used = 0;
        }
        let mut bytes = [0; COUNT];
        let given = &mut stock[*used..*used + COUNT];
        bytes.copy_from_slice(given);
        // What is given away is kept nowhere else.
        given.fill(0);
        *used += COUNT;
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_and_follow_a_clock_that_was_far_ahead() {
        let at = |seconds: i64| Instant::UNIX_EPOCH.checked_add_micros(seconds * 1_000_000).unwrap_or(Instant::MAX);
        let second = 1000 << 12;
        let last = moment_after(0, at(1000));
        assert_eq!(last, 1000 * second);
        assert_eq!(moment_after(last, at(1000)), last + 1);
        assert_eq!(moment_after(last, at(1001)), 1001 * second);
        assert_eq!(moment_after(last, at(940)), last + 1);
        assert_eq!(moment_after(last, at(939)), 939 * second);
    }
}
