//! A number that is measured.

use super::family::Family;

/// One number of a family, with the labels that tell it from the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Of which family.
    pub family: Family,
    /// What the family's name is followed by: `_total`, `_bucket`, `_sum`, `_count`, or nothing.
    pub suffix: &'static str,
    /// Names and values, in their order.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

impl Sample {
    /// A number of a family of gauges.
    #[must_use]
    pub fn gauge(family: Family, labels: Vec<(&'static str, String)>, value: f64) -> Sample {
        Sample { family, suffix: "", labels, value }
    }

    /// The whole name, as `sched.metrics()` has it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", self.family.name(), self.suffix)
    }
}
