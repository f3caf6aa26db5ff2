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
    /// A number of a family of gauges. (The sum of no numbers is -0 in floating point.)
    #[must_use]
    pub fn gauge(family: Family, labels: Vec<(&'static str, String)>, value: f64) -> Sample {
        Sample { family, suffix: "", labels, value: value + 0.0 }
    }

    /// The whole name, as `sched.metrics()` has it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", self.family.name(), self.suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::{Family, Sample};

    #[test]
    fn no_gauge_is_less_than_nothing() {
        let sum: f64 = [].iter().sum::<f64>();
        let value = Sample::gauge(Family::AlertsOpen, Vec::new(), sum.min(-0.0)).value;
        assert_eq!(value.to_string(), "0");
    }
}
