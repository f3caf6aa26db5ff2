//! Rights of users across an update, and of nobody on the types of our rows.

use pgrx::pg_sys::Oid;
use pgrx::{pg_sys, Spi};

use crate::pg::error::{raise, Failure};
use crate::pg::name_lock::{self, Names};
use crate::pg::record::Record;
use crate::pg::session::Rows;
use crate::pg::Session;
use crate::{arguments, statement};

/// Gives users, monitors and workers the rights on what an update has added, and PUBLIC none on the types of rows. What somebody took back
/// from one of them before stays taken.
pub fn again(session: &Session) {
    statement!(GRANTS_AGAIN = "grants/grants_again"());
    let _theirs = UsersGrants::begin();
    if let Some(row) = GRANTS_AGAIN.run(session, arguments![]).first() {
        execute(row.get_required("grants"));
        execute(row.get_required("revokes"));
    }
    types(session);
}

/// Whether `member` is a member of `role` by grants of superusers, which of a superuser no look-up in the server's own caches says.
pub fn is_member_by_grant(session: &Session, member: Oid, role: Oid) -> bool {
    statement!(MEMBER_BY_GRANT = "grants/member_by_grant"(OIDOID, OIDOID));
    MEMBER_BY_GRANT.run(session, arguments![member, role]).len() > 0
}

/// Takes the types of our rows from PUBLIC, if it has them: as in a new extension, and after pg_upgrade, which knows nothing of their rights.
/// pg_dump warns of such rights where a script has given or taken them.
pub fn types(session: &Session) {
    statement!(GRANTS_TYPES = "grants/grants_types"());
    let _theirs = UsersGrants::begin();
    execute(GRANTS_TYPES.run(session, arguments![]).iter().map(|row| row.get_required("revoke")).collect());
}

/// Lets the members of pg_monitor ask how the scheduler stands.
pub fn pg_monitor(session: &Session) {
    statement!(GRANTS_PG_MONITOR = "grants/grants_pg_monitor"());
    give_as_a_user(|| GRANTS_PG_MONITOR.run(session, arguments![]));
}

/// Lets the owner of the database begin and end test mode.
pub fn database_owner(session: &Session) {
    statement!(GRANTS_DATABASE_OWNER = "grants/grants_database_owner"());
    give_as_a_user(|| GRANTS_DATABASE_OWNER.run(session, arguments![]));
}

/// Gives what a script's own statement gives to roles of the server.
fn give_as_a_user<'s>(grants: impl FnOnce() -> Rows<'s>) {
    // SAFETY: raises where the server is a standby.
    unsafe { pg_sys::PreventCommandDuringRecovery(c"GRANT".as_ptr()) };
    let _theirs = UsersGrants::begin();
    give(&grants());
}

fn give(grants: &Rows) {
    execute(grants.iter().map(|row| row.get_required("grant")).collect());
}

/// Lets a role enqueue a job of another role.
pub fn enqueue(session: &Session, job_name: &str, role: Oid) {
    statement!(ENQUEUE_GRANT = "grants/enqueue_grant"(TEXTOID, REGROLEOID));
    let grants = ENQUEUE_GRANT.run(session, arguments![job_name, role]);
    if grants.len() > 0 {
        name_lock::hold(Names::Grants, "");
        give(&grants);
    }
}

/// What a role may enqueue beside its own jobs.
#[derive(Clone, Copy)]
pub struct EnqueueRight {
    /// This job.
    pub is_granted: bool,
    /// Nothing but what it was granted, not even a job that was never defined.
    pub is_confined: bool,
}

/// The same of a role and a job.
pub fn may_enqueue(session: &Session, job_name: &str, role: Oid) -> EnqueueRight {
    statement!(ENQUEUE_GRANTED = "grants/enqueue_granted"(TEXTOID, OIDOID));
    ENQUEUE_GRANTED.run(session, arguments![job_name, role]).first().map_or(
        EnqueueRight { is_granted: false, is_confined: false },
        |row| EnqueueRight { is_granted: row.get_required("is_granted"), is_confined: row.get_required("is_confined") },
    )
}

fn execute(statements: Vec<String>) {
    for statement in statements {
        if let Err(error) = Spi::run(&statement) {
            raise(Failure::internal(format!("{statement}: {error}")));
        }
    }
}

/// While it lives, a GRANT is a user's, although an extension's script is at work. One of the script's own would count as given
/// by the extension, and pg_dump would leave it out.
struct UsersGrants {
    before: bool,
}

impl UsersGrants {
    fn begin() -> UsersGrants {
        // SAFETY: the backend's only thread.
        unsafe {
            let before = pg_sys::creating_extension;
            pg_sys::creating_extension = false;
            UsersGrants { before }
        }
    }
}

impl Drop for UsersGrants {
    fn drop(&mut self) {
        // SAFETY: as above. (After an error the script's own end resets it.)
        unsafe { pg_sys::creating_extension = self.before && !std::thread::panicking() }
    }
}
