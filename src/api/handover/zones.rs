//! Zones of imported rows.

use crate::pg::error::Outcome;
use crate::pg::zone::ServerZone;

/// The zone that was asked for last: most rows share one.
#[derive(Default)]
pub struct Zones(Option<(String, ServerZone)>);

impl Zones {
    /// The zone of this name; `22023`.
    pub fn find(&mut self, name: &str) -> Outcome<ServerZone> {
        if let Some((_, zone)) = self.0.as_ref().filter(|(known, _)| known == name) {
            return Ok(*zone);
        }
        let zone = ServerZone::find(name)?;
        self.0 = Some((name.to_owned(), zone));
        Ok(zone)
    }
}
