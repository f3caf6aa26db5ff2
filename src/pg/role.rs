//! Who asks, and who acts. A function of ours runs as its caller and switches to the extension's owner only around its own
//! statements (as foreign-key checks do), so `current_user` inside any function is always the true caller.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::pg_sys::{self, Oid};

use crate::pg::error::{raise, Failure, Outcome};
use crate::pg::{compat, invalidation, oid_cache, syscache};

/// The role whose rights count at this moment (`current_user`).
pub fn caller() -> Oid {
    // SAFETY: reads a global of the backend.
    unsafe { pg_sys::GetUserId() }
}

/// Whether the current role may act for `owner`: it is the role, a member with its rights, or a superuser.
pub fn may_act_for(role: Oid, owner: Oid) -> bool {
    // SAFETY: syscache look-ups inside a transaction; unknown oids answer false.
    unsafe { pg_sys::has_privs_of_role(role, owner) }
}

/// Whether `role` may become `owner`, so that what it has run as that role it could run itself.
pub fn may_become(role: Oid, owner: Oid) -> bool {
    may_act_for(role, owner) && compat::may_become(role, owner)
}

/// The role; `42704` where there is none, for a number is taken as it is.
pub fn existing(role: Oid) -> Outcome<Oid> {
    if exists(role) {
        return Ok(role);
    }
    Err(Failure::unknown("role", &role.to_u32().to_string(), "Pass the name of a role."))
}

/// Whether `role` still exists.
pub fn exists(role: Oid) -> bool {
    syscache::attributes(role).is_some()
}

/// The schema `sched`, and the role that owns it, and with it everything that the extension created; `None` where there is none. As of this
/// moment: within a transaction a session hears of what others changed when it locks something or is asked to.
pub fn schema() -> Option<(Oid, Oid)> {
    invalidation::accept_invalidations();
    oid_cache::schema()
}

/// The same; an error that says what to do where there is none.
pub fn extension() -> (Oid, Oid) {
    schema().unwrap_or_else(|| {
        raise(Failure::new(
            pgrx::PgSqlErrorCode::ERRCODE_INVALID_SCHEMA_NAME,
            "schema \"sched\" does not exist in this database",
            "Run CREATE EXTENSION scheduler.",
        ))
    })
}

/// Who asks when a dispatcher does something by itself: it may act for everybody, whatever role it works as.
pub const DISPATCHER: Oid = Oid::from_u32(pg_sys::BOOTSTRAP_SUPERUSERID);

/// This process is a dispatcher with a role of its own (`sched.worker_role`): it becomes no other, but for an owner who is no superuser.
static KEEPS_ITS_ROLE: AtomicBool = AtomicBool::new(false);

/// Has this process work as the role that it connected as, to its end.
pub fn keep_own() {
    KEEPS_ITS_ROLE.store(true, Ordering::Relaxed);
}

const SELECT: pg_sys::AclMode = pg_sys::ACL_SELECT as pg_sys::AclMode;
const INSERT: pg_sys::AclMode = pg_sys::ACL_INSERT as pg_sys::AclMode;
const UPDATE: pg_sys::AclMode = pg_sys::ACL_UPDATE as pg_sys::AclMode;
const DELETE: pg_sys::AclMode = pg_sys::ACL_DELETE as pg_sys::AclMode;
const ALL: pg_sys::AclMode = SELECT | INSERT | UPDATE | DELETE;

/// What `sched.grant_worker` gives: on which tables to do what.
const OF_WORKERS: [(&CStr, pg_sys::AclMode); 23] = [
    (c"ledger", ALL),
    (c"home", SELECT),
    (c"shard", SELECT),
    (c"test_clock", SELECT),
    (c"job", SELECT),
    (c"schedule", SELECT),
    (c"schedule_change", ALL),
    (c"timer", ALL),
    (c"retry", ALL),
    (c"ready", ALL),
    (c"lease", SELECT | UPDATE | DELETE),
    (c"awaited", ALL),
    (c"schedule_definition", SELECT | UPDATE | DELETE),
    (c"schedule_dropped", SELECT | UPDATE | DELETE),
    (c"cancel_request", SELECT | UPDATE | DELETE),
    (c"unique_scope", SELECT | UPDATE | DELETE),
    (c"paused_queue", SELECT),
    (c"imported", SELECT),
    (c"skip", ALL),
    (c"timer_state", ALL),
    (c"alert", ALL),
    (c"alert_watch", ALL),
    (c"alert_state", ALL),
];

/// Whether this process may dispatch, as only the extension's owner and a role with `sched.grant_worker` may.
pub fn may_dispatch() -> bool {
    !KEEPS_ITS_ROLE.load(Ordering::Relaxed) || has_workers_rights(caller())
}

/// Whether `role` has all the rights that `sched.grant_worker` gives. (A table that objects of another version lack is none that anybody
/// could have rights on: what to do about that is said elsewhere.)
pub fn has_workers_rights(role: Oid) -> bool {
    let all = pg_sys::AclMaskHow::ACLMASK_ALL;
    schema().is_some_and(|(schema, _)| {
        compat::may_use_schema(role, schema)
            && OF_WORKERS.iter().all(|(table, mode)| {
                let table = oid_cache::relation(schema, table);
                // SAFETY: a look-up inside a transaction.
                table.is_none_or(|table| unsafe { pg_sys::pg_class_aclmask(table, role, *mode, all) == *mode })
            })
    })
}

/// Puts the role back when it goes out of scope.
pub struct ActingAsOwner {
    /// The schema `sched`.
    pub schema: Oid,
    _acting: Acting,
}

/// Our tables that belong to another role than the schema's owner, and to whom: none, but where a superuser gave some away.
fn tables_of_others(schema: Oid, owner: Oid) -> Vec<(&'static CStr, Oid)> {
    let look = || {
        let owners = OF_WORKERS.iter().filter_map(|(table, _)| {
            let relation = oid_cache::relation(schema, table)?;
            syscache::owner_of_relation(relation).map(|its| (*table, its))
        });
        owners.filter(|(_, its)| *its != owner).collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    if oid_cache::has_one_owner(|| {
        found = look();
        found.is_empty()
    }) {
        return Vec::new();
    }
    found
}

/// 42501: what the owner of a table attaches to it would run as somebody for whom he may not act.
fn belongs_to_another(table: &CStr, other: Oid, owner: Oid) -> Failure {
    let table = table.to_string_lossy();
    let message = format!(
        "table \"sched.{table}\" belongs to role \"{}\", which may not act for role \"{}\"",
        name(other),
        name(owner)
    );
    let hint = "Its owner could have others run what he attaches to it. Give it to the owner of the schema: ALTER TABLE ... OWNER TO.";
    Failure::new(pgrx::PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, message, hint)
}

/// Acts as the extension's owner until the result is dropped. A dispatcher with a role of its own stays what it is, unless the owner, or that
/// of a table, is no superuser: what such an owner attached to the tables must not run as anybody else. So it does not run at all where he
/// could not act for the schema's owner himself.
pub fn become_owner() -> ActingAsOwner {
    let (schema, owner) = extension();
    let others = tables_of_others(schema, owner);
    if let Some((table, other)) = others.iter().find(|(_, other)| !may_act_for(*other, owner)) {
        raise(belongs_to_another(table, *other, owner));
    }
    let all_are_superusers = is_superuser(owner) && others.iter().all(|(_, other)| is_superuser(*other));
    let owner = if KEEPS_ITS_ROLE.load(Ordering::Relaxed) && all_are_superusers { caller() } else { owner };
    // What an owner's triggers put off to the end of the transaction would run as whoever called us, a superuser perhaps.
    ActingAsOwner { schema, _acting: Acting::begin(owner, !all_are_superusers) }
}

/// Another role than the one before, until this is dropped.
struct Acting {
    role: Oid,
    context: i32,
    settings: Option<i32>,
}

impl Acting {
    /// Restricted: nothing that is done meanwhile outlasts it but what it writes, as where Postgres maintains somebody's table.
    fn begin(role: Oid, is_restricted: bool) -> Acting {
        let mut before = Acting { role: Oid::INVALID, context: 0, settings: None };
        // SAFETY: the pair that was current is put back on drop, or by the abort of the (sub)transaction.
        unsafe {
            pg_sys::GetUserIdAndSecContext(&mut before.role, &mut before.context);
            let mut flags = before.context | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32;
            if is_restricted {
                flags |= pg_sys::SECURITY_RESTRICTED_OPERATION as i32;
                // What is set meanwhile would be a setting of whoever called us: search_path, for example.
                before.settings = Some(pg_sys::NewGUCNestLevel());
            }
            pg_sys::SetUserIdAndSecContext(role, flags);
        }
        before
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the values that Postgres gave us, and the level that was opened with them. After an error the abort does both.
            unsafe {
                if let Some(level) = self.settings {
                    pg_sys::AtEOXact_GUC(false, level);
                }
                pg_sys::SetUserIdAndSecContext(self.role, self.context);
            }
        }
    }
}

/// Does something as this role, whose traps may be in the way: restricted, as where Postgres maintains somebody's table.
pub fn restricted_to<R>(role: Oid, body: impl FnOnce() -> R) -> R {
    let _acting = Acting::begin(role, true);
    body()
}

/// Whether `role` may update a table, or a column of it.
pub fn may_update(role: Oid, table: Oid) -> bool {
    let ok = pg_sys::AclResult::ACLCHECK_OK;
    // SAFETY: look-ups inside a transaction.
    unsafe {
        pg_sys::pg_class_aclcheck(table, role, UPDATE) == ok
            || pg_sys::pg_attribute_aclcheck_all(table, role, UPDATE, pg_sys::AclMaskHow::ACLMASK_ANY) == ok
    }
}

/// Whether `role` is a superuser.
pub fn is_superuser(role: Oid) -> bool {
    // SAFETY: a syscache look-up inside a transaction.
    unsafe { pg_sys::superuser_arg(role) }
}

/// Whether `role` may know the names of everybody's schedules: a monitor of ours (`table` is what such a role may read) or of the server.
pub fn reads_everything(role: Oid, table: Option<Oid>) -> bool {
    let all = pg_sys::AclMaskHow::ACLMASK_ALL;
    may_act_for(role, pg_sys::ROLE_PG_MONITOR.into())
        // SAFETY: a look-up inside a transaction.
        || table.is_some_and(|table| unsafe { pg_sys::pg_class_aclmask(table, role, SELECT, all) == SELECT })
}

/// The role itself, or, of the one that stands for whoever owns this database, him.
pub fn behind(role: Oid) -> Oid {
    let stands_for_owner = role == pg_sys::ROLE_PG_DATABASE_OWNER.into();
    // SAFETY: reads a global of the process.
    let owner = || syscache::owner_of_database(unsafe { pg_sys::MyDatabaseId });
    stands_for_owner.then(owner).flatten().unwrap_or(role)
}

/// The role of this name.
pub fn named(name: &str) -> Option<Oid> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: a look-up by name; an unknown one answers 0.
    Some(unsafe { pg_sys::get_role_oid(name.as_ptr(), true) }).filter(|role| *role != Oid::INVALID)
}

/// The name of `role` as SQL has it.
pub fn quoted(role: Oid) -> String {
    // SAFETY: a palloc'd C string, which quote_identifier returns as it is or copies.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, false);
        CStr::from_ptr(pg_sys::quote_identifier(name)).to_string_lossy().into_owned()
    }
}

/// The name of `role`, or its number where it was dropped.
pub fn name(role: Oid) -> String {
    // SAFETY: returns a palloc'd C string or NULL.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        if name.is_null() {
            role.to_u32().to_string()
        } else {
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }
}
