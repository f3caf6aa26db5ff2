//! What clocks of imported rows are here.

use std::collections::HashMap;

use scheduler_core::foreign::{self, ForeignClock};
use scheduler_core::Instant;

use crate::pg::zone::ServerZone;

/// Remembers what it has found: rows share clocks, and to look through all clock changes of a zone takes a millisecond.
#[derive(Default)]
pub struct Clocks(HashMap<(ForeignClock, String), Result<String, String>>);

impl Clocks {
    /// The text of the clock of ours that does in this zone what theirs does; the reason where there is none.
    pub fn settled(&mut self, clock: &ForeignClock, time_zone: &str, now: Instant) -> Result<String, String> {
        let find = || foreign::settled(clock, &ServerZone::find(time_zone).map_err(|failure| failure.message)?, now);
        self.0.entry((clock.clone(), time_zone.to_owned())).or_insert_with(find).clone()
    }
}
