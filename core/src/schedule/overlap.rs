//! What becomes of a plan while an earlier execution of its schedule has not ended.

/// The three policies; how they combine with the others is decided in [`crate::plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// It runs beside it.
    Allow,
    /// It does not run.
    Skip,
    /// The first such plan runs when the earlier execution has ended; later ones do not run.
    BufferOne,
}
