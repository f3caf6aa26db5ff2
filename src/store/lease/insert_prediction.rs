//! Whether the next key that this session claims is a new one, guessed from its last claims, as a processor guesses branches.
//!
//! Where it probably is, it is inserted without asking first whether it is taken, which saves a search of the index. To find it taken
//! all the same costs what a rollback does: a transaction id, a record of the commit, a dead row in the ledger and in its indexes. So only
//! a session that has claimed nothing but new keys for a while guesses, and begins anew when it was wrong: where replicas race for each
//! key that is seldom.

use std::cell::Cell;

use pgrx::pg_sys;

use crate::store::lease::heap::LedgerTables;

/// How many new keys in a row make the next one probably new: at most one claim in so many is a wrong prediction.
const ENOUGH: u32 = 16;

thread_local! {
    static NEW_IN_A_ROW: Cell<u32> = const { Cell::new(0) };
}

/// The next key is probably new.
pub fn probably_new() -> bool {
    NEW_IN_A_ROW.get() >= ENOUGH
}

impl LedgerTables {
    /// Whether to claim a key as a new one before asking what there is of it: `claim_new` finds out as well.
    ///
    /// Not where somebody gave the ledger more that may refuse a row, which would be an error (or a wait) in place of an answer; nor under
    /// SERIALIZABLE, which would count what a wrong prediction wrote among what this transaction did.
    pub fn expects_new(&self) -> bool {
        // SAFETY: reads a setting of the transaction.
        let counts = unsafe { pg_sys::XactIsoLevel } >= pg_sys::XACT_SERIALIZABLE as i32;
        probably_new() && !counts && self.ledger.is_kept_by(c"ledger_key")
    }
}

/// Claims a key as a new one, and learns from what comes of it: where it was none, or the claim raised, the next ones are asked about.
pub fn learn<T>(claim: impl FnOnce() -> Option<T>) -> Option<T> {
    let before = NEW_IN_A_ROW.replace(0);
    let claimed = claim()?;
    NEW_IN_A_ROW.set(before.saturating_add(1));
    Some(claimed)
}

/// To be said when a key was asked about and is taken.
pub fn reset() {
    NEW_IN_A_ROW.set(0);
}
