//! What makes two calls of enqueue mean the same execution, and what the second of them does.

use crate::keyword::keywords;

keywords! {
    /// What is the same.
    pub enum UniqueBy {
        /// One of the job, the scope and the plan time, whatever has become of it.
        Plan = "plan",
        /// One of the job and the scope that waits and that nobody has in hand. What runs may have read what this one is about.
        Scope = "scope",
    }
}

keywords! {
    /// What becomes of the one that there is.
    pub enum IfExists {
        /// It stays as it is.
        Keep = "keep",
        /// It gets the payload, the time and the priority of this call, if it waits and nobody has it in hand.
        Replace = "replace",
        /// It stays, and the call fails.
        Error = "error",
    }
}
