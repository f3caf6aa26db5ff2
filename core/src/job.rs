//! What a job is to the core: the kind of its runs.

use crate::keyword::keywords;

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
}
