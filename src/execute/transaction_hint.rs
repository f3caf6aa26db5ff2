//! What to do where a command wants a transaction of its own, or to end one: the call that gives its job `own_transactions`, or, where that
//! does not help, where the statement has to stand.

use pgrx::pg_sys::NodeTag;

use crate::execute::error_capture::CommandError;

/// The hint for `25001` and `2D000`, where the server has none. `statement` is what failed of the command.
pub fn transaction_hint(
    error: &CommandError,
    statement: Option<NodeTag>,
    job_name: &str,
    own_transactions: bool,
) -> Option<String> {
    if error.hint.is_some() {
        return None;
    }
    let call = format!("sched.alter_job({}, own_transactions => true)", literal(job_name));
    match error.sqlstate.as_str() {
        // SET TRANSACTION, which has to come first.
        "25001" if statement == Some(NodeTag::T_VariableSetStmt) => None,
        // (What a function does has a context.)
        "25001" if error.context.is_some() => {
            let place = "VACUUM and its kin must each be a statement of the command itself: no function can run them.";
            Some(if own_transactions { place.to_owned() } else { format!("{place} Then call {call}.") })
        }
        "25001" if !own_transactions => Some(format!("Call {call}: each statement then has a transaction of its own.")),
        "2D000" => {
            let is_called = matches!(statement, Some(NodeTag::T_CallStmt | NodeTag::T_DoStmt));
            let place = "Only a procedure or block commits that CALL or DO runs as a statement of the command itself, outside of a block with EXCEPTION.";
            Some(match (own_transactions, is_called) {
                (true, _) => place.to_owned(),
                (false, true) => format!("Call {call}: a procedure or block of the command may then commit."),
                (false, false) => format!("{place} Then call {call}."),
            })
        }
        _ => None,
    }
}

/// A text as SQL has it, whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "''");
    if text.contains('\\') {
        format!("E'{escaped}'")
    } else {
        format!("'{escaped}'")
    }
}
