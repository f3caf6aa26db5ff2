//! What came of a command: how far it got, what its statements did, the first rows of the last one that returned some.

use std::ffi::CStr;
use std::time::Duration;

use pgrx::pg_sys::{self, NodeTag};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::execute::messages::{Captured, Message};
use crate::pg::catch::catch;
use crate::pg::jsonb::Jsonb;

/// The largest `octet_length(result::text)`.
const MAX_RESULT_BYTES: usize = 16_384;

/// One statement that has run.
#[derive(Serialize)]
struct Statement {
    tag: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    ms: f64,
}

/// What came of a command, up to now.
#[derive(Default)]
pub struct Output {
    /// The statement that runs, from 1.
    current: usize,
    /// What it is.
    current_kind: Option<NodeTag>,
    statements: Vec<Statement>,
    /// More statements than are kept have run.
    more_statements: bool,
    columns: Vec<String>,
    /// Arrays of JSON, of the last statement that returned rows.
    rows: Vec<Box<RawValue>>,
    row_bytes: usize,
    rows_truncated: bool,
    written: Option<u64>,
    selected: Option<u64>,
}

/// What of it a result has.
#[derive(Serialize)]
struct Part<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    statements: &'a [Statement],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    columns: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rows: &'a [Box<RawValue>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    messages: &'a [Message],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// How many statements are described.
const MOST_STATEMENTS: usize = 200;

impl Output {
    /// Which statement runs, or ran last, of how many.
    pub fn place(&self, all: usize) -> String {
        if self.current == 0 {
            return String::new();
        }
        format!("statement {} of {all}", self.current)
    }

    /// What the statement is that runs, or ran last.
    pub fn statement(&self) -> Option<NodeTag> {
        self.current_kind
    }

    pub fn begin_statement(&mut self, kind: NodeTag) {
        self.current += 1;
        self.current_kind = Some(kind);
    }

    pub fn end_statement(&mut self, tag: pg_sys::CommandTag::Type, processed: u64, took: Duration) {
        use pg_sys::CommandTag as Tag;
        // SAFETY: a static text for each tag.
        let (name, counts) = unsafe {
            let name = CStr::from_ptr(pg_sys::GetCommandTagName(tag)).to_string_lossy().into_owned();
            (name, pg_sys::command_tag_display_rowcount(tag))
        };
        let rows = counts.then_some(processed);
        match tag {
            Tag::CMDTAG_INSERT | Tag::CMDTAG_UPDATE | Tag::CMDTAG_DELETE | Tag::CMDTAG_MERGE => {
                self.written = Some(self.written.unwrap_or(0).saturating_add(processed));
            }
            Tag::CMDTAG_SELECT => self.selected = Some(processed),
            _ => {}
        }
        if self.statements.len() < MOST_STATEMENTS {
            let ms = (took.as_secs_f64() * 1e6).round() / 1e3;
            self.statements.push(Statement { tag: name, rows, ms });
        } else {
            self.more_statements = true;
        }
    }

    /// Another statement returns rows, with these columns.
    pub fn begin_rows(&mut self, columns: Vec<String>) {
        self.columns = columns;
        self.rows.clear();
        self.row_bytes = 0;
        self.rows_truncated = false;
    }

    /// Whether there is room for more rows.
    pub fn takes_rows(&self) -> bool {
        !self.rows_truncated
    }

    /// How large a row may be.
    pub fn room(&self) -> usize {
        MAX_RESULT_BYTES.saturating_sub(self.row_bytes)
    }

    /// One row, as an array; `None` is one that is too large.
    pub fn add_row(&mut self, row: Option<Box<RawValue>>) {
        match row.filter(|row| row.get().len() <= self.room()) {
            Some(row) => {
                self.row_bytes += row.get().len();
                self.rows.push(row);
            }
            None => self.rows_truncated = true,
        }
    }

    /// The sum of what was written, or else what the last SELECT returned.
    pub fn rows_affected(&self) -> Option<i64> {
        self.written.or(self.selected).map(|rows| i64::try_from(rows).unwrap_or(i64::MAX))
    }

    /// All of it, cut to what a result may have.
    pub fn result(&self) -> Jsonb {
        let (messages, messages_truncated) = Captured::messages();
        let mut part = Part {
            statements: &self.statements,
            columns: &self.columns,
            rows: &self.rows,
            messages: &messages,
            truncated: self.more_statements || self.rows_truncated || messages_truncated,
        };
        loop {
            let text = serde_json::to_string(&part).unwrap_or_else(|_| "{}".to_owned());
            // As jsonb it has blanks after commas and colons, and no escaped letters: longer or shorter.
            let value = (text.len() <= 2 * MAX_RESULT_BYTES).then(|| catch(|| Jsonb::parse(&text)));
            if let Some(value) = value.and_then(Result::ok).filter(|value| value.text_size() <= MAX_RESULT_BYTES) {
                return value;
            }
            if !part.shorten() {
                return Jsonb::parse("{\"truncated\": true}");
            }
        }
    }
}

impl Part<'_> {
    /// Halves what is longest; false where nothing is left.
    fn shorten(&mut self) -> bool {
        self.truncated = true;
        let rows: usize = self.rows.iter().map(|row| row.get().len() + 2).sum();
        let messages: usize = self.messages.iter().map(|message| message.text.len() + 40).sum();
        let columns: usize = self.columns.iter().map(|column| column.len() + 4).sum();
        let statements = self.statements.len() * 50;
        let most = rows.max(messages).max(columns).max(statements);
        if most == 0 {
            return false;
        }
        if rows == most {
            self.rows = &self.rows[..self.rows.len() / 2];
        } else if messages == most {
            self.messages = &self.messages[..self.messages.len() / 2];
        } else if columns == most {
            // Some of them say nothing.
            self.columns = &[];
        } else {
            self.statements = &self.statements[..self.statements.len() / 2];
        }
        true
    }
}
