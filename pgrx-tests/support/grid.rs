//! The cells of `lease_grid.rs`: an execution built in any state, an action, and the comparison of what came out of it.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use scheduler_core::lease::{Limits, State};

use crate::test_support::tables::*;
use crate::test_support::{quote, run, sql};

/// The token and the fence that a built execution has, or had in its last run.
const TOKEN: &str = "00000000-0000-4000-8000-00000000000a";
const WRONG_TOKEN: &str = "00000000-0000-4000-8000-00000000000b";

/// The state that an action meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Pending,
    Running {
        stale: bool,
        cancel_requested: bool,
    },
    Success,
    /// The retry's time has come; `promoted`: it stands in ready already.
    RetryDue {
        promoted: bool,
    },
    RetryLater,
    Failed,
    Cancelled,
}

/// Where an unfinished execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    Ready,
    Delayed,
    Leased,
}

#[derive(Debug)]
pub struct Cell {
    pub start: Start,
    left: bool,
    reentrant: bool,
    pub job: &'static str,
    /// Also its execution's id, which differs from test to test: they run side by side.
    pub id: String,
}

/// All of them. Each test has a job of its own, which is also the name of its queue.
pub fn cells(job: &'static str) -> Vec<Cell> {
    sql("CREATE OR REPLACE FUNCTION pg_temp.outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
         DECLARE answer text;
         BEGIN
             EXECUTE statement INTO answer;
             RETURN COALESCE(answer, '');
         EXCEPTION WHEN OTHERS THEN
             RETURN SQLSTATE;
         END $$");
    run(&[&format!("SELECT sched.define_job('{job}', queue => '{job}', retry_backoff => '{{1 hour}}')")]);
    let id = sql("SELECT gen_random_uuid()");
    let mut starts = vec![
        Start::Pending,
        Start::Success,
        Start::RetryDue { promoted: false },
        Start::RetryDue { promoted: true },
        Start::RetryLater,
        Start::Failed,
        Start::Cancelled,
    ];
    for (stale, cancel_requested) in [(false, false), (false, true), (true, false), (true, true)] {
        starts.push(Start::Running { stale, cancel_requested });
    }
    let mut cells = Vec::new();
    for start in starts {
        for (left, reentrant) in [(true, true), (true, false), (false, true), (false, false)] {
            cells.push(Cell { start, left, reentrant, job, id: id.clone() });
        }
    }
    assert_eq!(cells.len(), 44);
    cells
}

impl Cell {
    /// As the core sees it.
    pub fn state(&self) -> State {
        match self.start {
            Start::Pending => State::Pending { due: true },
            Start::Running { stale, cancel_requested } => State::Running { stale, cancel_requested },
            Start::RetryDue { .. } => State::Retryable { due: true },
            Start::RetryLater => State::Retryable { due: false },
            Start::Success | Start::Failed | Start::Cancelled => State::Terminal,
        }
    }

    pub fn limits(&self) -> Limits {
        let attempt = if self.start == Start::Pending { 0 } else { 1 };
        Limits { attempt, max_attempts: if self.left { 3 } else { 1 }, allow_stale_reentry: self.reentrant }
    }

    /// What try_claim has to be told so that its limits are the cell's.
    pub fn explicit_attempts(&self) -> Option<i32> {
        (!self.is_reachable()).then_some(self.limits().max_attempts)
    }

    /// An execution that waits for a retry has attempts left: the end of its last one is terminal. Only the argument of a
    /// try_claim can say otherwise.
    pub fn is_reachable(&self) -> bool {
        self.left || !matches!(self.start, Start::RetryDue { .. } | Start::RetryLater)
    }

    pub fn is_running(&self) -> bool {
        matches!(self.start, Start::Running { .. })
    }

    pub fn cancel_requested(&self) -> bool {
        matches!(self.start, Start::Running { cancel_requested: true, .. })
    }

    /// The token of its run, or of its last one; or another.
    pub fn token(&self, right: bool) -> &'static str {
        if right {
            TOKEN
        } else {
            WRONG_TOKEN
        }
    }

    /// A function that takes execution and token: with the right token of a run it does what is expected, with another one, or
    /// when there is no run, it raises 55000 and changes nothing.
    #[track_caller]
    pub fn check_holder(&self, function: &str, more: &str, answer: &str, after: After) {
        for right in [true, false] {
            let action = format!("SELECT sched.{function}('{}', '{}'{more})", self.id, self.token(right));
            if right && self.is_running() {
                self.check(&action, answer, Some(after.clone()));
            } else {
                self.check(&action, "55000", None);
            }
        }
    }

    /// Builds the cell, acts, compares the answer (or SQLSTATE) and the state after it; `None`: not a byte has changed.
    #[track_caller]
    pub fn check(&self, action: &str, answer: &str, after: Option<After>) {
        self.build();
        assert_eq!(self.shown(), After::of(self).text(), "building {self:?}");
        let before = self.bytes();
        let outcome = sql(&format!("SELECT pg_temp.outcome({})", quote(action)));
        assert_eq!(outcome, answer, "{self:?}: {action}");
        match after {
            Some(after) => assert_eq!(self.shown(), after.text(), "{self:?}: {action}"),
            None => assert_eq!(self.bytes(), before, "{self:?}: {action}"),
        }
    }

    fn build(&self) {
        run(&["DELETE FROM sched.ledger", &remove_ready("true"), &remove_delayed("true"), &remove_leases("true")]);
        let Limits { attempt, max_attempts, allow_stale_reentry } = self.limits();
        // What try_claim is told is not what is stored.
        let max_attempts = if self.is_reachable() { max_attempts } else { 3 };
        let (id, job) = (&self.id, self.job);
        let (status, ended) = match self.start {
            Start::Pending => ("PENDING", false),
            // A first run leaves the ledger's row as it was.
            Start::Running { .. } => ("PENDING", false),
            Start::Success => ("SUCCESS", true),
            Start::RetryDue { .. } | Start::RetryLater | Start::Failed => ("FAILED", true),
            Start::Cancelled => ("CANCELLED", true),
        };
        let retry_at = match self.start {
            Start::RetryDue { .. } => "clock_timestamp() - interval '1 minute'",
            Start::RetryLater => "clock_timestamp() + interval '1 hour'",
            Start::Pending | Start::Running { .. } | Start::Success | Start::Failed | Start::Cancelled => {
                "NULL::timestamptz"
            }
        };
        let stored_attempt = if ended { attempt } else { 0 };
        run(&[&format!(
            "INSERT INTO sched.ledger (id, key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, status,
                                       attempt, max_attempts, allow_stale_reentry, origin, owner, next_retry_at)
             VALUES ('{id}', sched_internal.scope_key('{job}', 'global', 'global'), '{job}', 'global', 'global', '2026-01-01 00:00+00',
                     '{job}', 0, '{{}}', '{status}', {stored_attempt}, {max_attempts}, {allow_stale_reentry}, 'claim',
                     current_user::regrole, {retry_at})"
        )]);
        if ended {
            let (code, message) = if status == "FAILED" { ("'old'", "'old'") } else { ("NULL", "NULL") };
            run(&[&format!(
                "UPDATE sched.ledger SET started_at = clock_timestamp() - interval '3 minutes',
                        finished_at = clock_timestamp() - interval '2 minutes', heartbeat_at = clock_timestamp() - interval '2 minutes',
                        fence = 0, lease_token = '{TOKEN}', runner_id = 'old', error_code = {code}, error_msg = {message}"
            )]);
        }
        let place = match self.start {
            Start::Pending | Start::RetryDue { promoted: true } => put_ready("true"),
            Start::RetryDue { promoted: false } | Start::RetryLater => put_delayed("e.next_retry_at", "true"),
            Start::Running { stale, cancel_requested } => {
                let stale_after = if stale {
                    "clock_timestamp() - interval '1 minute'"
                } else {
                    "clock_timestamp() + interval '1 minute'"
                };
                put_worker_lease(TOKEN, attempt, stale_after, cancel_requested, "true")
            }
            Start::Success | Start::Failed | Start::Cancelled => "SELECT".to_owned(),
        };
        run(&[&place]);
        run(&[HEADS_ARE_NEW]);
    }

    /// The row of the view and where it stands, in the words of [`After::text`].
    fn shown(&self) -> String {
        sql(&format!(
            "SELECT x.status, x.attempt, x.max_attempts, x.allow_stale_reentry,
                    CASE x.lease_token WHEN '{TOKEN}' THEN 'old' ELSE CASE WHEN x.lease_token IS NOT NULL THEN 'new' END END,
                    CASE WHEN x.fence > 0 THEN 'new' WHEN x.fence = 0 THEN 'old' END,
                    COALESCE((SELECT {TRUE_PLACE} FROM sched.ledger e WHERE e.id = x.id), ''),
                    x.finished_at IS NOT NULL, x.error_code, x.error_msg, x.next_retry_at IS NOT NULL,
                    x.stale_after <= clock_timestamp(), (SELECT cancel_requested FROM {LEASE} l WHERE l.execution_id = x.id),
                    x.progress, x.rows_affected, (SELECT count(*) FROM {PLACE} p)
               FROM sched.execution x"
        ))
    }

    /// Everything that is stored, to see that nothing has changed. A due retry may be promoted: nobody can see the difference.
    fn bytes(&self) -> String {
        sql(&format!(
            "SELECT (SELECT string_agg(e::text, ';') FROM sched.ledger e), (SELECT string_agg(l::text, ';') FROM {LEASE} l),
                    (SELECT string_agg(w::text, ';') FROM (SELECT execution_id, route, queue, priority, plan_time, owner FROM {READY} r
                                                            UNION ALL
                                                           SELECT execution_id, route, queue, priority, plan_time, owner FROM {DELAYED} d) w)"
        ))
    }
}

/// What users see of an execution, and where it stands.
#[derive(Clone, Debug)]
pub struct After {
    pub status: &'static str,
    pub attempt: i32,
    pub max_attempts: i32,
    pub allow_stale_reentry: bool,
    /// `old`, `new`, or nothing before the first run.
    pub token: &'static str,
    pub place: Option<Unfinished>,
    pub finished: bool,
    pub error_code: String,
    pub error_msg: String,
    pub retry: bool,
    pub stale: Option<bool>,
    pub cancel_requested: Option<bool>,
    pub progress: String,
    pub rows_affected: String,
}

impl After {
    /// The cell as it was built.
    pub fn of(cell: &Cell) -> After {
        let Limits { attempt, max_attempts, allow_stale_reentry } = cell.limits();
        let max_attempts = if cell.is_reachable() { max_attempts } else { 3 };
        let plain = After {
            status: "PENDING",
            attempt,
            max_attempts,
            allow_stale_reentry,
            token: "old",
            place: None,
            finished: true,
            error_code: String::new(),
            error_msg: String::new(),
            retry: false,
            stale: None,
            cancel_requested: None,
            progress: String::new(),
            rows_affected: String::new(),
        };
        match cell.start {
            Start::Pending => After { token: "", place: Some(Unfinished::Ready), finished: false, ..plain },
            Start::Running { stale, cancel_requested } => After {
                status: "RUNNING",
                place: Some(Unfinished::Leased),
                finished: false,
                stale: Some(stale),
                cancel_requested: Some(cancel_requested),
                ..plain
            },
            Start::Success => plain.ended("SUCCESS", "", ""),
            Start::Cancelled => plain.ended("CANCELLED", "", ""),
            Start::Failed => plain.ended("FAILED", "old", "old"),
            Start::RetryDue { promoted: true } => plain.failed("old", "old", Unfinished::Ready),
            Start::RetryDue { promoted: false } | Start::RetryLater => plain.failed("old", "old", Unfinished::Delayed),
        }
    }

    /// With a new lease: attempt + 1, new token, higher fence, the last end forgotten.
    pub fn leased(self) -> After {
        After {
            status: "RUNNING",
            attempt: self.attempt + 1,
            token: "new",
            place: Some(Unfinished::Leased),
            finished: false,
            error_code: String::new(),
            error_msg: String::new(),
            retry: false,
            stale: Some(false),
            cancel_requested: Some(false),
            ..self
        }
    }

    /// Finished: nowhere any more.
    pub fn ended(self, status: &'static str, error_code: &str, error_msg: &str) -> After {
        After {
            status,
            place: None,
            finished: true,
            error_code: error_code.into(),
            error_msg: error_msg.into(),
            retry: false,
            stale: None,
            cancel_requested: None,
            ..self
        }
    }

    /// Failed, to be tried again.
    pub fn failed(self, error_code: &str, error_msg: &str, place: Unfinished) -> After {
        After { place: Some(place), retry: true, ..self.ended("FAILED", error_code, error_msg) }
    }

    fn text(&self) -> String {
        let flag = |value: bool| if value { "t" } else { "f" };
        let optional = |value: Option<bool>| value.map_or("", flag);
        [
            self.status,
            &self.attempt.to_string(),
            &self.max_attempts.to_string(),
            flag(self.allow_stale_reentry),
            self.token,
            self.token,
            &self.place.map_or(String::new(), |place| format!("{place:?}").to_lowercase()),
            flag(self.finished),
            &self.error_code,
            &self.error_msg,
            flag(self.retry),
            optional(self.stale),
            optional(self.cancel_requested),
            &self.progress,
            &self.rows_affected,
            if self.place.is_some() { "1" } else { "0" },
        ]
        .join("|")
    }
}
