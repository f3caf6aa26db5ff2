//! The board of runners, where moments between two processes can be made that no server shows twice.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::datum::Uuid;
    use pgrx::prelude::*;
    use scheduler_core::Instant;

    use crate::pg::login_rows::LoginRows;
    use crate::shmem::runners::process::{self, Runner};
    use crate::shmem::runners::runs::{self, Whereabouts};
    use crate::shmem::runners::{self, shares, Limits, Seat, MAX_RUNNERS};

    /// No process has this number: nobody is sent a signal.
    const NOBODY: i32 = 0;
    const SECOND: i64 = 1_000_000;
    const ALL: Limits = Limits { most: MAX_RUNNERS, per_role: MAX_RUNNERS, lacking: false };

    fn at(seconds: i64) -> Instant {
        Instant::from_micros(seconds * SECOND).unwrap()
    }

    /// A database that is nobody's, for one test.
    fn seat(database: u32) -> Seat {
        runners::reserve(database, 10, ALL, LoginRows::UNKNOWN, at(0)).unwrap()
    }

    fn places(database: u32, now: Instant) -> runners::Crew {
        runners::crew(database, 10, runners::claims(), now)
    }

    fn execution(number: u8) -> Uuid {
        Uuid::from_bytes([number; 16])
    }

    #[pg_test]
    fn a_cancel_reaches_each_attempt_that_may_be_meant() {
        let database = 4_000_000_001;
        let (first, second) = (seat(database), seat(database));
        // One has ended its attempt for all to see, and has not said so here yet. The other has the next attempt.
        let ends = Runner::enter(first, NOBODY, at(0)).unwrap();
        ends.run(execution(1), None, at(1));
        let begins = Runner::enter(second, NOBODY, at(0)).unwrap();
        begins.run(execution(1), None, at(2));
        assert!(!process::is_cancelled());
        assert!(runs::cancel(database, execution(1), at(3).as_micros(), SECOND));
        assert!(process::is_cancelled(), "the second attempt");
        ends.ended(at(3));
        assert_eq!(runs::whereabouts(database, execution(1)), Whereabouts::Running);
        // It means that run, and no other of the same process.
        begins.ended(at(4));
        begins.run(execution(2), None, at(5));
        assert!(!process::is_cancelled());
        assert_eq!(runs::whereabouts(database, execution(1)), Whereabouts::Lost);
        begins.ended(at(6));
        [first, second].into_iter().for_each(|seat| process::left(seat, NOBODY, false));
        assert_eq!(places(database, at(6)), runners::Crew::default());
    }

    #[pg_test]
    fn a_role_has_its_share_of_all_databases() {
        let (here, there, owner) = (4_000_000_011, 4_000_000_012, 4_000_000_013);
        let limits = Limits { most: MAX_RUNNERS, per_role: 2, lacking: false };
        let reserve = |database| runners::reserve(database, owner, limits, LoginRows::UNKNOWN, at(0));
        let (first, second) = (reserve(here).unwrap(), reserve(there).unwrap());
        assert!(!shares::has_place(owner, limits));
        assert!(reserve(here).is_none() && reserve(there).is_none());
        runners::set_waiting(here, &[owner], limits);
        assert_eq!(shares::roles_in_line(here, limits), [owner]);
        assert!(shares::roles_in_line(there, limits).is_empty());
        assert!(
            shares::roles_in_line(here, Limits { most: 2, ..limits }).is_empty(),
            "raising its share would not help"
        );
        // Another role has a place meanwhile: who has his share is not in line.
        // (Tests beside this one take places too.)
        let one_more = || {
            let all_but_one = Limits { most: runners::taken() + 1, ..limits };
            runners::reserve(here, owner + 1, all_but_one, LoginRows::UNKNOWN, at(0))
        };
        runners::give_back((0..1000).find_map(|_| one_more()).unwrap());
        // One that has become free is for the database that waits.
        runners::give_back(first);
        assert!(shares::roles_in_line(here, limits).is_empty());
        assert!(reserve(there).is_none());
        let third = reserve(here).unwrap();
        // With a lower limit one has to leave, and with that no other.
        let runner = Runner::enter(third, NOBODY, at(0)).unwrap();
        let lower = Limits { per_role: 1, ..limits };
        assert!(!runner.is_surplus(limits) && runner.gives_way(lower));
        assert!(runner.is_surplus(lower) && runner.is_to_leave() && !runner.is_surplus(lower));
        process::left(third, NOBODY, false);
        runners::give_back(second);
        runners::set_waiting(here, &[], limits);
        assert!(shares::has_place(owner, lower));
    }

    #[pg_test]
    fn how_a_process_ended_is_known_until_the_next_attempt() {
        let database = 4_000_000_002;
        for (transaction_timed_out, whereabouts) in
            [(false, Whereabouts::Lost), (true, Whereabouts::TransactionTimedOut)]
        {
            let first = seat(database);
            let runner = Runner::enter(first, NOBODY, at(0)).unwrap();
            runner.run(execution(3), Some(at(60)), at(1));
            process::left(first, NOBODY, transaction_timed_out);
            assert_eq!(runs::whereabouts(database, execution(3)), whereabouts);
            assert_eq!(runs::whereabouts(database, execution(4)), Whereabouts::Lost);
            assert_eq!(runs::whereabouts(database + 1000, execution(3)), Whereabouts::Lost);
        }
        // The next attempt is another.
        let second = seat(database);
        let runner = Runner::enter(second, NOBODY, at(2)).unwrap();
        runner.run(execution(3), Some(at(60)), at(3));
        assert_eq!(runs::whereabouts(database, execution(3)), Whereabouts::Running);
        assert!(runs::terminate_overdue(database, at(60)));
        assert_eq!(runs::whereabouts(database, execution(3)), Whereabouts::TimedOut);
        // Also when its process has gone.
        process::left(second, NOBODY, false);
        assert_eq!(runs::whereabouts(database, execution(3)), Whereabouts::TimedOut);
        let third = seat(database);
        let runner = Runner::enter(third, NOBODY, at(4)).unwrap();
        runner.run(execution(3), None, at(61));
        runner.ended(at(62));
        process::left(third, NOBODY, false);
        assert_eq!(runs::whereabouts(database, execution(3)), Whereabouts::Lost);
    }

    /// One that was never forked is forgotten. One that hangs while it connects keeps its place, but nobody counts on it.
    #[pg_test]
    fn a_place_is_free_when_its_process_never_came() {
        let database = 4_000_000_003;
        let (never, hangs) = (seat(database), seat(database));
        let runner = Runner::enter(hangs, NOBODY + i32::MAX, at(1)).unwrap();
        assert_eq!(places(database, at(4)).looking, 2);
        assert_eq!(places(database, at(7)), runners::Crew::default());
        // Whoever asks for a place finds the first of them, and not the second.
        let next = runners::reserve(database, 10, ALL, LoginRows::UNKNOWN, at(7)).unwrap();
        assert!(Runner::enter(never, NOBODY, at(7)).is_none());
        assert!(Runner::enter(next, NOBODY, at(7)).is_some());
        assert!(runner.look(at(8)));
        assert_eq!((places(database, at(8)).looking, places(database, at(8)).arrived), (2, 1));
        process::left(hangs, NOBODY + i32::MAX, false);
        process::left(next, NOBODY, false);
    }
}
