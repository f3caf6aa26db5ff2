//! Statements as the extension's owner, prepared once in each backend.
//!
//! pgrx' own client assigns a transaction id before every read-write query, so that polling an empty queue would consume
//! one each time; and its read-only queries use the snapshot of the transaction's start. This thin layer calls SPI as C
//! code does: read-write mode, a fresh snapshot for each statement, a transaction id only when something is written.

use std::cell::{Cell, OnceCell};
use std::ffi::{c_char, CStr};
use std::marker::PhantomData;
use std::ptr::{null_mut, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::{FromDatum, IntoDatum};

use crate::pg::error::{raise, Failure};
use crate::pg::indexes_only::IndexesOnly;
use crate::pg::objects_version::{Fit, Installed};
use crate::pg::record::{Column, Record};
use crate::pg::search_path::PinnedSearchPath;
use crate::pg::{compat, error_room, memory, objects_version, role, utf8_text};
use crate::{arguments, statement};

/// Proof that SPI is connected, the role is the extension's owner and the search path is pinned.
pub struct Session(PhantomData<*const ()>);

impl Session {
    /// The schema `sched`, for what goes without a statement; `None` where its tables are not those of the library, and
    /// statements say what they lack.
    pub fn schema_of_this_version(&self) -> Option<Oid> {
        if objects_version::tables_differ(|| self.installed()) {
            return None;
        }
        role::schema().map(|(schema, _)| schema)
    }

    /// Looks again at the objects' version, and how the library goes with it.
    pub fn check_version(&self) -> Fit {
        objects_version::check(|| self.installed())
    }

    fn version_differs(&self) -> bool {
        objects_version::differs(|| self.installed())
    }

    fn installed(&self) -> Option<Installed> {
        statement!(EXTENSION_VERSION = "identity/extension_version"());
        statement!(TABLE_LAYOUT = "identity/table_layout"());
        let version: String =
            EXTENSION_VERSION.run_plainly(self, arguments![]).first().map(|row| row.get_required("extversion"))?;
        // A dispatcher asks at each tick: of objects of its own version nothing else is to be known.
        let is_own = version == objects_version::LIBRARY;
        let layout = || TABLE_LAYOUT.run_plainly(self, arguments![]).first().and_then(|row| row.get("table_layout"));
        let table_layout = if is_own { None } else { layout() };
        Some(Installed { version, table_layout })
    }
}

/// Runs `body` with SPI connected, as the extension's owner, under a search path that no caller can influence.
/// An error leaves through Postgres' own abort, which restores role and settings.
pub fn session<R>(body: impl FnOnce(&Session) -> R) -> R {
    as_owner(|owner| body(owner.session()))
}

/// An acknowledged claim or finish survives a crash, whatever `synchronous_commit` the session chose.
pub fn acknowledge_durably() {
    // SAFETY: sets a flag of the current transaction.
    unsafe { pg_sys::ForceSyncCommit() }
}

/// Proof that the role is the extension's owner. What goes without a statement goes without what a statement needs.
pub struct Owner {
    /// The schema `sched`.
    pub schema: Oid,
    connected: OnceCell<Connected>,
}

/// What is done before the first table is touched: newcomers wait there (`shmem/gate.rs`).
static BEFORE_TABLES: OnceLock<fn()> = OnceLock::new();

/// Has `hook` called before any of our tables is touched, inside a transaction.
pub fn before_tables(hook: fn()) {
    BEFORE_TABLES.get_or_init(|| hook);
}

/// Runs `body` as the extension's owner.
pub fn as_owner<R>(body: impl FnOnce(&Owner) -> R) -> R {
    error_room::with_room(|| {
        BEFORE_TABLES.get().inspect(|hook| hook());
        let acting = role::become_owner();
        // A variable, which goes before `acting`: what a session opens under the role it closes under the role.
        let owner = Owner { schema: acting.schema, connected: OnceCell::new() };
        body(&owner)
    })
}

impl Owner {
    /// A session, opened when it is first asked for, which must be in the (sub)transaction that ends it.
    pub fn session(&self) -> &Session {
        &self.connected.get_or_init(Connected::new).session
    }
}

/// What a session opens and closes: SPI first, then the search path is put back.
struct Connected {
    session: Session,
    _spi: Spi,
    _path: PinnedSearchPath,
}

impl Connected {
    fn new() -> Connected {
        let _path = PinnedSearchPath::new();
        Connected { session: Session(PhantomData), _spi: Spi::connect(), _path }
    }
}

/// SPI, connected until it goes out of scope; after an error Postgres disconnects.
struct Spi;

impl Spi {
    fn connect() -> Spi {
        // SAFETY: called inside a transaction.
        let code = unsafe { pg_sys::SPI_connect() };
        if code != pg_sys::SPI_OK_CONNECT as i32 {
            raise(Failure::internal(format!("SPI code {code}")));
        }
        Spi
    }
}

impl Drop for Spi {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the connection that `connect` made.
            unsafe { pg_sys::SPI_finish() };
        }
    }
}

/// A statement of `sql/query`, planned on first use and kept for the life of the backend.
pub struct Statement {
    name: &'static str,
    sql: &'static CStr,
    arguments: &'static [Oid],
    plan: AtomicPtr<pg_sys::_SPI_plan>,
}

/// Names a file of `sql/query` and the types of its parameters.
#[macro_export]
macro_rules! statement {
    ($name:ident = $file:literal ($($argument:ident),* $(,)?)) => {
        static $name: $crate::pg::session::Statement = $crate::pg::session::Statement::new(
            $file,
            concat!(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/query/", $file, ".sql")), "\0"),
            &[$(pgrx::pg_sys::$argument),*],
        );
    };
}

/// Datums for a statement's parameters, in order; `None` is NULL.
#[macro_export]
macro_rules! arguments {
    ($($value:expr),* $(,)?) => { &[$(pgrx::IntoDatum::into_datum($value)),*] };
}

impl Statement {
    /// `sql` ends with a NUL; anything else is a mistake in this crate and fails to compile.
    #[allow(clippy::panic)]
    pub const fn new(name: &'static str, sql: &'static str, arguments: &'static [Oid]) -> Statement {
        match CStr::from_bytes_with_nul(sql.as_bytes()) {
            Ok(sql) => Statement { name, sql, arguments, plan: AtomicPtr::new(null_mut()) },
            Err(_) => panic!("a statement's text has a NUL inside"),
        }
    }

    /// Runs the statement and returns its rows, valid until the session ends.
    ///
    /// It sees what is committed now, at any isolation level: a lease is a fact outside of the caller's snapshot. With the
    /// transaction's own, a REPEATABLE READ transaction that outlived one heartbeat of its lease could never finish, and one
    /// older than its lease would hear that it was lost. (Foreign-key checks look at the present in the same way.)
    pub fn run<'s>(&self, session: &'s Session, arguments: &[Option<Datum>]) -> Rows<'s> {
        if session.version_differs() {
            return objects_version::explain(|| self.run_plainly(session, arguments));
        }
        self.run_plainly(session, arguments)
    }

    /// The same, for the statement that asks for the objects' version.
    fn run_plainly<'s>(&self, _session: &'s Session, arguments: &[Option<Datum>]) -> Rows<'s> {
        assert_eq!(arguments.len(), self.arguments.len(), "parameters of {}", self.name);
        let mut values: Vec<Datum> = arguments.iter().map(|value| value.unwrap_or(Datum::null())).collect();
        let nulls: Vec<c_char> =
            arguments.iter().map(|value| if value.is_some() { b' ' } else { b'n' } as c_char).collect();
        // SAFETY: a Session proves that SPI is connected; values and nulls have as many entries as the plan has
        // parameters. SPI reports errors through Postgres' own mechanism; a negative code is a misuse.
        unsafe {
            let _indexes = IndexesOnly::begin();
            let (plan, values, nulls) = (self.plan(), values.as_mut_ptr(), nulls.as_ptr());
            let code = if pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 {
                let (now, no_crosscheck) = (pg_sys::GetLatestSnapshot(), null_mut());
                pg_sys::SPI_execute_snapshot(plan, values, nulls, now, no_crosscheck, false, true, 0)
            } else {
                pg_sys::SPI_execute_plan(plan, values, nulls, false, 0)
            };
            if code < 0 {
                raise(Failure::internal(format!("SPI code {code} for {}", self.name)));
            }
            Rows { table: NonNull::new(pg_sys::SPI_tuptable), count: pg_sys::SPI_processed as usize, life: PhantomData }
        }
    }

    /// SAFETY: SPI has to be connected.
    unsafe fn plan(&self) -> *mut pg_sys::_SPI_plan {
        let known = self.plan.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let mut types = self.arguments.to_vec();
        // A generic plan: what these statements look for is always found by an index, and to plan anew costs more than to run.
        let plan = pg_sys::SPI_prepare_cursor(
            self.sql.as_ptr(),
            types.len() as i32,
            types.as_mut_ptr(),
            pg_sys::CURSOR_OPT_GENERIC_PLAN as i32,
        );
        if plan.is_null() || pg_sys::SPI_keepplan(plan) != 0 {
            raise(Failure::internal(format!("cannot prepare {}", self.name)));
        }
        self.plan.store(plan, Ordering::Relaxed);
        plan
    }
}

/// A list as a parameter. Postgres is called once for it (a plain `Vec` would call it once for each element).
pub struct List<T>(pub Vec<T>);

impl<T: IntoDatum> IntoDatum for List<T> {
    fn into_datum(self) -> Option<Datum> {
        let (mut length, mut by_value, mut align) = (0, false, 0);
        let mut count = i32::try_from(self.0.len()).ok()?;
        let mut values = Vec::with_capacity(self.0.len());
        let mut nulls = Vec::with_capacity(self.0.len());
        for value in self.0 {
            let datum = value.into_datum();
            nulls.push(datum.is_none());
            values.push(datum.unwrap_or(Datum::null()));
        }
        // SAFETY: values and nulls have `count` entries of the type whose properties Postgres names.
        unsafe {
            let element = T::type_oid();
            if count == 0 {
                return Some(pg_sys::construct_empty_array(element).into());
            }
            pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
            let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
            let array = pg_sys::construct_md_array(
                values,
                nulls,
                1,
                &mut count,
                &mut 1,
                element,
                length.into(),
                by_value,
                align,
            );
            Some(array.into())
        }
    }

    fn type_oid() -> Oid {
        <Vec<T> as IntoDatum>::type_oid()
    }
}

/// The rows that a statement returned.
pub struct Rows<'s> {
    table: Option<NonNull<pg_sys::SPITupleTable>>,
    count: usize,
    life: PhantomData<&'s Session>,
}

impl<'s> Rows<'s> {
    /// How many rows were returned, or affected by a statement that returns none.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The first row, for statements that return at most one.
    pub fn first(&self) -> Option<Row<'s>> {
        self.iter().next()
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = Row<'s>> + '_ {
        let count = if self.table.is_some() { self.count } else { 0 };
        let mut header = None;
        (0..count).filter_map(move |index| {
            // SAFETY: the table lives until the session ends and has `count` rows.
            self.table.map(|table| unsafe {
                let table = table.as_ref();
                let header = header.get_or_insert_with(|| Header::of(table.tupdesc));
                Row::new(*table.vals.add(index), table.tupdesc, header)
            })
        })
    }
}

/// Prefix and name, texts of this crate's code: where they lie says which they are.
type AskedBy = (*const str, *const str);

/// The names and types of a result's columns.
struct Header<'s> {
    columns: Box<[(&'s [u8], Oid)]>,
    /// By which texts each was asked for last: comparing names would be a tenth of what reading many wide rows takes.
    asked: Box<[Cell<AskedBy>]>,
    /// After the column that was asked for last: rows are read in the order of the statement's columns, mostly.
    next: Cell<usize>,
}

impl<'s> Header<'s> {
    /// SAFETY: the description has to be valid as long as the session.
    unsafe fn of(description: pg_sys::TupleDesc) -> Rc<Header<'s>> {
        let column = |index| {
            let column = compat::attribute(description, index);
            (CStr::from_ptr((*column).attname.data.as_ptr()).to_bytes(), (*column).atttypid)
        };
        let columns: Box<[_]> = (0..(*description).natts as usize).map(column).collect();
        let named = |(index, (name, _)): (usize, &(&[u8], Oid))| columns[..index].iter().all(|other| other.0 != *name);
        debug_assert!(columns.iter().enumerate().all(named), "each column of a statement has a name of its own");
        let nobody: *const str = "";
        let asked = columns.iter().map(|_| Cell::new((nobody, nobody))).collect();
        Rc::new(Header { columns, asked, next: Cell::new(0) })
    }

    /// Where a column stands. That a statement has none of this name is a mistake in this crate.
    fn index(&self, prefix: &'static str, name: &'static str) -> usize {
        let expected = self.next.get();
        let by: AskedBy = (prefix, name);
        let index = if self.asked.get(expected).is_some_and(|asked| asked.get() == by) {
            expected
        } else {
            let is_it = |column: &(&[u8], Oid)| column.0.strip_prefix(prefix.as_bytes()) == Some(name.as_bytes());
            let is_next = self.columns.get(expected).is_some_and(is_it);
            let found = if is_next { Some(expected) } else { self.columns.iter().position(is_it) };
            let Some(found) = found else {
                raise(Failure::internal(format!("a statement has no column {prefix}{name}")))
            };
            self.asked[found].set(by);
            found
        };
        // After the last comes the next row's first.
        self.next.set((index + 1) % self.columns.len());
        index
    }
}

/// One row of a result, taken apart: Postgres is called once for each row, not for each column.
pub struct Row<'s> {
    values: Vec<Datum>,
    nulls: Vec<bool>,
    header: Rc<Header<'s>>,
}

impl Row<'_> {
    /// SAFETY: tuple and description belong together and live as long as the session.
    unsafe fn new<'s>(tuple: pg_sys::HeapTuple, description: pg_sys::TupleDesc, header: &Rc<Header<'s>>) -> Row<'s> {
        let count = header.columns.len();
        let (mut values, mut nulls) = (vec![Datum::null(); count], vec![true; count]);
        pg_sys::heap_deform_tuple(tuple, description, values.as_mut_ptr(), nulls.as_mut_ptr());
        Row { values, nulls, header: Rc::clone(header) }
    }
}

impl<'s> Row<'s> {
    /// The part of a table whose columns are called `prefix` and their own name.
    pub fn part(&self, prefix: &'static str) -> Part<'_, 's> {
        Part { row: self, prefix }
    }

    fn value<T: FromDatum>(&self, index: usize) -> Option<T> {
        let (datum, is_null, type_oid) = (self.values[index], self.nulls[index], self.header.columns[index].1);
        // SAFETY: datum and type are those of one column; what it points to lives as long as the session.
        unsafe {
            if type_oid == pg_sys::TEXTOID && !is_null {
                utf8_text::check(datum);
                memory::require(memory::plain_size(datum));
            }
            T::from_polymorphic_datum(datum, is_null, type_oid)
        }
    }

    fn lossy_value(&self, index: usize) -> Option<String> {
        // SAFETY: as above; its callers name a text.
        (!self.nulls[index]).then(|| unsafe { utf8_text::lossy(self.values[index]) })
    }
}

impl Record<&'static str> for Row<'_> {
    fn get<T: FromDatum>(&self, column: &'static str) -> Option<T> {
        self.value(self.header.index("", column))
    }

    fn lossy(&self, column: &'static str) -> Option<String> {
        self.lossy_value(self.header.index("", column))
    }
}

impl Record<Column> for Row<'_> {
    fn get<T: FromDatum>(&self, column: Column) -> Option<T> {
        self.value(self.header.index("", column.name))
    }

    fn lossy(&self, column: Column) -> Option<String> {
        self.lossy_value(self.header.index("", column.name))
    }
}

/// One of the tables that a statement joins: the columns of a row whose names begin with the table's and a point.
pub struct Part<'r, 's> {
    row: &'r Row<'s>,
    prefix: &'static str,
}

impl Record<Column> for Part<'_, '_> {
    fn get<T: FromDatum>(&self, column: Column) -> Option<T> {
        self.row.value(self.row.header.index(self.prefix, column.name))
    }

    fn lossy(&self, column: Column) -> Option<String> {
        self.row.lossy_value(self.row.header.index(self.prefix, column.name))
    }
}
