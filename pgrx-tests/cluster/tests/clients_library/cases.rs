//! What becomes of a run: one line for each case, with what the database is to say of it.

/// The modes of transactions in which a case is.
pub const BOTH: &[&str] = &["run", "finish"];
const RUN: &[&str] = &["run"];
const FINISH: &[&str] = &["finish"];

#[derive(Debug)]
pub struct Case {
    pub modes: &'static [&'static str],
    pub job: &'static str,
    pub payload: &'static str,
    /// A condition about its row of `sched.execution`.
    pub ends: &'static str,
    /// The column `what` of its rows in the table `effect`, the first first.
    pub effects: &'static str,
}

const fn case(
    modes: &'static [&'static str],
    job: &'static str,
    payload: &'static str,
    ends: &'static str,
    effects: &'static str,
) -> Case {
    Case { modes, job, payload, ends, effects }
}

const DONE: &str = "status = 'SUCCESS' and attempt = 1 and error_msg is null";
const ENDED: &str =
    "status = 'FAILED' and attempt = 1 and error_code = 'TransactionEnded' and next_retry_at is not null";

/// A message of 9,000 characters; the test writes them.
pub const LONG: &str = r#"{"message": "begin LONG"}"#;

pub static CASES: &[Case] = &[
    // A snooze comes with what the handler wrote, and the attempt does not count.
    case(BOTH, "snooze", "{}", DONE, "snoozed done"),
    case(BOTH, "snooze by method", "{}", DONE, "snoozed done"),
    case(BOTH, "later", "{}", "status = 'PENDING' and attempt = 0 and run_at between now() + interval '50 min' and now() + interval '1 hour'", ""),
    // What a handler's own SQL has ended stays so.
    case(
        BOTH,
        "sql",
        r#"{"sql": "select sched.snooze(''EXECUTION'', ''TOKEN'', clock_timestamp() + interval ''1 s'')
                      where not exists (select from effect where execution_id = ''EXECUTION'');
                    insert into effect (execution_id, what) values (''EXECUTION'', ''by hand'')"}"#,
        DONE,
        "by hand by hand",
    ),
    case(
        BOTH,
        "sql",
        r#"{"sql": "insert into effect (execution_id, what) values (''EXECUTION'', ''by hand'');
                    select sched.finish_success(''EXECUTION'', ''TOKEN'', result => ''[7]'')"}"#,
        "status = 'SUCCESS' and attempt = 1 and result = '[7]'",
        "by hand",
    ),
    case(
        BOTH,
        "sql",
        r#"{"sql": "insert into effect (execution_id, what) values (''EXECUTION'', ''by hand'');
                    select sched.finish_failure(''EXECUTION'', ''TOKEN'', ''mine'')"}"#,
        "status = 'FAILED' and attempt = 1 and error_code = 'mine'",
        "by hand",
    ),
    // Results.
    case(BOTH, "list", "{}", "status = 'SUCCESS' and result = '[1, 2]'", ""),
    case(BOTH, "exact", "{}", "status = 'SUCCESS' and result = '{\"n\": 123456789012345678901234567890}'", ""),
    // In mode "finish" a handler has no connection.
    case(FINISH, "effect", "{}", "status = 'FAILED' and attempt = 100 and error_msg like '%finishing%'", "dead"),
    case(RUN, "effect", r#"{"number": 7}"#, "status = 'SUCCESS' and result = '{\"done\": 7}'", "-"),
    // Errors: the class; type, message, the innermost function and the cause. A long message leaves the stack's end.
    case(
        BOTH,
        "told",
        r#"{"message": "told to fail"}"#,
        "status = 'FAILED' and attempt = 1 and error_code = 'Told' and error_msg like 'Told: told to fail%' and error_msg like '%innermost%'
         and error_msg like '%the cause%' and next_retry_at is not null",
        "",
    ),
    case(
        BOTH,
        "told",
        LONG,
        "status = 'FAILED' and error_code = 'Told' and error_msg like 'Told: begin mmm%' and error_msg like '%innermost%'
         and length(error_msg) between 1000 and 4000",
        "",
    ),
    case(BOTH, "sql", r#"{"sql": "select 1 / 0"}"#, "status = 'FAILED' and attempt = 1 and error_msg like '%division by zero%'", ""),
    // The hook for what has failed for good commits with the failure.
    case(BOTH, "dead", "{}", "status = 'FAILED' and next_retry_at is null and error_msg like '%of no use%'", "dead"),
    case(BOTH, "last", r#"{"message": "for the last time"}"#, "status = 'FAILED' and next_retry_at is null and error_code = 'Told'", "dead"),
    // The run's transaction is the library's. Savepoints are the handler's.
    case(BOTH, "sql", r#"{"sql": "commit"}"#, ENDED, ""),
    case(BOTH, "sql", r#"{"sql": "rollback"}"#, ENDED, ""),
    case(BOTH, "sql", r#"{"sql": "commit; begin"}"#, ENDED, ""),
    case(
        BOTH,
        "sql",
        r#"{"sql": "savepoint a; insert into effect (execution_id, what) values (''EXECUTION'', ''undone''); rollback to a;
                    insert into effect (execution_id, what) values (''EXECUTION'', ''kept'')"}"#,
        DONE,
        "kept",
    ),
    // Two conflicts at COMMIT, which cost no attempt.
    case(
        BOTH,
        "sql",
        r#"{"sql": "insert into conflicting values (''EXECUTION''); insert into effect (execution_id, what) values (''EXECUTION'', ''once'')"}"#,
        DONE,
        "once",
    ),
    // A number that would be another one fails its run. The same value in other words does not.
    case(BOTH, "payload", r#"{"n": 0.1234567890123456789}"#, "status = 'FAILED' and attempt = 1", ""),
    case(BOTH, "payload", r#"{"n": 1.50, "m": 1e3, "k": 0.1}"#, "status = 'SUCCESS' and result = payload", ""),
    case(BOTH, "payload", r#"{"n": 9007199254740993}"#, "status = 'FAILED' or result = payload", ""),
    // Scopes of any scalar type, and what is refused: an option that there is not, a payload that is no object.
    case(BOTH, "enqueue", "{}", "status = 'SUCCESS' and result = '{\"many\": 2, \"cancelled\": [true, false], \"refused\": 4}'", ""),
];

/// With an option for exact numbers.
pub static EXACT: &[Case] = &[
    case(
        RUN,
        "payload",
        r#"{"id": 9007199254740993, "list": [{"deep": -123456789012345678901234567890}], "half": 1.5, "small": 7, "text": "99999999999999999999"}"#,
        "status = 'SUCCESS' and result = payload",
        "",
    ),
    case(RUN, "payload", r#"{"n": 0.1234567890123456789}"#, "status = 'FAILED' or result = payload", ""),
];
