//! `regrole` arguments: a role by its name in the call, and as an oid here.

use pgrx::pg_sys::{self, Oid};
use pgrx::FromDatum;

use crate::pg::error::Outcome;
use crate::pg::role;
use crate::pg::sql_type::argument_type;

/// A role that a call names.
#[derive(Clone, Copy, Debug)]
pub struct RoleArgument(Oid);

impl RoleArgument {
    /// The role; `42704` where there is none.
    pub fn existing(self) -> Outcome<Oid> {
        role::existing(self.0)
    }
}

impl FromDatum for RoleArgument {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: Oid) -> Option<RoleArgument> {
        (!is_null).then(|| RoleArgument(Oid::from(datum.value() as u32)))
    }
}

argument_type!(RoleArgument, "regrole", RoleArgument(pg_sys::InvalidOid));
