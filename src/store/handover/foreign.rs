//! Tables of other schedulers. They are read with the rights of who asks, and only where nobody else can have planted them: what a
//! stranger put there would be run as whoever a row names.

use std::ffi::{c_char, CStr, CString};

use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::{IntoDatum, PgSqlErrorCode};
use scheduler_core::time::{MICROS_PER_SECOND, UNIX_TO_POSTGRES_SECONDS};
use scheduler_core::Instant;

use crate::pg::error::{raise, Failure, Outcome};
use crate::pg::search_path::PinnedSearchPath;
use crate::pg::{role, syscache, utf8_text};

/// A row of a foreign table, all of it as text.
pub struct TextRow {
    names: std::rc::Rc<[String]>,
    values: Vec<Option<Value>>,
}

/// A value as text, or, where its bytes are none here, what they look like.
type Value = Result<String, String>;

fn text_or_look(value: &Value) -> &str {
    match value {
        Ok(text) | Err(text) => text,
    }
}

impl TextRow {
    /// A column's value; NULL is `None`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let index = self.names.iter().position(|known| known == name);
        let Some(index) = index else { raise(Failure::internal(format!("a foreign statement has no column {name}"))) };
        self.values.get(index)?.as_ref().map(text_or_look)
    }

    /// The first column whose bytes are no text here, and what they look like: another text than theirs would be imported.
    pub fn unreadable(&self) -> Option<(&str, &str)> {
        self.names.iter().zip(&self.values).find_map(|(name, value)| match value {
            Some(Err(look)) => Some((name.as_str(), look.as_str())),
            Some(Ok(_)) | None => None,
        })
    }

    /// The same of a column that has one in each row.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }
}

/// Where the tables of another scheduler are.
pub struct ForeignSchema {
    /// Its name.
    pub name: String,
    /// A superuser has them, so a row may say that it runs as another role than who asks.
    pub speaks_for_all: bool,
}

/// The schema that has this table: the one that was named, else the first of these. `42P01` where none has it: a view of an extension, as
/// those of scheduler_cron, is nobody's table.
pub fn find(named: Option<String>, candidates: &[String], table: &CStr, what: &str) -> Outcome<ForeignSchema> {
    let looked_at = named.as_ref().map_or(candidates, std::slice::from_ref);
    let has_it = |name: &&String| {
        CString::new(name.as_str()).is_ok_and(|name| {
            syscache::relation_named(&name, table).is_some_and(|found| !syscache::is_view_of_extension(found))
        })
    };
    match looked_at.iter().find(has_it) {
        Some(name) => Ok(ForeignSchema { name: name.clone(), speaks_for_all: false }),
        None => Err(Failure::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("there are no tables of {what} in this database"),
            format!(
                "Looked for table \"{}\" in: {}. Connect to the database that has it, or name its schema as source_schema. The views of scheduler_cron show what is scheduled here already.",
                table.to_string_lossy(),
                if looked_at.is_empty() { "no schema".to_owned() } else { looked_at.join(", ") }
            ),
        )),
    }
}

impl ForeignSchema {
    /// Locks a table against being replaced, and looks whose it is: `42501` where it is no plain table of a superuser (as those of the
    /// other schedulers' extensions are), nor the caller's own. To be a member of its owner is not enough: what he planted would be run as
    /// who asks. The same goes for its schema, whose owner could put another table there. Whether a superuser has it.
    pub fn trust(&self, table: &CStr, caller: Oid) -> Outcome<bool> {
        let schema = CString::new(self.name.as_str()).unwrap_or_default();
        let found = || syscache::relation_named(&schema, table);
        let shown = || format!("\"{}.{}\"", self.name, table.to_string_lossy());
        let unknown = || {
            let message = format!("table {} does not exist", shown());
            Failure::new(
                PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
                message,
                "Name the schema that has it as source_schema.",
            )
        };
        let mut relation = found().ok_or_else(unknown)?;
        loop {
            // SAFETY: a lock on an oid, which may have gone meanwhile.
            unsafe { pg_sys::LockRelationOid(relation, pg_sys::AccessShareLock as i32) };
            match found() {
                Some(now) if now == relation => break,
                Some(now) => relation = now,
                None => return Err(unknown()),
            }
        }
        let refused = |message: String| {
            let hint = "What another role has put there is nobody else's to import or to switch: its rows say as whom commands run. Have its owner do it, or give it to a superuser (ALTER TABLE ... OWNER TO).";
            Err(Failure::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, message, hint))
        };
        if !syscache::is_plain_table(relation) {
            return refused(format!("{} is no plain table", shown()));
        }
        let schema = syscache::schema_of_relation(relation).and_then(syscache::owner_of_schema);
        let (Some(owner), Some(owner_of_schema)) = (syscache::owner_of_relation(relation), schema) else {
            return Err(unknown());
        };
        // Schema public belongs to whoever owns the database.
        let owner_of_schema = role::behind(owner_of_schema);
        let of_superuser = role::is_superuser(owner);
        if !of_superuser && owner != caller {
            return refused(format!(
                "table {} belongs to role \"{}\", who is no superuser",
                shown(),
                role::name(owner)
            ));
        }
        if !role::is_superuser(owner_of_schema) && owner_of_schema != caller {
            let owner = role::name(owner_of_schema);
            return refused(format!(
                "the schema of table {} belongs to role \"{owner}\", who is no superuser",
                shown()
            ));
        }
        let faults = include_str!("../../../sql/query/handover/foreign_faults.sql");
        match self.rows_of(faults, &[argument(relation), argument(of_superuser)]).first() {
            None => Ok(of_superuser),
            Some(fault) => Err(Failure::new(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("table {} is not read: {}", shown(), fault.text("fault")),
                "Only a plain table with columns of Postgres' own types is read: nothing of anybody's may run meanwhile.",
            )),
        }
    }

    /// Whether it has this table.
    pub fn has(&self, table: &CStr) -> bool {
        CString::new(self.name.as_str()).is_ok_and(|schema| syscache::relation_named(&schema, table).is_some())
    }

    /// Whether policies decide which rows of a table a role writes.
    pub fn has_policies(&self, table: &str) -> bool {
        let statement = include_str!("../../../sql/query/handover/foreign_row_security.sql");
        let arguments = [argument(self.name.as_str()), argument(table)];
        self.rows_of(statement, &arguments).first().is_some_and(|row| row.text("has_policies") == "true")
    }

    /// `42501` where a role that is neither the caller nor a superuser may write rows of these tables: they would be run as the caller.
    pub fn written_by_none_but(&self, tables: &[&str], caller: Oid) -> Outcome<()> {
        let writers = include_str!("../../../sql/query/handover/foreign_writers.sql");
        let arguments = [argument(self.name.as_str()), argument(tables.to_vec()), argument(caller)];
        match self.rows_of(writers, &arguments).first() {
            None => Ok(()),
            Some(row) => Err(Failure::new(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("role \"{}\" may write tables of schema \"{}\"", row.text("writer"), self.name),
                "What it has put there would run as you. Import as that role, or revoke INSERT, UPDATE and TRIGGER on its tables first and look at their rows.",
            )),
        }
    }

    /// Runs a statement of `sql/query/handover` as the caller, under a pinned search path; `{schema}` in it is this schema.
    pub fn rows(&self, statement: &str) -> Vec<TextRow> {
        self.rows_of(statement, &[])
    }

    /// The same of one with parameters: what others have chosen is never part of its text, but for the schema's name. That may have a new line,
    /// which would end a comment.
    pub fn rows_of(&self, statement: &str, arguments: &[Argument]) -> Vec<TextRow> {
        let lines: Vec<&str> = statement.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        let text = lines.join("\n").replace("{schema}", &quoted(&self.name));
        let text = CString::new(text).unwrap_or_default();
        let mut types: Vec<Oid> = arguments.iter().map(|(of_type, _)| *of_type).collect();
        let mut values: Vec<Datum> = arguments.iter().map(|(_, value)| value.unwrap_or(Datum::null())).collect();
        let nulls: Vec<c_char> =
            arguments.iter().map(|(_, value)| if value.is_some() { b' ' } else { b'n' } as c_char).collect();
        let count = i32::try_from(arguments.len()).unwrap_or_default();
        let _path = PinnedSearchPath::new();
        // SAFETY: SPI inside a transaction; what it returns is copied before SPI is left.
        unsafe {
            if pg_sys::SPI_connect() != pg_sys::SPI_OK_CONNECT as i32 {
                raise(Failure::internal("SPI does not connect"));
            }
            let (types, values) = (types.as_mut_ptr(), values.as_mut_ptr());
            let code = pg_sys::SPI_execute_with_args(text.as_ptr(), count, types, values, nulls.as_ptr(), false, 0);
            if code < 0 {
                raise(Failure::internal(format!("SPI code {code}")));
            }
            let rows = if pg_sys::SPI_tuptable.is_null() { Vec::new() } else { copied() };
            pg_sys::SPI_finish();
            rows
        }
    }
}

/// A parameter: its type and its value.
pub type Argument = (Oid, Option<Datum>);

/// A value as a parameter.
pub fn argument<T: IntoDatum>(value: T) -> Argument {
    (T::type_oid(), value.into_datum())
}

/// The result of the last statement.
///
/// # Safety
/// SPI has to be connected and to have a result.
unsafe fn copied() -> Vec<TextRow> {
    let (table, count) = (pg_sys::SPI_tuptable, pg_sys::SPI_processed as usize);
    let description = (*table).tupdesc;
    let columns = (*description).natts;
    let text = |value: *mut c_char| {
        (!value.is_null()).then(|| {
            let bytes = CStr::from_ptr(value).to_bytes();
            let copy = utf8_text::readable(bytes).map(str::to_owned).ok_or_else(|| bytes.escape_ascii().to_string());
            pg_sys::pfree(value.cast());
            copy
        })
    };
    let name = |column| text(pg_sys::SPI_fname(description, column)).and_then(Result::ok).unwrap_or_default();
    let names: std::rc::Rc<[String]> = (1..=columns).map(name).collect();
    (0..count)
        .map(|index| {
            let tuple = *(*table).vals.add(index);
            let values = (1..=columns).map(|column| text(pg_sys::SPI_getvalue(tuple, description, column))).collect();
            TextRow { names: std::rc::Rc::clone(&names), values }
        })
        .collect()
}

/// A text as SQL has it, whatever `standard_conforming_strings` is.
pub fn literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A name as SQL has it, always in quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A time of theirs: microseconds since 1970.
pub fn instant(micros: Option<&str>) -> Option<Instant> {
    Instant::from_micros(micros?.parse::<i64>().ok()?.checked_sub(UNIX_TO_POSTGRES_SECONDS * MICROS_PER_SECOND)?)
}
