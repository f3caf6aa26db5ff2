//! The one time type of the core: Postgres' own `timestamptz`, so that crossing into SQL costs nothing and no
//! value is lost at year 9999 or 294276 (chrono ends at 262142).

/// An instant: microseconds since 2000-01-01 00:00:00 UTC, always finite and within what Postgres can store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(i64);

/// Microseconds in one second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Seconds from 1970-01-01 (Unix) to 2000-01-01 (Postgres).
pub const UNIX_TO_POSTGRES_SECONDS: i64 = 946_684_800;

impl Instant {
    /// 4714-11-24 00:00:00 UTC BC, the first instant that Postgres stores.
    pub const MIN: Instant = Instant(-211_813_488_000_000_000);
    /// 294276-12-31 23:59:59.999999 UTC, the last one.
    pub const MAX: Instant = Instant(9_223_371_331_199_999_999);
    /// 1970-01-01 00:00:00 UTC.
    pub const UNIX_EPOCH: Instant = Instant(-UNIX_TO_POSTGRES_SECONDS * MICROS_PER_SECOND);

    /// The instant `micros` microseconds after 2000-01-01 UTC; `None` where Postgres could not store it
    /// (its infinities included).
    #[must_use]
    pub const fn from_micros(micros: i64) -> Option<Instant> {
        if micros < Self::MIN.0 || micros > Self::MAX.0 {
            None
        } else {
            Some(Instant(micros))
        }
    }

    /// Microseconds since 2000-01-01 00:00:00 UTC.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This instant moved by `micros`; `None` outside of the range.
    #[must_use]
    pub const fn checked_add_micros(self, micros: i64) -> Option<Instant> {
        match self.0.checked_add(micros) {
            Some(sum) => Self::from_micros(sum),
            None => None,
        }
    }

    /// The last instant before this one; the first of all has none, and is itself.
    #[must_use]
    pub const fn just_before(self) -> Instant {
        match self.checked_add_micros(-1) {
            Some(before) => before,
            None => self,
        }
    }

    /// The instant at a whole Unix second; `None` outside of the range.
    #[must_use]
    pub const fn from_unix_seconds(seconds: i64) -> Option<Instant> {
        match seconds.checked_sub(UNIX_TO_POSTGRES_SECONDS) {
            Some(shifted) => match shifted.checked_mul(MICROS_PER_SECOND) {
                Some(micros) => Self::from_micros(micros),
                None => None,
            },
            None => None,
        }
    }

    /// The Unix second that this instant falls in (rounded down).
    #[must_use]
    pub const fn unix_seconds(self) -> i64 {
        self.0.div_euclid(MICROS_PER_SECOND) + UNIX_TO_POSTGRES_SECONDS
    }

    /// The microseconds (0–999,999) since the start of that second.
    #[must_use]
    pub const fn subsecond_micros(self) -> i64 {
        self.0.rem_euclid(MICROS_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::Instant;

    #[test]
    fn nothing_is_before_the_first_instant() {
        assert_eq!(Instant::MIN.just_before(), Instant::MIN);
        assert_eq!(Instant::MAX.just_before().checked_add_micros(1), Some(Instant::MAX));
    }
}
