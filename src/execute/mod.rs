//! Runs SQL that a user wrote, as the server runs what a client sends in one message: `exec_simple_query` of the server's `postgres.c` is the
//! model. Each statement is analysed, planned (parallel plans too) and run in a portal, and sees what those before it did. SPI could run
//! neither VACUUM nor a procedure that commits.
//!
//! Nothing here knows of schedules or leases. Runners and `sched.test_job` call it.

mod discard;
mod error_capture;
mod messages;
mod output;
mod receiver;
mod statement_log;
mod storable;
pub mod timeout;
mod transaction_hint;

use std::ffi::CStr;
use std::ptr::null_mut;
use std::time::Instant;

use pgrx::pg_sys;

use crate::pg::compat;
use crate::pg::error::Outcome;
use crate::pg::parse::{self, Strings};

pub use discard::discard_all;
pub use error_capture::{caught, fatal_sqlstate, CommandError};
pub use messages::Captured;
pub use output::Output;
pub use transaction_hint::transaction_hint;

/// Whose transactions the statements run in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Transactions {
    /// All in the one that the caller has opened, as a message of several statements does: what has to be alone is refused.
    Together,
    /// Each in one of its own, at top level. The caller has opened none.
    Each,
    /// All in a subtransaction of somebody's statement.
    Inside,
}

/// Statements that were parsed, until this is dropped.
pub struct Statements {
    memory: pg_sys::MemoryContext,
    list: *mut pg_sys::List,
}

impl Statements {
    /// Parses a command, and looks whether a run can have its statements.
    pub fn parse(command: &CStr, strings: Strings) -> Outcome<Statements> {
        // SAFETY: the backend's only thread; the context goes with the statements.
        unsafe {
            let memory = new_memory(c"scheduler command");
            let mut parsed = Statements { memory, list: null_mut() };
            let before = pg_sys::MemoryContextSwitchTo(memory);
            let list = parse::statements(command, strings);
            pg_sys::MemoryContextSwitchTo(before);
            parsed.list = list?.into_pg();
            Ok(parsed)
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        // SAFETY: NULL or a list.
        unsafe { self.list.as_ref() }.map_or(0, |list| usize::try_from(list.length).unwrap_or(0))
    }

    /// Their trees, in order.
    pub fn trees(&self) -> impl Iterator<Item = *mut pg_sys::RawStmt> + '_ {
        // SAFETY: a list of as many pointers.
        (0..self.len()).map(|index| unsafe { (*(*self.list).elements.add(index)).ptr_value.cast() })
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        // SAFETY: nothing points into it any more.
        unsafe { pg_sys::MemoryContextDelete(self.memory) }
    }
}

/// Memory that lasts until it is deleted, whatever becomes of transactions.
unsafe fn new_memory(name: &'static CStr) -> pg_sys::MemoryContext {
    pg_sys::AllocSetContextCreateInternal(
        pg_sys::TopMemoryContext,
        name.as_ptr(),
        pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
        pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
        pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
    )
}

/// A command that was run as one message, and is to be committed as one.
pub struct Ran {
    was_logged: bool,
}

impl Ran {
    /// To be said when it is committed: the log may want to know how long it took.
    ///
    /// # Safety
    /// Nothing has begun since.
    pub unsafe fn committed(self, command: &CStr) {
        statement_log::ended(&command.to_string_lossy(), self.was_logged);
    }
}

/// Runs the statements of a command, one after the other. Errors are the server's; what came of it up to then is in `output`.
///
/// # Safety
/// As `transactions` says; the backend's only thread, between two commands.
pub unsafe fn run(command: &CStr, statements: &Statements, transactions: Transactions, output: &mut Output) -> Ran {
    let _outside = Outside { query: pg_sys::debug_query_string, portal: pg_sys::ActivePortal };
    pg_sys::debug_query_string = command.as_ptr();
    let trees: Vec<_> = statements.trees().collect();
    let is_one_message = transactions == Transactions::Together;
    let was_logged = is_one_message && statement_log::begun(&command.to_string_lossy(), &trees);
    for tree in trees {
        output.begin_statement((*(*tree).stmt).type_);
        run_one(command, tree, transactions, output);
    }
    Ran { was_logged }
}

/// What the session does outside of the command; also when an error unwinds.
struct Outside {
    query: *const std::ffi::c_char,
    portal: pg_sys::Portal,
}

impl Drop for Outside {
    fn drop(&mut self) {
        // SAFETY: what was there before, which has outlived the command.
        unsafe {
            pg_sys::debug_query_string = self.query;
            pg_sys::ActivePortal = self.portal;
        }
    }
}

/// # Safety
/// As `run`.
unsafe fn run_one(command: &CStr, tree: *mut pg_sys::RawStmt, transactions: Transactions, output: &mut Output) {
    let began = Instant::now();
    let tag = pg_sys::CreateCommandTag((*tree).stmt);
    if transactions != Transactions::Inside {
        pg_sys::pgstat_report_query_id(0, true);
    }
    if transactions == Transactions::Each {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
    }
    let text = (transactions == Transactions::Each).then(|| own_text(command, tree));
    let was_logged = text.as_deref().is_some_and(|text| statement_log::begun(text, &[tree]));
    if transactions != Transactions::Inside {
        timeout::begin_statement();
    }
    pgrx::check_for_interrupts!();
    let memory = new_memory(c"scheduler statement");
    let _memory = ScopedMemory(memory);
    let before = pg_sys::MemoryContextSwitchTo(memory);
    let needs_snapshot = pg_sys::analyze_requires_snapshot(tree);
    if needs_snapshot {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    }
    let queries = pg_sys::pg_analyze_and_rewrite_fixedparams(tree, command.as_ptr(), null_mut(), 0, null_mut());
    let plans = pg_sys::pg_plan_queries(queries, command.as_ptr(), pg_sys::CURSOR_OPT_PARALLEL_OK as i32, null_mut());
    if needs_snapshot {
        pg_sys::PopActiveSnapshot();
    }
    pgrx::check_for_interrupts!();
    let top_level = transactions != Transactions::Inside;
    let portal = if top_level { pg_sys::CreatePortal(c"".as_ptr(), true, true) } else { pg_sys::CreateNewPortal() };
    (*portal).visible = false;
    pg_sys::PortalDefineQuery(portal, std::ptr::null(), command.as_ptr(), tag, plans, null_mut());
    pg_sys::PortalStart(portal, null_mut(), 0, null_mut());
    let mut receiver = receiver::Receiver::new(output);
    pg_sys::MemoryContextSwitchTo(before);
    let mut completion = pg_sys::QueryCompletion::default();
    compat::run_portal(portal, top_level, receiver.as_destination(), &mut completion);
    drop(receiver);
    pg_sys::PortalDrop(portal, false);
    if transactions == Transactions::Each {
        timeout::end_statement();
        pg_sys::CommitTransactionCommand();
        statement_log::ended(&text.unwrap_or_default(), was_logged);
        // A command that commits by itself leaves us in the memory of its last transaction.
        pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
    } else {
        pg_sys::CommandCounterIncrement();
        // (Inside of somebody's statement the limit is theirs.)
        if transactions == Transactions::Together {
            timeout::end_statement();
        }
    }
    let tag = if completion.commandTag == pg_sys::CommandTag::CMDTAG_UNKNOWN { tag } else { completion.commandTag };
    output.end_statement(tag, completion.nprocessed, began.elapsed());
}

/// The text of one statement of a command.
unsafe fn own_text(command: &CStr, tree: *mut pg_sys::RawStmt) -> String {
    let bytes = command.to_bytes();
    let begin = usize::try_from((*tree).stmt_location).unwrap_or(0).min(bytes.len());
    // 0 is what is left.
    let length = usize::try_from((*tree).stmt_len).unwrap_or(0);
    let end = if length == 0 { bytes.len() } else { begin.saturating_add(length).min(bytes.len()) };
    String::from_utf8_lossy(&bytes[begin..end]).trim().to_owned()
}

/// A memory context that goes when this does; also when an error unwinds.
struct ScopedMemory(pg_sys::MemoryContext);

impl Drop for ScopedMemory {
    fn drop(&mut self) {
        // SAFETY: a child of the top context, to which nothing of the portal points any more: it has ended, or its transaction is about to be
        // aborted, which only looks at what it owns itself.
        unsafe {
            if pg_sys::CurrentMemoryContext == self.0 {
                pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            }
            if !std::thread::panicking() {
                pg_sys::MemoryContextDelete(self.0);
            } else {
                FAILED.with_borrow_mut(|failed| failed.push(self.0));
            }
        }
    }
}

thread_local! {
    /// Memory of statements that failed: their plans are looked at until their transaction is aborted.
    static FAILED: std::cell::RefCell<Vec<pg_sys::MemoryContext>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// To be called when the (sub)transaction of a command that failed is aborted.
pub fn forget_failed() {
    for memory in FAILED.take() {
        // SAFETY: nothing looks at it any more.
        unsafe { pg_sys::MemoryContextDelete(memory) }
    }
}
