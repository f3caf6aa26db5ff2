//! Tables that another engine has spread over other servers. Our rows are locked, read by place in a table and counted on to be all there: of such
//! tables nothing of that holds, so nothing is fired from them, handed out or put into them.

use pgrx::PgSqlErrorCode;

use crate::pg::error::{Failure, Outcome};
use crate::pg::record::Record;
use crate::pg::{syscache, Session};
use crate::{arguments, statement};

/// `0A000` where Citus, or an engine with its catalog, has distributed a table of ours.
pub fn refuse<'s>(session: impl FnOnce() -> &'s Session) -> Outcome<()> {
    // A look into the cache, where hardly anybody has that.
    if syscache::relation_named(c"pg_catalog", c"pg_dist_partition").is_none() {
        return Ok(());
    }
    statement!(TABLES_DISTRIBUTED = "identity/tables_distributed"());
    let tables = TABLES_DISTRIBUTED.run(session(), arguments![]);
    let found: Option<String> = tables.first().map(|row| row.get_required("name"));
    found.map_or(Ok(()), |name| {
        Err(Failure::new(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("table \"{name}\" of the scheduler is distributed"),
            format!("Run SELECT undistribute_table('{name}'). To use several servers, give each database a scheduler of its own."),
        ))
    })
}
