//! What a job is to the core: the kind of its runs, and where they wait.

use crate::keyword::keywords;

/// Where executions wait whose job names no queue.
pub const DEFAULT_QUEUE: &str = "default";

keywords! {
    /// How the runs of a job are done.
    pub enum Kind {
        /// An application claims them.
        Pull = "pull",
        /// `pg_notify(command, payload)` in the dispatching transaction.
        Notify = "notify",
        /// A line in the server's log.
        Log = "log",
        /// The server runs the command, as the job's owner.
        Sql = "sql",
    }
}

keywords! {
    /// What a definition says of a job beside its name, each with a default: arguments of define_job.
    pub enum Attribute {
        /// How the runs are done.
        Kind = "kind",
        /// What is run.
        Command = "command",
        /// Where executions wait.
        Queue = "queue",
        /// Attempts that an execution may have.
        MaxAttempts = "max_attempts",
        /// Waits after failed attempts.
        RetryBackoff = "retry_backoff",
        /// Longest run.
        RunTimeout = "run_timeout",
        /// Length of a lease.
        StaleTimeout = "stale_timeout",
        /// Whether a stale run may be taken over.
        AllowStaleReentry = "allow_stale_reentry",
        /// Higher goes first.
        Priority = "priority",
        /// Whether each statement is a transaction.
        OwnTransactions = "own_transactions",
        /// Settings for a run.
        Settings = "settings",
    }
}

impl Kind {
    /// Whether a runner of the server does the runs, so that no application claims them.
    #[must_use]
    pub const fn is_run_by_server(self) -> bool {
        match self {
            Kind::Sql => true,
            Kind::Pull | Kind::Notify | Kind::Log => false,
        }
    }

    /// Whether a run is done by whoever dispatches it, so that nobody claims it.
    #[must_use]
    pub const fn is_delivered_when_fired(self) -> bool {
        match self {
            Kind::Notify | Kind::Log => true,
            Kind::Pull | Kind::Sql => false,
        }
    }

    /// Attempts of an execution whose job says nothing about it. What a worker does survives one that crashes: a lost lease is an attempt.
    /// Other runs are the server's, and do not die of a worker.
    #[must_use]
    pub const fn default_max_attempts(self) -> i32 {
        match self {
            Kind::Pull => 3,
            Kind::Notify | Kind::Log | Kind::Sql => 1,
        }
    }

    /// The waits after failed attempts of such an execution, in microseconds.
    #[must_use]
    pub const fn default_retry_backoff(self) -> &'static [i64] {
        match self {
            Kind::Pull => &[10_000_000, 60_000_000],
            Kind::Notify | Kind::Log | Kind::Sql => &[],
        }
    }
}
