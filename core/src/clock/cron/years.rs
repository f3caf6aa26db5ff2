//! The set of years of a seven-field clock.

/// Years 1970–2099 as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Years([u64; 3]);

const FIRST: i64 = 1970;
const LAST: i64 = 2099;

impl Years {
    pub(crate) fn insert(&mut self, year: i64) {
        if (FIRST..=LAST).contains(&year) {
            let bit = (year - FIRST) as usize;
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    pub(crate) const fn contains(&self, year: i64) -> bool {
        if year < FIRST || year > LAST {
            return false;
        }
        let bit = (year - FIRST) as usize;
        self.0[bit / 64] >> (bit % 64) & 1 != 0
    }

    pub(crate) fn at_or_after(&self, year: i64) -> Option<i64> {
        (year.max(FIRST)..=LAST).find(|&candidate| self.contains(candidate))
    }

    pub(crate) fn at_or_before(&self, year: i64) -> Option<i64> {
        (FIRST..=year.min(LAST)).rev().find(|&candidate| self.contains(candidate))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (FIRST..=LAST).filter(|&year| self.contains(year)).map(|year| year as u32)
    }
}
