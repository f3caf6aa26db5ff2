//! The board of runners: which processes run SQL jobs, of which database and owner, and which execution each is on. A lease of such an
//! execution lasts as long as its process, and this is where a dispatcher sees whether that is there.
//!
//! All of it is read and written under one spin lock, a few loads and stores at a time. A signal that is meant for one run reaches no
//! other: it only says that something was asked, and the runner's handler compares the number of the run that is meant with its own.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::SeqCst};

use pgrx::{pg_guard, pg_shmem_init, pg_sys, PGRXSharedMemory, PgAtomic};
use scheduler_core::Instant;

use crate::pg::login_rows::LoginRows;
use crate::shmem::registry;
use crate::shmem::spinlock;

mod place;
pub mod process;
pub mod runs;
pub mod shares;

use place::{Phase, Place, COMING_AT_MOST};

pub use place::Limits;

/// How many runners there can be at the same time, whatever the setting says.
pub const MAX_RUNNERS: usize = 256;
/// How many (database, owner) pairs can wait for a place at the same time. One that finds no room asks again.
const MAX_WAITING: usize = 256;
/// One that looks for work has found it, or that there is none, within this, in microseconds: or somebody has stopped its process.
const LOOKING_AT_MOST: i64 = 1_000_000;
/// Who waits says so again each second; who has not for so long, in microseconds, waits no more.
const WAITING_AT_MOST: i64 = 3_000_000;

/// Who waits for a place.
struct Waiting {
    database: AtomicU32,
    owner: AtomicU32,
    /// Whose turn is earlier.
    ticket: AtomicU64,
    /// When its dispatcher last said so: one that cannot work any more keeps no place from others.
    said_at: AtomicI64,
}

/// What all processes share.
pub struct Board {
    lock: AtomicBool,
    runs: AtomicU64,
    /// How many places run something: what concerns runs only costs others one load where it is 0.
    running: AtomicU32,
    claims: AtomicU64,
    tickets: AtomicU64,
    places: [Place; MAX_RUNNERS],
    waiting: [Waiting; MAX_WAITING],
    /// Whose runners could not connect, since their dispatcher has asked: database and owner.
    failed: [AtomicU64; MAX_WAITING],
}

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for Board {}

impl Default for Board {
    fn default() -> Board {
        Board {
            lock: AtomicBool::new(false),
            runs: AtomicU64::new(0),
            running: AtomicU32::new(0),
            claims: AtomicU64::new(0),
            tickets: AtomicU64::new(0),
            places: std::array::from_fn(|_| Place::default()),
            waiting: std::array::from_fn(|_| Waiting {
                database: AtomicU32::new(0),
                owner: AtomicU32::new(0),
                ticket: AtomicU64::new(0),
                said_at: AtomicI64::new(0),
            }),
            failed: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// This moment, by the clock of everything else here.
fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

// SAFETY: the name is unique to this library.
static BOARD: PgAtomic<Board> = unsafe { PgAtomic::new(c"scheduler_runners") };

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(BOARD);
}

/// Whether nothing runs in the whole server. One load: those ask who have nothing to do with SQL jobs.
fn is_quiet() -> bool {
    !registry::preloaded() || BOARD.get().running.load(SeqCst) == 0
}

/// Nobody else changes the board while `body` runs; `None` where the library was not preloaded.
fn with<R>(body: impl FnOnce(&'static Board) -> R) -> Option<R> {
    registry::preloaded().then(|| BOARD.get()).map(|board| spinlock::locked(&board.lock, || body(board)))
}

impl Board {
    /// To be said before the phase of a place changes: it runs nothing any more.
    fn stops(&self, place: &Place) {
        if place.is(Phase::Running) {
            self.running.fetch_sub(1, SeqCst);
        }
    }

    fn of(&self, database: u32, owner: u32) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(move |place| place.is_of(database, owner))
    }

    fn count(&self, database: u32, owner: u32) -> usize {
        self.of(database, owner).count()
    }

    fn taken(&self) -> usize {
        self.places.iter().filter(|place| place.is_taken()).count()
    }
}

/// How many places are taken.
pub fn taken() -> usize {
    with(Board::taken).unwrap_or(0)
}

/// A place for a runner that the postmaster is about to be asked for.
#[derive(Clone, Copy)]
pub struct Seat {
    index: u16,
    serial: u32,
}

impl Seat {
    /// What the postmaster hands over to the runner: one number.
    pub fn to_argument(self) -> u64 {
        u64::from(self.serial) << 16 | u64::from(self.index)
    }

    /// The same, read.
    pub fn of_argument(argument: u64) -> Seat {
        Seat { index: (argument & 0xFFFF) as u16, serial: (argument >> 16) as u32 }
    }
}

/// A place for one more runner of this owner, within these limits, where those that are free are not for others who come first: who has fewer
/// runners, or as many and has waited longer. `login` is what the runner would read now at its login.
pub fn reserve(database: u32, owner: u32, limits: Limits, login: LoginRows, now: Instant) -> Option<Seat> {
    with(|board| {
        board.places.iter().filter(|place| place.is_forgotten(now)).for_each(Place::free);
        if !board.has_place_for(database, owner, limits) {
            return None;
        }
        // What one that is free still says is forgotten last.
        let free = board.places.iter().enumerate().filter(|(_, place)| !place.is_taken());
        let (index, place) = free.min_by_key(|(_, place)| place.last_end.load(SeqCst) != 0)?;
        place.free();
        let serial = place.serial.load(SeqCst).wrapping_add(1);
        place.serial.store(serial, SeqCst);
        place.database.store(database, SeqCst);
        place.owner.store(owner, SeqCst);
        place.login.iter().zip(login.0).for_each(|(row, written_by)| row.store(written_by, SeqCst));
        place.begin(Phase::Coming, now);
        Some(Seat { index: index as u16, serial })
    })
    .flatten()
}

/// To be said when no runner was started after all.
pub fn give_back(seat: Seat) {
    with(|board| {
        let place = &board.places[usize::from(seat.index)];
        if place.serial.load(SeqCst) == seat.serial && place.is(Phase::Coming) {
            place.free();
        }
    });
}

/// The runners of one owner.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Crew {
    /// They wait for work.
    pub idle: usize,
    /// They look for work, or are about to.
    pub looking: usize,
    /// They have claimed work that who has looked may have seen as waiting.
    pub claiming: usize,
    /// They have come as far as looking for work, or running it.
    pub arrived: usize,
}

/// How many claims everybody can see who looks after this.
pub fn claims() -> u64 {
    with(|board| board.claims.load(SeqCst)).unwrap_or(0)
}

/// The runners of this owner, for one who has looked what waits after `claims` said so many. One that the postmaster never forked is forgotten.
pub fn crew(database: u32, owner: u32, claims: u64, now: Instant) -> Crew {
    with(|board| {
        let mut crew = Crew::default();
        for place in board.of(database, owner) {
            // (Whoever sets the clock back makes nobody young.)
            let age = place.age(now);
            // One that hangs while it connects keeps its place, but nobody counts on it.
            if place.is(Phase::Coming) && age > COMING_AT_MOST {
                continue;
            }
            crew.idle += usize::from(place.is(Phase::Idle));
            let looks = place.is(Phase::Looking) && age <= LOOKING_AT_MOST;
            crew.looking += usize::from(looks || place.is(Phase::Coming));
            let claim = place.claim.load(SeqCst);
            crew.claiming += usize::from(place.is(Phase::Running) && (claim == 0 || claim > claims));
            crew.arrived += usize::from(!place.is(Phase::Coming));
        }
        crew
    })
    .unwrap_or_default()
}

/// The owners of this database whose runners could not connect since this was last asked.
pub fn take_failed(database: u32) -> Vec<u32> {
    let taken = with(|board| {
        let mut owners = [0; MAX_WAITING];
        for (owner, failed) in owners.iter_mut().zip(&board.failed) {
            let pair = failed.load(SeqCst);
            if (pair >> 32) as u32 == database {
                *owner = pair as u32;
                failed.store(0, SeqCst);
            }
        }
        owners
    });
    taken.map_or_else(Vec::new, |owners| owners.into_iter().filter(|owner| *owner != 0).collect())
}

/// Wakes up to `count` idle runners of this owner; how many.
pub fn wake(database: u32, owner: u32, count: usize, now: Instant) -> usize {
    with(|board| {
        let mut woken = 0;
        for place in board.of(database, owner).filter(|place| place.is(Phase::Idle)).take(count) {
            place.begin(Phase::Looking, now);
            registry::set_latch(place.pid.load(SeqCst));
            woken += 1;
        }
        woken
    })
    .unwrap_or(0)
}

/// Says who of this database waits for a place, instead of what was said before. Where places are short, an idle runner of somebody else
/// leaves for each.
pub fn set_waiting(database: u32, owners: &[u32], limits: Limits) {
    with(|board| {
        for waiting in &board.waiting {
            let is_over = waiting.database.load(SeqCst) == database && !owners.contains(&waiting.owner.load(SeqCst));
            if is_over {
                waiting.database.store(0, SeqCst);
            }
        }
        for owner in owners {
            let known = board.entry_of(database, *owner);
            let entry = known.or_else(|| board.waiting.iter().find(|waiting| waiting.database.load(SeqCst) == 0));
            if let Some(entry) = entry {
                if known.is_none() {
                    entry.owner.store(*owner, SeqCst);
                    entry.ticket.store(board.tickets.fetch_add(1, SeqCst), SeqCst);
                    entry.database.store(database, SeqCst);
                }
                entry.said_at.store(now(), SeqCst);
            }
            let can_leave = |place: &&Place| {
                let idle_owner = place.owner.load(SeqCst);
                let is_of_others = !place.is_of(database, *owner);
                place.is(Phase::Idle) && is_of_others && board.leaves_for(idle_owner, *owner, limits)
            };
            if let Some(idle) = board.places.iter().find(can_leave) {
                idle.phase.store(Phase::Leaving as u32, SeqCst);
                registry::set_latch(idle.pid.load(SeqCst));
            }
        }
    });
}

/// Whether a runner of this database is there, or is coming, that runs nothing: it makes way for whoever wants the database to himself.
pub fn has_bystander(database: u32) -> bool {
    with(|board| {
        let mut any = false;
        for place in board.places.iter().filter(|place| place.is_taken() && place.database.load(SeqCst) == database) {
            if !place.is(Phase::Running) {
                any = true;
                registry::set_latch(place.pid.load(SeqCst));
            }
        }
        any
    })
    .unwrap_or(false)
}

/// Whether a runner of this database is there or is coming.
pub fn has_any(database: u32) -> bool {
    with(|board| board.places.iter().any(|place| place.is_taken() && place.database.load(SeqCst) == database))
        .unwrap_or(false)
}

/// Has a runner leave that runs nothing; false where there is none.
pub fn dismiss_an_idle_one() -> bool {
    with(|board| {
        let idle = board.places.iter().find(|place| place.is(Phase::Idle));
        idle.is_some_and(|idle| {
            idle.phase.store(Phase::Leaving as u32, SeqCst);
            registry::set_latch(idle.pid.load(SeqCst));
            true
        })
    })
    .unwrap_or(false)
}
