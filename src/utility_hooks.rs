//! Commands that need a database, or the extension in it, to themselves: the dispatcher makes way for them, and is back when
//! they are over. They are seen through hooks of the server, which come only with shared_preload_libraries.
//!
//! Whoever may not run the command makes nobody leave: the rights that Postgres is about to check are checked here first.
//! And since DROP EXTENSION and its kin take the locks on our tables in another order than sessions at work do, they get them all here, before.
//!
//! The hooks raise nothing of their own, but what ends the wait for a lock and the refusal of a drop, and what is none of our business costs one comparison. They are plain frames
//! without destructors, so that an error of the command passes through them untouched, with all its fields.

use std::ffi::{c_char, c_int, c_void, CStr};

use pgrx::pg_sys::{self, NodeTag, Oid};
use pgrx::prelude::*;
use pgrx::PgList;

use crate::pg::error::{raise, report, Failure};
use crate::pg::syscache::{self, EXTENSION};
use crate::pg::{compat, role};
use crate::shmem::{exclusion, wakeup};
use crate::store::exclusive_lock;
use crate::store::handover::left;

static mut NEXT_UTILITY: pg_sys::ProcessUtility_hook_type = None;
static mut NEXT_ACCESS: pg_sys::object_access_hook_type = None;

/// Puts the hooks in front of those that are there; only while shared_preload_libraries are loaded.
pub fn register() {
    // SAFETY: the postmaster's only thread, before any other process exists.
    unsafe {
        NEXT_UTILITY = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(process_utility);
        NEXT_ACCESS = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(object_access);
    }
}

mod unguarded {
    use pgrx::pg_sys::{
        DestReceiver, ParamListInfo, PlannedStmt, ProcessUtilityContext, QueryCompletion, QueryEnvironment,
    };
    use std::ffi::c_char;

    unsafe extern "C-unwind" {
        /// pgrx' own declaration turns errors into panics, which lose what pgrx does not know (positions, constraint names).
        pub fn standard_ProcessUtility(
            statement: *mut PlannedStmt,
            text: *const c_char,
            read_only_tree: bool,
            context: ProcessUtilityContext::Type,
            parameters: ParamListInfo,
            environment: *mut QueryEnvironment,
            destination: *mut DestReceiver,
            completion: *mut QueryCompletion,
        );
    }
}

// The enum is Postgres', with some hundred members.
#[allow(clippy::too_many_arguments, clippy::wildcard_enum_match_arm)]
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    let node = (*statement).utilityStmt;
    match (*node).type_ {
        NodeTag::T_DropdbStmt
        | NodeTag::T_CreatedbStmt
        | NodeTag::T_AlterDatabaseStmt
        | NodeTag::T_AlterDatabaseSetStmt
        | NodeTag::T_AlterRoleSetStmt
        | NodeTag::T_RenameStmt
        | NodeTag::T_DropStmt
        | NodeTag::T_DropOwnedStmt
        | NodeTag::T_ReassignOwnedStmt
        | NodeTag::T_AlterExtensionStmt => make_way(node, context),
        _ => {}
    }
    let commits_prepared = (*node).type_ == NodeTag::T_TransactionStmt
        && (*node.cast::<pg_sys::TransactionStmt>()).kind == pg_sys::TransactionStmtKind::TRANS_STMT_COMMIT_PREPARED;
    let next = NEXT_UTILITY.unwrap_or(unguarded::standard_ProcessUtility);
    next(statement, text, read_only_tree, context, parameters, environment, destination, completion);
    if commits_prepared {
        wakeup::prepared_transaction_committed();
    }
}

/// Sees to it that nobody of ours is in the way of this command, if the user may run it.
#[pg_guard]
#[allow(clippy::wildcard_enum_match_arm)]
unsafe extern "C-unwind" fn make_way(node: *mut pg_sys::Node, context: pg_sys::ProcessUtilityContext::Type) {
    let top_level = context == pg_sys::ProcessUtilityContext::PROCESS_UTILITY_TOPLEVEL;
    // What Postgres refuses in a transaction block.
    let alone = || top_level && !pg_sys::IsInTransactionBlock(top_level);
    match (*node).type_ {
        NodeTag::T_DropdbStmt if alone() => {
            let command = &*node.cast::<pg_sys::DropdbStmt>();
            exclude_other_database(own_database(command.dbname));
        }
        NodeTag::T_CreatedbStmt if alone() => {
            let command = &*node.cast::<pg_sys::CreatedbStmt>();
            if may_create_databases() {
                let template = option(command.options, c"template").flatten().unwrap_or(c"template1");
                // The session's own can be copied, too.
                exclude_database(copied_database(template));
            }
            // The new one may have the extension, from its template.
            wakeup::launcher_at_commit();
        }
        NodeTag::T_AlterDatabaseStmt => {
            let command = &*node.cast::<pg_sys::AlterDatabaseStmt>();
            if option(command.options, c"tablespace").is_none() {
                // It may become a template or closed to connections, or cease to be.
                wakeup::launcher_at_commit();
            } else if alone() {
                exclude_other_database(own_database(command.dbname));
            }
        }
        // The dispatcher follows sched.dispatch.
        NodeTag::T_AlterDatabaseSetStmt => wake_database((*node.cast::<pg_sys::AlterDatabaseSetStmt>()).dbname),
        NodeTag::T_AlterRoleSetStmt => {
            // Of all roles in a database is the same as of the database.
            let command = &*node.cast::<pg_sys::AlterRoleSetStmt>();
            if command.role.is_null() && !command.database.is_null() {
                wake_database(command.database);
            }
        }
        NodeTag::T_RenameStmt => {
            let command = &*node.cast::<pg_sys::RenameStmt>();
            if command.renameType == pg_sys::ObjectType::OBJECT_DATABASE && may_create_databases() {
                exclude_other_database(own_database(command.subname));
            }
        }
        NodeTag::T_DropStmt => {
            let command = &*node.cast::<pg_sys::DropStmt>();
            if command.removeType == pg_sys::ObjectType::OBJECT_EXTENSION {
                warn_of_the_name(command.objects);
                let takes_ours_along = command.behavior == pg_sys::DropBehavior::DROP_CASCADE;
                for name in PgList::<pg_sys::String>::from_pg(command.objects).iter_ptr() {
                    let name = CStr::from_ptr((*name).sval);
                    if name == EXTENSION || takes_ours_along && name == syscache::LANGUAGE {
                        exclude_extension(name, lock_all_to_drop);
                    }
                }
            }
        }
        NodeTag::T_AlterExtensionStmt if is_ours((*node.cast::<pg_sys::AlterExtensionStmt>()).extname) => {
            exclude_extension(EXTENSION, exclusive_lock::lock_all_for_update);
        }
        NodeTag::T_DropOwnedStmt => {
            exclude_extension_of((*node.cast::<pg_sys::DropOwnedStmt>()).roles, lock_all_to_drop);
        }
        NodeTag::T_ReassignOwnedStmt => {
            exclude_extension_of((*node.cast::<pg_sys::ReassignOwnedStmt>()).roles, exclusive_lock::lock_all);
        }
        _ => {}
    }
}

/// Says that the jobs stay where pg_cron is the empty extension on top of `scheduler_cron`, whose jobs went with the real one.
unsafe fn warn_of_the_name(dropped: *mut pg_sys::List) {
    let goes = |name: &CStr| {
        PgList::<pg_sys::String>::from_pg(dropped).iter_ptr().any(|dropped| CStr::from_ptr((*dropped).sval) == name)
    };
    let is_there = |name: &CStr| syscache::extension_of_name(name).is_some();
    if goes(c"pg_cron") && !goes(c"scheduler_cron") && is_there(c"scheduler_cron") && is_there(c"pg_cron") {
        let hint = "Unschedule those that are not to run: SELECT cron.unschedule(jobid) FROM cron.job.".to_owned();
        let warning = Failure::warning("the jobs of cron.job go on: this pg_cron is a name alone");
        report(PgLogLevel::WARNING, Failure { hint, ..warning });
    }
}

/// Has the dispatcher of this database look around once this transaction has committed, where the user owns the database.
unsafe fn wake_database(name: *const c_char) {
    if let Some(database) = own_database(name) {
        wakeup::database_at_commit(database.to_u32());
    }
}

/// Keeps dispatchers out of a database.
unsafe fn exclude_database(database: Option<Oid>) {
    if let Some(database) = database {
        exclusion::acquire(database.to_u32());
    }
}

/// The same for what nobody can do to the session's own database.
unsafe fn exclude_other_database(database: Option<Oid>) {
    exclude_database(database.filter(|database| *database != pg_sys::MyDatabaseId));
}

/// Keeps others away while what these roles own is dropped or changes hands, if the extension is among it.
unsafe fn exclude_extension_of(roles: *mut pg_sys::List, lock_all: fn()) {
    let (user, owner) = (pg_sys::GetUserId(), role::schema().map(|(_, owner)| owner));
    let has_it = |role: *mut pg_sys::RoleSpec| {
        let role = pg_sys::get_rolespec_oid(role, true);
        Some(role) == owner && pg_sys::has_privs_of_role(user, role)
    };
    if PgList::<pg_sys::RoleSpec>::from_pg(roles).iter_ptr().any(has_it) {
        lock_all();
    }
}

/// Locks all for who drops it, and refuses that where jobs of other schedulers would stay switched off. It is asked before anybody has to leave,
/// and again when nobody else can take over any more.
fn lock_all_to_drop() {
    let refuse = || {
        if let Some(failure) = left::refusal(role::caller()) {
            raise(failure);
        }
    };
    refuse();
    exclusive_lock::lock_all();
    refuse();
}

/// Keeps others away while our extension, or the one that it needs, is dropped or altered by its owner.
unsafe fn exclude_extension(name: &CStr, lock_all: fn()) {
    let may = |extension: Oid| compat::owns(pg_sys::ExtensionRelationId, extension);
    if syscache::extension().is_some() && syscache::extension_of_name(name).is_some_and(may) {
        lock_all();
    }
}

/// The database of this name, where the user owns it.
unsafe fn own_database(name: *const c_char) -> Option<Oid> {
    let database = pg_sys::get_database_oid(name, true);
    (database != Oid::INVALID && compat::owns(pg_sys::DatabaseRelationId, database)).then_some(database)
}

/// The database of this name, where the user may copy it: it is the user's, or a template.
unsafe fn copied_database(name: &CStr) -> Option<Oid> {
    let database = pg_sys::get_database_oid(name.as_ptr(), true);
    let is_template = || syscache::database(database).is_some_and(|row| row.is_template);
    own_database(name.as_ptr()).or_else(|| (database != Oid::INVALID && is_template()).then_some(database))
}

/// What CREATE DATABASE and the renaming of one ask for.
fn may_create_databases() -> bool {
    let user = role::caller();
    role::is_superuser(user) || syscache::attributes(user).is_some_and(|user| user.may_create_databases)
}

/// The value of an option of a command: `None` where it is not there, `Some(None)` where it says DEFAULT.
unsafe fn option<'a>(options: *mut pg_sys::List, name: &CStr) -> Option<Option<&'a CStr>> {
    let named = |option: &*mut pg_sys::DefElem| CStr::from_ptr((**option).defname) == name;
    let option = PgList::<pg_sys::DefElem>::from_pg(options).iter_ptr().find(named)?;
    Some((!(*option).arg.is_null()).then(|| CStr::from_ptr(pg_sys::defGetString(option))))
}

unsafe fn is_ours(name: *const c_char) -> bool {
    !name.is_null() && CStr::from_ptr(name) == EXTENSION
}

/// However the extension goes (with its language, its owner or by name): once that is committed, its dispatcher is to see it.
unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: Oid,
    object: Oid,
    part: c_int,
    argument: *mut c_void,
) {
    if let Some(next) = NEXT_ACCESS {
        next(access, class, object, part, argument);
    }
    if access == pg_sys::ObjectAccessType::OAT_DROP && class == pg_sys::ExtensionRelationId {
        extension_goes(object);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn extension_goes(extension: Oid) {
    if is_ours(pg_sys::get_extension_name(extension)) {
        exclusion::extension_is_dropped();
    }
}
