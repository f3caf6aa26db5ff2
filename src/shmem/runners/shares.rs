//! Who gets a place: each role has up to its share of them in the whole server, and of those who wait the one with the fewest runners comes
//! first. A pair of database and role whose role has its share is not in line: it keeps no free place from others.

use std::sync::atomic::Ordering::SeqCst;

use super::place::{Limits, Phase};
use super::{now, with, Board, Waiting, MAX_RUNNERS, MAX_WAITING, WAITING_AT_MOST};

/// A pair that waits: database, role, ticket.
type Pair = (u32, u32, u64);

impl Board {
    /// How many more runners a role may have.
    fn room(&self, owner: u32, limits: Limits) -> usize {
        let has = self.places.iter().filter(|place| place.is_taken() && place.owner.load(SeqCst) == owner).count();
        limits.per_role.saturating_sub(has)
    }

    /// Who waits, without those of a pair.
    fn others_waiting(&self, database: u32, owner: u32) -> impl Iterator<Item = Pair> + '_ {
        let entry = |waiting: &Waiting| {
            (waiting.database.load(SeqCst), waiting.owner.load(SeqCst), waiting.ticket.load(SeqCst))
        };
        let now = now();
        let is_recent = move |waiting: &&Waiting| {
            now.saturating_sub(waiting.said_at.load(SeqCst)).saturating_abs() <= WAITING_AT_MOST
        };
        self.waiting
            .iter()
            .filter(is_recent)
            .map(entry)
            .filter(move |entry| entry.0 != 0 && (entry.0, entry.1) != (database, owner))
    }

    /// The entry of a pair that waits.
    pub(super) fn entry_of(&self, database: u32, owner: u32) -> Option<&Waiting> {
        let is_it =
            |waiting: &&Waiting| waiting.database.load(SeqCst) == database && waiting.owner.load(SeqCst) == owner;
        self.waiting.iter().find(is_it)
    }

    /// Whether there is a place for one more runner of this pair beside those for who comes first: they have fewer runners, or as many and
    /// have waited longer. Of one role as many come first as it may have. Where worker slots are lacking there is one place at most.
    pub(super) fn has_place_for(&self, database: u32, owner: u32, limits: Limits) -> bool {
        let free = limits.most.min(MAX_RUNNERS).saturating_sub(self.taken());
        let free = if limits.lacking { free.min(1) } else { free };
        let room = self.room(owner, limits);
        if free == 0 || room == 0 {
            return false;
        }
        let mine = (
            self.count(database, owner),
            self.entry_of(database, owner).map_or(u64::MAX, |entry| entry.ticket.load(SeqCst)),
        );
        let (mut first, mut count) = ([0; MAX_WAITING], 0);
        for (database, owner, ticket) in self.others_waiting(database, owner) {
            if (self.count(database, owner), ticket) < mine {
                let before = first[..count].iter().filter(|known| **known == owner).count();
                if before < self.room(owner, limits) {
                    first[count] = owner;
                    count += 1;
                }
            }
        }
        let of_the_role = first[..count].iter().filter(|other| **other == owner).count();
        count < free && of_the_role < room
    }

    /// Whether a runner of this pair leaves its place to somebody else after a run: more are taken than may be, or all, and who waits has
    /// fewer runners. Where worker slots are lacking all are taken that there can be. One that its role's share keeps waiting needs a place of
    /// that role.
    pub(super) fn is_to_give_way(&self, database: u32, owner: u32, limits: Limits) -> bool {
        let (taken, mine) = (self.taken(), self.count(database, owner));
        let of_role = self.places.iter().filter(|place| place.is_taken() && place.owner.load(SeqCst) == owner).count();
        if taken > limits.most || of_role > limits.per_role {
            return true;
        }
        let is_full = limits.lacking || taken == limits.most;
        let mut others = self.others_waiting(database, owner);
        others.any(|(database, other, _)| {
            let theirs = self.count(database, other);
            let is_needed = theirs == 0 || theirs + 1 < mine;
            let is_short = if other == owner {
                is_full || of_role == limits.per_role
            } else {
                is_full && self.room(other, limits) > 0
            };
            is_needed && is_short
        })
    }

    /// Whether more runners than may be would stay without those that leave, of all or of this role.
    pub(super) fn has_surplus(&self, owner: u32, limits: Limits) -> bool {
        let staying = || self.places.iter().filter(|place| place.is_taken() && !place.is(Phase::Leaving));
        staying().count() > limits.most
            || staying().filter(|place| place.owner.load(SeqCst) == owner).count() > limits.per_role
    }

    /// Whether an idle runner would have to leave for one more of this role: any, or one of the role itself where that has its share.
    pub(super) fn leaves_for(&self, idle_owner: u32, owner: u32, limits: Limits) -> bool {
        idle_owner == owner || self.room(owner, limits) > 0
    }
}

/// Whether one more runner of this role may be, in any database.
pub fn has_place(owner: u32, limits: Limits) -> bool {
    with(|board| board.taken() < limits.most && board.room(owner, limits) > 0).unwrap_or(false)
}

/// The roles whose executions in this database wait because they have their share of all runners. One whose share is all of them waits for
/// the other limit.
pub fn roles_in_line(database: u32, limits: Limits) -> Vec<u32> {
    if limits.per_role >= limits.most {
        return Vec::new();
    }
    let found = with(|board| {
        let mut roles = [0; MAX_WAITING];
        for (role, (_, owner, _)) in
            roles.iter_mut().zip(board.others_waiting(0, 0).filter(|waiting| waiting.0 == database))
        {
            if board.room(owner, limits) == 0 {
                *role = owner;
            }
        }
        roles
    });
    found.map_or_else(Vec::new, |roles| roles.into_iter().filter(|role| *role != 0).collect())
}
