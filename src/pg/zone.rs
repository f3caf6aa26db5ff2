//! The server's own time zones behind the core's trait: one source for the scheduler and for `AT TIME ZONE`, so that the
//! two can never disagree.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::CString;
use std::ptr::NonNull;

use pgrx::pg_sys;
use scheduler_core::clock::zone::{is_posix, Span, Zone};

use crate::guc;
use crate::pg::convert;
use crate::pg::error::{Failure, Outcome};

/// A zone of the server's tz database. Postgres keeps it for the life of the process, once for all ways to capitalize its name.
#[derive(Clone, Copy)]
pub struct ServerZone(NonNull<pg_sys::pg_tz>);

/// How many POSIX texts a process takes from who may have thought them up. (Schedules cannot have new ones.)
const MOST_TOLD: usize = 8;

thread_local! {
    /// Those that it took.
    static TOLD: RefCell<HashSet<String>> = RefCell::default();
}

fn unknown(name: &str) -> Failure {
    let setting = if name == guc::time_zone() { "That is what sched.time_zone says. " } else { "" };
    Failure::invalid(
        format!("time zone \"{}\" is not known to the server", convert::shown(name)),
        format!("{setting}Use a name of the view pg_timezone_names, for example 'Europe/Berlin' or 'UTC'."),
    )
}

impl ServerZone {
    /// The zone of a name that somebody writes: of the server's tz database, in any case; `22023` where it is unknown. Abbreviations such as
    /// CEST are one offset and no zone.
    ///
    /// Postgres would also read POSIX texts, and keep each for the life of the process, 24 kB for every one that is thought up. Names are as
    /// many as the tz database has. So a text is taken only where the server's administrator wrote it, in `sched.time_zone`.
    pub fn find(name: &str) -> Outcome<ServerZone> {
        if is_posix(name) && name != guc::time_zone() {
            return Err(Failure::invalid(
                format!("time zone \"{}\" is no name of the tz database", convert::shown(name)),
                "Use a name of the view pg_timezone_names, for example 'Europe/Berlin', or 'Etc/GMT+5' for what is always five hours behind UTC.",
            ));
        }
        ServerZone::stored(name)
    }

    /// The zone of a row that a view reads, as somebody says who may have thought it up: POSIX texts only as long as they are few.
    pub fn told(name: &str) -> Outcome<ServerZone> {
        let is_one_too_many = is_posix(name)
            && name != guc::time_zone()
            && TOLD.with_borrow(|told| told.len() >= MOST_TOLD && !told.contains(name));
        if is_one_too_many {
            return Err(unknown(name));
        }
        let zone = ServerZone::stored(name)?;
        if is_posix(name) {
            TOLD.with_borrow_mut(|told| told.insert(name.to_owned()));
        }
        Ok(zone)
    }

    /// The zone of a schedule that is there. Before 0.2.0 it could be a POSIX text: those that there are go on.
    pub fn stored(name: &str) -> Outcome<ServerZone> {
        let unknown = || unknown(name);
        // With leap seconds, which Postgres reads first and refuses then.
        if name.get(..6).is_some_and(|folder| folder.eq_ignore_ascii_case("right/")) {
            return Err(unknown());
        }
        let text = CString::new(name).map_err(|_| unknown())?;
        // SAFETY: pg_tzset copies what it needs and returns NULL or a zone that lives as long as the process.
        unsafe {
            let zone = pg_sys::pg_tzset(text.as_ptr());
            match NonNull::new(zone) {
                Some(zone) if pg_sys::pg_tz_acceptable(zone.as_ptr()) => Ok(ServerZone(zone)),
                Some(_) | None => Err(unknown()),
            }
        }
    }
}

/// Of a zone written as a POSIX text, how many seconds east of UTC its clock really is: POSIX counts westwards, so
/// `UTC+3` is behind UTC. `None` for names and zero.
pub fn offset_read_backwards(name: &str, zone: ServerZone) -> Option<i32> {
    let offset = zone.span_at(0).utc_offset_seconds;
    (is_posix(name) && offset != 0).then_some(offset)
}

impl Zone for ServerZone {
    fn span_at(&self, unix_seconds: i64) -> Span {
        let (mut before, mut after) = (0, 0);
        let (mut before_dst, mut after_dst) = (0, 0);
        let mut boundary = 0;
        // SAFETY: all pointers are to locals; the zone lives as long as the process.
        let found = unsafe {
            pg_sys::pg_next_dst_boundary(
                &unix_seconds,
                &mut before,
                &mut before_dst,
                &mut boundary,
                &mut after,
                &mut after_dst,
                self.0.as_ptr(),
            )
        };
        Span { utc_offset_seconds: before as i32, until: (found > 0).then_some(boundary) }
    }
}
