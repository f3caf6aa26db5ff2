//! What clocks of imported rows are in their zones.

use std::collections::HashMap;

use scheduler_core::foreign::{self, ForeignClock};
use scheduler_core::Instant;

use crate::pg::error::Outcome;
use crate::pg::zone::ServerZone;

/// Remembers what it has found: rows share zones and clocks, and to look through all clock changes of a zone takes a millisecond.
#[derive(Default)]
pub struct Zones {
    last: Option<(String, ServerZone)>,
    settled: HashMap<(ForeignClock, String), Result<String, String>>,
}

impl Zones {
    /// The text of the clock of ours that does in this zone what theirs does; the reason where there is none.
    pub fn settled(&mut self, clock: &ForeignClock, time_zone: &str, now: Instant) -> Result<String, String> {
        let key = (clock.clone(), time_zone.to_owned());
        if let Some(known) = self.settled.get(&key) {
            return known.clone();
        }
        let zone = self.find(time_zone).map_err(|failure| failure.message)?;
        let found = foreign::settled(clock, &zone, now);
        self.settled.insert(key, found.clone());
        found
    }

    /// The zone of this name; `22023`.
    fn find(&mut self, name: &str) -> Outcome<ServerZone> {
        if let Some((_, zone)) = self.last.as_ref().filter(|(known, _)| known == name) {
            return Ok(*zone);
        }
        let zone = ServerZone::find(name)?;
        self.last = Some((name.to_owned(), zone));
        Ok(zone)
    }
}
