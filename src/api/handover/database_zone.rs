//! The zone that a scheduler which says none has from the database it connects to.

use crate::pg::error::{raise, Failure};
use crate::store::handover::foreign::ForeignSchema;

/// The database's own default, else the server's; `22023` where all that is known is what this session began with. A role's own default is
/// not known here.
pub fn default_zone(schema: &ForeignSchema) -> String {
    let rows = schema.rows(include_str!("../../../sql/query/handover/database_zone.sql"));
    let Some(row) = rows.first() else { return "UTC".to_owned() };
    if row.text("is_own") != "true" && row.text("may_read_files") == "true" {
        // This session may have begun with another one: its client's, or its role's.
        let files = schema.rows(include_str!("../../../sql/query/handover/server_zone.sql"));
        if let Some(zone) = files.first().and_then(|file| file.get("zone")) {
            return zone.to_owned();
        }
    }
    if row.text("is_own") != "true" && row.text("is_sessions") == "true" {
        raise(Failure::invalid(
            format!(
                "the zone of this database is not known: this session's, \"{}\", is its client's or its role's",
                row.text("zone")
            ),
            "Say it with ALTER DATABASE ... SET timezone, or connect without PGTZ and without a zone of your role.",
        ));
    }
    row.text("zone").to_owned()
}
