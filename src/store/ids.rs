//! Ids and tokens, made where the row is made.

use pgrx::datum::Uuid;
use pgrx::pg_sys;
use scheduler_core::Instant;

use crate::error::{raise, Failure};

/// A new id: UUID version 7 (RFC 9562), so that rows of one time lie together in the index.
pub fn execution_id() -> Uuid {
    Uuid::from_bytes(*uuid::Uuid::now_v7().as_bytes())
}

/// A new lease token: UUID version 4, which nobody can guess.
pub fn lease_token() -> Uuid {
    Uuid::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}

/// How many bytes of an id are random, apart from the six bits of version and variant.
const RANDOM: usize = 10;

/// This many ids of executions that begin at the instant `now`, in order: the random bits of all in one call of the kernel, not in one for each.
pub fn execution_ids(count: usize, now: Instant) -> Vec<Uuid> {
    let mut random = vec![0_u8; count * RANDOM];
    // SAFETY: the buffer has that many bytes.
    if count > 0 && !unsafe { pg_sys::pg_strong_random(random.as_mut_ptr().cast(), random.len()) } {
        raise(Failure::internal("the server has no random bytes"));
    }
    let milliseconds = (now.as_micros() - Instant::UNIX_EPOCH.as_micros()).max(0).unsigned_abs() / 1000;
    let mut ids: Vec<[u8; 16]> = random
        .chunks_exact(RANDOM)
        .filter_map(|random| random.try_into().ok())
        .map(|random| *uuid::Builder::from_unix_timestamp_millis(milliseconds, random).as_uuid().as_bytes())
        .collect();
    ids.sort_unstable();
    ids.into_iter().map(Uuid::from_bytes).collect()
}
