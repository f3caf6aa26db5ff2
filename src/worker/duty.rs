//! Whether a dispatcher may do anything in its database: not where library and objects are of different versions, nor in a copy.

use std::ffi::{CStr, CString};

use pgrx::{pg_sys, PgLogLevel};

use crate::error::{self, Failure};
use crate::store::home::{self, Home};
use crate::store::{session, version};

/// A database that has the extension.
pub struct Here {
    /// Its name, which may change.
    pub database: CString,
    /// What a dispatcher has to do in it.
    pub duty: Duty,
}

/// What a dispatcher has to do.
pub enum Duty {
    /// All of it.
    Work,
    /// Nothing was ever defined here, or a restore has not come to that yet.
    Nothing,
    /// Nothing until somebody has changed this.
    Wait(Failure),
}

/// Looks for the extension in a transaction; `None` where there is none: its schema can only go with it.
pub fn look() -> Option<Here> {
    // SAFETY: catalog look-ups inside a transaction, the first from the cache; the name is palloc'd.
    let database = unsafe {
        if pg_sys::get_namespace_oid(c"sched".as_ptr(), true) == pg_sys::Oid::INVALID
            || pg_sys::get_extension_oid(c"scheduler".as_ptr(), true) == pg_sys::Oid::INVALID
        {
            return None;
        }
        let name = pg_sys::get_database_name(pg_sys::MyDatabaseId);
        if name.is_null() {
            return None;
        }
        CStr::from_ptr(name).to_owned()
    };
    let duty = session(|session| match version::look(session) {
        Some(mismatch) => Duty::Wait(mismatch),
        None => match home::look(session) {
            Home::Here => Duty::Work,
            Home::Nowhere => Duty::Nothing,
            Home::Elsewhere => Duty::Wait(home::copy()),
        },
    });
    Some(Here { database, duty })
}

/// What the log was last told, so that it is told once.
#[derive(Default)]
pub struct Spoken(Option<String>);

impl Spoken {
    /// Says why nothing is done, unless that was said.
    pub fn once(&mut self, database: &CStr, why: Failure) {
        if self.0.as_ref() == Some(&why.message) {
            return;
        }
        self.0 = Some(why.message.clone());
        let message =
            format!("scheduler: dispatcher for database \"{}\" waits: {}", database.to_string_lossy(), why.message);
        error::report(PgLogLevel::LOG, Failure { message, ..why });
    }

    /// Says that work goes on, where it had stopped.
    pub fn goes_on(&mut self, database: &CStr) {
        if self.0.take().is_some() {
            let message = format!("scheduler: dispatcher for database \"{}\" goes on", database.to_string_lossy());
            error::report(PgLogLevel::LOG, Failure::note(message));
        }
    }
}
