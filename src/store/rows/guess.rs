//! Whether the next key that this session claims is a new one, guessed from its last claims, as a processor guesses branches.
//!
//! Where it probably is, it is inserted without asking first whether it is taken, which saves a search of the index. To find it taken
//! all the same costs a dead row in the ledger; so only a session that has claimed nothing but new keys for a while guesses, and
//! begins anew when it was wrong: a service whose replicas race for each key never does.

use std::cell::Cell;

/// How many new keys in a row make the next one probably new: there is at most one dead row for so many executions.
const ENOUGH: u32 = 16;

thread_local! {
    static NEW_IN_A_ROW: Cell<u32> = const { Cell::new(0) };
}

/// The next key is probably new.
pub fn probably_new() -> bool {
    NEW_IN_A_ROW.get() >= ENOUGH
}

/// What a claim has met: a new key or not.
pub fn note(new: bool) {
    NEW_IN_A_ROW.set(if new { NEW_IN_A_ROW.get().saturating_add(1) } else { 0 });
}
