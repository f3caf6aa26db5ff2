//! Ids and tokens, made where the row is made.

use pgrx::datum::Uuid;

/// A new id: UUID version 7 (RFC 9562), so that rows of one time lie together in the index.
pub fn execution_id() -> Uuid {
    Uuid::from_bytes(*uuid::Uuid::now_v7().as_bytes())
}

/// A new lease token: UUID version 4, which nobody can guess.
pub fn lease_token() -> Uuid {
    Uuid::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}
